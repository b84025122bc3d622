"""Observes what autograd saves for the backward pass, by torch's saved-tensor hooks, without changing it."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import torch
from torch._C import DisableTorchFunction
from torch.autograd import graph
from torch.utils._python_dispatch import _disable_current_modes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_hooks: Final = torch._C._autograd
_WITHOUT_DISPATCH: Final = torch._C._DisableTorchDispatch
_PLAIN: Final = (torch.Tensor, torch.nn.Parameter)


class SavingSeen(Protocol):
    """Is notified of saved tensors."""

    def saved(self, tensor: torch.Tensor) -> bool:
        """Note that `tensor` is being saved. Returns whether it is an output of the operation that saves it."""


class _Kept:
    """A tensor saved by autograd, with its version count at that time."""

    __slots__ = ("is_output", "output_number", "tensor", "version")

    def __init__(self, tensor: torch.Tensor, version: int | None, output_number: int, *, is_output: bool) -> None:
        self.tensor, self.version, self.output_number, self.is_output = tensor, version, output_number, is_output


class SavedTensors:
    """Notifies `seen` of what the calling thread's autograd saves, from `install` to `remove`."""

    def __init__(self, seen: SavingSeen) -> None:
        self._seen = seen
        self._is_pushed = False
        self._disable: Callable[[str], Any] | None = None
        self._replacement: Callable[[str], Any] | None = None

    def install(self) -> None:
        """Install the hooks, unless hooks are forbidden: inside a transform of `torch.func`."""
        self._guard_transforms()
        self.push()

    def remove(self) -> None:
        """Remove the hooks."""
        self.pop()
        if graph.disable_saved_tensors_hooks is self._replacement and self._disable is not None:
            graph.disable_saved_tensors_hooks = self._disable  # type: ignore[assignment]

    def push(self) -> bool:
        """Push the hooks; True if that was possible."""
        if self._is_pushed or _hooks._saved_tensors_hooks_get_disabled_error_message() is not None:
            return False
        _hooks._push_saved_tensors_default_hooks(self._pack, self._unpack)
        self._is_pushed = True
        return True

    def pop(self) -> bool:
        """Pop the hooks; True if they were installed and on top."""
        if not self._is_pushed or not self.are_asked():
            return False
        _hooks._pop_saved_tensors_default_hooks()
        self._is_pushed = False
        return True

    def are_asked(self) -> bool:
        """Whether autograd calls our hooks, and not hooks of the program on top of them."""
        top = _hooks._top_saved_tensors_default_hooks(True)
        return top is not None and getattr(top[0], "__self__", None) is self

    def _guard_transforms(self) -> None:
        """Keep the transforms of `torch.func` from refusing because of our hooks; they forbid all hooks."""
        original = graph.disable_saved_tensors_hooks

        @contextmanager
        def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
            was_asked = self.pop()
            try:
                with original(error_message):
                    yield
            finally:
                if was_asked:
                    self.push()

        self._disable, self._replacement = original, disable_saved_tensors_hooks
        graph.disable_saved_tensors_hooks = disable_saved_tensors_hooks

    def _pack(self, tensor: torch.Tensor) -> _Kept:
        with DisableTorchFunction():
            is_output = self._seen.saved(tensor)
            version = None if tensor.is_inference() else tensor._version
            number = tensor.output_nr
            if is_output and not tensor.is_leaf:
                # An output knows the node that saves it: each would keep the other alive.
                tensor = _detached(tensor)
        return _Kept(tensor, version, number, is_output=is_output)

    def _unpack(self, kept: _Kept) -> torch.Tensor:
        with DisableTorchFunction():
            if kept.version is not None and kept.tensor._version != kept.version:
                was_asked = self.pop()
                try:
                    message = _changed_in_place(kept)
                finally:
                    if was_asked:
                        self.push()
                raise RuntimeError(message)
        return kept.tensor


def _detached(tensor: torch.Tensor) -> torch.Tensor:
    if type(tensor) in _PLAIN:
        with _WITHOUT_DISPATCH():
            return tensor.detach()
    with _disable_current_modes():
        return tensor.detach()


def _changed_in_place(kept: _Kept) -> str:
    """Torch's message about a tensor changed in place between the passes, which torch omits if there are hooks."""
    tensor = kept.tensor
    sizes = tensor._nested_tensor_size() if tensor.is_nested else list(tensor.shape)
    maker = torch._C._current_autograd_node() if kept.is_output else tensor.grad_fn
    torchs = _words_of_torch()
    name = "" if maker is None else maker.name()
    if torchs.is_short:  # It omits the common suffix of node names.
        name = re.sub(r"Backward\d*$", "", name)
    by = f", which is output {kept.output_number} of {name}," if name else ""
    hint = torchs.hint
    if torch.is_anomaly_enabled():
        hint = (
            "Hint: the backtrace further above shows the operation that failed to compute its gradient. The variable "
            "in question was changed in there or anywhere later. Good luck!"
        )
    return (
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[{tensor.type()} {sizes}]{by} is at version {tensor._version}; "
        f"expected version {kept.version} instead. {hint}"
    )


class _Words(NamedTuple):
    """How this release of torch words that error: its last sentence, and whether it shortens node names."""

    hint: str
    is_short: bool


def _words_of_torch() -> _Words:
    """Extract them from an error that is provoked for this."""
    said = ""
    with _disable_current_modes(), torch.autograd.set_detect_anomaly(False), torch.enable_grad():
        leaf = torch.ones(1, dtype=torch.float32, requires_grad=True)
        changed = leaf.exp()
        changed.add_(1)
        try:
            torch.autograd.grad(changed, leaf)
        except RuntimeError as error:
            said = str(error)
    if "Hint:" not in said:  # The program's own hooks are on top, so torch checks for no changes.
        return _Words("Hint: enable anomaly detection to find the operation that failed.", is_short=False)
    return _Words(said[said.index("Hint:") :], is_short="ExpBackward" not in said)
