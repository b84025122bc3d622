"""Observers that see tensors while the program runs, as graphs and changes of activations require.

An observer of events (`channel.Observer`) gets frozen values that hold no tensor. A live observer gets the modules,
functions, arguments and results, on the calling thread, at the moment of the call. What it returns is passed to the
program. The only cost for a thread without live observers is a check whether `ThreadState.live` is None.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import CodeType

    from torch import nn


class LiveObserver(Protocol):
    """Observes the calls of one thread as they happen.

    An exception raised by a method reaches the program. An observer that does not want to stop it must catch its own.
    """

    def enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """A module is being called."""

    def leave(self, module: nn.Module, output: Any) -> Any:
        """A module has returned `output`. The program gets the result of this method."""

    def leave_raising(self, module: nn.Module) -> None:
        """A module has raised an exception."""

    def before_call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """A function is about to be called: one of torch's, `apply` of a `torch.autograd.Function`, or a checkpoint.

        A checkpoint of either kind is a call of `torch.utils.checkpoint.checkpoint` with `use_reentrant`. The calls
        inside its function are observed too. The same is true of `apply`.

        Returns:
            A value to pass to `after_call` or `after_raising`.
        """

    def after_call(self, call: Any, result: Any) -> Any:
        """The call has returned `result`. The program gets the result of this method."""

    def after_raising(self, call: Any) -> None:
        """The call has raised an exception."""

    def changed(self, what: str) -> None:
        """A `ChangingObserver` has replaced the value `what`, inside the running calls."""


@runtime_checkable
class SeesCompiledCalls(Protocol):
    """An optional method of live observers."""

    def enter_compiled(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """A compiled module is being called. Calls inside it are not seen."""


class LiveFlow(Protocol):
    """Observes the outcomes of conditions and the ends of loops on one thread."""

    def is_open(self) -> bool:
        """Whether it currently wants to be notified."""

    def told(self, site: tuple[str, str, int], value: bool | None, iterations: int | None, code: CodeType) -> None:
        """A condition was evaluated, or a loop has ended.

        Args:
            site: the construct, the text and the line.
            value: the truth of a condition; None for a loop.
            iterations: the number of elements a loop consumed; None for a condition.
            code: the code object of the function.
        """


class ChangingObserver(LiveObserver, Protocol):
    """A live observer that replaces values computed by the program.

    A thread has at most one, in `ThreadState.change`. It is notified after the others. They therefore see both the
    original result of a call and, as calls of their own, the computation of its replacement.
    """

    def arguments(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """The arguments to pass to a function in place of these. Called before any observer is notified."""

    def checkpointed(self, function: Callable[..., Any], *, is_reentrant: bool) -> Callable[..., Any]:
        """The function that an activation checkpoint is to call in place of `function`, also in the backward pass.

        Args:
            function: the function passed to the checkpoint.
            is_reentrant: whether the returned function is also called in the forward pass.
        """

    def before_leave(self, module: nn.Module, output: Any) -> Any:
        """A module has returned `output`. The other observers, notified later, get the result of this method."""


class LiveObservers:
    """Several observers of one thread. Each gets the result of the one before."""

    def __init__(self, observers: Sequence[LiveObserver]) -> None:
        self.observers = tuple(observers)

    def enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Notify each that a module is called."""
        for observer in self.observers:
            observer.enter(module, args, kwargs)

    def leave(self, module: nn.Module, output: Any) -> Any:
        """Notify each that a module has returned."""
        for observer in self.observers:
            output = observer.leave(module, output)
        return output

    def leave_raising(self, module: nn.Module) -> None:
        """Notify each that a module has raised an exception."""
        for observer in self.observers:
            observer.leave_raising(module)

    def before_call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Notify each that a function is called."""
        return [(observer, observer.before_call(function, args, kwargs)) for observer in self.observers]

    def after_call(self, call: Any, result: Any) -> Any:
        """Notify each that a function has returned, except observers added during the call."""
        for observer, each in call:
            result = observer.after_call(each, result)
        return result

    def after_raising(self, call: Any) -> None:
        """Notify each that a function has raised an exception."""
        for observer, each in call:
            observer.after_raising(each)

    def changed(self, what: str) -> None:
        """Notify each that a value was changed."""
        for observer in self.observers:
            observer.changed(what)


def enter_compiled(live: LiveObserver, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Notify observers of the call of a compiled module, each by the method that it has."""
    for each in live.observers if isinstance(live, LiveObservers) else (live,):
        (each.enter_compiled if isinstance(each, SeesCompiledCalls) else each.enter)(module, args, kwargs)


def joined(
    present: LiveObserver | None, observer: LiveObserver, change: ChangingObserver | None = None
) -> LiveObserver:
    """The observers of a thread after `observer` is added; `change`, if there is one, stays last."""
    if present is None:
        return observer
    before = present.observers if isinstance(present, LiveObservers) else (present,)
    if change is None or change is observer:
        return LiveObservers((*before, observer))
    return LiveObservers((*(each for each in before if each is not change), observer, change))


def without(present: LiveObserver | None, observer: LiveObserver) -> LiveObserver | None:
    """The observers of a thread after `observer` is removed; None if there is no other."""
    if not isinstance(present, LiveObservers):
        return None if present is observer else present
    left = [each for each in present.observers if each is not observer]
    return left[0] if len(left) == 1 else LiveObservers(left)
