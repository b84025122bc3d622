"""Statistics of tensors of any kind in calls and attributes, and detection of tensors changed by a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_wrapper.process.signal_handlers import comes_from_signal_handler
from proxy_wrapper.values.statistics import bits_of, quickly_summarized, summarize, unobserved
from proxy_wrapper.values.torch_functions import numel
from proxy_wrapper.values.value_marks import version_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import torch

    from proxy_wrapper.known.entries import StateEntry
    from proxy_wrapper.values.statistics import PendingOr

_UNINITIALIZED: Final = frozenset(
    {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
    | {"empty_quantized", "resize_", "resize_as_", "resize_as_sparse_"}
)
"""Functions that return uninitialised memory, whose content is not a value of the program."""

_SMALL_BUFFER: Final = 1 << 16
"""Buffers of up to this many elements are compared before and after a call that takes them, because `batch_norm`
changes running statistics without the version count."""


def leaves_uninitialized(target: str) -> bool:
    """Whether a torch function or method, given by its name, returns uninitialised memory."""
    return target.rpartition(".")[2] in _UNINITIALIZED


def statistics_of(tensors: Sequence[torch.Tensor]) -> tuple[PendingOr, ...]:
    """Statistics of each tensor; None if its values cannot be read. May be called anywhere.

    Never raises. A tensor of any kind, now or in future versions of torch, has None if it cannot be summarised.
    """
    if len(tensors) == 1:  # The common case.
        quick = quickly_summarized(tensors[0])
        if quick is not None:
            return (quick,)
    with unobserved() as readable:
        if not readable:
            return (None,) * len(tensors)
        try:
            return tuple(summarize(tensors))
        except Exception as error:  # noqa: BLE001  Each kind of tensor lacks functions of its own.
            _raise_signal(error)
        return tuple(map(_statistics_of_one, tensors))


def _statistics_of_one(tensor: torch.Tensor) -> PendingOr:
    try:
        return summarize((tensor,))[0]
    except Exception as error:  # noqa: BLE001
        _raise_signal(error)
    return None


def _raise_signal(error: Exception) -> None:
    """Raise `error` if a signal handler of the program raised it while our code ran."""
    if comes_from_signal_handler(error):
        raise error


class CallMarks:
    """Finds out, after a call, which of its arguments it changed in place."""

    __slots__ = ("_buffers", "_tensors", "_versions")

    def __init__(self, tensors: Sequence[torch.Tensor], states: Mapping[int, StateEntry]) -> None:
        """Look at the tensors right before a call. They are kept alive as long as this object.

        Args:
            tensors: the tensors among the arguments.
            states: the entries of parameters and buffers by the last known `id` of their tensors.
        """
        self._tensors = tensors
        self._versions = list(map(version_of, tensors))
        found = [states.get(id(tensor)) for tensor in tensors]
        buffers = [
            position
            for position, (state, tensor) in enumerate(zip(found, tensors, strict=True))
            if state is not None and state.is_buffer and numel(tensor) <= _SMALL_BUFFER
        ]
        self._buffers = dict(zip(buffers, self._bits(buffers), strict=True)) if buffers else {}

    def changed(self, given_back: Sequence[torch.Tensor]) -> dict[int, torch.Tensor]:
        """The tensors that have changed, by position, except those returned by the call."""
        known = {id(tensor) for tensor in given_back}
        buffers = list(self._buffers)
        now = dict(zip(buffers, self._bits(buffers), strict=True)) if buffers else {}
        found: dict[int, torch.Tensor] = {}
        for position, (tensor, version) in enumerate(zip(self._tensors, self._versions, strict=True)):
            if id(tensor) in known or not (
                version_of(tensor) != version or now.get(position) != self._buffers.get(position)
            ):
                continue
            known.add(id(tensor))
            found[position] = tensor
        return found

    def _bits(self, positions: Sequence[int]) -> list[str | None]:
        with unobserved() as readable:
            if readable:
                return bits_of([self._tensors[position] for position in positions])
            return [None] * len(positions)
