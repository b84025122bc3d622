"""What was decided about one place in a script, as a plain value: what reports show and caches keep."""

from __future__ import annotations

from typing import Literal

import msgspec

from instrumentor.settings import Confidence  # noqa: TC001 - the cache of results resolves the fields' types

DecisionKind = Literal["wrap", "merged", "not wrapped"]
DECISION_KINDS: tuple[DecisionKind, ...] = ("wrap", "merged", "not wrapped")
Relation = Literal["same", "wrapper", "unwrap"]


class Decision(msgspec.Struct, frozen=True):
    """What happens to one place where a module object comes into being or is bound again.

    Attributes:
        verdict: whether a proxy goes here.
        line: first line of the statement, from 1, in the original.
        column: column of the construction, from 0, in characters.
        target: what holds the object as the script spells it: `model`, `self.net`, `arg0`, `arg:network`,
            `nets["gen"]`, `ensemble[*]`, `return`.
        object: the class or factory as resolved (`torch.nn.Linear`), or as written where it cannot be resolved.
        reason: why, in plain words.
        reason_code: why, as a word: `constructed`, `factory`, `copied`, `used-as-module` or `declared` for wraps;
            `merged`; for the rest one of `submodule`, `no-params`, `not-module`, `temporary`, `derived`, `absorbed`,
            `returned`, `proxied`, `out-of-sight`, `deselected`, `unsure`, `suppressed`.
        wrapped_at: for `merged`, the line of the site whose proxy covers this object.
        alternatives: for `merged`, further lines, where the script's branches decide whose proxy covers it.
        relation: for `merged`, how this object relates to the proxied one.
        aliases: later names of the same object, each with the line that binds it.
        class_names: the classes that the object may have, dotted; those of the script itself by their name.
        read_at: where the first of them was read: a path and a line, "catalogue" or "configuration"; empty for what
            only its use tells.
        confidence: how sure that is. For wraps whether the object is a module: `certain` by its class or the function
            that makes it, `likely` by its use as one or as a copy of what is in one, `possible` by a use that other
            things share. For `merged` whether the place can hold no other object: `certain`, or `likely` where
            something cannot be seen.
        identity: names the object, where it is surely one: decisions with one identity are about one object. Where
            code runs more than once, that is said of each round of the loops and each call of the function around it.
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
    alternatives: tuple[int, ...] = ()
    aliases: tuple[tuple[str, int], ...] = ()
    class_names: tuple[str, ...] = ()
    read_at: str = ""
    confidence: Confidence = "certain"
    identity: str | None = None
