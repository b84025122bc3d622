"""Assembles a tracer from its interceptors, in the order of installation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy_wrapper.intercept.acts.clipped_gradients import ClippedGradients
from proxy_wrapper.intercept.acts.data_loading import DataLoading
from proxy_wrapper.intercept.acts.flow_steps import FlowSteps
from proxy_wrapper.intercept.acts.training_acts import TrainingActs
from proxy_wrapper.intercept.attaching.graph_captures import GraphCaptures
from proxy_wrapper.intercept.attaching.tensor_swaps import TensorSwaps
from proxy_wrapper.intercept.backward import BackwardPasses
from proxy_wrapper.intercept.calls.attributes import ModuleAttributes
from proxy_wrapper.intercept.calls.autograd_functions import AutogradFunctions
from proxy_wrapper.intercept.calls.module_calls import ModuleCalls
from proxy_wrapper.intercept.calls.torch_calls import TorchCalls
from proxy_wrapper.intercept.calls.unhooked_warnings import UnhookedWarnings
from proxy_wrapper.intercept.compiled.compiled_calls import CompiledCalls
from proxy_wrapper.intercept.compiled.compiled_code import CompiledCode
from proxy_wrapper.intercept.compiled.dynamo_view import DynamoView
from proxy_wrapper.intercept.loss.source_patterns import SourcePatterns
from proxy_wrapper.intercept.processes import Processes, SentModules
from proxy_wrapper.intercept.state.optimizer_states import OptimizerStates
from proxy_wrapper.intercept.state.updates import Updates
from proxy_wrapper.tracer import Tracer

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from torch import nn

    from proxy_wrapper.intercept.calls.blacklist import Blacklist
    from proxy_wrapper.intercept.processes import SentModule
    from proxy_wrapper.tracer import Interceptor


def assemble(
    lock: threading.RLock,
    blacklist: Blacklist,
    take_down: Callable[[], None],
    restore: Callable[[nn.Module, SentModule], None],
) -> Tracer:
    """A tracer with all its interceptors, not installed yet.

    Args:
        lock: held during every change.
        blacklist: the modules whose inside is never observed.
        take_down: ends the tracing in a process that ends without `atexit`.
        restore: proxies a module received through `multiprocessing`; a function that can be pickled by name.
    """
    tracer = Tracer(lock)
    optimizer_states = OptimizerStates(tracer)
    torch_calls = TorchCalls(tracer, blacklist, optimizer_states)
    module_calls = ModuleCalls(tracer, torch_calls)
    unhooked_warnings = UnhookedWarnings(tracer, module_calls)
    source_patterns = SourcePatterns(tracer)
    updates = Updates(tracer, optimizer_states, source_patterns.look)
    tracer.before_flush = updates.before_flush
    tracer.before_root_call = updates.before_root_call
    attributes = ModuleAttributes(tracer)
    autograd_functions = AutogradFunctions(tracer)
    in_torch: list[Interceptor] = [
        module_calls,
        unhooked_warnings,
        updates,
        BackwardPasses(tracer, torch_calls, updates, source_patterns),
        TensorSwaps(tracer),
        TrainingActs(tracer, updates),
        ClippedGradients(tracer, updates),
        DataLoading(tracer),
    ]
    compiled_code = CompiledCode(
        tracer,
        module_calls,
        torch_calls,
        CompiledCalls(tracer, module_calls, updates),
        DynamoView(tracer, module_calls, updates, attributes, autograd_functions),
        [*in_torch, attributes, autograd_functions],
    )
    processes = (Processes(tracer, take_down), SentModules(tracer, restore))
    tracer.flow_steps = FlowSteps(tracer)
    tracer.interceptors = [*processes, GraphCaptures(tracer), *in_torch, compiled_code, tracer.flow_steps]
    tracer.debug_interceptors = [torch_calls, attributes]
    tracer.torch_calls = torch_calls
    tracer.live_interceptors = [module_calls, unhooked_warnings, compiled_code, torch_calls, autograd_functions]
    return tracer
