"""Sites to decisions, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["wrap", "merged", "not wrapped"]
Relation = Literal["same", "wrapper", "unwrap"]


@dataclass(frozen=True)
class Decision:
    """What happens to one place where a module object comes into being or is bound again.

    Attributes:
        verdict: whether a proxy goes here.
        line: first line of the statement, from 1, in the original.
        column: column of the construction, from 0, in characters.
        target: what holds the object as the script spells it (`model`, `self.net`, `argument of train()`).
        object: the class or factory as resolved (`torch.nn.Linear`), or as written where it cannot be resolved.
        reason: why, in plain words.
        reason_code: why, as a word: `constructed` and the like for wraps; for the rest `merged` or one of
            `submodule`, `no-params`, `not-module`, `temporary`, `derived`, `absorbed`, `deselected`, `suppressed`.
        wrapped_at: for `merged`, the line of the site whose proxy covers this object.
        relation: for `merged`, how this object relates to the proxied one.
        aliases: later names of the same object, each with the line that binds it.
    """

    verdict: Verdict
    line: int
    column: int
    target: str
    object: str
    reason: str
    reason_code: str
    wrapped_at: int | None = None
    relation: Relation | None = None
    aliases: tuple[tuple[str, int], ...] = ()
