"""Observers that see the values themselves, while the program runs: what a graph, or a change of an activation, needs.

An observer of events (`channel.Observer`) is given frozen values that hold no tensor. A live observer is given the
modules, functions, arguments and results, on the thread that calls, at the moment of the call. What it gives back goes
on to the program. Interceptors ask `ThreadState.live` for None; a thread without live observers pays for nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import CodeType

    from torch import nn


class LiveObserver(Protocol):
    """Sees what one thread calls, as it calls it.

    An exception that a method raises reaches the program; an observer that does not mean to stop it must catch its own.
    """

    def enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """A module is being called."""

    def leave(self, module: nn.Module, output: Any) -> Any:
        """It has returned `output`; what is given back is what the program gets."""

    def leave_raising(self, module: nn.Module) -> None:
        """It has raised an exception."""

    def before_call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """A function is about to be called: one of torch's, `apply` of a `torch.autograd.Function`, or a checkpoint.

        A checkpoint of either kind is a call of `torch.utils.checkpoint.checkpoint` with `use_reentrant`. Its function
        is called inside it, and what that calls is seen too. So it is with `apply`.

        Returns:
            What `after_call` or `after_raising` is to be given.
        """

    def after_call(self, call: Any, result: Any) -> Any:
        """The call has returned `result`; what is given back is what the program gets."""

    def after_raising(self, call: Any) -> None:
        """The call has raised an exception."""

    def changed(self, what: str) -> None:
        """A `ChangingObserver` has put another value in the place of `what`, inside the calls that are running."""


@runtime_checkable
class SeesCompiledCalls(Protocol):
    """What a live observer may do besides."""

    def enter_compiled(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """A module is being called whose code is compiled: of what it calls, nothing is seen."""


class LiveFlow(Protocol):
    """Is told of the tests and loops of one thread, as they come out and end."""

    def is_open(self) -> bool:
        """Whether it wants to be told of those that come now."""

    def told(self, site: tuple[str, str, int], value: bool | None, iterations: int | None, code: CodeType) -> None:
        """A test has come out, or a loop has ended.

        Args:
            site: the construct, the text and the line.
            value: the truth of a test; None for a loop.
            iterations: how many elements a loop took; None for a test.
            code: that of the function.
        """


class ChangingObserver(LiveObserver, Protocol):
    """A live observer that gives the program other values than those that it computed.

    A thread has one at most. It is told behind the others, which so see both: what a call gave, and, as calls of their
    own, what was made of it. Interceptors ask `ThreadState.change` for it.
    """

    def arguments(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """What a function is to be called with in place of these arguments, before anybody is told of the call."""

    def checkpointed(self, function: Callable[..., Any], *, is_reentrant: bool) -> Callable[..., Any]:
        """What an activation checkpoint is to call in the place of `function`, in the backward pass as well.

        Args:
            function: what the checkpoint was given.
            is_reentrant: whether what is given back is called in the forward pass, too.
        """

    def before_leave(self, module: nn.Module, output: Any) -> Any:
        """A module has returned `output`, and nobody else was told yet; what is given back goes on to them."""


class LiveObservers:
    """Several observers of one thread, each of which is given what the one before it has given back."""

    def __init__(self, observers: Sequence[LiveObserver]) -> None:
        self.observers = tuple(observers)

    def enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Tell each of the call of a module."""
        for observer in self.observers:
            observer.enter(module, args, kwargs)

    def leave(self, module: nn.Module, output: Any) -> Any:
        """Tell each what a module gave back."""
        for observer in self.observers:
            output = observer.leave(module, output)
        return output

    def leave_raising(self, module: nn.Module) -> None:
        """Tell each that a module has raised an exception."""
        for observer in self.observers:
            observer.leave_raising(module)

    def before_call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Tell each of the call of a function."""
        return [(observer, observer.before_call(function, args, kwargs)) for observer in self.observers]

    def after_call(self, call: Any, result: Any) -> Any:
        """Tell each what a function gave back; those that have come during the call know nothing of it."""
        for observer, each in call:
            result = observer.after_call(each, result)
        return result

    def after_raising(self, call: Any) -> None:
        """Tell each that a function has raised an exception."""
        for observer, each in call:
            observer.after_raising(each)

    def changed(self, what: str) -> None:
        """Tell each that a value was changed."""
        for observer in self.observers:
            observer.changed(what)


def enter_compiled(live: LiveObserver, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Tell observers of the call of a compiled module, each in the way that it knows."""
    for each in live.observers if isinstance(live, LiveObservers) else (live,):
        (each.enter_compiled if isinstance(each, SeesCompiledCalls) else each.enter)(module, args, kwargs)


def joined(
    present: LiveObserver | None, observer: LiveObserver, change: ChangingObserver | None = None
) -> LiveObserver:
    """The observers of a thread once `observer` has come; `change`, if it has one, stays the last."""
    if present is None:
        return observer
    before = present.observers if isinstance(present, LiveObservers) else (present,)
    if change is None or change is observer:
        return LiveObservers((*before, observer))
    return LiveObservers((*(each for each in before if each is not change), observer, change))


def without(present: LiveObserver | None, observer: LiveObserver) -> LiveObserver | None:
    """The observers of a thread once `observer` has gone; None if there is no other."""
    if not isinstance(present, LiveObservers):
        return None if present is observer else present
    left = [each for each in present.observers if each is not observer]
    return left[0] if len(left) == 1 else LiveObservers(left)
