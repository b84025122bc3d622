"""Counts what is true of a run, by means that have nothing to do with those of the proxy.

Calls are counted in `nn.Module.__call__`, steps in a wrapper around each optimizer's `step`, backward passes in the
functions of `torch.autograd`. Whether values changed is told by copies of their bytes. All of it changes the program's
surroundings, so the run that is counted is one of its own, with the same seed as the plain and the traced ones.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MethodType
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from tests.proxy_wrapper.truth.account import Account, GradientSeen
from tests.proxy_wrapper.truth.numbers import Values, has_nonzero, values_of
from tests.proxy_wrapper.truth.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

M = TypeVar("M", bound="nn.Module")
O = TypeVar("O", bound="torch.optim.Optimizer")  # noqa: E741

_WRAPPERS = (nn.DataParallel, torch.optim.swa_utils.AveragedModel)

_COMPARED_LOOKS = 3
"""The looks at which everybody compares all values."""


@dataclass(frozen=True)
class Look:
    """A parameter or buffer as it was found: the module that has it, torch's marks of it, its values and a copy."""

    holder: nn.Module
    tensor: torch.Tensor
    version: int
    values: Values
    copy: torch.Tensor

    @classmethod
    def at(cls, holder: nn.Module, tensor: torch.Tensor) -> Look:
        """What is found now."""
        return cls(holder, tensor, tensor._version, values_of(tensor), tensor.detach().clone())

    def has_marks_of(self, other: Look) -> bool:
        """Whether nothing but the values can tell this look from the other."""
        return self.tensor is other.tensor and self.version == other.version and self.values.shape == other.values.shape

    def differs_from(self, other: Look) -> bool:
        """Whether values changed since the other look; those that were only converted to another dtype did not."""
        if self.values.dtype is not other.values.dtype:
            return self.values.identity != values_of(other.copy.to(self.values.dtype)).identity
        return self.values.identity != other.values.identity


@dataclass
class Changes:
    """How often a parameter or buffer was changed outside of optimizer steps, as far as one can tell by looking.

    `surely` counts the stretches from one step to the next, or from one step by hand to the next call, in which it
    changed: everybody who looks must see as many. `surely_in_training` counts those after the first step. `unmarked`
    counts those that left no mark but the values and that a step overlaid: the documents do not promise that they are
    told apart from the step, but for the first few looks, which `unmarked_early` counts. `at_most` counts the stretches
    between any two moments at which one may look, with those in which it was only written to, or replaced by its equal.
    """

    surely: int = 0
    surely_in_training: int = 0
    unmarked: int = 0
    unmarked_early: int = 0
    at_most: int = 0


@dataclass
class Truth:
    """What happened in a run."""

    account: Account[Values] = field(default_factory=Account)
    changes: dict[str, Changes] = field(default_factory=lambda: defaultdict(Changes))
    all_bits: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """For each parameter and buffer, the fingerprints of all values that it was found with."""
    nonfinite_state: set[tuple[str, str]] = field(default_factory=set)
    """The parameters that were not finite at some time, and those whose gradients were not."""
    bits_at_steps: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """For each parameter, its fingerprints before the first step of an optimizer that has it, and after each one."""
    buffers: set[str] = field(default_factory=set)
    nonfinite_outputs: dict[str, None] = field(default_factory=dict)
    """The modules that made a tensor non-finite, in order: one that they gave back, or one that they were given."""


class CountedRun(Run):
    """Counts what the program does, between `counting()` and its end."""

    def __init__(self) -> None:
        self.truth = Truth()
        self._models: list[tuple[str, nn.Module]] = []
        self._optimizers: list[torch.optim.Optimizer] = []
        self._thread = _ThreadState()
        self._lock = threading.RLock()
        self._last: dict[str, Look] = {}
        self._last_sure: dict[str, Look] = {}
        self._is_hand_step_due = False
        self._nonfinite: list[torch.Tensor] = []
        self._had_gradient: set[str] = set()
        self._left_gradients: list[tuple[str, Values, list[torch.optim.Optimizer]]] = []
        self._stepped: set[torch.optim.Optimizer] = set()
        self._sure_looks = 0
        self._unmarked: set[str] = set()
        self._being_stepped: set[int] = set()
        self._owners: dict[str, int] = {}

    def model(self, module: M, name: str = "model") -> M:
        """Count for `module` and all below it from now on."""
        with self._lock:
            self._models.append((name, module))
            self._look(is_sure=True, is_first=True)
        return module

    def optimizer(self, optimizer: O) -> O:
        """Count the steps of `optimizer`."""
        with self._lock:
            self._optimizers.append(optimizer)
        original = optimizer.step

        def step(optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> Any:
            return self._step(optimizer, original, args, kwargs)

        vars(optimizer)["step"] = MethodType(step, optimizer)  # Bound, as schedulers want it.
        return optimizer

    def hand_step(self) -> None:
        """A step by hand ends with the changes that were just made."""
        with self._lock:
            self.truth.account.steps += 1
            self._is_hand_step_due = True

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count what the block does."""
        call, backward, grad = nn.Module.__call__, torch.autograd.backward, torch.autograd.grad
        functional_call = torch.func.functional_call
        nn.Module.__call__ = lambda module, *args, **kwargs: self._call(call, module, args, kwargs)  # type: ignore[method-assign]
        torch.autograd.backward = lambda *args, **kwargs: self._backward(backward, args, kwargs)
        torch.autograd.grad = lambda *args, **kwargs: self._backward(grad, args, kwargs, leaves_gradients=False)
        torch.func.functional_call = lambda *args, **kwargs: self._aside(functional_call, args, kwargs)
        try:
            yield
        finally:
            nn.Module.__call__ = call  # type: ignore[method-assign]
            torch.autograd.backward, torch.autograd.grad = backward, grad
            torch.func.functional_call = functional_call
        with self._lock:
            self._owners.clear()
            self._look(is_sure=True)
            self._judge_left_gradients()
            self.truth.account.final = {name: self._last[name].values for name in self._state()}

    # What is counted.

    def _call(self, original: Callable[..., Any], module: nn.Module, args: Any, kwargs: Any) -> Any:
        name = self._module_names().get(id(module))
        if name is None:
            return original(module, *args, **kwargs)
        thread = self._thread
        with self._lock:
            self.truth.account.calls[name] += 1
            self._owners[name.partition(".")[0]] = threading.get_ident()
            if not (thread.depth or thread.is_aside or _is_transformed()):
                self._look(is_sure=self._is_hand_step_due)
                self._is_hand_step_due = False
        thread.depth += 1
        spoilt = _nonfinite_tensors((args, kwargs))
        try:
            result = original(module, *args, **kwargs)
        except BaseException:
            with self._lock:
                self.truth.account.raised[name] += 1
            raise
        finally:
            thread.depth -= 1
        with self._lock:
            self._note_nonfinite(name, spoilt, (args, kwargs, result))
        return result

    def _note_nonfinite(self, name: str, before: list[torch.Tensor], found_in: Any) -> None:
        """Note whether a module has made a tensor non-finite, one of its own or one that it was given."""
        known = {id(tensor) for tensor in (*before, *self._nonfinite)}
        made = [tensor for tensor in _nonfinite_tensors(found_in) if id(tensor) not in known]
        if made:
            self.truth.nonfinite_outputs.setdefault(name)
            self._nonfinite += made

    def _step(self, optimizer: torch.optim.Optimizer, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        thread = self._thread
        tensors = _parameters_of(optimizer)
        if thread.is_stepping or not self._names_of(tensors):
            return original(*args, **kwargs)
        has_closure = bool(args and args[0] is not None) or kwargs.get("closure") is not None
        with self._lock:
            self._owners.update((name.partition(".")[0], threading.get_ident()) for name in self._names_of(tensors))
            self._stepped.add(optimizer)
            self._look(is_sure=True)
            step = self.truth.account.steps
            before = {name: look for name, look in self._last.items() if id(look.tensor) in tensors}
            if not has_closure:
                self._note_gradients(tensors, step)
            self._being_stepped |= tensors
        thread.is_stepping = True
        has_returned = False
        try:
            result = original(*args, **kwargs)
            has_returned = True
        finally:
            thread.is_stepping = False
            with self._lock:
                self._being_stepped -= tensors
                if has_returned:
                    if has_closure:
                        self._note_gradients(tensors, step)
                    self._note_step(before)
                    self.truth.account.optimizer_steps[type(optimizer).__name__] += 1
                    self.truth.account.steps += 1
                    self._is_hand_step_due = False
        return result

    def _backward(self, original: Callable[..., Any], args: Any, kwargs: Any, *, leaves_gradients: bool = True) -> Any:
        with self._lock:
            account = self.truth.account
            account.backward_passes += 1
            if account.nonfinite_loss is None and _nonfinite_tensors((args[:1], kwargs)):
                account.nonfinite_loss = account.steps
            before = {} if _is_transformed() else self._marks_of_gradients()
        result = original(*args, **kwargs)
        if leaves_gradients and not _is_transformed():
            with self._lock:
                self._note_left_gradients(before)
        return result

    def _aside(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call what puts other tensors into a module's place for its own, for the length of one call."""
        thread = self._thread
        before, thread.is_aside = thread.is_aside, True
        try:
            return original(*args, **kwargs)
        finally:
            thread.is_aside = before

    # What is looked at.

    def _module_names(self) -> dict[int, str]:
        """The names of all modules, by the ids of these."""
        names: dict[int, str] = {}
        for root, model in self._models:
            for path, module in model.named_modules():
                names.setdefault(id(module), _name(root, model, path))
        return names

    def _held(self) -> dict[str, tuple[nn.Module, torch.Tensor]]:
        """All parameters and buffers that have values, by their first names, each with the module that has it."""
        found: dict[str, tuple[nn.Module, torch.Tensor]] = {}
        known: set[int] = set()
        for root, model in self._models:
            for is_buffer, members in ((False, model.named_parameters()), (True, model.named_buffers())):
                for path, tensor in members:
                    if id(tensor) in known or is_lazy(tensor):
                        continue
                    known.add(id(tensor))
                    name = _name(root, model, path)
                    found[name] = (model.get_submodule(path.rpartition(".")[0]), tensor)
                    if is_buffer:
                        self.truth.buffers.add(name)
        return found

    def _names_of(self, tensors: set[int]) -> list[str]:
        """The names of the parameters among objects of these ids."""
        return [name for name, tensor in self._state().items() if id(tensor) in tensors]

    def _state(self) -> dict[str, torch.Tensor]:
        return {name: tensor for name, (_, tensor) in self._held().items()}

    def _look(self, *, is_sure: bool, is_first: bool = False) -> None:
        """Note what has changed outside of steps since the last look, but of models that another thread used last.

        That thread may be in the midst of changing them, and will look itself.

        Args:
            is_sure: whether everybody who looks must look now.
            is_first: whether what is new belongs to a model that was just taken up.
        """
        self._sure_looks += is_sure and not is_first
        for name, (holder, tensor) in self._held().items():
            if id(tensor) in self._being_stepped or self._is_elsewhere(name):
                continue
            look = Look.at(holder, tensor)
            self._note_values(name, look)
            changes = self.truth.changes[name]
            before = self._last.get(name)
            if before is None:
                changes.at_most += not is_first  # It may be told as an update that a lazy layer has made it.
            elif look.differs_from(before) or not look.has_marks_of(before):
                changes.at_most += 1
            before = self._last_sure.get(name)
            if is_sure and before is not None and look.holder is before.holder and look.differs_from(before):
                changes.surely += 1
                changes.surely_in_training += self.truth.account.steps > 0
                if look.has_marks_of(before):
                    self._unmarked.add(name)
            self._last[name] = look
            if is_sure:
                self._last_sure[name] = look

    def _is_elsewhere(self, name: str) -> bool:
        """Whether another thread was the last to use the model of what is called `name`: it may be at it now."""
        here = threading.get_ident()
        return self._owners.get(name.partition(".")[0], here) != here

    def _judge_left_gradients(self) -> None:
        """Note the gradients of parameters that no optimizer had which made any step in the whole run."""
        for name, values, takers in self._left_gradients:
            if self._stepped.isdisjoint(takers):
                self.truth.account.left_gradients[name].append(values)
                if values.nonfinite:
                    self.truth.nonfinite_state.add(("gradient", name))

    def _note_values(self, name: str, look: Look) -> None:
        self.truth.all_bits[name].add(look.values.bits)
        if look.values.nonfinite and name not in self.truth.buffers:
            self.truth.nonfinite_state.add(("parameter", name))

    def _note_step(self, before: dict[str, Look]) -> None:
        """Note what a step has changed of the parameters that it has."""
        held = self._held()
        step = self.truth.account.steps
        is_early = self._sure_looks <= _COMPARED_LOOKS
        self._sure_looks += step == 0  # At its first step somebody may look twice.
        for name, old in before.items():
            if name not in held:
                continue
            look = Look.at(*held[name])
            if not self.truth.bits_at_steps[name]:
                self.truth.bits_at_steps[name].add(old.values.bits)
            self.truth.bits_at_steps[name].add(look.values.bits)
            if look.values.identity != old.values.identity:
                self.truth.account.step_updates[name].append(step)
                if name in self._unmarked:
                    changes = self.truth.changes[name]
                    changes.unmarked += 1
                    changes.unmarked_early += is_early
            self._unmarked.discard(name)  # Not before: other models' steps overlay nothing of it.
            self._note_values(name, look)
            self._last[name] = self._last_sure[name] = look

    def _note_gradients(self, tensors: set[int], step: int) -> None:
        """Note the gradients that a step finds."""
        for name, tensor in self._state().items():
            if id(tensor) in tensors:
                values = None if tensor.grad is None else values_of(tensor.grad)
                cleared = name in self._had_gradient and not has_nonzero(values)
                self._had_gradient.discard(name)
                self.truth.account.gradients[name].append(GradientSeen(step, values, cleared))
                if values is not None and values.nonfinite:
                    self.truth.nonfinite_state.add(("gradient", name))

    def _marks_of_gradients(self) -> dict[str, tuple[int, int]]:
        """What tells of each gradient whether a backward pass has added to it since."""
        return {
            name: (id(tensor.grad), tensor.grad._version)
            for name, tensor in self._state().items()
            if not self._is_elsewhere(name) and tensor.is_leaf and tensor.grad is not None
        }

    def _note_left_gradients(self, before: dict[str, tuple[int, int]]) -> None:
        """Note what gradients a backward pass has left: that there are some, and those that no optimizer will take."""
        state = self._state()
        for name, marks in self._marks_of_gradients().items():
            tensor = state[name]
            if tensor.grad is None or marks == before.get(name):
                continue
            values = values_of(tensor.grad)
            if has_nonzero(values):
                self._had_gradient.add(name)
            else:
                self._had_gradient.discard(name)
            takers = [optimizer for optimizer in self._optimizers if id(tensor) in _parameters_of(optimizer)]
            self._left_gradients.append((name, values, takers))


class _ThreadState(threading.local):
    depth = 0
    """How many calls of known modules this thread is in."""
    is_stepping = False
    is_aside = False


def _name(root: str, model: nn.Module, path: str) -> str:
    """The name of what lies at `path` in a model; of one that PyTorch's wrappers hold, as if it were not wrapped."""
    if not isinstance(model, _WRAPPERS):
        return f"{root}.{path}" if path else root
    if path.partition(".")[0] == "module":
        return _name(root, model.module, path.partition(".")[2])
    wrapper = f"{type(model).__name__}({root})"
    return f"{wrapper}.{path}" if path else wrapper


def _parameters_of(optimizer: torch.optim.Optimizer) -> set[int]:
    """The ids of what an optimizer updates."""
    return {id(tensor) for group in optimizer.param_groups for tensor in group["params"]}


def _is_transformed() -> bool:
    """Whether a transform of `torch.func` is under way, in which tensors have no values of their own."""
    return torch._C._functorch.maybe_current_level() is not None


def _nonfinite_tensors(value: Any) -> list[torch.Tensor]:
    """The tensors of a structure that have values which are not finite."""
    if _is_transformed():
        return []
    tensors = [leaf for leaf in torch.utils._pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]
    return [tensor for tensor in tensors if values_of(tensor).nonfinite]
