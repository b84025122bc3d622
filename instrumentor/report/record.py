"""What a report says of a file: plain data, the same for every kind of report.

`Document` is what `--report FILE.json` holds and `docs/report.schema.json` describes. A change that takes something
away or gives it another meaning needs another `VERSION`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from instrumentor import __version__, emit
from instrumentor.decision import DecisionKind  # noqa: TC001 - msgspec resolves the fields' types
from instrumentor.engine.outcome import Status  # noqa: TC001 - as above
from instrumentor.notebooks.cells import describe_lines_in, is_notebook, place_in_cells
from instrumentor.paths.files import portable_path, readable_text
from instrumentor.report.diff import source_encoding, unified_diff
from instrumentor.settings import Confidence  # noqa: TC001 - as above
from instrumentor.source.source_text import decode
from instrumentor.source.undo import read_source_comment

if TYPE_CHECKING:
    from collections.abc import Iterable

    from instrumentor.decision import Decision
    from instrumentor.engine.outcome import Outcome, Task

VERSION = 1


class Alias(msgspec.Struct, frozen=True, omit_defaults=True):
    """Another name of an object, and the line that binds it.

    Attributes:
        name: as the script spells it.
        line: from 1; within the cell for a notebook.
        cell: for a notebook, the cell from 1.
    """

    name: str
    line: int
    cell: int | None = None


class Site(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One place where a model comes into being or is bound again, in the lines of the original.

    Attributes:
        line: from 1; within the cell for a notebook.
        column: from 1, in characters.
        cell: for a notebook, the cell from 1.
        target: what holds the object, as the script spells it.
        object: the class or factory as resolved.
        decision: what happens there.
        reason: why, in words.
        code: why, as a word.
        wrapped_at: for "merged", the line of the site whose proxy covers this object.
        wrapped_in: for "merged" in a notebook, the cell of that line.
        relation: for "merged", how the object relates to the proxied one.
        confidence: how sure that is.
        aliases: later names of the same object.
        alternatives: for "merged", further lines whose proxy may cover the object.
        alternative_cells: for "merged" in a notebook, the cells of these lines.
        class_names: the classes that the object may have.
        read_at: where the first of them was read; empty where only its use tells.
        identity: sites with one identity are about one object; None where it is not surely one.
    """

    line: int
    column: int
    target: str
    object: str
    decision: DecisionKind
    reason: str
    code: str
    cell: int | None = None
    wrapped_at: int | None = None
    wrapped_in: int | None = None
    relation: str | None = None
    confidence: Confidence
    aliases: tuple[Alias, ...] = ()
    alternatives: tuple[int, ...] = ()
    alternative_cells: tuple[int, ...] = ()
    class_names: tuple[str, ...] = ()
    read_at: str = ""
    identity: str | None = None


class Addition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something added to a script.

    Attributes:
        line: the line of the instrumented script, from 1.
        text: what was added, without its line end.
        column: where in the line, from 1; None for a line of its own.
        site: the position in `sites` of the one it was added for; None for the import and the source comment.
    """

    line: int
    text: str
    column: int | None = None
    site: int | None = None


class Quote(msgspec.Struct, frozen=True):
    """A line of the original that a site or an alias stands on, for readers of the diff."""

    line: int
    text: str


class Error(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a file could not be processed."""

    message: str
    line: int | None = None
    column: int | None = None


class FileRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One file.

    Attributes:
        path: as the user would type it, with `/`.
        status: what became of it.
        digest: BLAKE2b of its bytes (16 bytes, in hex); empty where it could not be read.
        lines: how many lines it has.
        written_to: where the result went; None where nothing was written.
        sites: every decision, in the order of their lines.
        additions: what was added; empty for notebooks.
        diff: what changes, as a unified diff.
        quotes: the lines that wrapped and merged models and their aliases stand on, which the diff may not show; empty
            for notebooks.
        error: what went wrong.
    """

    path: str
    status: Status
    digest: str = ""
    lines: int = 0
    written_to: str | None = None
    sites: tuple[Site, ...] = ()
    additions: tuple[Addition, ...] = ()
    diff: str = ""
    quotes: tuple[Quote, ...] = ()
    error: Error | None = None


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Counts over all files.

    Attributes:
        files: how many were looked at.
        lines: of them all.
        statuses: files by status.
        decisions: sites by decision.
        codes: sites by the code of their reason.
    """

    files: int
    lines: int
    statuses: dict[str, int]
    decisions: dict[str, int]
    codes: dict[str, int]


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """What made a report."""

    name: str = "instrument"
    version: str = __version__


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A whole report.

    Attributes:
        version: of this format.
        tool: what made it.
        files: every file, in the order in which they were found.
        summary: counts.
    """

    version: Literal[1]
    tool: Tool
    files: tuple[FileRecord, ...]
    summary: Summary


def record_file(task: Task, outcome: Outcome, *, written_to: str | None, diff_to: str) -> FileRecord:
    """Make the record of a task's outcome.

    Args:
        task: the task.
        outcome: its outcome, with the bytes if the script changes.
        written_to: where the result went.
        diff_to: the path of the result in the diff.
    """
    sites = tuple(_record_site(decision, outcome.cells) for decision in outcome.decisions)
    failure = outcome.failure
    diff = ""
    if outcome.original is not None and outcome.result is not None:
        encoding = "utf-8" if is_notebook(task.shown) else source_encoding(outcome.original)
        exact = unified_diff(outcome.original, outcome.result, from_name=task.shown, to_name=diff_to)
        diff = exact.decode(encoding, errors="replace")
    return FileRecord(
        path=portable_path(task.shown),
        status=outcome.status,
        digest=(outcome.source.digest or b"").hex(),
        lines=outcome.lines,
        written_to=written_to and portable_path(written_to),
        sites=sites,
        additions=_record_additions(task, outcome, sites),
        diff=diff,
        quotes=_record_quotes(task, outcome, sites),
        error=None if failure is None else Error(message=failure.message, line=failure.line, column=failure.column),
    )


def make_readable(record: FileRecord) -> FileRecord:
    """A record whose texts can all be encoded, which a script's names and strings need not be."""
    return msgspec.convert(_make_readable(msgspec.to_builtins(record)), FileRecord)


def _make_readable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _make_readable(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_make_readable(each) for each in value]
    return readable_text(value) if isinstance(value, str) else value


def summarize(records: Iterable[FileRecord]) -> Summary:
    """Count sites and files over all records."""
    files = lines = 0
    statuses: Counter[str] = Counter()
    decisions: Counter[str] = Counter()
    codes: Counter[str] = Counter()
    for record in records:
        files += 1
        lines += record.lines
        statuses[record.status] += 1
        decisions.update(site.decision for site in record.sites)
        codes.update(site.code for site in record.sites)
    ordered = [dict(counts.most_common()) for counts in (statuses, decisions, codes)]
    return Summary(files=files, lines=lines, statuses=ordered[0], decisions=ordered[1], codes=ordered[2])


def _record_site(decision: Decision, cells: tuple[tuple[int, int], ...]) -> Site:
    cell, line = place_in_cells(decision.line, cells)
    wrapped_in, wrapped_at = (None, None) if decision.wrapped_at is None else place_in_cells(decision.wrapped_at, cells)
    aliases = [(name, place_in_cells(line, cells)) for name, line in decision.aliases]
    alternatives = [place_in_cells(each, cells) for each in decision.alternatives]
    return Site(
        line=line,
        column=decision.column + 1,
        cell=cell,
        target=decision.target,
        object=decision.object,
        decision=decision.verdict,
        reason=describe_lines_in(decision.reason, cells),
        code=decision.reason_code,
        wrapped_at=wrapped_at,
        wrapped_in=wrapped_in,
        relation=decision.relation,
        confidence=decision.confidence,
        aliases=tuple(Alias(name, line, cell) for name, (cell, line) in aliases),
        alternatives=tuple(line for _, line in alternatives),
        alternative_cells=tuple(cell for cell, _ in alternatives if cell is not None),
        class_names=decision.class_names,
        read_at=describe_lines_in(decision.read_at, cells),
        identity=decision.identity,
    )


def _record_additions(task: Task, outcome: Outcome, sites: tuple[Site, ...]) -> tuple[Addition, ...]:
    if outcome.result is None or task.goal == "revert" or is_notebook(task.shown):
        return ()
    text = decode(outcome.result, source_name=task.name)
    comment = read_source_comment(text)
    if comment is None:
        return ()
    spans: dict[int, list[tuple[int, int]]] = {}
    for number, start, end in comment.spans:
        spans.setdefault(number, []).append((start, end))
    found = []
    sites_of = _SitesOfAdditions(sites)
    original = 0
    for number, line in enumerate(text.lines, start=1):
        if number == len(text.lines):
            found.append(Addition(line=number, text=line.rstrip("\r\n")))
        elif number in comment.lines:
            added = line.strip()
            site = sites_of.statement(added, original)
            found.append(Addition(line=number, text=line.rstrip("\r\n"), site=site))
        else:
            original += 1
            added_before = 0
            for start, end in spans.get(number, ()):
                site = sites_of.within(line[start:end], original, start - added_before + 1)
                added_before += end - start
                found.append(Addition(line=number, text=line[start:end], column=start + 1, site=site))
    return tuple(found)


def _record_quotes(task: Task, outcome: Outcome, sites: tuple[Site, ...]) -> tuple[Quote, ...]:
    if outcome.original is None or task.goal == "revert" or is_notebook(task.shown):
        return ()
    lines = decode(outcome.original, source_name=task.name).lines
    told = [site for site in sites if site.decision != "not wrapped"]
    wanted = {line for site in told for line in (site.line, *(alias.line for alias in site.aliases))}
    return tuple(Quote(line, lines[line - 1].rstrip("\r\n")) for line in sorted(wanted) if line <= len(lines))


class _SitesOfAdditions:
    """Finds the site for which each text was added; must be asked in file order."""

    def __init__(self, sites: tuple[Site, ...]) -> None:
        self._wraps = [(position, site) for position, site in enumerate(sites) if site.decision == "wrap"]
        # The sites of the expressions whose surrounding text has been opened but not closed.
        self._around: list[int | None] = []
        self._begun: set[int] = set()

    def statement(self, added: str, line: int) -> int | None:
        """The site of a statement behind the original's line: of those before, the last by its name, or the last."""
        if emit.RUNTIME_MODULE in added:
            return None
        before = [(position, site) for position, site in self._wraps if site.line <= line]
        named = [position for position, site in before if added.removeprefix("; ").startswith(f"{site.target} = ")]
        candidates = named or [position for position, _ in before]
        return candidates[-1] if candidates else None

    def within(self, added: str, line: int, column: int) -> int | None:
        """The site of a text within the original's line: what begins around an expression begins where its site is."""
        has_call = f".{emit.PROXY}(" in added
        if not has_call and added.endswith(")"):
            return self._around.pop() if self._around else None
        if not has_call or added.endswith(")"):
            return self.statement(added, line)
        there = [
            (-site.line, position)
            for position, site in self._wraps
            if site.line <= line and site.column == column and position not in self._begun
        ]
        found = min(there)[1] if there else self.statement(added, line)
        self._around.append(found)
        if found is not None:
            self._begun.add(found)
        return found
