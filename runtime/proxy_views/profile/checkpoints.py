"""Detects that autograd recomputes program code for an activation checkpoint, and where that first ran."""

from __future__ import annotations

from types import MethodType
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary, ref

import torch
from torch.utils import checkpoint

if TYPE_CHECKING:
    from proxy_views.profile.calls import Scope

_top: Final = torch._C._autograd._top_saved_tensors_default_hooks
_REENTRANT: Final = "CheckpointFunctionBackward"
_FORWARD: Final = "_checkpoint_hook.__init__.<locals>.pack_hook"
_RECOMPUTING: Final = "_recomputation_hook.__init__.<locals>.pack_hook"


class Checkpoints:
    """Recognises checkpoints by their saved-tensor hooks and by their nodes."""

    def __init__(self) -> None:
        self._scopes: WeakKeyDictionary[Any, Scope] = WeakKeyDictionary()

    def note(self, scope: Scope) -> None:
        """Note that calls are made in `scope`, which belongs to the checkpoint that has just begun, if one has."""
        top = _top(True)
        if top is not None and getattr(top[0], "__qualname__", "") == _FORWARD:
            frame = _held_by(top[0], "frame")
            if frame is not None:
                self._scopes.setdefault(frame, scope)

    def is_recomputing(self, node: Any) -> bool:
        """Whether the running `node` recomputes the function of a checkpoint."""
        top = _top(True)
        if top is not None and _name_of(top[0]) == _RECOMPUTING:
            return True
        return type(node).__name__ == _REENTRANT and isinstance(node, checkpoint.CheckpointFunction._backward_cls)

    def scope(self) -> Scope | None:
        """Where the recomputed checkpoint was called; None if unknown."""
        top = _top(True)
        held = None if top is None else _held_by(top[0], "target_frame_ref")
        frame = held() if isinstance(held, ref) else None
        return None if frame is None else self._scopes.get(frame)


def _name_of(hook: Any) -> str:
    """Where a hook function was defined. Checkpoints use functions; ours is a method, and is asked most often."""
    if type(hook) is MethodType:
        return ""
    return str(getattr(getattr(hook, "__wrapped__", hook), "__qualname__", ""))


def _held_by(hook: Any, name: str) -> Any:
    """The value of the variable `name` that a closure holds."""
    function = getattr(hook, "__wrapped__", hook)
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    if code is None or not cells or name not in code.co_freevars:
        return None
    return cells[code.co_freevars.index(name)].cell_contents
