"""Collects the summary of one process from the events of its file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from proxy_trace.process.acts_collector import ActsCollector
from proxy_trace.process.call_collector import CallCollector
from proxy_trace.process.process_summary import ProblemSummary, ProcessEvidence, ProcessSummary
from proxy_trace.process.progress import Progress, known_name
from proxy_trace.process.tensor_collector import TensorCollector
from proxy_trace.process.training_collector import TrainingCollector
from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_trace.reading.selection import Period
    from proxy_trace.reading.trace import Reading, TraceFile

_PROBLEM_LIMIT: Final = 1000


class ProcessCollector:
    """Collects the summary from the events of one file."""

    def __init__(self, file: TraceFile, reading: Reading, period: Period | None = None) -> None:
        """Begin.

        Args:
            file: the file of the events.
            reading: the pass over them; each event must be passed to `take`.
            period: the selected period; of the rest, only the initial state is kept.
        """
        run = file.run
        self._process = ProcessSummary(
            file=str(file.path),
            rank=run.rank,
            pid=run.pid,
            parent_pid=run.parent_pid,
            started=run.started,
            size_bytes=file.size_bytes(),
            is_empty=period is not None,
        )
        self._started_us = file.started_us()
        self._problems: dict[str, ProblemSummary] = {}
        self._names = reading.names
        self._progress = Progress(self._process)
        self._training = TrainingCollector(reading.names)
        self._acts = ActsCollector(reading.names)
        self._calls = CallCollector(reading.names, self._progress, self._training, self._acts)
        self._tensors = TensorCollector(reading.names, self._progress, self._training)
        self._reading = reading
        self._period = period
        self._events = 0
        self._latest_us = 0
        self._latest_step = 0
        self._has_other_steps = False
        self._stages_outside: dict[str, None] = {}
        self._takers: dict[type[events.Event], Callable[[Any], None]] = {
            **self._calls.takers(),
            **self._tensors.takers(),
            events.Input: self._training.input,
            events.Loss: self._training.loss,
            events.GraphPattern: self._acts.pattern,
            events.StatePattern: self._acts.state_pattern,
            events.SchedulerStep: self._training.scheduler_step,
            events.RateReduced: self._training.rate_reduced,
            events.Clip: self._training.clip,
            events.ScalerStep: self._acts.scaler_step,
            events.Loading: self._acts.loading,
            events.ActiveDropout: self._acts.dropout,
            events.DiscardedResult: self._acts.discarded,
            events.SourcePattern: self._acts.source_pattern,
            events.FreezeWithoutEffect: self._acts.freezing,
            events.RateWithoutEffect: self._training.misplaced_rate,
            events.ScheduleRestart: self._training.schedule_restart,
            events.LoadedRate: self._training.loaded_rate,
            events.Load: self._training.load,
            events.Backward: self._backward,
            events.BackwardEnd: self._backward_end,
            events.Optimizer: self._training.optimizer,
            events.OptimizerStep: self._step,
            events.OptimizerStepEnd: self._step_end,
            events.Problem: self._problem,
            events.Limit: self._limit,
            events.RunEnd: self._run_end,
        }

    def take(self, event: events.AnyEvent) -> None:
        """Take the next event."""
        if self._period is not None and not self._is_in_period(event, self._period):
            return
        self._events += 1
        taker = self._takers.get(type(event))
        if taker is not None:
            taker(event)
        if isinstance(event, events.Happening):
            if event.time_us > self._latest_us:
                self._latest_us = event.time_us
            if event.step > self._latest_step:
                self._latest_step = event.step

    def finish(self) -> ProcessEvidence:
        """The evidence from everything read so far. More events may follow, and this may be called again."""
        process, reading = self._process, self._reading
        process.events = self._events
        process.duration_us = self._latest_us
        process.steps_made = max(self._latest_step, process.steps_made)
        process.stages_outside = list(self._stages_outside)
        process.malformed = reading.malformed
        process.first_malformed_line = reading.first_malformed_line
        process.unknown = reading.unknown
        process.is_cut = reading.is_cut
        process.surplus = reading.surplus + self._calls.surplus
        self._calls.finish()
        self._tensors.finish()
        process.ends_inside = "" if process.end else self._unfinished()
        problems = list(self._problems.values())
        overflows = list(self._tensors.overflows.values())
        told_of = [*self._calls.non_finite, *overflows, *(problem.event for problem in problems)]
        return ProcessEvidence(
            process,
            self._started_us,
            bool(process.steps or (process.steps_made and not self._has_other_steps)),
            self._tensors.has_bits(),
            self._progress.trained_stages(),
            self._tensors.stages_with_gradients,
            self._calls.non_finite,
            self._calls.trails,
            overflows,
            problems,
            self._names.about(told_of),
            self._training.summary(),
            self._acts.summary(),
        )

    def _unfinished(self) -> str:
        """What has begun and not ended; "" for nothing."""
        called = self._calls.open_call()
        return f"a call of {called}" if called else self._progress.unfinished

    def _is_in_period(self, event: events.AnyEvent, period: Period) -> bool:
        if not period.has(event):
            self._pass_over(event)
            return False
        if isinstance(event, events.Happening) and not isinstance(event, events.RunEnd):
            self._process.is_empty = False
        return True

    def _pass_over(self, event: events.AnyEvent) -> None:
        """Keep the initial state of the period, and where else events are, from an event outside of it."""
        if isinstance(event, events.Happening):
            self._process.last_step_outside = max(self._process.last_step_outside, event.step)
            self._stages_outside[known_name(event.stage, self._stages_outside)] = None
        if isinstance(event, events.OptimizerStepEnd):
            self._has_other_steps = self._progress.has_begun = True
        elif isinstance(event, events.Backward):
            self._progress.has_begun = True
        elif isinstance(event, events.Update):
            self._tensors.pass_over(event)

    def _backward(self, event: events.Backward) -> None:
        self._progress.last_pass = event
        self._training.backward(event)
        self._acts.backward()
        self._progress.has_begun = True
        self._process.backward_passes += 1
        self._progress.open_backward_passes += 1
        self._progress.unfinished = "a backward pass"

    def _backward_end(self, event: events.BackwardEnd) -> None:
        self._process.backward_us += event.duration_us
        self._progress.open_backward_passes = max(0, self._progress.open_backward_passes - 1)
        self._progress.unfinished = ""

    def _step(self, event: events.OptimizerStep) -> None:
        self._training.step(event)
        self._progress.has_begun = True
        self._progress.open_backward_passes = 0  # A pass ended by a KeyboardInterrupt has no end record.
        self._progress.unfinished = f"a step of {event.optimizer}"

    def _step_end(self, event: events.OptimizerStepEnd) -> None:
        self._progress.unfinished = ""
        self._training.step_end(event)
        self._process.steps += 1
        self._process.was_looked_at |= self._process.backward_passes > 0
        self._process.steps_made = max(self._process.steps_made, event.step + 1)
        self._progress.stage(event).steps += 1
        optimizers = self._process.optimizers
        optimizer = known_name(event.optimizer, optimizers)
        optimizers[optimizer] = optimizers.get(optimizer, 0) + 1

    def _run_end(self, event: events.RunEnd) -> None:
        self._process.end = f"{event.reason} {event.error}".rstrip()
        self._process.end_step = event.step

    def _limit(self, event: events.Limit) -> None:
        self._process.limited_at_step = event.step

    def _problem(self, event: events.Problem) -> None:
        known = self._problems.get(event.message)
        if known is not None:
            known.count += 1
        elif len(self._problems) < _PROBLEM_LIMIT:
            self._problems[event.message] = ProblemSummary(event.message, event)
