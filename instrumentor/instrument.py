"""Text in, text out: the stages of instrumenting one script, in order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from instrumentor.analysis.fixpoint import analyse
from instrumentor.analysis.sites import SiteIndex
from instrumentor.decide import decide
from instrumentor.decide.given_classes import find_given_classes
from instrumentor.decide.program import decide_program, files_with_models
from instrumentor.errors import NotInstrumentedError, SourceSyntaxError
from instrumentor.nesting import room_for_nesting
from instrumentor.resolve.project import Project, Sources
from instrumentor.resolve.unit import SCRIPT, index_unit
from instrumentor.rewrite import check_rewritten, plan_changes, rewrite
from instrumentor.screening.screen import may_wrap
from instrumentor.source.source_text import decode, parse
from instrumentor.source.suppressions import read_suppressions
from instrumentor.source.undo import may_be_instrumented, undo

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from instrumentor.analysis.facts import Facts
    from instrumentor.analysis.values import SiteKey
    from instrumentor.changes import Changes
    from instrumentor.decide.given_classes import GivenClass
    from instrumentor.decision import Decision
    from instrumentor.resolve.classes import Hierarchy
    from instrumentor.resolve.project import UnitFinder
    from instrumentor.resolve.unit import Unit
    from instrumentor.settings import Settings
    from instrumentor.source.source_text import SourceText


@dataclass(frozen=True)
class Result:
    """The result of instrumenting one script.

    Attributes:
        original: the script's bytes as given.
        instrumented: the bytes to write instead; equal to `original` if there is nothing to do.
        decisions: every site with its verdict and reason, ordered by position.
        already_instrumented: whether the script had a valid source comment and was left unchanged.
        elsewhere: the project's other files that make models which never reach the script, if that was requested;
            relative to the script's directory, with `/`.
        changes: the changes, in the original's coordinates; None if there are none.
    """

    original: bytes
    instrumented: bytes
    decisions: tuple[Decision, ...]
    already_instrumented: bool
    elsewhere: tuple[str, ...] = ()
    changes: Changes | None = None

    @property
    def changed(self) -> bool:
        """Whether there is anything to write."""
        return self.original != self.instrumented


def instrument_source(
    source: bytes,
    settings: Settings,
    *,
    source_name: str,
    sources: Sources | None = None,
    is_alone: bool = False,
    looks_elsewhere: bool = False,
    outlines: UnitFinder | None = None,
) -> Result:
    """Put the models of one script under proxies.

    Args:
        source: the script's bytes, in any encoding and with any newlines.
        settings: what the user asked for.
        source_name: the path of the script as the user gave it, "<stdin>" for standard input.
        sources: the project's other files and the installed packages; without them, their definitions are judged by
            the catalogue and by their use.
        is_alone: whether the project's other files stay unchanged, so that what they make gets no proxy.
        looks_elsewhere: whether to find those of them that make models.
        outlines: finds the outlines of the project's other files. Given if only the new bytes matter: a script whose
            own text shows that it has nothing to wrap is then not analysed, and has no decisions.

    Returns:
        The new bytes with the reason for every site.

    Raises:
        SourceSyntaxError: `source` is not Python.
        SourceDecodeError: `source` does not fit its declared encoding.
        EditedSinceError: `source` is an instrumented script that was edited since.
        InternalError: the result cannot be parsed, or undone exactly.
    """
    if _is_instrumented(source, source_name=source_name):
        return Result(source, source, (), already_instrumented=True)
    text = decode(source, source_name=source_name)
    result = _instrument(source, text, settings, source_name, sources, outlines, is_alone, looks_elsewhere)
    # The analysis has been freed by now: parsing the result needs as much memory again.
    check_rewritten(source, result.instrumented, text, source_name=source_name)
    return result


def _instrument(
    source: bytes,
    text: SourceText,
    settings: Settings,
    source_name: str,
    sources: Sources | None,
    outlines: UnitFinder | None,
    is_alone: bool,
    looks_elsewhere: bool,
) -> Result:
    """The result for a script that is not instrumented yet; not checked."""
    tree = parse(text, source_name=source_name)
    suppressions = read_suppressions(text)
    script = index_unit(SCRIPT, "", tree)
    try:
        with room_for_nesting():
            if outlines is not None and not may_wrap(
                script, settings, replace(sources or Sources(), parsed=outlines), suppressions
            ):
                return Result(source, source, (), already_instrumented=False)
            project = Project(script, settings, sources)
            facts, hierarchy = analyse(project)
            given = find_given_classes(facts, hierarchy)
            index = SiteIndex(facts, hierarchy, script)
            plan = decide(
                index,
                settings,
                text,
                suppressions,
                given=given.get(SCRIPT, ()),
                is_alone=is_alone,
                called=None if sources is None else sources.called,
            )
            elsewhere = (
                _models_elsewhere(project, sources, facts, hierarchy, given, settings, text, plan.wrapped)
                if looks_elsewhere
                else ()
            )
            facts.take_apart()
    except RecursionError:
        raise SourceSyntaxError(
            "nested too deeply to be analysed; split its longest expression, or exclude the file", path=source_name
        ) from None
    finally:
        script.take_apart()
    changes = plan_changes(text, tree, plan)
    instrumented = rewrite(source, text, tree, changes, settings, source_name=source_name)
    return Result(
        source, instrumented, plan.decisions, already_instrumented=False, elsewhere=elsewhere, changes=changes
    )


def _models_elsewhere(
    project: Project,
    sources: Sources | None,
    facts: Facts,
    hierarchy: Hierarchy,
    given: Mapping[str, Sequence[GivenClass]],
    settings: Settings,
    text: SourceText,
    wrapped: frozenset[SiteKey],
) -> tuple[str, ...]:
    """The files reached from the script that would change if they were instrumented with it.

    Files that only receive what is `wrapped` in the script do not count.
    """
    with_models = files_with_models(facts, given) - {SCRIPT}
    read = None if sources is None else sources.read
    if read is None or not with_models:
        return ()

    def text_of(unit: Unit) -> SourceText:
        return text if unit.name == SCRIPT else decode(read(unit.name) or b"", source_name=unit.name)

    others = [unit for unit in project.units.values() if unit is not None and unit.name in with_models]
    units = (project.script, *others)
    plans = decide_program(units, facts, hierarchy, given, settings, source_name=SCRIPT, text_of=text_of)

    def is_new(key: SiteKey) -> bool:
        origins = facts.sites[key].origins if key in facts.sites else ()
        return not origins or not wrapped.issuperset(origins)

    return tuple(sorted(name for name, (_, plan) in plans.items() if name != SCRIPT and any(map(is_new, plan.wrapped))))


def _is_instrumented(source: bytes, *, source_name: str) -> bool:
    """Whether the script has a valid source comment.

    Raises:
        EditedSinceError: there is a source comment, but the script was edited since; instrumenting it again could
            wrap objects twice.
    """
    if not may_be_instrumented(source):
        return False
    try:
        undo(source, source_name=source_name)
    except NotInstrumentedError:
        return False
    return True
