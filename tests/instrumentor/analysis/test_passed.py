"""What comes to a parameter, whichever way, is known at any time, however functions pass it to each other."""

from __future__ import annotations

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from instrumentor.analysis.facts import Facts
from instrumentor.analysis.tables import Reader
from instrumentor.analysis.values import Atom, Made, Parameter, SiteKey, value

COUNT = 6
PARAMETERS = [Parameter(f"f{i}", "x") for i in range(COUNT)]
OBJECTS = [Made(SiteKey("", line, 0, line, 1)) for line in range(3)]


def gone_through(facts: Facts, parameter: Parameter) -> frozenset[Atom]:
    """The same by going through all that is passed."""
    found: set[Atom] = set()
    seen, pending = {parameter}, [parameter]
    while pending:
        asked = pending.pop()
        passed = facts.passed.peek((asked.function, asked.name)) or frozenset()
        if not passed or asked.function in facts.called_unseen:
            found.add(asked)
        found.update(atom for atom in passed if not isinstance(atom, Parameter))
        new = {atom for atom in passed if isinstance(atom, Parameter)} - seen
        seen |= new
        pending.extend(new)
    return frozenset(found)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.integers(0, COUNT - 1), st.sampled_from([*PARAMETERS, *OBJECTS])),
            st.tuples(st.integers(0, COUNT - 1), st.none()),
        ),
        max_size=25,
    )
)
def test_answers_follow_what_is_passed(calls: list[tuple[int, Atom | None]]) -> None:
    facts = Facts()
    for callee, passed in calls:
        known = {parameter: gone_through(facts, parameter) for parameter in PARAMETERS}
        readers = {parameter: Reader(parameter.function) for parameter in PARAMETERS}
        for parameter, reader in readers.items():
            facts.visits.read_by(reader, partial(facts.passed.to, parameter))
        if passed is None:
            facts.called_unseen.add([f"f{callee}"])
        else:
            facts.grow(facts.passed, (f"f{callee}", "x"), value(passed))
        for parameter, reader in readers.items():
            found = facts.passed.to(parameter)
            assert found == gone_through(facts, parameter)
            assert reader.is_stale or found == known[parameter]  # who asked before looks again


def test_a_chain_of_thousands_needs_no_depth() -> None:
    facts = Facts()
    for i in range(5000):
        facts.grow(facts.passed, (f"g{i}", "x"), value(Parameter(f"g{i + 1}", "x")))
    assert facts.passed.to(Parameter("g0", "x")) == value(Parameter("g5000", "x"))
    facts.grow(facts.passed, ("g5000", "x"), value(OBJECTS[0]))
    assert facts.passed.to(Parameter("g0", "x")) == value(OBJECTS[0])
