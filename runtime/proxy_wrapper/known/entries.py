"""What the registry keeps of each proxied module, each parameter and buffer, and each tensor of optimizer state."""

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
"""Of how many calls of an outermost module the inputs are looked at: what they are like shows soon."""

_DROPOUT_LOOKS: Final = 2
_GRADIENT_LOOKS: Final = 3

_NOTHING: Final[frozenset[str]] = frozenset()


class StateEntry:
    """A parameter or buffer, as `module.<registry>[key]`; the tensor is looked up each time, never kept."""

    __slots__ = (
        "aliases",
        "bypasses_version",
        "data_ptr",
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
        # Nothing here is a container of its own until there is something in it: a large model has many entries, and
        # the garbage collector goes through each container.
        self.aliases: tuple[str, ...] = ()
        # The description that it was last defined or recorded with.
        self.type = ""
        self.device = ""
        self.placements = ""
        self.removed = False
        # Whether it had a gradient coming when it was last defined; how often it was defined again for that.
        self.requires_grad = False
        self.freezings = 0
        # The `id` of the tensor that has the name, as of the last look, and of the one that had it first.
        self.identity = 0
        self.original = 0
        self.version = -1
        self.data_ptr = 0
        self.statistics: PendingOr = None
        # The `id` of a tensor that was found in its place, perhaps for one call only; 0 for none.
        self.put_in = 0
        # Whether an optimizer has stepped with it.
        self.has_optimizer = False
        # It may have changed around the version count; it has been seen to.
        self.suspected = False
        self.bypasses_version = False
        # The last step of an optimizer that changed it and was not recorded; -1 for none.
        self.unrecorded_step = -1
        self.watched = True
        self.has_been_nonfinite: frozenset[str] = _NOTHING
        self.read: frozenset[str] = _NOTHING
        # What optimizers keep for it, where that is followed.
        self.optimizer_state: KeptForParameter | None = None

    def is_absent(self) -> bool:
        """Whether the module has nothing by the name now."""
        module = self.holder.module()
        if module is None:
            return True
        registered: Any = module.__dict__.get("_buffers" if self.is_buffer else "_parameters")
        return isinstance(registered, dict) and registered.get(self.key) is None

    def tensor(self) -> torch.Tensor | None:
        """The tensor that has the name now; None if there is none, or FSDP has put the whole in place of a part."""
        module = self.holder.module()
        if module is None:
            return None
        try:
            registered: Any = module.__dict__["_buffers" if self.is_buffer else "_parameters"]
            tensor: torch.Tensor | None = registered[self.key]
        except (KeyError, TypeError, RuntimeError):  # Taken out; never set up; TorchScript's word for taken out.
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
        "state",
        "state_ids",
        "successor",
        "training",
        "type_name",
        "user",
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
        # `level` is what holds now: that of the settings, or WARNING in an iteration that is not recorded.
        self.level = self.configured_level = level
        self.watch = watch
        self.own_channel = False
        self.own_level = False
        self.own_watch: frozenset[str] = _NOTHING  # The fields of `watch` that were set on it.
        self.recurses = True
        self.proxied_by: CodeType | None = None  # The function of the program that was the last to do so.
        self.registered = -1
        self.state: list[StateEntry] = []
        # The numbers of what the module had whose place this one has taken.
        self.state_ids: dict[tuple[bool, str], int] = {}
        self.has_been_nonfinite = False
        self.calls_seen = True
        self.module_of_type = ""
        # Of a module at the top: the state of the thread that proxied it, called it, or stepped with it last.
        self.user: weakref.ref[object] | None = None
        # How that thread trains; kept when it has ended.
        self.training: Training | None = None
        # Whether it was found among the submodules of another, not only called by it; whether it is there no more.
        self.is_submodule = False
        # How many calls are left: in evaluation mode, in which dropout is looked for; in training mode, of which it is
        # asked whether gradients reach what it puts out.
        self.dropout_looks = _DROPOUT_LOOKS
        self.gradient_looks = _GRADIENT_LOOKS
        self.input_looks = _INPUT_LOOKS  # How many calls are left whose inputs are looked at, where it is outermost.
        self.successor: ModuleEntry | None = None  # That has its number since it is gone.
        self.removed = False

    @property
    def is_paused(self) -> bool:
        """Whether the present iteration is one that is not recorded for this module."""
        return self.level > self.configured_level

    @property
    def was_called(self) -> bool:
        """Whether it was called in training mode by other code than a proxied module."""
        return self.input_looks < _INPUT_LOOKS

    @property
    def plain_name(self) -> str:
        """The name without the words around a wrapper's: what `named_modules` is given for a root."""
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
    """A tensor in `optimizer.state[parameter]`; it is looked up each time, never kept."""

    __slots__ = ("of", "slot", "state_key", "type_name")

    def __init__(self, number: int, of: StateEntry, slot: int, state_key: str | int) -> None:
        """Name a tensor.

        Args:
            number: its id.
            of: the parameter that it is kept for.
            slot: which of the parameter's optimizers keeps it.
            state_key: the key in the optimizer's state of that parameter.
        """
        self.of = of
        self.slot = slot
        self.state_key = state_key
        self.type_name = ""
        super().__init__(number, of.holder, "", is_buffer=False)
        self.name = self.wanted_name()

    def wanted_name(self) -> str:
        """The name that it has now that its parameter is called what it is."""
        return name_of_kept(self.of, self.state_key, self.slot)

    def is_absent(self) -> bool:
        """Whether no optimizer has it now."""
        return self.tensor() is None

    def tensor(self) -> torch.Tensor | None:
        """The tensor that has the name now; None if there is none."""
        kept, parameter = self.of.optimizer_state, self.of.tensor()
        optimizer = None if kept is None else kept.owners[self.slot]()
        if optimizer is None or parameter is None:
            return None
        tensor = state_of(optimizer, parameter).get(self.state_key)
        return tensor if isinstance(tensor, torch.Tensor) else None


class KeptForParameter:
    """What optimizers keep for one parameter: they have slots, which a new one takes over from one that is gone."""

    __slots__ = ("entries", "owners")

    def __init__(self) -> None:
        self.owners: list[weakref.ref[torch.optim.Optimizer]] = []
        self.entries: dict[tuple[int, str | int], OptimizerStateEntry] = {}

    def slot_of(self, optimizer: torch.optim.Optimizer) -> int:
        """The slot of `optimizer`, given to it now if it has none."""
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
    """What `optimizer` keeps for `parameter`; nothing, if it keeps no state as the optimizers of torch do."""
    state = optimizer.__dict__.get("state")
    kept = dict.get(state, parameter) if isinstance(state, dict) else None
    return kept if isinstance(kept, dict) else {}


def name_of_kept(of: StateEntry, key: str | int, slot: int) -> str:
    """The name of what is kept for a parameter, with a number where it is not the first optimizer that keeps it."""
    return f"{of.name}.{key}_{slot}" if slot else f"{of.name}.{key}"
