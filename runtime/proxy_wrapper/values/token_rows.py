"""Compares the tokens that a model reads with the targets of its loss, and with those that its attention leaves out.

Tokens are rows of whole numbers: one row for each sequence. Nothing here knows of tensors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

Rows = list[list[int]]

_FEWEST_COMPARED: Final = 8
_FEWEST_TOKENS: Final = 3
NEXT: Final = 1
"""How far the targets of a language model are ahead."""
_SHIFTS: Final = (NEXT, 0, 2)


class Padding(NamedTuple):
    """How many of the targets are padding, and how many there are."""

    padded: int
    whole: int


def shift_of(tokens: Rows, targets: Rows, ignored: int) -> int | None:
    """By how many places the targets are ahead of the tokens: 0, 1 or 2; None if it is none of these.

    Args:
        tokens: what the model reads.
        targets: what it is to predict, of as many sequences.
        ignored: the target that does not count.
    """
    for shift in _SHIFTS:
        pairs = [
            (target, row[place + shift])
            for row, wanted in zip(tokens, targets, strict=True)
            for place, target in enumerate(wanted)
            if target != ignored and place + shift < len(row)
        ]
        is_told = len(pairs) >= _FEWEST_COMPARED and len({target for target, _ in pairs}) >= _FEWEST_TOKENS
        if is_told and all(target == token for target, token in pairs):
            return shift
    return None


def padding_in(targets: Rows, padding: int) -> Padding | None:
    """How many targets are padding: at the ends of sequences, two or more in one of them; None where there is none."""
    ends = [_run_at_end(row, padding) for row in targets]
    is_any = any(2 <= end < len(row) for end, row in zip(ends, targets, strict=True))
    return Padding(sum(ends), sum(map(len, targets))) if is_any else None


def only_padding_attended(tokens: Rows, attended: Sequence[Sequence[bool]]) -> int | None:
    """The padding, if that is all which an attention does not leave out; None if it is not so.

    It is one token that comes two or more times at one end of a sequence, and nowhere among what is left out, which has
    several tokens.
    """
    kept: set[int] = set()
    left_out: set[int] = set()
    for row, flags in zip(tokens, attended, strict=True):
        for token, flag in zip(row, flags, strict=True):
            (kept if flag else left_out).add(token)
    if len(kept) != 1 or len(left_out) < _FEWEST_TOKENS or kept & left_out:
        return None
    (padding,) = kept
    ends = [max(_run_at_end(row, padding), _run_at_end(row[::-1], padding)) for row in tokens]
    are_ends = all(row.count(padding) == end for row, end in zip(tokens, ends, strict=True))
    return padding if are_ends and max(ends, default=0) >= 2 and min(ends) < max(ends) else None


def _run_at_end(row: Sequence[int], token: int) -> int:
    """How many times a token comes at the end of a row without another one between."""
    return next((place for place, each in enumerate(reversed(row)) if each != token), len(row))
