"""The values that callers pass for parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instrumentor.analysis.tables import Marks, Reader, Readers, Table
from instrumentor.analysis.values import (
    NOTHING,
    Atom,
    Derived,
    Instance,
    Made,
    Parameter,
    Part,
    Scripted,
    Unwrapped,
    Value,
    Wrapper,
    join,
    root,
    strip,
    wrap,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from instrumentor.analysis.contents import Contents
    from instrumentor.analysis.entries import Event
    from instrumentor.analysis.tables import Visits


class _Answer(Reader):
    """The cached answer for one parameter, valid until something changes that it was computed from.

    Attributes:
        parameter: the parameter.
        given: the values passed by its callers, including their own parameters.
        is_open: whether callers may pass more.
        found: the values passed, with the callers' parameters resolved.
        users: the answers computed from this one.
    """

    def __init__(self, parameter: Parameter, forget: Callable[[_Answer], None]) -> None:
        super().__init__("")
        self.parameter = parameter
        self.given: Value = NOTHING
        self.is_open = False
        self.found: Value = NOTHING
        self.users: set[_Answer] = set()
        self._forget = forget

    def spoil(self) -> None:
        """Invalidate the answer, because something it was computed from has changed."""
        self._forget(self)

    def sources(self) -> list[Parameter]:
        """The parameters of callers that are passed."""
        return [atom for atom in self.given if isinstance(atom, Parameter)]


class Passed(Table[tuple[str, str], Value]):
    """The values passed by calls, and the defaults that they leave in place, by function key and parameter name.

    Attributes:
        defaults: the values of parameters that a call omits.
        escape: the parameters that unseen code may get, to change and call them.
        callables_escape: the parameters that unseen code may get, only to call them.
    """

    def __init__(
        self, visits: Visits, contents: Contents, calls: Table[str, dict[int, Event]], called_unseen: Marks[str]
    ) -> None:
        super().__init__(visits)
        self.defaults: Table[tuple[str, str], Value] = Table(visits)
        self.escape: Marks[tuple[str, str]] = Marks(visits)
        self.callables_escape: Marks[tuple[str, str]] = Marks(visits)
        self._contents = contents
        self._calls = calls
        self._called_unseen = called_unseen
        self._put: dict[tuple[Atom, Value], tuple[Value, Value]] = {}
        self._answers: dict[Parameter, _Answer] = {}
        self._asked: Readers[Parameter] = Readers(visits)

    def forget_readers(self) -> None:
        """Drop the registered readers and the answers, which refer to each other."""
        super().forget_readers()
        for answer in self._answers.values():
            answer.users.clear()
        self._answers.clear()

    def to(self, parameter: Parameter) -> Value:
        """The values passed for a parameter, with the callers' own parameters resolved. Containers are not opened.

        The parameter itself is included if its callers may pass more.
        """
        if parameter not in self._answers:
            self._find(parameter)
        self._asked.note_read(parameter)
        return self._answers[parameter].found

    def _find(self, parameter: Parameter) -> None:
        """Find the values passed for a parameter, and for all parameters passed for it.

        Parameters that are passed for each other share one answer. Tarjan's algorithm finds these groups.
        """
        first: dict[Parameter, int] = {}  # the lowest stack position reachable from a parameter
        stack: list[_Answer] = []
        way: list[tuple[_Answer, int, Iterator[Parameter]]] = []
        source: Parameter | None = parameter
        while True:
            if source is not None and source not in first and source not in self._answers:
                answer = self._ask(source)
                first[source] = len(stack)
                way.append((answer, len(stack), iter(answer.sources())))
                stack.append(answer)
            elif source is not None and source not in self._answers:
                above = way[-1][0].parameter
                first[above] = min(first[above], first[source])
            source = next(way[-1][2], None)
            if source is None:
                answer, place, _ = way.pop()
                if first[answer.parameter] == place:
                    self._answer(stack[place:])
                    del stack[place:]
                if not way:
                    return
                above = way[-1][0].parameter
                first[above] = min(first[above], first[answer.parameter])

    def _ask(self, parameter: Parameter) -> _Answer:
        answer = _Answer(parameter, self._forget)

        def look() -> None:
            answer.given = self._given_for(parameter)
            answer.is_open = not answer.given or parameter.function in self._called_unseen

        self._visits.read_by(answer, look)
        return answer

    def _answer(self, together: list[_Answer]) -> None:
        """Compute the answers of one component. Those of all other parameters passed for it are known."""
        self._answers.update((answer.parameter, answer) for answer in together)
        found: set[Atom] = {answer.parameter for answer in together if answer.is_open}
        for answer in together:
            found.update(atom for atom in answer.given if not isinstance(atom, Parameter))
            for source in answer.sources():
                found.update(self._answers[source].found)
                self._answers[source].users.add(answer)
        value = frozenset(found)
        for answer in together:
            answer.found = value

    def _forget(self, answer: _Answer) -> None:
        """Invalidate an answer and all computed from it, and make those who read them due."""
        pending = [answer]
        while pending:
            spoilt = pending.pop()
            if self._answers.get(spoilt.parameter) is spoilt:
                del self._answers[spoilt.parameter]
                self._asked.note_changed(spoilt.parameter)
                pending.extend(spoilt.users)
                spoilt.users.clear()

    def _given_for(self, parameter: Parameter) -> Value:
        """The values passed for a parameter; with its default, if calls may be unseen or none passes it."""
        key = parameter.function, parameter.name
        passed = self.get(key, NOTHING)
        if passed and parameter.function not in self._called_unseen:
            return passed
        return join((passed, self.defaults.get(key, NOTHING)))

    def sources(self, value: Value) -> Value:
        """The value with each parameter replaced by the values passed, as far as they are known."""
        found: set[Atom] = set()
        seen: set[Atom] = set(value)
        pending = list(value)
        while pending:
            atom = pending.pop()
            base = root(atom)
            if not isinstance(base, Parameter):
                found.add(atom)
                continue
            passed = self._contents.reach(self._given_for(base))
            if base.function in self._called_unseen or (not passed and base.function in self._calls):
                found.add(atom)
            ends, others = self._put_in_place(atom, passed)
            found.update(ends)
            pending.extend(others - seen)
            seen.update(others)
        return frozenset(found)

    def _put_in_place(self, atom: Atom, passed: Value) -> tuple[Value, Value]:
        """An atom with its parameter replaced by each passed value: the results without a parameter, and the others."""
        known = self._put.get((atom, passed))
        if known is None:
            replaced = {_in_place_of(atom, new) for new in passed}
            others = frozenset(each for each in replaced if isinstance(root(each), Parameter))
            known = self._put[atom, passed] = frozenset(replaced - others), others
        return known


def _in_place_of(atom: Atom, new: Atom) -> Atom:
    """`atom` with its parameter replaced by `new`."""
    if isinstance(atom, Parameter):
        return new
    if not isinstance(root(new), (Made, Parameter, Instance)):
        return new
    if isinstance(atom, Part):
        return Part(root(new))
    if isinstance(atom, (Derived, Scripted)):
        return type(atom)(root(new))
    if isinstance(atom, Wrapper):
        return wrap(_in_place_of(atom.inner, new))
    return Unwrapped(strip(_in_place_of(atom.inner, new)), atom.is_sure) if isinstance(atom, Unwrapped) else new
