"""Measures a run: its calls, what autograd saves for them, and the module and call of each backward call."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
from torch._C import DisableTorchFunction
from torch.utils._pytree import tree_leaves

from proxy_views.profile.call_mode import CallMode
from proxy_views.profile.calls import BackwardCall, Call, Scope
from proxy_views.profile.checkpoints import Checkpoints
from proxy_views.profile.errors import StillProfilingError
from proxy_views.profile.flops import formula_of
from proxy_views.profile.plain_functions import FunctionCalls
from proxy_views.profile.saved_tensors import SavedTensors
from proxy_views.profile.state_sizes import StateSizes
from proxy_views.profile.storages import Storages
from proxy_views.profile.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from torch import nn

    from proxy_views.profile.device import Device
    from proxy_views.profile.flops import Convention, Formula
    from proxy_views.profile.node_rows import NodeRows
    from proxy_views.profile.report import Profile
    from proxy_views.profile.storages import Data

_TENSOR: Final = torch._C.TensorBase
_COLLECTIVES: Final = frozenset(("c10d", "_c10d_functional", "c10d_functional", "_c10d_functional_autograd"))
_current_node: Final = torch._C._current_autograd_node
_sequence: Final = torch._C._autograd._get_sequence_nr


class _Operation(NamedTuple):
    """An operation, and what is common to all its calls."""

    operation: Any
    formula: Formula
    is_collective: bool


class Profiler:
    """Measures what the calling thread does between `begin` and `end`, and what autograd does for it.

    It keeps no tensor alive, and does not change results. Its caller must notify it of module calls (`enter`,
    `leave`); otherwise everything counts as outside of the model.

    The run is a real one: running statistics and the random state change as usual.
    """

    def __init__(self, model: nn.Module | None, place_now: Callable[[], int] | None = None) -> None:
        """Prepare without measuring.

        Args:
            model: the model whose modules have rows; None if only the sums are wanted.
            place_now: returns a number for the program's present place, for use in `node_rows`; 0 for none.
        """
        self._model = model
        self._place_now = place_now
        self._type_names: dict[str, str] = {}
        self._names: dict[int, str] = {}
        self._sizes = StateSizes()
        self._storages = Storages()
        self._known: dict[int, _Operation] = {}  # By id, because hashing an operation costs more.
        self._outside = Scope(None, None, 0)
        self._scopes = [self._outside]
        self._calls: list[Call] = []
        self._scope = self._outside
        self._stack: list[tuple[nn.Module, Scope, Any]] = []
        self._recompute_node: Any = None  # The node of autograd that recomputes modules.
        self._checkpoints = Checkpoints()
        self._pending: list[Data] = []  # Saved for an operation that has not run yet.
        self._function: Call | None = None  # The plain function that stands for all that is called inside it.
        self._last: Call | None = None
        self._dispatched = 0  # Autograd's node count at the thread's last call.
        self._thread = 0
        self._timeline = Timeline(0)
        self._mode = CallMode(self)
        self._saved_tensors = SavedTensors(self)
        self._function_calls = FunctionCalls(self)
        self._failure: Exception | None = None
        self._is_running = self._has_ended = False

    def begin(self) -> None:
        """Measure from now on."""
        self._thread = threading.get_ident()
        self._timeline = Timeline(_sequence())
        self._dispatched = self._timeline.last
        with DisableTorchFunction():
            self._look_at_model()
        self._is_running = True
        self._function_calls.install()
        self._saved_tensors.install()
        self._mode.__enter__()  # type: ignore[no-untyped-call]

    def end(self) -> None:
        """Stop measuring, and restore everything."""
        if not self._is_running:
            return
        self._is_running, self._has_ended = False, True
        self._mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        self._saved_tensors.remove()
        self._function_calls.remove()
        with DisableTorchFunction():
            self._flush()
            self._look_at_model()
        self._storages.release()
        self._stack.clear()
        self._scope, self._recompute_node, self._model = self._outside, None, None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Measure nothing inside the block."""
        with torch.utils._python_dispatch._disable_current_modes():
            yield

    def profile(self, flops: Convention = "corrected", device: Device | None = None) -> Profile:
        """The measurements.

        Args:
            flops: how FLOPs are counted (see `Convention`).
            device: a device whose times are computed as well.

        Raises:
            StillProfilingError: if measuring has not ended.
            ConventionError: if `flops` is not a convention.
        """
        from proxy_views.profile.report import Profile

        if not self._has_ended:
            raise StillProfilingError
        if self._failure is not None:
            raise self._failure
        return Profile.of(self._calls, self._scopes, self._type_names, self._sizes, flops, device)

    def node_rows(self) -> NodeRows | None:
        """The rows for calls at places; None if measuring has not ended or has failed."""
        from proxy_views.profile.node_rows import NodeRows

        if not self._has_ended or self._failure is not None:
            return None
        return NodeRows(self._calls, self._sizes)

    # Modules.

    def enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Note that `module` is being called."""
        try:
            with DisableTorchFunction():
                self._enter(module, args, kwargs)
        except Exception as error:  # noqa: BLE001  A mistake of ours must not reach the program.
            self.fail(error)

    def leave(self, module: nn.Module, output: Any) -> Any:
        """Note that `module` has returned `output`, which is passed on."""
        try:
            with DisableTorchFunction():
                self._leave(module, output)
        except Exception as error:  # noqa: BLE001
            self.fail(error)
        return output

    def leave_raising(self, module: nn.Module) -> None:
        """Note that `module` has raised an exception."""
        try:
            with DisableTorchFunction():
                self._leave(module, None)
        except Exception as error:  # noqa: BLE001
            self.fail(error)

    # Torch functions, which are measured further below, as the operations that they consist of.

    def before_call(self, function: Callable[..., Any], _args: tuple[Any, ...], _kwargs: Mapping[str, Any]) -> Any:
        """Prepare for a `torch.autograd.Function`; other calls are not noted here.

        Its backward pass may rely on the identity of saved objects, which hooks replace. So it is called without the
        hooks, and its saved tensors are read afterwards.
        """
        if not self._is_running or getattr(function, "__name__", "") != "apply":
            return None
        owner = getattr(function, "__self__", None)
        is_one = isinstance(owner, type) and issubclass(owner, torch.autograd.Function)
        return is_one and self._saved_tensors.pop()

    def after_call(self, call: Any, result: Any) -> Any:
        """Pass on `result`."""
        if call:
            self._saved_tensors.push()
            self._note_saved_by(result)
        return result

    def after_raising(self, call: Any) -> None:
        """Restore the hooks after an exception."""
        if call:
            self._saved_tensors.push()

    def changed(self, what: str) -> None:
        """Do nothing: what is computed for a change is measured like everything else."""

    def _note_saved_by(self, result: Any) -> None:
        """Note the tensors saved by the `torch.autograd.Function` that returned `result`."""
        try:
            with DisableTorchFunction():
                for each in tree_leaves(result):
                    node = each.grad_fn if isinstance(each, _TENSOR) and not each._is_view() else None
                    if isinstance(node, torch.autograd.function.BackwardCFunction):
                        kept = [saved for saved in node.saved_tensors if saved is not None]
                        (self._last or self._rest_of(self._scope)).saved += self._storages.of_all(kept)
                        return
        except Exception as error:  # noqa: BLE001  A mistake of ours must not reach the program.
            self.fail(error)

    def _enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if not self._is_running:
            return
        self._flush()
        if module is self._model and self._scope is self._outside:
            self._look_at_model()
        self._stack.append((module, self._scope, self._recompute_node))
        node = _current_node()
        base = self._scope
        if node is not None and self._recompute_node is None:
            base = self._base_of_recomputed(node)
            self._recompute_node = node
        name = self._names.get(id(module))
        if name is None:
            return
        scope = self._scope = self._scope_inside(base, name)
        scope.calls += 1
        scope.recomputed += self._recompute_node is not None
        scope.inputs.append(self._storages.of_all(args) + self._storages.of_all(kwargs.values()))

    def _leave(self, module: nn.Module, output: Any) -> None:
        if not any(entered is module for entered, _, _ in self._stack):
            return
        self._flush()
        entered, scope = None, self._scope
        while entered is not module:  # The calls above it ended by unreported exceptions.
            scope = self._scope
            entered, self._scope, self._recompute_node = self._stack.pop()
        if scope is not self._scope:
            leaves = (output,) if isinstance(output, _TENSOR) else tree_leaves(output)
            scope.outputs.append(self._storages.of_all(leaves))

    def _scope_inside(self, parent: Scope, name: str) -> Scope:
        scope = parent.below.get(name)
        if scope is None:
            scope = parent.below[name] = Scope(name, parent, len(self._calls))
            self._scopes.append(scope)
        return scope

    def _base_of_recomputed(self, node: Any) -> Scope:
        """The scope of calls that `node` recomputes."""
        scope = self._checkpoints.scope()
        if scope is None:
            owner = self._timeline.owner(node)
            scope = self._outside if owner is None else owner.scope
        return scope

    def _look_at_model(self) -> None:
        """Note the present names, types, parameters and buffers of the model."""
        model = self._model
        if model is None:
            return
        self._names.clear()
        modules = list(model.named_modules())
        for name, module in modules:
            self._names[id(module)] = name
            self._type_names[name] = type(module).__name__
        self._sizes.note(modules, self._storages)

    # Calls.

    def called(
        self, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any, duration_ns: int, sequence: int
    ) -> None:
        """Note a call of an operation of torch."""
        known = self._known.get(id(operation))
        if known is None:
            is_collective = getattr(operation, "namespace", "") in _COLLECTIVES
            known = self._known[id(operation)] = _Operation(operation, formula_of(operation), is_collective)
        flops = known.formula(args, kwargs, out)
        communicated = 0
        if known.is_collective:
            communicated = sum(data.size for data in self._storages.of_all(args[:1]))
        seen = BackwardCall(operation, flops, duration_ns, communicated)
        node = _current_node()
        if node is None:
            call = self._forward(seen, args, kwargs, out, self._scope, is_recomputed=False)
        elif node is self._recompute_node:
            call = self._forward(seen, args, kwargs, out, self._scope, is_recomputed=True)
        elif self._checkpoints.is_recomputing(node):
            base = self._base_of_recomputed(node) if self._recompute_node is None else self._scope
            call = self._forward(seen, args, kwargs, out, base, is_recomputed=True)
        else:
            call = self._timeline.owner(node) or self._rest_of(self._outside)
            call.backward.append(seen)
        if self._pending:
            call.saved += self._pending
            self._pending.clear()
        self._last = call
        if threading.get_ident() == self._thread:
            self._dispatched = sequence
            self._timeline.note(sequence, call)

    def _forward(
        self, seen: BackwardCall, args: Any, kwargs: Any, out: Any, scope: Scope, *, is_recomputed: bool
    ) -> Call:
        if not is_recomputed:
            self._checkpoints.note(scope)
        if self._function is not None:
            self._function.inner.append(seen)
            self._note_place(self._function)
            return self._function
        call = self._new_call(seen.operation, scope, is_recomputed=is_recomputed)
        call.flops, call.duration_ns, call.communicated = seen.flops, seen.duration_ns, seen.communicated
        of_all = self._storages.of_all
        call.inputs = of_all(args) + of_all(kwargs.values()) if kwargs else of_all(args)
        call.outputs = of_all((out,))
        if not is_recomputed and self._place_now is not None:
            place = self._place_now()
            if place:
                call.places = (place,)
        return call

    def _note_place(self, call: Call) -> None:
        place = self._place_now() if self._place_now is not None else 0
        if place and call.places[-1:] != (place,):
            call.places += (place,)

    def _new_call(self, operation: Any, scope: Scope, *, is_recomputed: bool) -> Call:
        call = Call(operation, scope, len(self._calls), is_recomputed=is_recomputed)
        self._calls.append(call)
        return call

    def _rest_of(self, scope: Scope) -> Call:
        """The entry for what belongs to a module but to none of its calls."""
        if scope.rest is None:
            scope.rest = self._new_call(None, scope, is_recomputed=False)
        return scope.rest

    def _flush(self) -> None:
        """Assign nodes and saved tensors without an operation to the running module."""
        sequence = _sequence()
        if threading.get_ident() != self._thread or (sequence == self._timeline.last and not self._pending):
            return
        call = self._function or self._rest_of(self._scope)
        call.saved += self._pending
        self._pending.clear()
        self._timeline.note(sequence, call)
        self._dispatched = sequence

    def fail(self, error: Exception) -> None:
        """Note that there is no profile, and why."""
        self._failure = self._failure or error

    # Saved tensors.

    def saved(self, tensor: torch.Tensor) -> bool:
        """Note a saved tensor; returns whether it is an output of the operation that saves it.

        Inputs are saved when the node is created, before the operation runs; outputs are saved afterwards.
        """
        is_output = threading.get_ident() != self._thread or _sequence() <= self._dispatched
        try:
            data = self._storages.of(tensor)
            if not is_output:
                self._pending += data
            else:
                (self._last or self._rest_of(self._outside)).saved += data
        except Exception as error:  # noqa: BLE001  A mistake of ours must not reach the program.
            self.fail(error)
        return is_output

    # Plain functions.

    def enter_function(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Call | None:
        """Note that a registered function is being called. None if the call is not observed."""
        if self._function is not None or threading.get_ident() != self._thread or not self._is_running:
            return None
        node = _current_node()
        with DisableTorchFunction():
            self._flush()
            is_recomputed = node is not None and (
                node is self._recompute_node or self._checkpoints.is_recomputing(node)
            )
            call = self._new_call(function, self._scope, is_recomputed=is_recomputed)
            call.inputs = self._storages.of_all(args) + self._storages.of_all(kwargs.values())
        self._function = call
        return call

    def leave_function(self, call: Call, result: Any, stated: tuple[int, int] | None) -> None:
        """Note that it has returned `result`; `stated` are its registered FLOPs, if any."""
        with DisableTorchFunction():
            self._flush()
            call.outputs = self._storages.of_all(tree_leaves(result))
        call.stated = stated
        self._function = None
