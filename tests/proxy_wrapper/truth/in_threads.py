"""Runs tasks in threads of their own, all at once."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def run_in_threads(tasks: Sequence[Callable[[], object]]) -> None:
    """Run all tasks at once, and wait for them.

    Raises:
        BaseException: whatever the first that failed raised.
    """
    failures: list[BaseException] = []

    def work(task: Callable[[], object]) -> None:
        try:
            task()
        except BaseException as error:  # noqa: BLE001  It is raised again below.
            failures.append(error)

    threads = [threading.Thread(target=work, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
