"""Which objects a function makes and, in some run, drops without returning them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instrumentor.analysis.values import Made, Value, strip

if TYPE_CHECKING:
    from collections.abc import Iterable

    from instrumentor.analysis.environment import Environment, Number, Path
    from instrumentor.analysis.facts import Facts


def note_overwritten(facts: Facts, scope: str, env: Environment, path: Path, held: Value) -> None:
    """Record the objects that nothing in `env` surely holds once `path` holds another value."""
    old = env.get(path)
    own = _own_objects(facts, scope, old) if old else frozenset()
    if not own:
        return
    new = facts.contents.reach(held)
    before = facts.contents.reach(old or held)
    is_handed_on = frozenset(strip(atom) for atom in new) == frozenset(strip(atom) for atom in before)
    if new and is_handed_on:
        return
    makers = [facts.site_of(atom) for atom in new if isinstance(atom, Made)]
    # An object made from another may keep it. A copy does not, and a function's summary says what its result keeps.
    keepers = [maker for maker in makers if not maker.is_copy and not maker.origins]
    given = frozenset(atom for maker in keepers for atom in facts.arguments_of(maker))
    number = env.number(path)
    if number is not None and any(other != path for other in env.numbered(number)):
        return
    facts.note_dropped(atom for atom in own - given if not _is_held_beside(env, path, atom))


def _is_held_beside(env: Environment, path: Path, atom: Made) -> bool:
    """Whether a path other than `path` holds an object and nothing else."""
    others = [env.get(other) or () for other in env.holding(atom) if other != path]
    return any({strip(each) for each in held} == {atom} for held in others)


def note_left_behind(facts: Facts, scope: str, env: Environment, returned: Value, numbers: Iterable[Number]) -> None:
    """Record the objects held in `env` that are not surely among those returned."""
    known = [number for number in numbers if number is not None]
    given = frozenset(strip(atom) for atom in facts.contents.reach(returned))
    for path in env.paths():
        own = _own_objects(facts, scope, env.get(path) or frozenset())
        if own and env.numbers.get(path) not in known and not given <= own:
            facts.note_dropped(own)
        facts.note_dropped(own - given)


def _own_objects(facts: Facts, scope: str, held: Value) -> frozenset[Made]:
    return frozenset(
        [atom for each in held if type(atom := strip(each)) is Made and facts.site_of(atom).scope == scope]
    )
