"""The last line of a program that `instrument run` runs: what was found, where the trace is, what to type next."""

from __future__ import annotations

import atexit
import os
import sys
import time
from typing import Any, Final

_READER: Final = "import sys; sys.path[:] = {path!r}; from proxy_trace.summary.last_line import main; main({told!r})"


class LastLine:
    """Says the last line when this process ends; the processes that it forks say none.

    A process of its own reads the trace and says it. This one loads nothing for it: how a program ends, that is whether
    a `KeyboardInterrupt` ended it, Python forgets when anything is compiled.
    """

    def __init__(self, logdir: str, shown_logdir: str, hint: str) -> None:
        """Remember what is known at the start.

        Args:
            logdir: the folder of the trace, or the file of a text log; absolute.
            shown_logdir: the same, as the user would type it.
            hint: what to say if nothing is traced.
        """
        self._told: dict[str, Any] = {
            "logdir": logdir,
            "shown": shown_logdir,
            "hint": hint,
            "started_s": time.time(),
            "pid": os.getpid(),
        }
        self._pid = os.getpid()
        # As they are now: the program may change them.
        self._path = sys.path[1:]
        self._executable = sys.executable

    def install(self) -> None:
        """Say it at the end; as the first to be registered, this is the last to be called."""
        atexit.register(self.say)
        original = os._exit

        def _exit(status: int) -> Any:
            proxies = sys.modules.get("proxy_wrapper.proxy")
            if proxies is not None and os.getpid() == self._pid:
                proxies.flush()  # Else what was recorded last, or all of it, would not be in the trace yet.
            self.say(has_ended=False)
            original(status)

        os._exit = _exit

    def say(self, *, has_ended: bool = True) -> None:
        """Say the line, once; `has_ended` if this process has written the end of its trace."""
        if os.getpid() != self._pid:
            return
        self._pid = 0
        launch = sys.modules.get("proxy_wrapper.process.launch")
        try:
            run = "" if launch is None else launch.Launch.of_this_process().run
            told = {**self._told, "run": run, "waits": has_ended}
            program = _READER.format(path=self._path, told=told)
            to_null = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
            actions = [to_null, (os.POSIX_SPAWN_DUP2, 2, 1)]  # It says it on its standard output, which is our error.
            command = [self._executable, "-c", program]
            child = os.posix_spawn(self._executable, command, os.environ, file_actions=actions, setsigmask=())
            os.waitpid(child, 0)
        except (Exception, KeyboardInterrupt):  # noqa: BLE001  The program's own end is what counts.
            return
