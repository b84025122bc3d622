"""Which files of a tree cannot hold anything to be wrapped, told for all of them at once without analysing any.

A file is dismissed only if the analysis would leave it as it is. So whatever is uncertain stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from instrumentor.flow.kinds import Kind, May
from instrumentor.flow.solver import Solver
from instrumentor.flow.uses import Uses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from instrumentor.code.facts import Call, FileFacts
    from instrumentor.link.program import Program
    from instrumentor.resolve.knowledge import Knowledge
    from instrumentor.settings import FactoryRule, Settings

_MODULES = May.MADE | May.HOLDING


def is_screened(settings: Settings) -> bool:
    """Whether the screen knows all that some settings take for modules."""
    return not (
        settings.min_confidence == "possible"
        or settings.identity_methods
        or settings.wrappers
        or settings.factories
        or settings.module_classes
    )


class Screen:
    """Answers for the files of a program whether something in them may be wrapped.

    Args:
        program: the files.
        knowledge: what is known of libraries.
    """

    def __init__(self, program: Program, knowledge: Knowledge) -> None:
        self._program = program
        self._solver = Solver(program, knowledge)
        self._solver.solve()
        self._uses = Uses(self._solver)
        self._maker_objects: dict[int, list[Call]] = {}
        for file, call in self._solver.maker_objects:
            self._maker_objects.setdefault(file, []).append(call)

    def reason(self, file: int, rule: FactoryRule, called: Callable[[str], bool]) -> str:
        """Why something in a file may be wrapped; empty where nothing may.

        Args:
            file: its number.
            rule: whether public functions may put what they return under a proxy.
            called: whether another file calls the function of a name.
        """
        facts = self._program.facts[file]
        if facts is None:
            return "it cannot be read"
        return next(self._reasons(file, facts, rule, called), "")

    def _reasons(self, file: int, facts: FileFacts, rule: FactoryRule, called: Callable[[str], bool]) -> Iterator[str]:
        solver = self._solver
        inner = [solver.is_inner(file, each) for each in range(len(facts.scopes))]
        yield from self._made(file, facts, inner, rule, called)
        yield from self._used(file, facts, inner)
        yield from self._kept(file, facts)
        yield from self._out_of_sight(file, facts)

    def _made(
        self, file: int, facts: FileFacts, inner: list[bool], rule: FactoryRule, called: Callable[[str], bool]
    ) -> Iterator[str]:
        """The calls that may make a module which is no part of another one."""
        first, may = self._solver.first_value[file], self._solver.may
        for call in facts.calls:
            bits = may[first + call.out]
            if bits & _MODULES and not call.decorates_class:
                if inner[call.scope]:
                    if first + call.out in self._uses.called:
                        yield f"line {call.line}: a module that its maker calls"
                elif not self._is_handed_out(file, facts, call, rule, called):
                    yield f"line {call.line}: a module"
            whole = (*call.arguments, *(each for _, each in call.keywords))
            if any(may[first + each] & May.HOLDING for each in whole) and self._may_keep(first, call):
                yield f"line {call.line}: a container with modules is passed on"

    def _used(self, file: int, facts: FileFacts, inner: list[bool]) -> Iterator[str]:
        """What nobody says anything about but its use."""
        first, may, used = self._solver.first_value[file], self._solver.may, self._uses.used
        for value in range(1, len(facts.scope_of)):
            if may[first + value] & May.UNKNOWN and first + value in used and not inner[facts.scope_of[value]]:
                yield f"in {facts.scopes[facts.scope_of[value]].name}: something unknown is used as a module"

    def _kept(self, file: int, facts: FileFacts) -> Iterator[str]:
        """The modules in plain containers that objects keep."""
        solver = self._solver
        first, may = solver.first_value[file], solver.may
        for base, name, value in facts.stores:
            if may[first + value] & May.HOLDING and base:
                yield f"a plain container with modules is kept as {name}"
        plain = {name for _, name, value in facts.stores if not solver.is_module_container(first + value)}
        stored = {name for _, name, _ in facts.stores}
        for _, name, value in facts.kept:
            if may[first + value] & _MODULES and (name in plain or name not in stored):
                yield f"a module is put into the plain container {name}"

    def _out_of_sight(self, file: int, facts: FileFacts) -> Iterator[str]:
        """What libraries and operators may make."""
        solver = self._solver
        first = solver.first_value[file]
        for call in self._maker_objects.get(file, ()):
            if any(solver.may_be_class_of_modules(first + each) for each in call.given):
                yield f"line {call.line}: a library may make objects of a class of modules"
        for name in facts.methods_run:
            makers = set(solver.makers_named(name))
            # Anything may be read by an index; of what a file does not import itself it has few objects.
            near = {file, *self._program.imports[file]}
            if makers & near if name == "__getitem__" else any(solver.leads(file, each) for each in makers):
                yield f"an operator may run a {name} that makes a module"

    def _is_handed_out(
        self, file: int, facts: FileFacts, call: Call, rule: FactoryRule, called: Callable[[str], bool]
    ) -> bool:
        """Whether what a call makes is for the callers of its function to wrap."""
        if not call.is_only_returned:
            return False
        scope = facts.scopes[call.scope]
        if scope.is_public and (rule == "always" or (rule == "auto" and not called(scope.name))):
            return False
        first = self._solver.first_value[file]
        decorators = [list(self._solver.things_of(first + each)) for each in scope.decorated_by]
        is_kept = not all(
            things and all(each.kind in (Kind.FUNCTION, Kind.METHOD) for each in things) for things in decorators
        )
        return not is_kept and scope.name not in facts.read

    def _may_keep(self, first: int, call: Call) -> bool:
        """Whether a call may keep what it is passed: it calls something of the project, or nobody knows what."""
        things = list(self._solver.things_of(first + call.callee))
        if not things:
            return True
        return any(each.kind != Kind.LIBRARY for each in things)
