"""Errors of the views: one class for each mistake a caller can make, and for each thing that views cannot do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy_wrapper.errors import ProxyError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy_views.places import Frames, Place


class ViewError(ProxyError):
    """The base of all errors that views raise."""


class NotCalledError(ViewError, RuntimeError):
    """The call to be viewed was not made."""

    def __init__(self, name: str, wanted: int, seen: int) -> None:
        calls = "was not called" if not seen else f"was called {seen} time{'s' if seen > 1 else ''}"
        super().__init__(
            f"{name} {calls} in the block on its thread, so there is no call {wanted} to look at. Call the model "
            "itself (`model(x)`, not `model.forward(x)` or another method) inside `with Proxy.trace(model):`. Code "
            "made by `torch.compile` or `torch.export` does not call it: trace the module that they returned."
        )


class CallRaisedError(ViewError, RuntimeError):
    """The call to be viewed ended in an exception."""

    def __init__(self, name: str, call: int) -> None:
        super().__init__(
            f"call {call} of {name} raised an exception, so it has no complete recording. For a later call in "
            f"the block, use `Proxy.trace(model, call={call + 1})`."
        )


class RecordingFailedError(ViewError, RuntimeError):
    """The recording of the call failed."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(
            f"recording failed with {type(error).__name__}: {error}. The program was not disturbed. Please report this."
        )


class StillRunningError(ViewError, RuntimeError):
    """The call to be viewed has not ended."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the recorded call of {name} has not ended; ask for views after it.")


class NotProfiledError(ViewError, RuntimeError):
    """A profile was requested of a block that measured nothing."""

    def __init__(self) -> None:
        super().__init__(
            "the block measured nothing, because measuring is off by default: use `Proxy.trace(model, profile=True)`."
        )


class ClosedError(ViewError, RuntimeError):
    """A view was requested of a closed trace."""

    def __init__(self) -> None:
        super().__init__("the trace was closed, and has released the tensors that views need.")


class TransformError(ViewError, NotImplementedError):
    """The call ran inside a `torch.func` transform, where tensors are wrappers around others."""

    def __init__(self, frames: Frames) -> None:
        self.frames = frames
        super().__init__("it called torch inside a transform")


class InsideTransformError(ViewError, NotImplementedError):
    """The call to be viewed used `torch.func` transforms, or ran inside one."""

    def __init__(self, place: Place | None) -> None:
        where = f" at {place}" if place is not None else ""
        super().__init__(
            f"the model runs inside a transform of `torch.func` (vmap, grad, ...), or uses one{where}. Tensors are "
            "wrappers there, so its single calls make no graph. Trace a call outside of transforms; if the model uses "
            "one, make the function that calls it a single node: `Proxy.trace(model, leaf_functions=[function])`."
        )


class BentInsideError(ViewError, NotImplementedError):
    """Something was bent inside a call that is a single node of the graph, which would compute without the bend."""

    def __init__(self, what: str, node: str, *, is_chosen: bool) -> None:
        remedy = (
            "Remove that from `leaf_modules`, so that there are nodes for what is inside it."
            if is_chosen
            else "It is opaque, so remove the bend before the call, or bend its output instead."
        )
        where = f"inside {node!r}" if node else "inside the model"
        super().__init__(
            f"{what!r} is bent {where}, which is one node of the graph and would compute without the bend. {remedy}"
        )


class NoFlowError(ViewError, RuntimeError):
    """Flow steps were requested, but not recorded."""

    def __init__(self) -> None:
        super().__init__("conditions and loops were not recorded: use `Proxy.trace(model, flow=True)`.")


class UnknownNameError(ViewError, KeyError):
    """No node or module of the graph has the given name."""

    def __init__(self, name: str, near: Sequence[str]) -> None:
        self._message = f"there is no node or module {name!r} in the graph."
        if near:
            self._message += f" Did you mean {' or '.join(map(repr, near))}?"
        super().__init__(self._message)

    def __str__(self) -> str:
        return self._message


class NotAModelError(ViewError, TypeError):
    """The object to trace is not a module."""

    def __init__(self, value: object) -> None:
        super().__init__(f"Proxy.trace expects an `nn.Module`, but received a {type(value).__name__}.")


class LeafFunctionError(ViewError, TypeError):
    """A leaf function is of a kind whose calls cannot be observed."""

    def __init__(self, value: object) -> None:
        super().__init__(
            f"leaf_functions: {value!r} is not a plain Python function, so its calls cannot be observed. Functions of "
            "torch are nodes anyway; for others, pass a Python function that calls them."
        )
