"""The block of `Proxy.trace`: lets a recording observe the thread, and restores everything at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn
from torch._C import DisableTorchFunction

from proxy_views.errors import NotAModelError
from proxy_views.flow import RecordedFlow
from proxy_views.leaf_functions import LeafFunctions
from proxy_views.live_trace import LiveTrace
from proxy_views.recording import Recording

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable

    from proxy_views.profile.profiler import Profiler
    from proxy_wrapper.live import LiveObserver
    from proxy_wrapper.tracer import Tracer


class Block:
    """Records a call between `begin` and `end`."""

    def __init__(
        self,
        model: nn.Module,
        lock: threading.RLock,
        tracer: Callable[[], Tracer],
        take_down_if_idle: Callable[[Tracer], None],
        is_blacklisted: Callable[[object], bool],
        *,
        call: int,
        live_sizes: bool,
        leaf_functions: Iterable[Callable[..., Any]],
        leaf_modules: tuple[type[nn.Module], ...],
        flow: bool,
        profile: bool,
    ) -> None:
        """Prepare a block. Recording starts with `begin`.

        Args:
            model: the module whose call is recorded.
            lock: held while observers are added and removed.
            tracer: returns the tracer of the process.
            take_down_if_idle: ends tracing if only the block kept it going.
            is_blacklisted: whether a module is never looked into.
            call: the index of the call of the model that is recorded.
            live_sizes: whether the graph computes with tensor sizes.
            leaf_functions: functions whose calls are single nodes.
            leaf_modules: types of modules whose calls are single nodes in all graphs.
            flow: whether conditions and loops are recorded.
            profile: whether calls are measured.

        Raises:
            NotAModelError: if `model` is not a module.
            LeafFunctionError: if a leaf function is not a plain Python function.
        """
        if not isinstance(model, nn.Module):
            raise NotAModelError(model)
        self.model = model
        self._lock = lock
        self._tracer_of_process = tracer
        self._take_down_if_idle = take_down_if_idle
        self._recording = Recording(model, call, is_blacklisted, live_sizes=live_sizes)
        self._flow = RecordedFlow(self._recording) if flow else None
        self._profiler = _profiler_of(self._recording) if profile else None
        self._trace = LiveTrace(self._recording, call, leaf_modules, self._flow, self._profiler)
        self._leaf_functions = LeafFunctions(leaf_functions)
        self._tracer: Tracer | None = None

    def begin(self) -> LiveTrace:
        """Let the recording observe the calls of this thread."""
        self._tracer_of_process()
        with self._lock:
            tracer = self._tracer = self._tracer_of_process()
            with DisableTorchFunction():
                tracer.add_live(self._recording)
                if self._flow is not None and tracer.flow_steps is not None:
                    tracer.flow_steps.add_live(self.model, self._flow)
                if self._profiler is not None:
                    tracer.add_live(self._profiler)
            self._leaf_functions.install(self._observer)
        if self._profiler is not None:
            self._profiler.begin()
        return self._trace

    def end(self) -> None:
        """Stop observing."""
        tracer, self._tracer = self._tracer, None
        if tracer is None:
            return
        if self._profiler is not None:
            self._profiler.end()
        with self._lock, DisableTorchFunction():
            self._leaf_functions.remove()
            if self._flow is not None and tracer.flow_steps is not None:
                tracer.flow_steps.remove_live(self._flow)
            if self._profiler is not None:
                tracer.remove_live(self._profiler)
            tracer.remove_live(self._recording)
            self._recording.stop()
            if tracer.ends_with_blocks and not tracer.is_observed_live:
                tracer.ends_with_blocks = False
                self._take_down_if_idle(tracer)

    def _observer(self) -> LiveObserver | None:
        """The live observer of the calling thread; None where calls are not observed."""
        tracer = self._tracer
        if tracer is None:
            return None
        thread = tracer.thread
        return thread.live if thread.inside is None and not thread.torch_calls else None


def _profiler_of(recording: Recording) -> Profiler:
    from proxy_views.profile.profiler import Profiler  # Imported only if a profile is requested.

    return Profiler(recording.model, recording.serial_now)
