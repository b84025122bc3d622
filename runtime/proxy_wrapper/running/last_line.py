"""The last line printed for `instrument run`: what was found, where the trace is, and what to type next."""

from __future__ import annotations

import atexit
import os
import sys
import time
from typing import Any, Final

_READER: Final = "import sys; sys.path[:] = {path!r}; from proxy_trace.summary.last_line import main; main({told!r})"


class LastLine:
    """Prints the last line when this process ends. Processes forked from it print none.

    A separate process reads the trace and prints the line. This one must not load anything for it: Python forgets that
    a `KeyboardInterrupt` ended the program when it compiles any code.
    """

    def __init__(self, logdir: str, shown_logdir: str, hint: str) -> None:
        """Store what is known at the start.

        Args:
            logdir: the absolute path of the trace's folder, or of a text log.
            shown_logdir: the same path as the user would type it.
            hint: what to print if nothing is traced.
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
        """Print it at the end. The function registered first is called last."""
        atexit.register(self.say)
        original = os._exit

        def _exit(status: int) -> Any:
            proxies = sys.modules.get("proxy_wrapper.proxy")
            if proxies is not None and os.getpid() == self._pid:
                proxies.flush()  # Else the last events, or all of them, would not be in the trace yet.
            self.say(has_ended=False)
            original(status)

        os._exit = _exit

    def say(self, *, has_ended: bool = True) -> None:
        """Print the line, once. `has_ended` says whether this process has written the end of its trace."""
        if os.getpid() != self._pid:
            return
        self._pid = 0
        launch = sys.modules.get("proxy_wrapper.process.launch")
        try:
            run = "" if launch is None else launch.Launch.of_this_process().run
            told = {**self._told, "run": run, "waits": has_ended}
            program = _READER.format(path=self._path, told=told)
            to_null = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
            actions = [to_null, (os.POSIX_SPAWN_DUP2, 2, 1)]  # Its standard output is our standard error.
            command = [self._executable, "-c", program]
            child = os.posix_spawn(self._executable, command, os.environ, file_actions=actions, setsigmask=())
            os.waitpid(child, 0)
        except (Exception, KeyboardInterrupt):  # noqa: BLE001  It must not affect how the program ends.
            return
