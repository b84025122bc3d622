"""Runs scripts as `python script.py` would, against the real runtime; prints how precise the analysis is."""

from __future__ import annotations

import random
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what the random programs said of the analysis."""
    found: Counter[str] = Counter()
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            found.update(dict(report.user_properties).get("soundness", {}))
    if found["again"]:
        terminalreporter.section("soundness: random programs, analysed and run")
        terminalreporter.write_line(
            f"{found['programs']} programs: {found['violations']} wrong decisions; "
            f"{found['found_again'] / found['again']:.1%} of {found['again']} bindings that always held the object of "
            f"another one are merged with one ({found['merged'] / found['same']:.1%} of {found['same']} pairs)"
        )


class Run(Protocol):
    def __call__(
        self, source: bytes, files: Mapping[str, str] | None = None, finish: Callable[[dict[str, Any]], Any] = dict
    ) -> Any: ...


@pytest.fixture
def run_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A function that executes a script beside some files and gives back what `finish` makes of its globals.

    `finish` runs while the script's process group, if it has one, is still there.
    """
    count = 0

    def run(
        source: bytes, files: Mapping[str, str] | None = None, finish: Callable[[dict[str, Any]], Any] = dict
    ) -> Any:
        import torch

        nonlocal count
        count += 1
        folder = tmp_path / f"run{count}"
        folder.mkdir()
        for name, text in (files or {}).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        script = folder / "script.py"
        script.write_bytes(source)
        known = set(sys.modules)
        monkeypatch.chdir(folder)
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.setattr(sys, "argv", ["script.py"])
        torch.manual_seed(0)
        random.seed(0)
        # The script's module has to be findable under its name, as `__main__` is: some scripts look there.
        module = type(sys)("__main__")
        monkeypatch.setitem(sys.modules, "__main__", module)
        module.__dict__["__file__"] = str(script)
        try:
            exec(compile(source, str(script), "exec"), module.__dict__)
            return finish(module.__dict__)
        finally:
            _forget_modules(set(sys.modules) - known, folder)
            _take_down_tracer()
            if torch.distributed.is_initialized():
                torch.distributed.destroy_process_group()

    return run


def _forget_modules(names: set[str], folder: Path) -> None:
    for name in names:
        place = getattr(sys.modules.get(name), "__file__", None)
        if place and str(place).startswith(str(folder)):
            del sys.modules[name]


def _take_down_tracer() -> None:
    proxy = sys.modules.get("proxy_wrapper.proxy")
    if proxy is not None:
        proxy._installed.take_down()
