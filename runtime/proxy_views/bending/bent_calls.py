"""Bends the values that one thread computes: the live observer behind `bend`."""

from __future__ import annotations

import contextlib
import threading
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils.checkpoint import checkpoint

from proxy_views.bending.applying import apply
from proxy_views.bending.bends import Bend, Bent
from proxy_views.bending.bent_parameters import BentParameters
from proxy_views.bending.callback import Place
from proxy_views.bending.errors import ChangedWeightError, NoTargetError
from proxy_views.bending.naming_scope import NamedCall, NamingScope
from proxy_views.bending.node_names import NodeNames
from proxy_views.bending.recomputation import Snapshot, recomputing
from proxy_views.bending.targets import nearest
from proxy_views.bending.values import with_tensors
from proxy_wrapper.proxy import change_live
from proxy_wrapper.values.value_marks import version_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from torch import nn

    from proxy_views.bending.targets import Target
    from proxy_wrapper.live_change import LiveChange

_REGION: Final = object()
"""The result of `before_call` for a checkpoint."""


class BentCalls:
    """Replaces the values named by the bends of one thread, in order of creation of the bends."""

    def __init__(self, bends: Sequence[Bend] = (), *, is_recomputing: bool = False) -> None:
        """Bend nothing before `begin`."""
        self.bends: tuple[Bend, ...] = ()
        self._is_recomputing = is_recomputing
        self._change: LiveChange | None = None
        self._thread = threading.current_thread()
        self._is_busy = False  # Whether a callback is running; its own calls are not bent.
        self._inside: NamedCall | None = None  # The call whose inner calls have no names.
        self._stack: list[nn.Module] = []  # Calls of modules of bent models.
        self._methods: list[tuple[nn.Module, str]] = []
        self._scopes: list[NamingScope] = []
        self._members: dict[int, nn.Module] = {}
        self._modules: dict[int, list[Bent]] = {}
        self._nodes: list[Bent] = []
        self._parameters = BentParameters(self._stand_in_for, self._is_in, self._report)
        self.bend_with(bends)

    def begin(self) -> None:
        """Start to bend this thread's calls."""
        self._thread = threading.current_thread()
        self._change = change_live(self)
        self._parameters.is_blacklisted = self._change.is_blacklisted

    def end(self) -> None:
        """Stop bending."""
        self._parameters.put_back()
        change, self._change = self._change, None
        if change is not None:
            change.end()

    def end_on_own_thread(self) -> None:
        """End now on the thread whose calls are bent, or if that has ended; else at that thread's next module call.

        No other thread can take the function mode off its stack.
        """
        if self._thread is threading.current_thread() or not self._thread.is_alive():
            self.end()

    def bend_with(self, bends: Sequence[Bend]) -> None:
        """Use these bends from now on, and no others."""
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

    def changed(self, what: str) -> None:
        """Do nothing: the notification is for other observers."""

    # Calls of modules.

    def enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Note a call of a module of a bent model."""
        if not self.bends:
            self.end()  # The last bend was removed on another thread.
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
            self._scopes.append(NamingScope(model, method, names, wanted))

    def before_leave(self, module: nn.Module, output: Any) -> Any:
        """The output of the outermost module, bent early, so that a graph of its call includes the bend."""
        if self._is_busy or not self._stack or self._stack[0] is not module or self._stack.count(module) > 1:
            return output
        del self._stack[1:]
        return self._bend_output(module, output)

    def leave(self, module: nn.Module, output: Any) -> Any:
        """The output of a module, bent if it was not bent before."""
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
                del self._stack[depth:]  # Calls above it ended by exceptions of which hooks are not notified.
                break
        if not self._stack and not self._methods:
            self._parameters.forget()

    def _check_targets(self, module: nn.Module) -> None:
        """End the scope of a model whose call has ended.

        Raises:
            NoTargetError: if a target has never occurred.
        """
        if not self._scopes or module in self._stack:
            return
        ended = [scope for scope in self._scopes if scope.model is module and not scope.method]
        if ended:
            self._scopes = [scope for scope in self._scopes if scope not in ended]
            self._check_scopes(ended)

    def _check_scopes(self, ended: Sequence[NamingScope]) -> None:
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
        """Note a call of a method of a bent model."""
        if self._is_busy:
            return
        if not self._stack and not self._methods:
            self._parameters.look_up()
        is_inside = (model, method) in self._methods
        self._methods.append((model, method))
        if self._nodes and not is_inside:
            self._open(model, method, args, kwargs)

    def leave_method(self, model: nn.Module, method: str, *, raised: bool) -> None:
        """Note that a method has returned or raised."""
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
                self._check_scopes(ended)

    def _is_in(self, bend: Bend, target: Target) -> bool:
        """Whether the method to which a target is restricted is running."""
        return not target.method or any(
            model is bend.model and method == target.method for model, method in self._methods
        )

    # Calls of torch.

    def arguments(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """The arguments, with the model's parameters replaced by bent ones."""
        if self._is_busy or not self._parameters.are_bent:
            return args, kwargs
        return self._parameters.arguments(function, args, kwargs, is_in_call=bool(self._stack or self._methods))

    def before_call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Find the bends of a call's result."""
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
        call = NamedCall(scopes, found, written)
        if isinstance(function, MethodType):
            self._inside = call
        return call

    def after_call(self, call: Any, result: Any) -> Any:
        """The result of the call, bent."""
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
        """`value`, bent by each bend in order of creation."""
        if len(found) > 1:
            found = sorted(found, key=lambda each: self.bends.index(each.bend))
        for bend, _, name in found:
            with self._bending():
                value = with_tensors(value, name, partial(self._apply, bend))
        return value

    def _apply(self, bend: Bend, value: torch.Tensor, name: str, *, must_keep_shape: bool = False) -> torch.Tensor:
        version = version_of(value)
        bent = apply(bend, value, Place(name, self._is_recomputing), must_keep_shape=must_keep_shape)
        if self._change is not None and (bent is not value or version_of(bent) != version):
            self._change.tell(name)
        return bent

    def _bend_in_place(self, found: Sequence[Bent], value: torch.Tensor) -> torch.Tensor:
        """`value`, with the bent values written into it, because the program keeps using the same tensor."""
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
        """The replacement of a parameter; its gradient flows to the parameter."""
        value = parameter
        with self._bending():
            for bend, _, name in found:
                given = value
                if given is parameter and any(each.works_in_copies for each in bend.row):
                    given = parameter.clone()
                value = self._apply(bend, given, name, must_keep_shape=True)
        return value

    def _report(self, name: str) -> None:
        """Report that the program uses the replacement of the parameter `name`."""
        if self._change is not None:
            self._change.tell(name)

    def bent_parameter(self, parameter: torch.Tensor) -> torch.Tensor:
        """The tensor that the model uses for a parameter; `parameter` itself if it is not bent."""
        return self._parameters.stand_in(parameter)

    @contextlib.contextmanager
    def _bending(self) -> Iterator[None]:
        """Bend nothing inside this block; other observers still see the calls."""
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
        """A function that recomputes `function` with the present bends, whatever is bent when it is called."""
        values = {each: each.value for bend in self.bends for each in bend.callback.parameters()}
        snapshot = Snapshot(
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
            with recomputing(snapshot, BentCalls(snapshot.bends, is_recomputing=True)):
                return function(*args, **kwargs)

        return compute

    def resume(self, snapshot: Snapshot) -> None:
        """Continue inside the calls in which a snapshot was taken."""
        self._stack += snapshot.stack
        self._methods += snapshot.methods
        self._scopes += [scope.copied() for scope in snapshot.scopes]
        self._parameters.look_up()

    @contextlib.contextmanager
    def seen(self) -> Iterator[None]:
        """Observe torch calls in this block, even inside one, such as the one that runs autograd's engine."""
        assert self._change is not None
        with self._change.seen():
            yield
