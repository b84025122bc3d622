"""Compares the tokens that a model reads with the targets of its loss, and with those that its attention masks.

Tokens are rows of integers, one row for each sequence. Nothing here uses tensors.
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
    """The number of targets that are padding, and the number of all targets."""

    padded: int
    whole: int


def shift_of(tokens: Rows, targets: Rows, ignored: int) -> int | None:
    """By how many places the targets are ahead of the tokens: 0, 1 or 2; None if none of these, or undecidable.

    Args:
        tokens: the input of the model.
        targets: what it is to predict, for the same number of sequences.
        ignored: the target that the loss ignores.
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
    """The padding at the ends of target sequences, if one has two or more; None if there is none."""
    ends = [_run_at_end(row, padding) for row in targets]
    is_any = any(2 <= end < len(row) for end, row in zip(ends, targets, strict=True))
    return Padding(sum(ends), sum(map(len, targets))) if is_any else None


def labels_of_padding(tokens: Rows, labels: Rows, padding: int, ignored: int) -> Padding | None:
    """The padding in sequences of which each token has a label, if the padding has one too; else None.

    The same label must stand at all padding, and not be the ignored one. There must be several padding tokens, and the
    other tokens must have several different labels.

    Args:
        tokens: the input of the model.
        labels: one label for each token.
        padding: the padding token.
        ignored: the label that the loss ignores.
    """
    pairs = [pair for row, given in zip(tokens, labels, strict=True) for pair in zip(row, given, strict=True)]
    of_padding = [label for token, label in pairs if token == padding]
    others = {label for token, label in pairs if token != padding} - {ignored}
    is_labeled = len(set(of_padding)) == 1 and ignored not in of_padding and len(of_padding) > 1 and len(others) > 1
    return Padding(len(of_padding), len(pairs)) if is_labeled else None


def only_padding_attended(tokens: Rows, attended: Sequence[Sequence[bool]]) -> int | None:
    """The padding token, if it is the only token that an attention does not mask; else None.

    It must occur two or more times at one end of a sequence, and never among the masked tokens, of which there must be
    several different ones.
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
    """The length of the run of `token` at the end of a row."""
    return next((place for place, each in enumerate(reversed(row)) if each != token), len(row))
