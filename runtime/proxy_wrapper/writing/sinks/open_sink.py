"""Opens the trace of this process in a `logdir`: chooses its path and format, and makes its header."""

from __future__ import annotations

import platform
import sys
from multiprocessing import parent_process
from os import getpid
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from proxy_wrapper import __version__
from proxy_wrapper.events import FORMAT, Run
from proxy_wrapper.values.extents import is_compiled
from proxy_wrapper.writing.sinks.json_lines import JsonLinesSink

if TYPE_CHECKING:
    from proxy_wrapper.limits import Limits
    from proxy_wrapper.process.launch import Launch, RankFinder
    from proxy_wrapper.writing.sinks.sink import Sink


def open_sink(logdir: str, launch: Launch, started: str, forked_from: int, ranks: RankFinder, limits: Limits) -> Sink:
    """A new trace, with its header written.

    Args:
        logdir: an absolute path of a folder or, if it ends in ".log", of a text log.
        launch: the launch that this process belongs to.
        started: the time to which the times of events are relative: UTC, ISO 8601.
        forked_from: the id of the traced process from which this one was forked; 0 if there is none.
        ranks: finds the rank, now and before each write.
        limits: says which ranks write a trace.

    Raises:
        OSError: if the file cannot be created.
    """
    is_text = logdir.endswith(".log")
    parent = parent_process()
    rank, world_size = ranks.look()
    run = Run(
        format=FORMAT,
        run=launch.run if is_text else launch.join(Path(logdir)),
        started=started,
        pid=getpid(),
        script=sys.argv[0] if sys.argv else "",
        argv=sys.argv[1:],
        python=platform.python_version(),
        torch=str(torch.__version__),
        version=__version__,
        rank=rank,
        world_size=world_size,
        parent_pid=forked_from or (parent.pid if parent is not None and parent.pid is not None else 0),
        ranks="" if limits.ranks is None else str(limits.ranks),
        compiled=is_compiled(),
    )
    if is_text:
        from proxy_wrapper.writing.sinks.text_log import TextLogSink  # Imported here because few runs need it.

        return TextLogSink(logdir, run)
    return JsonLinesSink(logdir, run, ranks.look)
