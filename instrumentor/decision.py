"""The decision about one place in a script, as a plain value for reports and caches."""

from __future__ import annotations

from typing import Literal

import msgspec

from instrumentor.settings import Confidence  # noqa: TC001 - the cache of results resolves the fields' types

DecisionKind = Literal["wrap", "merged", "not wrapped"]
DECISION_KINDS: tuple[DecisionKind, ...] = ("wrap", "merged", "not wrapped")
Relation = Literal["same", "wrapper", "unwrap"]


class Decision(msgspec.Struct, frozen=True):
    """What happens at one place where a module object is created or bound again.

    Attributes:
        verdict: whether a proxy goes here.
        line: first line of the statement, from 1, in the original.
        column: column of the construction, from 0, in characters.
        target: what holds the object, as the script spells it: `model`, `self.net`, `arg0`, `arg:network`,
            `nets["gen"]`, `ensemble[*]`, `return`.
        object: the class or factory as resolved (`torch.nn.Linear`), or as written where it cannot be resolved.
        reason: why, in plain words.
        reason_code: the reason as one word: `constructed`, `factory`, `copied`, `used-as-module` or `declared` for
            wraps; `merged`; else one of `submodule`, `no-params`, `not-module`, `temporary`, `derived`, `absorbed`,
            `returned`, `unreached`, `proxied`, `out-of-sight`, `deselected`, `unsure`, `suppressed`.
        wrapped_at: for `merged`, the line of the site whose proxy covers this object.
        alternatives: for `merged`, further such lines, if the branch taken decides whose proxy covers it.
        relation: for `merged`, how this object relates to the proxied one.
        aliases: later names of the same object, each with the line that binds it.
        class_names: the object's possible classes, dotted; the script's own classes by name.
        read_at: where the first of them was found: a path and a line, "catalogue" or "configuration"; empty if the
            object is known only by its use.
        confidence: how sure the decision is. For wraps, that the object is a module: `certain` by its class or the
            function that makes it, `likely` if it is used as a module or copied from inside one, `possible` if other
            objects are used in the same way. For `merged`, that the place holds no other object: `certain`, or
            `likely` where some code cannot be seen.
        identity: names the object, if it is certain: decisions with the same identity are about the same object.
            Where code runs repeatedly, this holds within each loop iteration and each call of the enclosing function.
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
