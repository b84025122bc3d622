"""`bend`: changes what a model computes, until the handle is removed."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from torch import nn

from proxy_views.bending.bends import Bend
from proxy_views.bending.bent_calls import BentCalls
from proxy_views.bending.callback import Callback
from proxy_views.bending.errors import NotBendableError
from proxy_views.bending.known_names import known_names
from proxy_views.bending.methods import watch_methods
from proxy_views.bending.targets import parse_targets, resolve
from proxy_wrapper.proxy import change_of_thread

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Self

    from proxy_views.live_trace import LiveTrace


def bend(
    model: nn.Module,
    targets: str | Iterable[str],
    callback: Callback,
    *,
    kind: str | None = None,
    trace: LiveTrace | None = None,
) -> Handle:
    """Apply `callback` to everything that `targets` match, on this thread, until the handle is removed.

        with bend(model, "conv_modules.0", Mask(0.3) >> Scale(2.0)):
            model(x)

    The model itself does not change: its weights, its hooks, and copies and saved files of it. Gradients flow through
    bent values to the weights. While a bend is active, compiled code runs uncompiled.

    Args:
        model: a module.
        targets: one or more regular expressions, each of which must match a full name. If one matches qualified names
            of modules, their outputs are bent at each call. Else, if it matches qualified names of parameters, the
            values that the model uses for them are bent. Else it refers to nodes in the graph of a call: calls of
            functions ("relu_1"), or single calls of a module ("conv", its second call "conv_1"). "method:name"
            restricts a target to what runs inside that method of the model.
        callback: what to apply. Several bends of one target are applied in order of creation.
        kind: "module", "parameter" or "activation", to consider only these.
        trace: a trace of a call of the model, which provides the names of nodes. Without one, they are only known when
            the model is called, and a wrong name is an error only then.

    Returns:
        A handle with `remove`, which is also a context manager.

    Raises:
        BendingError: if a target is invalid or matches nothing. Nothing is bent then.
    """
    if not isinstance(model, nn.Module):
        raise NotBendableError("model", model, "an `nn.Module`")
    if not isinstance(callback, Callback):
        raise NotBendableError("callback", callback, "a callback such as `Scale(2.0)`")
    known = None if trace is None else known_names(trace)
    found = [resolve(model, each, kind, known) for each in parse_targets(targets)]
    return Handle(Bend(model, found, callback, is_known=known is not None))


class Handle:
    """Removes a bend.

    Attributes:
        callback: what is applied.
    """

    def __init__(self, made: Bend) -> None:
        """Activate a bend on this thread."""
        self._bend = made
        self.callback = made.callback
        self._lock = threading.Lock()
        present = change_of_thread()
        calls = present if isinstance(present, BentCalls) else BentCalls()
        self._calls: BentCalls | None = calls
        calls.bend_with((*calls.bends, made))
        if calls is not present:
            calls.begin()
        self._watches = watch_methods(made, calls)

    @property
    def count(self) -> int:
        """How often the callback was applied, not counting recomputation by checkpoints."""
        return self._bend.count

    @property
    def is_removed(self) -> bool:
        """Whether the bend was removed."""
        return self._calls is None

    def remove(self) -> None:
        """Remove the bend, and leave others in place. Calling it again does nothing."""
        with self._lock:
            calls, self._calls = self._calls, None
            if calls is None:
                return
            for each in self._watches:
                each.end()
            calls.bend_with([each for each in calls.bends if each is not self._bend])
            if not calls.bends:
                calls.end_on_own_thread()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()

    def __repr__(self) -> str:
        targets = ", ".join(repr(target.text) for target in self._bend.targets)
        state = "removed" if self.is_removed else f"applied {self.count} times"
        return f"<bend of {targets} by {self.callback!r}, {state}>"

    def __reduce__(self) -> Any:
        raise NotBendableError("a handle", self, "nothing to pickle (a `BendingConfig` can be saved)")
