"""Selects the findings to report: by code, and without those already known."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from proxy_trace.errors import BadBaselineError, BadConfigurationError, UnknownCodeError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from proxy_trace.checks.finding import Finding

_FILE: Final = "pyproject.toml"
_LARGEST: Final = 1 << 26
"""The most bytes of a settings or baseline file that are read: 64 MB."""


class _Settings(msgspec.Struct, forbid_unknown_fields=True):
    """The table `[tool.proxy-trace]`."""

    select: list[str] = []
    ignore: list[str] = []
    baseline: str = ""


class _Tool(msgspec.Struct):
    proxy_trace: _Settings = msgspec.field(default_factory=_Settings, name="proxy-trace")


class _Project(msgspec.Struct):
    tool: _Tool = msgspec.field(default_factory=_Tool)


class KnownFinding(msgspec.Struct, frozen=True):
    """A finding of an earlier run that is not reported again. Its step, place and ranks may differ."""

    code: str
    name: str


class Choice(NamedTuple):
    """Which findings are reported.

    Attributes:
        select: globs of codes to report; all if empty.
        ignore: globs of codes not to report.
        known: known findings, which are not reported.
    """

    select: Sequence[str] = ()
    ignore: Sequence[str] = ()
    known: frozenset[KnownFinding] = frozenset()

    def has(self, finding: Finding) -> bool:
        """Whether a finding is reported."""
        return (
            (not self.select or _matches(finding.code, self.select))
            and not _matches(finding.code, self.ignore)
            and KnownFinding(finding.code, finding.name) not in self.known
        )

    def with_known(self) -> Choice:
        """The same choice, but with known findings reported."""
        return self._replace(known=frozenset())


EVERYTHING: Final = Choice()
"""Reports every finding."""


def read_choice(
    codes: Collection[str],
    select: Sequence[str] | None = None,
    ignore: Sequence[str] | None = None,
    baseline: Path | None = None,
    directory: Path | None = None,
) -> Choice:
    """The choice by options, or else by the nearest `pyproject.toml` in the directory or above.

    Args:
        codes: all existing codes.
        select: replaces the file's setting, if given.
        ignore: likewise.
        baseline: likewise.
        directory: where the search begins; the working directory by default.

    Raises:
        BadConfigurationError: if the file has unknown or wrong settings.
        UnknownCodeError: if a code or glob matches no existing code.
        BadBaselineError: if the baseline cannot be read.
    """
    above = (directory or Path.cwd()).resolve()
    file = next((each / _FILE for each in (above, *above.parents) if (each / _FILE).is_file()), None)
    settings = _settings_of(file) if file is not None else _Settings()
    if file is not None and settings.baseline and baseline is None:
        baseline = file.parent / settings.baseline
    selected = settings.select if select is None else select
    ignored = settings.ignore if ignore is None else ignore
    for globs, is_given in ((selected, select is not None), (ignored, ignore is not None)):
        for glob in globs:
            if not any(fnmatchcase(code, glob) for code in codes):
                raise UnknownCodeError(glob, codes, None if is_given else file)
    return Choice(tuple(selected), tuple(ignored), _known_findings(baseline) if baseline is not None else frozenset())


def baseline_of(findings: Iterable[Finding]) -> bytes:
    """The content of a baseline file with these findings: JSON, one line each."""
    known = sorted({(finding.code, finding.name) for finding in findings})
    lines = [msgspec.json.encode(KnownFinding(*each)) for each in known]
    return b"[" + b",".join(b"\n  " + line for line in lines) + b"\n]\n"


def is_baseline(file: Path) -> bool:
    """Whether a file is a baseline, and may thus be overwritten."""
    try:
        _known_findings(file)
    except BadBaselineError:
        return False
    return True


def _settings_of(file: Path) -> _Settings:
    try:
        return msgspec.toml.decode(_read(file), type=_Project).tool.proxy_trace
    except (OSError, ValueError) as error:
        raise BadConfigurationError(file, error) from None


def _known_findings(file: Path) -> frozenset[KnownFinding]:
    try:
        return frozenset(msgspec.json.decode(_read(file), type=list[KnownFinding]))
    except (OSError, ValueError) as error:
        raise BadBaselineError(file, error) from None


def _read(file: Path) -> bytes:
    with file.open("rb") as stream:
        data = stream.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise ValueError(f"has more than {_LARGEST:,} bytes")
    return data


def _matches(code: str, globs: Iterable[str]) -> bool:
    return any(fnmatchcase(code, glob) for glob in globs)
