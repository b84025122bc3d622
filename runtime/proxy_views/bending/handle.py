"""`bend`: has what a model computes replaced, until that is taken back."""

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
    """Have `callback` applied to what `targets` name, on this thread, until the handle is removed.

        with bend(model, "conv_modules.0", Mask(0.3) >> Scale(2.0)):
            model(x)

    The model itself stays as it is: its weights, its hooks, what is saved or copied of it. Gradients go through what is
    bent, and reach the weights. Compiled code runs as it is written meanwhile.

    Args:
        model: a module.
        targets: one regular expression or several, each of which must match a name as a whole. Where it matches
            qualified names of modules, what these give back is bent, at each call. Else, where it matches such names of
            parameters, what the model computes with in their place is. Else what nodes of the graph of a call give: of
            functions ("relu_1"), or of a single call of a module ("conv", at its second call "conv_1").
            "method:name" is for what happens inside that method of the model alone.
        callback: what is applied. Several bends of one target are applied in the order in which they were made.
        kind: "module", "parameter" or "activation", to look among these alone.
        trace: of a call of the model, to take the names of nodes from. Without one they are known when the model is
            called, so that a wrong name of a node is an error only then.

    Returns:
        A handle with `remove`, which also is a context manager.

    Raises:
        BendingError: if a target names nothing, or is none; nothing is bent then.
    """
    if not isinstance(model, nn.Module):
        raise NotBendableError("model", model, "an `nn.Module`")
    if not isinstance(callback, Callback):
        raise NotBendableError("callback", callback, "a callback, such as `Scale(2.0)`,")
    known = None if trace is None else known_names(trace)
    found = [resolve(model, each, kind, known) for each in parse_targets(targets)]
    return Handle(Bend(model, found, callback, is_known=known is not None))


class Handle:
    """What takes a bend back.

    Attributes:
        callback: what is applied.
    """

    def __init__(self, made: Bend) -> None:
        """Put a bend on this thread."""
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
        """How often the callback was applied, recomputation by checkpoints aside."""
        return self._bend.count

    @property
    def is_removed(self) -> bool:
        """Whether it was taken back."""
        return self._calls is None

    def remove(self) -> None:
        """Take the bend back, and leave others as they are. Does nothing the second time."""
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
        raise NotBendableError("a handle", self, "nothing to pickle: a `BendingConfig` can be saved;")
