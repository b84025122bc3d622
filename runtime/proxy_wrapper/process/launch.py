"""Finds out which processes make up one run, and which rank this one has, without communication between them.

All processes of a run write to one folder of the `logdir`. Processes started by `multiprocessing` inherit the run of
their parent. Processes started by a launcher (`torchrun`, Slurm's `srun`, `mpirun`, or a shell script that sets `RANK`)
find in their environment a key that only processes of the same launch share. The first one writes the run's name under
that key into the `logdir`, and the others read it there. If a program starts itself again for each further rank, its
first process is the key, and the others join the run that this one has begun.

Two launches can have the same key, for instance a crashed job that is restarted with the same port. So each process
also claims the place of its rank in the run. It uses another run if the place is taken, if a process that claimed one
has ended, or if the run's first process started much earlier.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import multiprocessing
import os
import re
import secrets
import sys
import time
from datetime import datetime, timezone
from multiprocessing import process
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proxy_wrapper.process.ignored_folder import keep_out_of_commits
from proxy_wrapper.process.operating_system import has_ended, machine, process_identity, process_start

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MEETING_FOLDER: Final = ".launches"
"""The folder in a `logdir` through which the processes of a launch find each other."""

_RUN_NAME: Final = re.compile(r"[0-9]{8}T[0-9]{6}-[0-9a-f]{6}")
_SECOND: Final = "%Y%m%dT%H%M%S"
_DATA_LOADERS: Final = ("torch.utils.data.", "torchdata.")
_CONFIGURATION_KEY: Final = "proxy_wrapper"
_TORCHRUN_WINDOW_S: Final = 60.0  # Its workers start together, once all nodes are there; clocks may differ.
_WINDOW_S: Final = 600.0  # Ranks started by hand: how long NCCL waits for the others by default.
_READING_S: Final = 2.0
_CLOCK_ERROR_S: Final = 2.0  # Process starts are given in ticks since boot, and the boot time in seconds.
_FORGET_AFTER_S: Final = 86_400.0


class Rank(NamedTuple):
    """The rank of a process among those that train together, and their number."""

    rank: int
    world_size: int


class Launch(NamedTuple):
    """What a process knows about the run to which it belongs.

    Attributes:
        run: the name of the run, if this process is the one to name it. Names sort by start time.
        key: shared only by processes of the same launch; "" if this process stands alone.
        place: can be claimed by only one process of a launch; "" if the key alone is enough.
        owner: the process that claims the place.
        started_s: when the process started, in Unix time.
        window_s: the maximum difference between the start times of processes of a launch.
        starter: the id of the process that started this one as a further rank of its program; 0 if none did.
    """

    run: str
    key: str = ""
    place: str = ""
    owner: str = ""
    started_s: float = 0.0
    window_s: float = _WINDOW_S
    starter: int = 0

    @classmethod
    def of_this_process(cls) -> Launch:
        """The launch inherited through `multiprocessing`, else the one that the environment describes, else its own."""
        inherited = _configuration().get(_CONFIGURATION_KEY)
        if inherited is not None:
            known = cls(*inherited)
            # What it announced when it was alone may be outdated: it may be starting its further ranks now.
            return known if known.key or is_multiprocessing_child() else known._from_environment()
        started = process_start()
        lone = cls(new_run_name(started), started_s=started)
        parent = multiprocessing.parent_process()
        if parent is not None and parent.pid is not None:
            return lone._replace(key=f"children of {process_identity(parent.pid)}")
        return lone._from_environment()

    def _from_environment(self) -> Launch:
        found = _launcher(os.environ)
        if found is None:
            return self
        key, place, window = found
        owner = process_identity(os.getpid())
        return self._replace(key=key, place=place, owner=owner, window_s=window, starter=_starter(os.environ))

    def announce(self) -> Launch:
        """Publish this launch to processes that `multiprocessing` starts from now on; returns itself."""
        if not _is_being_set_up():  # The parent's announcement has not arrived yet.
            _configuration()[_CONFIGURATION_KEY] = tuple(self)  # Plain values: reading them needs no import.
        return self

    def renewed(self) -> Launch:
        """The launch for traces after tracing has ended once: another run, if the process stands alone.

        Its name sorts after that of the previous run, even within the same second.
        """
        return self if self.key else self._replace(run=new_run_name(max(time.time(), _second_of(self.run) + 1)))

    def join(self, logdir: Path) -> str:
        """The name of the run in `logdir`; a new one if this process is the first of its launch there.

        Raises:
            OSError: if the file system refuses.
        """
        if not self.key:
            return self.run
        begun = _run_of(self.starter, logdir)
        if begun:
            return begun
        folder = logdir / MEETING_FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        keep_out_of_commits(folder)
        mine = f"{self.run} {self.started_s}"
        name = hashlib.blake2b(self.key.encode(), digest_size=8).hexdigest()
        number = 0
        while True:
            number += 1
            meeting = folder / f"{name}-{number}"
            found = _claim(meeting, mine)
            if found == mine:
                _forget_old(folder)
            run, started = _parse_claim(found)
            if run and abs(started - self.started_s) <= self.window_s and self._takes_place(meeting):
                return run

    def _takes_place(self, meeting: Path) -> bool:
        """Claim the place, if it is free and the run is still active. Returns whether it did."""
        if not self.place:
            return True
        mine = meeting.with_name(f"{meeting.name}.{self.place}")
        if not mine.exists() and any(has_ended(_read_claim(path)) for path in meeting.parent.glob(f"{meeting.name}.*")):
            return False
        return _claim(mine, self.owner) == self.owner


def _second_of(run: str) -> int:
    """The start time in a run's name, in seconds of Unix time."""
    return int(datetime.strptime(f"{run.partition('-')[0]}+0000", f"{_SECOND}%z").timestamp())


def new_run_name(started_s: float) -> str:
    """A unique name for a run, which sorts by start time: "20261121T080911-3f2a9c"."""
    return f"{datetime.fromtimestamp(started_s, timezone.utc):{_SECOND}}-{secrets.token_hex(3)}"


class RankFinder:
    """Finds the rank of this process as soon as it is known, and remembers it."""

    def __init__(self) -> None:
        self._known: Rank | None = None

    def look(self) -> Rank:
        """The rank: from `torch.distributed`, now or earlier, else from a launcher's environment variables."""
        self.note()
        return self._known or rank_in_environment(os.environ)

    def is_known(self) -> bool:
        """Whether the rank is certain; if not, other ranks may still appear."""
        self.note()
        return self._known is not None or rank_in_environment(os.environ).world_size > 1

    def note(self) -> None:
        """Remember the rank from `torch.distributed`, if it is set up: it may be gone when the rank is needed."""
        distributed = sys.modules.get("torch.distributed")
        if self._known is None and distributed and distributed.is_available() and distributed.is_initialized():
            self._known = Rank(distributed.get_rank(), distributed.get_world_size())


def is_data_worker() -> bool:
    """Whether `multiprocessing` started this process to load data."""
    target = vars(process.current_process()).get("_target")
    return str(getattr(target, "__module__", "")).startswith(_DATA_LOADERS)


def is_multiprocessing_child() -> bool:
    """Whether `multiprocessing` started this process; also true while its main module is being imported."""
    return multiprocessing.parent_process() is not None or _is_being_set_up()


_SLURM_RANK: Final = "SLURM_PROCID"
_RANK_NAMES: Final = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    (_SLURM_RANK, "SLURM_STEP_NUM_TASKS"),
)


def _launcher(environment: Mapping[str, str]) -> tuple[str, str, float] | None:
    """The key, place and window from a launcher's variables; None without a launcher."""
    get = environment.get
    address = get("MASTER_ADDR", "")
    is_local = address in ("", "localhost", "::1") or address.startswith("127.")
    rank, size = rank_in_environment(environment)
    place = f"rank{rank}"
    if size < 2:
        if not _starts_itself(environment):
            return None
        if is_local:
            return f"ranks of {process_identity(_starter(environment) or os.getpid())}", "", math.inf
        # Converted to numbers, because the place becomes part of a file name.
        node, local, size = (_number(environment, name) or 0 for name in ("NODE_RANK", "LOCAL_RANK", "WORLD_SIZE"))
        place = f"rank{node}.{local}"
    meeting_point = f"{address}:{get('MASTER_PORT', '')} of {size}"
    if is_local or get("GROUP_WORLD_SIZE") == "1":
        meeting_point += f" on {machine()}"
    if "TORCHELASTIC_RUN_ID" in environment:
        attempt = f"{get('TORCHELASTIC_RUN_ID')} attempt {get('TORCHELASTIC_RESTART_COUNT', '0')}"
        return f"torchrun {attempt} {meeting_point}", place, _TORCHRUN_WINDOW_S
    if _is_slurm_task(environment):
        step = f"{get('SLURM_JOB_ID')}.{get('SLURM_STEP_ID')} attempt {get('SLURM_RESTART_COUNT', '0')}"
        return f"srun {get('SLURM_CLUSTER_NAME', '')} {step}", place, _WINDOW_S
    for name in ("PMIX_NAMESPACE", "PMI_PORT"):
        if name in environment:
            return f"mpirun {get(name)} of {size}", place, _WINDOW_S
    if address:
        return meeting_point, place, _WINDOW_S
    return f"children of {process_identity(os.getppid())}", place, _WINDOW_S


def _starts_itself(environment: Mapping[str, str]) -> bool:
    """Whether the program starts itself again for each further rank, as Lightning does; then no rank is set."""
    is_ranked = any(name in environment for name, _ in _RANK_NAMES) or "MASTER_PORT" not in environment
    return not is_ranked and None not in {_number(environment, "LOCAL_RANK"), _number(environment, "WORLD_SIZE")}


def _starter(environment: Mapping[str, str]) -> int:
    """The process that started this one as a further rank of its program; 0 if none did."""
    return os.getppid() if _starts_itself(environment) and _number(environment, "LOCAL_RANK") else 0


def _run_of(pid: int, logdir: Path) -> str:
    """The run in `logdir` that the process `pid` leads; "" if none. Ignores earlier processes with that pid."""
    if not pid:
        return ""
    since = process_start(pid) - _CLOCK_ERROR_S
    files = [file for file in logdir.glob(f"*/rank0-{pid}.jsonl") if file.stat().st_mtime >= since]
    return max((file.parent.name for file in files if _RUN_NAME.fullmatch(file.parent.name)), default="")


def rank_in_environment(environment: Mapping[str, str]) -> Rank:
    """The rank that a launcher has set in `environment`; rank 0 of 1 if none has."""
    for rank_name, size_name in _RANK_NAMES:
        rank, size = _number(environment, rank_name), _number(environment, size_name)
        if rank is not None and size is not None and (rank_name != _SLURM_RANK or _is_slurm_task(environment)):
            return Rank(rank, size)
    return Rank(0, 1)


def _is_slurm_task(environment: Mapping[str, str]) -> bool:
    """Whether `srun` started this process; a batch script and its other children have no step."""
    return all(name in environment for name in ("SLURM_JOB_ID", "SLURM_STEP_ID", _SLURM_RANK))


def _number(environment: Mapping[str, str], name: str) -> int | None:
    try:
        return int(environment[name])
    except (KeyError, ValueError):
        return None


def _is_being_set_up() -> bool:
    return hasattr(process.current_process(), "_inheriting")


def _configuration() -> dict[str, Any]:
    """What `multiprocessing` hands down from each process to its children."""
    configuration: dict[str, Any] = vars(process.current_process())["_config"]
    return configuration


def _claim(path: Path, text: str) -> str:
    """Create the file `path` with `text`, unless another process already has; returns the file's content."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:
        return _read_claim(path)
    try:
        os.write(file, text.encode())
    except OSError:
        path.unlink(missing_ok=True)  # Otherwise others would wait for its content.
        raise
    finally:
        os.close(file)
    return text


def _parse_claim(text: str) -> tuple[str, float]:
    """The run that a claim names, and when it started; "" if that cannot be a folder name."""
    run, _, started = text.partition(" ")
    try:
        return (run, float(started)) if _RUN_NAME.fullmatch(run) else ("", 0.0)
    except ValueError:
        return "", 0.0


def _read_claim(path: Path) -> str:
    """The content of a claim, after waiting for its writer if it is empty; "" if nothing arrives."""
    deadline = time.monotonic() + _READING_S
    while True:
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        if text or time.monotonic() > deadline:
            return text
        time.sleep(0.01)


def _forget_old(folder: Path) -> None:
    """Remove the files of launches that began more than a day ago."""
    limit = time.time() - _FORGET_AFTER_S
    for path in folder.iterdir():
        with contextlib.suppress(OSError):  # Another process may be faster.
            if path.stat().st_mtime < limit:
                path.unlink()
