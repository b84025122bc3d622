"""Which decisions may interest a reader: few of a tree's calls make anything that looks like a model."""

from __future__ import annotations

import re

# Common names of models, and of what makes or keeps them.
_MODEL_NAME = re.compile(
    r"(?i:model|encoder|decoder|generator|discriminator|critic|actor|backbone|teacher|student|policy|train(?:er|ee))"
    r"|(?i:agent|learner)|(?<![A-Za-z])(?:[Nn]et(?:s|work)?|ema|EMA)(?![a-z])|[a-z](?:Net|EMA)(?![a-z])"
)


def may_pass_for_model(decision: str, code: str, target: str, made: str) -> bool:
    """Whether a reader may ask what happened to an object: not for optimizers, data, or a module's own layers.

    Args:
        decision: "wrap", "merged" or "not wrapped".
        code: the reason as one word.
        target: what holds the object.
        made: the class or factory.
    """
    if decision != "not wrapped":
        return True
    if code == "submodule":
        return not target.startswith("self.")
    if code == "not-module":
        return bool(_MODEL_NAME.search(target) or _MODEL_NAME.search(made.rpartition(".")[2]))
    return True
