"""Bends what one thread computes: the live observer behind `bend`."""

from __future__ import annotations

import contextlib
import threading
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
from torch.utils.checkpoint import _StopRecomputationError, checkpoint

from proxy_views.bending.bent_parameters import BentParameters
from proxy_views.bending.callback import Place
from proxy_views.bending.errors import BendingError, CallbackError, ChangedWeightError, NoTargetError, ResultError
from proxy_views.bending.methods import watch_methods
from proxy_views.bending.node_names import NodeNames
from proxy_views.bending.targets import nearest
from proxy_views.bending.values import with_tensors
from proxy_wrapper.proxy import change_live
from proxy_wrapper.values.value_marks import version_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from torch import nn

    from proxy_views.bending.callback import Callback
    from proxy_views.bending.parameter import BendingParameter
    from proxy_views.bending.targets import Target
    from proxy_wrapper.live_change import LiveChange

_REGION: Final = object()
"""What `before_call` gives for a checkpoint."""


class Bend:
    """One callback, and what it is put on.

    Attributes:
        model: whose targets they are.
        targets: what is bent.
        callback: what is done to it.
        known: the names of all nodes that there are, where a trace has told them.
        count: how often the callback was called.
        met: the targets among activations that a call of the model has had.
    """

    def __init__(self, model: nn.Module, targets: Sequence[Target], callback: Callback, *, is_known: bool) -> None:
        self.model = model
        self.targets = tuple(targets)
        self.callback = callback
        self.row = callback.row()
        self.is_known = is_known
        self.count = 0
        self.met: set[Target | str] = set()


class Bent(NamedTuple):
    """A bend, the one of its targets that is meant, and what that is called."""

    bend: Bend
    target: Target
    name: str


class Scope:
    """A call of a model, or of one of its methods, in which nodes have names.

    Attributes:
        model: what is called.
        method: of it; "" if it is the model itself.
        names: of the nodes.
        seen: all names that there were, for messages.
    """

    def __init__(self, model: nn.Module, method: str, names: NodeNames, wanted: list[Bent]) -> None:
        self.model, self.method, self.names, self.wanted = model, method, names, wanted
        self.seen: list[str] = []
        self.qualified = {id(each): name for name, each in model.named_modules()}

    def matches(self, names: Sequence[str]) -> list[Bent]:
        """The bends of a node that has these names."""
        self.seen += names
        found = []
        for bend, target, _ in self.wanted:
            assert target.pattern is not None
            matching = [name for name in names if target.pattern.fullmatch(name)]
            if matching:
                bend.met.add(target.text)
                found.append(Bent(bend, target, matching[0]))
        return found

    def copied(self) -> Scope:
        """The same, which goes on on its own."""
        return Scope(self.model, self.method, self.names.copied(), self.wanted)


class _Call(NamedTuple):
    """A call of torch's whose result has names."""

    scopes: tuple[Scope, ...]
    found: list[Bent]
    written: dict[int, int]  # The arguments that it may write into, with torch's count of changes.


class _Snapshot(NamedTuple):
    """All that a checkpoint needs to compute again what it has computed, whatever is bent by then."""

    bends: tuple[Bend, ...]
    stack: tuple[nn.Module, ...]
    methods: tuple[tuple[nn.Module, str], ...]
    scopes: tuple[Scope, ...]
    values: tuple[tuple[BendingParameter, float], ...]


class BentCalls:
    """Replaces what the bends of one thread name, in the order in which the bends were made."""

    def __init__(self, bends: Sequence[Bend] = (), *, is_recomputing: bool = False) -> None:
        """Bend nothing before `begin`."""
        self.bends: tuple[Bend, ...] = ()
        self._is_recomputing = is_recomputing
        self._change: LiveChange | None = None
        self._thread = threading.current_thread()
        self._is_busy = False  # Whether a callback runs: what that calls is not bent.
        self._inside: _Call | None = None  # The call whose inner calls have no names.
        self._stack: list[nn.Module] = []  # Calls of modules of bent models.
        self._methods: list[tuple[nn.Module, str]] = []
        self._scopes: list[Scope] = []
        self._members: dict[int, nn.Module] = {}
        self._modules: dict[int, list[Bent]] = {}
        self._nodes: list[Bent] = []
        self._parameters = BentParameters(self._stand_in_for, self._is_in)
        self.bend_with(bends)

    def begin(self) -> None:
        """Let this thread's calls be bent."""
        self._thread = threading.current_thread()
        self._change = change_live(self)
        self._parameters.is_blacklisted = self._change.is_blacklisted

    def end(self) -> None:
        """Bend nothing any more."""
        self._parameters.put_back()
        change, self._change = self._change, None
        if change is not None:
            change.end()

    def end_on_own_thread(self) -> None:
        """End now if this is the thread whose calls were bent, or that is gone; else with its next call of a module.

        No other thread can take the function mode off its stack.
        """
        if self._thread is threading.current_thread() or not self._thread.is_alive():
            self.end()

    def bend_with(self, bends: Sequence[Bend]) -> None:
        """Have these bends from now on, and no others."""
        modules: dict[int, list[Bent]] = {}
        nodes: list[Bent] = []
        members: dict[int, nn.Module] = {}
        slots = []
        for bend in bends:
            for each in bend.model.modules():
                members[id(each)] = each
            bent_modules: set[int] = set()
            for target in bend.targets:
                for key, name in target.modules.items():
                    if key not in bent_modules or target.method:
                        modules.setdefault(key, []).append(Bent(bend, target, name))
                    bent_modules.add(key)
                slots += [(slot, Bent(bend, target, slot.name)) for slot in target.slots]
                if target.pattern is not None:
                    nodes.append(Bent(bend, target, target.text))
        self.bends = tuple(bends)
        self._members, self._modules, self._nodes = members, modules, nodes
        self._parameters.bend(slots)

    # Calls of modules.

    def enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Note a call of a module of a bent model."""
        if not self.bends:
            self.end()  # The last one was removed on another thread.
            return
        if self._is_busy or id(module) not in self._members:
            return
        if not self._stack and not self._methods:
            self._parameters.look_up()
        self._stack.append(module)
        if self._nodes and not any(scope.model is module and not scope.method for scope in self._scopes):
            self._open(module, "", args, kwargs)
        if self._parameters.are_bent:
            self._parameters.enter(module)

    def _open(self, model: nn.Module, method: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        wanted = [each for each in self._nodes if each.bend.model is model and each.target.method == method]
        if wanted:
            names = NodeNames(model, getattr(model, method or "forward"), args, kwargs)
            self._scopes.append(Scope(model, method, names, wanted))

    def before_leave(self, module: nn.Module, output: Any) -> Any:
        """What the outermost module gives, bent: a graph of its call has that in it."""
        if self._is_busy or not self._stack or self._stack[0] is not module or self._stack.count(module) > 1:
            return output
        del self._stack[1:]
        return self._bend_output(module, output)

    def leave(self, module: nn.Module, output: Any) -> Any:
        """What a module gives, bent, where that was not done before."""
        if self._is_busy or id(module) not in self._members:
            return output
        is_outermost = len(self._stack) == 1 and self._stack[0] is module
        bent = output if is_outermost else self._bend_output(module, output)
        self._left(module)
        self._check_targets(module)
        return bent

    def leave_raising(self, module: nn.Module) -> None:
        """Forget a call that has raised."""
        if not self._is_busy and id(module) in self._members:
            self._left(module)
            if module not in self._stack:
                self._scopes = [scope for scope in self._scopes if scope.model is not module or scope.method]

    def _left(self, module: nn.Module) -> None:
        self._parameters.leave(module)
        for depth in range(len(self._stack) - 1, -1, -1):
            if self._stack[depth] is module:
                del self._stack[depth:]  # Those above it were left by exceptions that hooks are not told of.
                break
        if not self._stack and not self._methods:
            self._parameters.forget()

    def _check_targets(self, module: nn.Module) -> None:
        """End the scope of a model that has been left.

        Raises:
            NoTargetError: if a target was in it nowhere, and has never been.
        """
        if not self._scopes or module in self._stack:
            return
        ended = [scope for scope in self._scopes if scope.model is module and not scope.method]
        if ended:
            self._scopes = [scope for scope in self._scopes if scope not in ended]
            self._complain_of(ended)

    def _complain_of(self, ended: Sequence[Scope]) -> None:
        for scope in ended:
            for bend, target, _ in scope.wanted:
                if target.text not in bend.met and not bend.is_known and not self._is_recomputing:
                    near = nearest(target.text.rpartition(":")[2], scope.seen)
                    raise NoTargetError(target.text, type(scope.model).__name__, near, after_call=True)

    def _bend_output(self, module: nn.Module, output: Any) -> Any:
        found = [each for each in self._modules.get(id(module), ()) if self._is_in(each.bend, each.target)]
        for scope in self._scopes:
            name = scope.qualified.get(id(module))
            if name:
                found += scope.matches(scope.names.of_module(name))
        return self._bend_all(found, output)

    # Methods.

    def enter_method(self, model: nn.Module, method: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """A method of a bent model is being called."""
        if self._is_busy:
            return
        if not self._stack and not self._methods:
            self._parameters.look_up()
        is_inside = (model, method) in self._methods
        self._methods.append((model, method))
        if self._nodes and not is_inside:
            self._open(model, method, args, kwargs)

    def leave_method(self, model: nn.Module, method: str, *, raised: bool) -> None:
        """A method has returned, or raised."""
        if self._is_busy or (model, method) not in self._methods:
            return
        last = len(self._methods) - 1 - self._methods[::-1].index((model, method))
        del self._methods[last:]
        if not self._stack and not self._methods:
            self._parameters.forget()
        if (model, method) not in self._methods:
            ended = [scope for scope in self._scopes if scope.model is model and scope.method == method]
            self._scopes = [scope for scope in self._scopes if scope not in ended]
            if not raised:
                self._complain_of(ended)

    def _is_in(self, bend: Bend, target: Target) -> bool:
        """Whether the method that a target is in runs now."""
        return not target.method or any(
            model is bend.model and method == target.method for model, method in self._methods
        )

    # Calls of torch.

    def arguments(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """The arguments, with bent parameters in the place of the model's."""
        if self._is_busy or not self._parameters.are_bent:
            return args, kwargs
        return self._parameters.arguments(function, args, kwargs, is_in_call=bool(self._stack or self._methods))

    def before_call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Find out which bends the result of a call has."""
        if function is checkpoint:
            self._parameters.begin_region()
            for scope in self._scopes:
                scope.names.begin_region(is_reentrant=bool(kwargs.get("use_reentrant")))
            return _REGION
        if not self._scopes or self._is_busy or self._inside is not None:
            return None
        found: list[Bent] = []
        scopes = tuple(self._scopes)
        for scope in scopes:
            name = scope.names.of_call(function, args, kwargs)
            if name is not None:
                found += scope.matches((name,))
        written = {}
        if found:
            given = (*args, *kwargs.values())
            written = {id(each): version_of(each) for each in given if isinstance(each, torch.Tensor)}
        call = _Call(scopes, found, written)
        if isinstance(function, MethodType):
            self._inside = call
        return call

    def after_call(self, call: Any, result: Any) -> Any:
        """What the call gave, bent."""
        if call is None:
            return result
        if call is _REGION:
            self._end_region()
            return result
        if self._inside is call:
            self._inside = None
        is_iterator = not isinstance(result, (torch.Tensor, tuple, list)) and hasattr(result, "__next__")
        if is_iterator:
            result = tuple(result)
        for scope in call.scopes:
            scope.names.note_result(result)
        if call.found:
            version = call.written.get(id(result))
            if version is not None and isinstance(result, torch.Tensor) and version_of(result) != version:
                return self._bend_in_place(call.found, result)
            result = self._bend_all(call.found, result)
        return iter(result) if is_iterator else result

    def after_raising(self, call: Any) -> None:
        """Forget a call that raised."""
        if call is _REGION:
            self._end_region()
        elif call is not None and self._inside is call:
            self._inside = None

    def _end_region(self) -> None:
        self._parameters.end_region()
        for scope in self._scopes:
            scope.names.end_region()

    # Bending.

    def _bend_all(self, found: Sequence[Bent], value: Any) -> Any:
        """`value`, bent by each in the order in which they were made."""
        if len(found) > 1:
            found = sorted(found, key=lambda each: self.bends.index(each.bend))
        for bend, _, name in found:
            with self._bending():
                value = with_tensors(value, name, partial(self._call, bend))
        return value

    def _bend_in_place(self, found: Sequence[Bent], value: torch.Tensor) -> torch.Tensor:
        """`value`, which the program goes on with itself, with what is bent written into it."""
        with self._bending():
            before = value.clone()
        bent = self._bend_all(found, before)
        if bent is not before:
            if bent.shape != value.shape:
                raise ChangedWeightError(found[0].name)
            with self._bending():
                value.copy_(bent)
        return value

    def _stand_in_for(self, parameter: torch.Tensor, found: Sequence[Bent]) -> torch.Tensor:
        """What stands for a parameter: the gradient of the one reaches the other."""
        value = parameter
        with self._bending():
            for bend, _, name in found:
                given = value
                if given is parameter and any(each.works_in_copies for each in bend.row):
                    given = parameter.clone()
                value = self._call(bend, given, name, must_keep_shape=True)
        return value

    def bent_parameter(self, parameter: torch.Tensor) -> torch.Tensor:
        """What the model computes with in the place of a parameter; `parameter` itself if it is not bent."""
        return self._parameters.stand_in(parameter)

    def _call(self, bend: Bend, value: torch.Tensor, name: str, *, must_keep_shape: bool = False) -> torch.Tensor:
        place = Place(name, self._is_recomputing)
        for callback in bend.row:
            shape, dtype = value.shape, value.dtype
            try:
                result = callback.bend(value, place)
            except (BendingError, _StopRecomputationError):
                raise
            except Exception as error:
                raise CallbackError(repr(callback), name, error) from error
            if not isinstance(result, torch.Tensor):
                raise ResultError(repr(callback), name, f"gave a {type(result).__name__}, which is no tensor.")
            if result.dtype != dtype:
                words = f"{dtype} and gave {result.dtype}".replace("torch.", "")
                raise ResultError(repr(callback), name, f"was given a tensor of {words}; it must keep the dtype.")
            if result.shape != shape and (must_keep_shape or callback.keeps_shape):
                raise ResultError(
                    repr(callback), name,
                    f"was given the shape {tuple(shape)} and gave {tuple(result.shape)}; it must keep the shape"
                    + ("." if must_keep_shape else ", unless `keeps_shape` is False."),
                )  # fmt: skip
            value = result
        if not self._is_recomputing:
            bend.count += 1
        return value

    @contextlib.contextmanager
    def _bending(self) -> Iterator[None]:
        """Bend nothing of what is called in this block; whoever else looks sees it."""
        was_busy, self._is_busy = self._is_busy, True
        try:
            if self._change is not None and self._change.is_seen_by_others:
                with self._change.seen():
                    yield
            else:
                yield
        finally:
            self._is_busy = was_busy

    # Checkpoints.

    def checkpointed(self, function: Callable[..., Any], *, is_reentrant: bool) -> Callable[..., Any]:
        """A function that computes what `function` does now, with the bends of now, when it is called again."""
        values = {each: each.value for bend in self.bends for each in bend.callback.parameters()}
        snapshot = _Snapshot(
            self.bends,
            tuple(self._stack),
            tuple(self._methods),
            tuple(scope.copied() for scope in self._scopes),
            tuple(values.items()),
        )
        calls_to_pass = [None] if is_reentrant else []

        def compute(*args: Any, **kwargs: Any) -> Any:
            if calls_to_pass:
                calls_to_pass.pop()
                return function(*args, **kwargs)
            with _recomputing(snapshot):
                return function(*args, **kwargs)

        return compute

    def resume(self, snapshot: _Snapshot) -> None:
        """Go on in the middle of the calls that a snapshot was taken in."""
        self._stack += snapshot.stack
        self._methods += snapshot.methods
        self._scopes += [scope.copied() for scope in snapshot.scopes]
        self._parameters.look_up()

    @contextlib.contextmanager
    def seen(self) -> Iterator[None]:
        """See the calls of torch in this block, although it may be inside one: the one that runs autograd's engine."""
        assert self._change is not None
        with self._change.seen():
            yield


@contextlib.contextmanager
def _recomputing(snapshot: _Snapshot) -> Iterator[None]:
    """Bend in this block as it was done when `snapshot` was taken, on whichever thread."""
    calls = BentCalls(snapshot.bends, is_recomputing=True)
    calls.resume(snapshot)
    now = [(parameter, parameter.value) for parameter, _ in snapshot.values]
    calls.begin()
    watches = [each for bend in snapshot.bends for each in watch_methods(bend, calls)]
    try:
        for parameter, value in snapshot.values:
            parameter.value = value
        with calls.seen():
            yield
    finally:
        for parameter, value in now:
            parameter.value = value
        for each in watches:
            each.end()
        calls.end()
