"""Tells from the names of variables which data are for training, and which are held out for validation and tests."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

TRAINING: Final = frozenset({"train", "training", "tr", "trn"})
HELD_OUT: Final = frozenset(
    {"test", "testing", "te", "tst", "val", "valid", "validate", "validation", "eval", "dev", "holdout"}
)

_BREAKS: Final = re.compile(r"[_.]|(?<=[a-z])(?=[A-Z])")
_JOINED: Final = re.compile(
    r"(train|training|test|val|valid|validation|dev)(data|dataset|dl|ds|generator|iter|loader|dataloader|set)"
)


class Role(NamedTuple):
    """What the name of a variable tells: `val_loader` is held out, and is called `loader` besides."""

    is_training: bool
    is_held_out: bool
    rest: tuple[str, ...]


def words_of(name: str) -> list[str]:
    """The words of a name, in lower case; `xtrain` and `trainloader` count as two."""
    words: list[str] = []
    for word in (each.lower() for each in _BREAKS.split(name) if each):
        if joined := _JOINED.fullmatch(word):
            words += joined.groups()
        elif word[0] in "xy" and word[1:] in TRAINING | HELD_OUT:
            words += [word[0], word[1:]]
        else:
            words.append(word)
    return words


def role_of(name: str) -> Role:
    """The role of a variable, or of an attribute without what it belongs to."""
    words = words_of(name)
    rest = tuple(word for word in words if word not in TRAINING | HELD_OUT)
    return Role(not TRAINING.isdisjoint(words), not HELD_OUT.isdisjoint(words), rest)
