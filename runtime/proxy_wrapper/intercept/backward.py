"""Observes backward passes, and makes torch calls from Python code inside them visible.

Every way to start one (`Tensor.backward`, `torch.autograd.backward` and `grad`, `torch.func`, a checkpoint) enters
autograd's engine through one Python function. PyTorch has no hook there that leaves the graph unchanged, so the
function is replaced.

Python code inside a backward pass is a recomputed checkpoint, a tensor hook, or the `backward` of a
`torch.autograd.Function`. `Tensor.backward` is itself a torch call, during which torch disables the function mode. It
is therefore enabled again right before the engine starts. The engine passes the state of the calling thread, modes
included, to its own threads.
"""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING, Any, Final

import torch

from proxy_wrapper.events import Backward, BackwardEnd
from proxy_wrapper.intercept.attaching.call_sites import hide_frames, uncounted
from proxy_wrapper.intercept.calls.outputs import Outputs
from proxy_wrapper.intercept.loss.class_orders import ClassOrders
from proxy_wrapper.intercept.loss.derivatives import Derivatives
from proxy_wrapper.intercept.loss.discarded_results import DiscardedResults
from proxy_wrapper.intercept.loss.equal_labels import EqualLabels
from proxy_wrapper.intercept.loss.generated_labels import GeneratedLabels
from proxy_wrapper.intercept.loss.graph_patterns import GraphPatterns
from proxy_wrapper.intercept.loss.losses import Losses, value_of
from proxy_wrapper.intercept.loss.singularities import Singularities
from proxy_wrapper.known.thread_state import BackwardPass
from proxy_wrapper.levels import INFO
from proxy_wrapper.values.describe import find_tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from proxy_wrapper.intercept.calls.torch_calls import TorchCalls
    from proxy_wrapper.intercept.loss.source_patterns import SourcePatterns
    from proxy_wrapper.intercept.state.updates import Updates
    from proxy_wrapper.known.thread_state import ThreadState
    from proxy_wrapper.tracer import Tracer

_ENTRY: Final = "_engine_run_backward"
_CREATE_GRAPH_INDEX: Final = 1
"""Position of `create_graph` among the arguments that follow the roots and their gradients."""
_INPUTS_INDEX: Final = 2
"""Position of the inputs there."""


class BackwardPasses:
    """Creates `Backward` and `BackwardEnd` events, and keeps the mode on the stack of a thread that runs the engine.

    The engine's entry is private to torch. If a version lacks it, nothing is replaced and backward passes are not
    observed.
    """

    def __init__(
        self, tracer: Tracer, torch_calls: TorchCalls, updates: Updates, source_patterns: SourcePatterns
    ) -> None:
        self._tracer = tracer
        self._torch_calls = torch_calls
        self._updates = updates
        self._outputs = Outputs(tracer)
        self._losses = Losses(tracer)
        self._patterns = GraphPatterns(tracer)
        self._singularities = Singularities(tracer)
        self._class_orders = ClassOrders(tracer)
        self._equal_labels = EqualLabels(tracer)
        self._generated_labels = GeneratedLabels(tracer)
        self._discarded = DiscardedResults(tracer)
        self._source_patterns = source_patterns
        self._derivatives: weakref.WeakKeyDictionary[ThreadState, Derivatives] = weakref.WeakKeyDictionary()
        self._replaced: list[tuple[ModuleType, Any, Any]] = []

    def install(self) -> None:
        """Replace the entry where torch looks it up and where it is defined: torch restores one from the other."""
        if self._replaced:
            return
        for module in (torch.autograd, torch.autograd.graph):
            original = getattr(module, _ENTRY, None)
            if original is not None:
                replacement = self._replacement(original)
                setattr(module, _ENTRY, replacement)
                self._replaced.append((module, original, replacement))

    def remove(self) -> None:
        """Restore the entry. If other code has replaced ours since, ours only passes calls on."""
        for module, original, replacement in self._replaced:
            if getattr(module, _ENTRY) is replacement:
                setattr(module, _ENTRY, original)
        self._replaced.clear()

    def _replacement(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        @uncounted
        def run_backward(roots: Any, gradients: Any, *args: Any, **kwargs: Any) -> Any:
            begun = self._begin(roots, gradients, args, kwargs)
            result: Any = None
            raised = True
            try:
                result = original(roots, gradients, *args, **kwargs)
                raised = False
            except BaseException as error:
                hide_frames(error)
                raise
            finally:
                if begun is not None:
                    self._end(begun, raised)
                    if begun.inputs is not None and not raised:
                        self._follow(result, begun)
            return result

        return run_backward

    def _begin(self, roots: Any, gradients: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> BackwardPass | None:
        """Record that a pass begins. None if it is not recorded, or has been already.

        The latter happens if other code has wrapped our replacement, and we have since wrapped that.
        """
        tracer = self._tracer
        thread = tracer.thread
        if not (self._replaced and tracer.active) or thread.inside is not None:
            return None
        running = thread.backward_passes
        if running and running[-1].roots is roots and running[-1].gradients is gradients:
            return None
        try:
            now = tracer.now_us()
            location = tracer.locator.locate(2)
            function = "backward" if kwargs.get("accumulate_grad") else "grad"
            with torch._C.DisableTorchFunction():
                tensors = find_tensors((roots,))
                words = tuple(map(tracer.describer.describe, tensors))
                numbers = tuple(map(tracer.registry.meet, tensors))
                is_training = function == "backward" and _is_outermost(running)
                loss = self._losses.define(tensors, location, now) if is_training else 0
                value: Any = value_of(tensors) if is_training else None
                event = Backward(
                    now,
                    tracer.step,
                    0,
                    location,
                    thread.number,
                    thread.stage,
                    function,
                    words,
                    numbers,
                    value,
                    loss,
                    len(args) > _CREATE_GRAPH_INDEX and args[_CREATE_GRAPH_INDEX] is True,
                )
                tracer.broadcast(event, location, level=INFO)
                has_graph = event.create_graph
                if not (running or location == 0):
                    self._derivatives_of(thread).before_pass(
                        tensors, location, is_whole=is_training, has_graph=has_graph
                    )
                if is_training or (function == "grad" and not running and thread.training.is_by_hand):
                    self._source_patterns.look(location)
                marks = None
                if is_training:
                    self._patterns.look(tensors, location)
                    self._singularities.look(tensors, loss)
                    self._class_orders.look(tensors, location)
                    self._equal_labels.look(tensors, location)
                    self._generated_labels.look(tensors, location)
                    self._discarded.look(location)
                    self._outputs.check_loss(tensors, location)
                    with tracer.lock:
                        marks = self._updates.before_backward(tensors, location)
            mode = self._torch_calls
            found = mode.enter_engine() if mode.is_installed else None
            has_results = has_graph and function == "grad" and not running and len(args) > _INPUTS_INDEX
            inputs = args[_INPUTS_INDEX] if has_results else None
            begun = BackwardPass(roots, gradients, function, now, location, found, marks, inputs)
        except Exception as error:  # noqa: BLE001  A mistake of ours must not reach the program.
            tracer.fail(error)
            return None
        running.append(begun)
        return begun

    def _derivatives_of(self, thread: ThreadState) -> Derivatives:
        """What follows the derivatives that a thread computes."""
        found = self._derivatives.get(thread)
        if found is None:
            found = self._derivatives[thread] = Derivatives(self._tracer)
        return found

    def _follow(self, result: Any, begun: BackwardPass) -> None:
        """Follow what a pass has given that can be differentiated again."""
        tracer = self._tracer
        try:
            if tracer.active:
                with torch._C.DisableTorchFunction():
                    self._derivatives_of(tracer.thread).after_pass(result, begun.inputs, begun.location)
        except Exception as error:  # noqa: BLE001
            tracer.fail(error)

    def _end(self, begun: BackwardPass, raised: bool) -> None:
        tracer = self._tracer
        thread = tracer.thread
        thread.backward_passes.pop()
        try:
            if begun.found is not None:
                self._torch_calls.leave_engine(begun.found)
            if not tracer.active:
                return
            now = tracer.now_us()
            location = begun.location
            duration = now - begun.began_us
            event = BackwardEnd(now, tracer.step, 0, location, thread.number, thread.stage, duration, raised)
            tracer.broadcast(event, location, level=INFO)
            if not raised and _is_outermost(thread.backward_passes):
                with tracer.lock, torch._C.DisableTorchFunction():
                    self._updates.after_backward(location, begun.gradient_marks)
        except Exception as error:  # noqa: BLE001
            tracer.fail(error)


def _is_outermost(around: Sequence[BackwardPass]) -> bool:
    """Whether the gradients are complete after a pass: it is not nested in another, as that of a checkpoint is."""
    return not any(outer.function == "backward" for outer in around)
