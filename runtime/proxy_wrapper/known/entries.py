"""The registry's entries for proxied modules, parameters, buffers and tensors of optimizer state."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Final

import torch

from proxy_wrapper.values.distributed_tensors import is_gathered

if TYPE_CHECKING:
    from types import CodeType

    from torch import nn

    from proxy_wrapper.known.training import Training
    from proxy_wrapper.known.watch import Watch
    from proxy_wrapper.values.statistics import PendingOr
    from proxy_wrapper.writing.channel import Channel

_INPUT_LOOKS: Final = 3
_EVALUATION_LOOKS: Final = 2
"""The number of calls of an outermost module whose inputs are examined. A few show what they are like."""

_DROPOUT_LOOKS: Final = 2
_GRADIENT_LOOKS: Final = 3

_NOTHING: Final[frozenset[str]] = frozenset()


class StateEntry:
    """A parameter or buffer, as `module.<registry>[key]`. The tensor is looked up each time, and never stored."""

    __slots__ = (
        "aliases",
        "bypasses_version",
        "data_ptr",
        "derived",
        "device",
        "freezings",
        "has_been_nonfinite",
        "has_optimizer",
        "holder",
        "id",
        "identity",
        "is_buffer",
        "key",
        "name",
        "optimizer_state",
        "original",
        "placements",
        "put_in",
        "read",
        "removed",
        "requires_grad",
        "statistics",
        "suspected",
        "type",
        "unrecorded_step",
        "version",
        "watched",
    )

    def __init__(self, number: int, holder: ModuleEntry, key: str, *, is_buffer: bool) -> None:
        self.id = number
        self.holder = holder
        self.key = key
        self.is_buffer = is_buffer
        self.name = f"{holder.name}.{key}"
        # No attribute is a container until it has content, because a large model has many entries, and the garbage
        # collector traverses each container.
        self.aliases: tuple[str, ...] = ()
        # The description in its last definition or record.
        self.type = ""
        self.device = ""
        self.placements = ""
        self.removed = False
        # Whether the tensor in its last definition was the result of a computation with a graph.
        self.derived = False
        # Whether it required a gradient when last defined; how often it was redefined because that changed.
        self.requires_grad = False
        self.freezings = 0
        # The `id` of the tensor with this name at the last check, and of the first tensor with this name.
        self.identity = 0
        self.original = 0
        self.version = -1
        self.data_ptr = 0
        self.statistics: PendingOr = None
        # The `id` of a tensor found in its place, perhaps for a single call; 0 for none.
        self.put_in = 0
        # Whether an optimizer has stepped with it.
        self.has_optimizer = False
        # Whether it may have changed without its version count, and whether it was seen to do so.
        self.suspected = False
        self.bypasses_version = False
        # The last optimizer step that changed it and was not recorded; -1 for none.
        self.unrecorded_step = -1
        self.watched = True
        self.has_been_nonfinite: frozenset[str] = _NOTHING
        self.read: frozenset[str] = _NOTHING
        # The optimizer state kept for it, if that is tracked.
        self.optimizer_state: KeptForParameter | None = None

    def is_absent(self) -> bool:
        """Whether the module currently has nothing of that name."""
        module = self.holder.module()
        if module is None:
            return True
        registered: Any = module.__dict__.get("_buffers" if self.is_buffer else "_parameters")
        return isinstance(registered, dict) and registered.get(self.key) is None

    def tensor(self) -> torch.Tensor | None:
        """The tensor that currently has the name; None if there is none, or if FSDP has put the whole for a shard."""
        module = self.holder.module()
        if module is None:
            return None
        try:
            registered: Any = module.__dict__["_buffers" if self.is_buffer else "_parameters"]
            tensor: torch.Tensor | None = registered[self.key]
        except (KeyError, TypeError, RuntimeError):  # Removed; not initialised; removed in TorchScript.
            return None
        if self.placements and tensor is not None and is_gathered(tensor, self.placements):
            return None
        return tensor


class ModuleEntry:
    """A proxied module."""

    __slots__ = (
        "__weakref__",
        "calls_seen",
        "channel",
        "configured_level",
        "dropout_looks",
        "evaluation_looks",
        "gradient_looks",
        "has_been_nonfinite",
        "id",
        "input_looks",
        "is_submodule",
        "level",
        "module",
        "module_of_type",
        "name",
        "own_channel",
        "own_level",
        "own_watch",
        "parent",
        "proxied_by",
        "recurses",
        "registered",
        "removed",
        "repeated",
        "repeated_at",
        "state",
        "state_ids",
        "successor",
        "training",
        "type_name",
        "user",
        "was_sought",
        "watch",
    )

    def __init__(
        self,
        number: int,
        module: weakref.ref[nn.Module],
        name: str,
        type_name: str,
        parent: ModuleEntry | None,
        channel: Channel,
        level: int,
        watch: Watch,
    ) -> None:
        self.id = number
        self.module = module
        self.name = name
        self.type_name = type_name
        self.parent = parent
        self.channel = channel
        # `level` is the effective one: that of the settings, or WARNING in an iteration that is not recorded.
        self.level = self.configured_level = level
        self.watch = watch
        self.own_channel = False
        self.own_level = False
        self.own_watch: frozenset[str] = _NOTHING  # The fields of `watch` that were set on it directly.
        self.recurses = True
        self.proxied_by: CodeType | None = None  # The program's function that last proxied it.
        self.registered = -1
        self.state: list[StateEntry] = []
        # The ids of the state of the module that this one has replaced.
        self.state_ids: dict[tuple[bool, str], int] = {}
        self.has_been_nonfinite = False
        self.calls_seen = True
        self.module_of_type = ""
        self.repeated = 0
        self.repeated_at = 0  # The line that multiplies the module, if no attribute is assigned there.
        # For a top module: the state of the thread that last proxied it, called it, or stepped with it.
        self.user: weakref.ref[object] | None = None
        # How that thread trains. This is kept after the thread ends.
        self.training: Training | None = None
        # Whether it was found among another's submodules, not only called by it; whether it is no longer there.
        self.is_submodule = False
        # The remaining calls to check: for active dropout, in evaluation mode; for outputs that gradients cannot reach,
        # in training mode.
        self.dropout_looks = _DROPOUT_LOOKS
        self.gradient_looks = _GRADIENT_LOOKS
        # The remaining calls as outermost module whose inputs are examined, in training mode and after it.
        self.input_looks = _INPUT_LOOKS
        self.evaluation_looks = _EVALUATION_LOOKS
        self.successor: ModuleEntry | None = None  # The module that took over its id when it was freed.
        self.removed = False
        self.was_sought = False  # For a top module: in the tree of the one that called it.

    @property
    def is_paused(self) -> bool:
        """Whether the current iteration is not recorded for this module."""
        return self.level > self.configured_level

    @property
    def was_called(self) -> bool:
        """Whether it was called in training mode by code outside all proxied modules."""
        return self.input_looks < _INPUT_LOOKS

    @property
    def plain_name(self) -> str:
        """The name without the class of a wrapper, as passed to `named_modules` for a root."""
        prefix = f"{self.type_name}("
        return self.name[len(prefix) : -1] if self.name.startswith(prefix) else self.name

    @property
    def top(self) -> ModuleEntry:
        """The topmost module above this one."""
        entry = self
        while entry.parent is not None:
            entry = entry.parent
        return entry

    @property
    def root(self) -> ModuleEntry:
        """The topmost module above this one whose events go to the same channel."""
        entry = self
        while entry.parent is not None and entry.parent.channel is self.channel:
            entry = entry.parent
        return entry


class OptimizerStateEntry(StateEntry):
    """A tensor in `optimizer.state[parameter]`. It is looked up each time, and never stored."""

    __slots__ = ("of", "slot", "state_key", "type_name")

    def __init__(self, number: int, of: StateEntry, slot: int, state_key: str | int) -> None:
        """Create the entry.

        Args:
            number: its id.
            of: the parameter that the tensor is kept for.
            slot: the slot of the optimizer that keeps it.
            state_key: the key in the optimizer's state for that parameter.
        """
        self.of = of
        self.slot = slot
        self.state_key = state_key
        self.type_name = ""
        super().__init__(number, of.holder, "", is_buffer=False)
        self.name = self.wanted_name()

    def wanted_name(self) -> str:
        """The name that follows from the current name of its parameter."""
        return name_of_kept(self.of, self.state_key, self.slot)

    def is_absent(self) -> bool:
        """Whether no optimizer currently has it."""
        return self.tensor() is None

    def tensor(self) -> torch.Tensor | None:
        """The tensor that currently has the name; None if there is none."""
        kept, parameter = self.of.optimizer_state, self.of.tensor()
        optimizer = None if kept is None else kept.owners[self.slot]()
        if optimizer is None or parameter is None:
            return None
        tensor = state_of(optimizer, parameter).get(self.state_key)
        return tensor if isinstance(tensor, torch.Tensor) else None


class KeptForParameter:
    """The state that optimizers keep for one parameter. Each has a slot; a new one reuses the slot of a freed one."""

    __slots__ = ("entries", "owners")

    def __init__(self) -> None:
        self.owners: list[weakref.ref[torch.optim.Optimizer]] = []
        self.entries: dict[tuple[int, str | int], OptimizerStateEntry] = {}

    def slot_of(self, optimizer: torch.optim.Optimizer) -> int:
        """The slot of `optimizer`, assigned now if it has none."""
        free = len(self.owners)
        for slot, owner in enumerate(self.owners):
            found = owner()
            if found is optimizer:
                return slot
            if found is None and free == len(self.owners):
                free = slot
        self.owners[free : free + 1] = [weakref.ref(optimizer)]
        return free


def state_of(optimizer: torch.optim.Optimizer, parameter: torch.Tensor) -> dict[Any, Any]:
    """The state that `optimizer` keeps for `parameter`; empty if it does not keep state as torch's optimizers do."""
    state = optimizer.__dict__.get("state")
    kept = dict.get(state, parameter) if isinstance(state, dict) else None
    return kept if isinstance(kept, dict) else {}


def name_of_kept(of: StateEntry, key: str | int, slot: int) -> str:
    """The name of a tensor kept for a parameter, with a number unless its optimizer is the first."""
    return f"{of.name}.{key}_{slot}" if slot else f"{of.name}.{key}"
