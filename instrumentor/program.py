"""A script together with the project files that it runs: text in, texts out."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from instrumentor.analysis.fixpoint import analyse
from instrumentor.decide.given_classes import find_given_classes
from instrumentor.decide.program import decide_program, files_with_models, recorded_path
from instrumentor.errors import EditedSinceError, NotInstrumentedError, SourceSyntaxError
from instrumentor.instrument import Result
from instrumentor.nesting import room_for_nesting
from instrumentor.resolve.project import MAX_PROGRAM_UNITS, Project
from instrumentor.resolve.unit import SCRIPT, index_unit
from instrumentor.rewrite import check_rewritten, plan_changes, rewrite
from instrumentor.source.source_text import decode, parse
from instrumentor.source.undo import undo

if TYPE_CHECKING:
    from collections.abc import Callable

    from instrumentor.decide import Plan
    from instrumentor.resolve.project import Sources
    from instrumentor.resolve.unit import Unit
    from instrumentor.settings import Settings


@dataclass(frozen=True)
class ProgramFile:
    """One file of a program.

    Attributes:
        path: relative to the script's directory, with `/`; empty for the script.
        result: the result of instrumenting it.
        roots: search folders other than the script's, relative to it, through which the script finds the file if
            results go to a separate tree.
    """

    path: str
    result: Result
    roots: tuple[str, ...] = ()


def instrument_program(
    source: bytes,
    settings: Settings,
    *,
    source_name: str,
    sources: Sources,
    is_moved: bool,
) -> tuple[ProgramFile, ...]:
    """Put the models of a script under proxies, and those that the files it runs make and keep.

    A single analysis decides for all files. A model that a function returns to another file is wrapped where it is
    bound; a model that a class in another file keeps is wrapped there.

    Args:
        source: the script's bytes.
        settings: what the user asked for.
        source_name: the path of the script as the user gave it.
        sources: the project's other files and the installed packages.
        is_moved: whether the results go to a separate tree, whose modules must be found before the originals. A
            script that finds instrumented modules through other folders than its own gets a line that adds these.

    Returns:
        The script first, then every project file that makes a model or was instrumented before.

    Raises:
        SourceSyntaxError: `source` is not Python.
        SourceDecodeError: `source` does not fit its declared encoding.
        EditedSinceError: the script or one of the files was instrumented and has been edited since.
    """
    assert sources.read is not None
    read = _Originals(sources.read)
    original = read.take(SCRIPT, source, source_name)
    text = decode(original, source_name=source_name)
    script = index_unit(SCRIPT, "", parse(text, source_name=source_name))
    project = Project(script, settings, replace(sources, read=read), max_units=MAX_PROGRAM_UNITS)
    try:
        with room_for_nesting():
            imported = project.imported_units()
            facts, hierarchy = analyse(project, imported)
            given = find_given_classes(facts, hierarchy)
            with_models = files_with_models(facts, given) | {SCRIPT}
            everything = [project.script, *imported, *(unit for unit in project.units.values() if unit is not None)]
            units = [unit for unit in dict.fromkeys(everything) if unit.name in with_models]
            # Importers come first.
            plans = decide_program(
                units,
                facts,
                hierarchy,
                given,
                settings,
                source_name=source_name,
                text_of=lambda unit: decode(read.originals[unit.name], source_name=unit.name or source_name),
            )
    except RecursionError:
        raise SourceSyntaxError(
            "or a file that it imports is nested too deeply to be analysed; instrument the files one by one",
            path=source_name,
        ) from None
    changed = [name for name, (_, plan) in plans.items() if plan.wraps and name != SCRIPT]
    roots = {name: _roots_outside(project, name) for name in changed} if is_moved else {}
    folders = list(dict.fromkeys(root for each in roots.values() for root in each))
    found = []
    for name, (unit, plan) in plans.items():
        recorded = recorded_path(source_name, name)
        result = _result(unit, plan, settings, read, recorded, folders if name == SCRIPT else [])
        if name == SCRIPT or result.changed or result.already_instrumented:
            found.append(ProgramFile(name, result, roots.get(name, ())))
    return tuple(sorted(found, key=lambda each: each.path))


def _result(unit: Unit, plan: Plan, settings: Settings, read: _Originals, recorded: str, folders: list[str]) -> Result:
    original, current = read.originals[unit.name], read.current[unit.name]
    if original != current:
        return Result(current, current, plan.decisions, already_instrumented=True)
    text = decode(original, source_name=recorded)
    changes = plan_changes(text, unit.tree, plan)
    instrumented = rewrite(original, text, unit.tree, changes, settings, source_name=recorded, search_folders=folders)
    check_rewritten(original, instrumented, text, source_name=recorded)
    return Result(original, instrumented, plan.decisions, already_instrumented=False)


def _roots_outside(project: Project, name: str) -> tuple[str, ...]:
    """The search folders through which the script finds a file, other than its own."""
    roots = [project.root_of.get(name, "")]
    # A package's files are found through the package.
    folder = posixpath.dirname(name)
    while folder and folder not in roots:
        roots.append(project.root_of.get(f"{folder}/__init__.py", ""))
        folder = posixpath.dirname(folder)
    return tuple(dict.fromkeys(root for root in roots if root))


class _Originals:
    """Reads a project's files as they were before they were instrumented."""

    def __init__(self, read: Callable[[str], bytes | None]) -> None:
        self._read = read
        self.originals: dict[str, bytes] = {}
        self.current: dict[str, bytes] = {}

    def __call__(self, path: str) -> bytes | None:
        content = self._read(path)
        if content is None:
            return None
        try:
            return self.take(path, content, path)
        except EditedSinceError:
            self.originals[path] = self.current[path] = content
            return content

    def take(self, path: str, content: bytes, shown: str) -> bytes:
        """Record a file's bytes; returns those of its original."""
        try:
            original = undo(content, source_name=shown).original
        except NotInstrumentedError:
            original = content
        self.originals[path], self.current[path] = original, content
        return original
