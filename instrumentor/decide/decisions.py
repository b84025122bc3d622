"""The decisions about one script, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from instrumentor.analysis.placement import Placement

DecisionKind = Literal["wrap", "merged", "not wrapped"]
Relation = Literal["same", "wrapper", "unwrap"]


@dataclass(frozen=True)
class Decision:
    """What happens to one place where a module object comes into being or is bound again.

    Attributes:
        verdict: whether a proxy goes here.
        line: first line of the statement, from 1, in the original.
        column: column of the construction, from 0, in characters.
        target: what holds the object as the script spells it: `model`, `self.net`, `arg0`, `arg:network`,
            `nets["gen"]`, `ensemble[*]`, `return`.
        object: the class or factory as resolved (`torch.nn.Linear`), or as written where it cannot be resolved.
        reason: why, in plain words.
        reason_code: why, as a word: `constructed`, `copied` or `used-as-module` for wraps; `merged`; for the rest one
            of `submodule`, `no-params`, `not-module`, `temporary`, `derived`, `absorbed`, `returned`, `proxied`,
            `deselected`, `suppressed`.
        wrapped_at: for `merged`, the line of the site whose proxy covers this object.
        relation: for `merged`, how this object relates to the proxied one.
        aliases: later names of the same object, each with the line that binds it.
    """

    verdict: DecisionKind
    line: int
    column: int
    target: str
    object: str
    reason: str
    reason_code: str
    wrapped_at: int | None = None
    relation: Relation | None = None
    aliases: tuple[tuple[str, int], ...] = ()


class Wrap(NamedTuple):
    """One proxy to be written.

    Attributes:
        placement: where.
        name: what the object is called in the trace.
    """

    placement: Placement
    name: str


@dataclass(frozen=True)
class Plan:
    """All that was decided about one script."""

    decisions: tuple[Decision, ...]
    wraps: tuple[Wrap, ...]
