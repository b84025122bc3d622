"""Collects the parameters and buffers of a process, their gradients and their changes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from proxy_trace.process.process_summary import TensorSummary
from proxy_trace.process.progress import known_name
from proxy_trace.reading.names import MOST_DEFINITIONS
from proxy_trace.tensors.same_values import are_same_values, has_bits
from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_trace.process.progress import Progress
    from proxy_trace.process.training_collector import TrainingCollector
    from proxy_trace.reading.names import Names

_ANY_STAGE: Final = ""
"""The stage of a change that may have happened in any stage."""
_MOST_ALIKE: Final = 16


class TensorCollector:
    """Collects parameters and buffers.

    Attributes:
        stages_with_gradients: the stages in which a parameter had a gradient.
        overflows: the first record with an infinite norm of finite elements, for each parameter, buffer and gradient,
            in order.
    """

    def __init__(self, names: Names, progress: Progress, training: TrainingCollector) -> None:
        self.stages_with_gradients: set[str] = set()
        self.overflows: dict[tuple[type, int], events.Gradient | events.Update] = {}
        self._names = names
        self._process = progress.process
        self._progress = progress
        self._training = training
        self._tensors: dict[int, TensorSummary] = {}
        self._current: dict[int, events.Statistics | None] = {}
        # The first few tensors with the same name in their models, and the same type.
        self._alike: dict[tuple[str, str], list[TensorSummary]] = {}
        self._of_modules: dict[int, list[TensorSummary]] = {}

    def takers(self) -> dict[type[events.Event], Callable[[Any], None]]:
        """What takes the events of each type."""
        return {
            events.Parameter: self._tensor,
            events.Buffer: self._tensor,
            events.Gradient: self._gradient,
            events.Update: self._update,
        }

    def pass_over(self, event: events.Update) -> None:
        """Keep the state that an update outside of the selected period leaves."""
        if self._is_of_optimizer(event):
            return
        tensor = self._tensor_of(event.tensor)
        self._exchange(event.tensor, event.statistics)
        tensor.last = event.statistics or tensor.last
        if not tensor.updates:
            tensor.first = event.statistics

    def finish(self) -> None:
        """Complete the summary with the tensors.

        Changes count as training in stages with optimizer steps; without any, outside of evaluation. Changes at an
        unknown time count too.
        """
        self._process.tensors = list(self._tensors.values())
        trained = self._progress.trained_stages() | {_ANY_STAGE}
        for tensor in self._process.tensors:
            tensor.has_changed = any(
                stage in trained if len(trained) > 1 else stage != events.EVAL for stage in tensor.changes
            )

    def has_bits(self) -> bool:
        """Whether any values have a fingerprint."""
        tensors = self._tensors.values()
        return any(has_bits(each) for tensor in tensors for each in (tensor.last, tensor.last_gradient))

    def _tensor(self, event: events.StateTensor) -> None:
        tensor = self._tensor_of(event.id)
        tensor.name, tensor.type, tensor.module = event.name, event.type, event.module
        if event.id in self._current and event.requires_grad and not tensor.requires_grad:
            tensor.unfrozen_step = self._process.steps
        tensor.requires_grad, tensor.aliases, tensor.watched = event.requires_grad, event.aliases, event.watched
        tensor.is_buffer, tensor.removed = isinstance(event, events.Buffer), event.removed
        tensor.freed, tensor.device, tensor.derived = event.freed, event.device, event.derived
        tensor.filled_place = self._names.place(event.filled)
        self._keep_by_module(tensor)
        is_known = event.id in self._current  # Then only its name or freezing changes.
        if is_known and are_same_values(self._current[event.id], event.statistics) is False:
            tensor.begin_anew()  # Or a layer was replaced.
            is_known = False
        if not is_known:
            tensor.first = tensor.last = event.statistics
            tensor.is_snapshot = self._is_snapshot(event)
            self._exchange(event.id, event.statistics)

    def _is_snapshot(self, event: events.StateTensor) -> bool:
        """Whether a new tensor has the values of one of another model that training has changed, to the bit."""
        if event.id not in self._tensors:
            return False
        alike = self._alike.setdefault((event.name.partition(".")[2], event.type), [])
        mine = event.statistics
        is_snapshot = mine is not None and any(
            each.changes and each.id != event.id and are_same_values(self._current.get(each.id), mine) for each in alike
        )
        if len(alike) < _MOST_ALIKE:
            alike.append(self._tensor_of(event.id))
        return is_snapshot

    def _tensor_of(self, id_: int) -> TensorSummary:
        tensor = self._tensors.get(id_)
        if tensor is None:
            if not id_ or len(self._tensors) >= MOST_DEFINITIONS:
                return TensorSummary(id_, f"#{id_}")
            tensor = self._tensors[id_] = TensorSummary(id_, f"#{id_}")
        return tensor

    def _keep_by_module(self, tensor: TensorSummary) -> None:
        """Index a parameter or buffer by its module."""
        of_module = self._of_modules.setdefault(tensor.module, [])
        if not any(each is tensor for each in of_module):
            of_module.append(tensor)

    def _gradient(self, event: events.Gradient) -> None:
        tensor = self._tensor_of(event.tensor)
        statistics = event.statistics
        self._training.gradient(event)
        tensor.cleared_gradients += event.cleared
        if event.has_optimizer:
            tensor.unfrozen_step = -1
        else:
            tensor.is_without_optimizer = True
            if not tensor.left_place and event.location:
                tensor.left_place = self._names.place(event.location)
        if statistics is None:
            tensor.missing_gradients += 1
            return
        tensor.gradients += 1
        if event.has_optimizer:
            tensor.last_gradient_step = event.step
        self.stages_with_gradients.add(known_name(event.stage, self.stages_with_gradients))
        tensor.last_gradient = statistics
        # Not the norm, which is 0 if all squares are.
        lowest, highest = statistics.minimum, statistics.maximum
        if isinstance(lowest, float) and isinstance(highest, float):
            tensor.largest_gradient = max(tensor.largest_gradient, -lowest, highest)
            tensor.has_nonzero_gradient |= lowest != 0.0 or highest != 0.0
        elif lowest is not None:
            tensor.has_nonzero_gradient = True
        norm = statistics.norm if isinstance(statistics.norm, float) else math.inf
        tensor.largest_gradient_norm = max(tensor.largest_gradient_norm, norm)
        if statistics.norm == "inf":
            self._check_norm(event, tensor)

    def _is_of_optimizer(self, event: events.Update) -> bool:
        """Whether an optimizer's own tensor has changed, which is not trained."""
        return isinstance(self._names.tensors.get(event.tensor), events.OptimizerState)

    def _update(self, event: events.Update) -> None:
        if self._is_of_optimizer(event):
            return
        tensor = self._tensor_of(event.tensor)
        statistics, cause = event.statistics, known_name(event.cause, tensor.updates)
        before = self._exchange(event.tensor, statistics)
        tensor.last = statistics or tensor.last
        if event.type:
            tensor.type = event.type
        if cause == "converted":
            tensor.updates[cause] = tensor.updates.get(cause, 0) + 1
            tensor.first = statistics if are_same_values(tensor.first, before) else None
            return
        if cause in ("step", "unchanged"):
            tensor.is_stepped = True
            tensor.moved_steps += are_same_values(tensor.last_stepped, before) is False
            tensor.last_stepped = statistics
        else:
            tensor.last_between = statistics
        is_same = are_same_values(before, statistics)
        if cause == "step" and is_same is False and _is_frozen(tensor):
            tensor.frozen_steps += 1
            tensor.first_frozen_step = event.step if tensor.first_frozen_step < 0 else tensor.first_frozen_step
        if is_same:
            cause = "unchanged"
        tensor.updates[cause] = tensor.updates.get(cause, 0) + 1
        if is_same is False:
            tensor.unfrozen_step = -1
            self._note_move(tensor, event)
        if statistics is not None and statistics.norm == "inf":
            self._check_norm(event, tensor)
        if cause == "unchanged":
            tensor.undecided += not is_same
            if event.cause in ("step", "unchanged") and are_same_values(tensor.first, statistics) is False:
                # A step that did not change it found it changed, so values set for evaluation have stayed.
                self._compare_with_first(tensor, statistics, event.stage)
        elif not (self._progress.has_begun or event.step or cause == "step" or tensor.is_buffer):
            # Set by hand after it was proxied (loaded, initialised): training starts from there.
            tensor.first, tensor.undecided = statistics, 0
        else:
            # Changes visible only in the values are found late: the program may be in another stage by then.
            self._compare_with_first(tensor, statistics, _ANY_STAGE if cause == "data" else event.stage)

    def _note_move(self, tensor: TensorSummary, event: events.Update) -> None:
        """Count a change of a buffer whose module's parameters are all frozen; start over if one of these changes."""
        of_module = self._of_modules.get(tensor.module, [])
        if not tensor.is_buffer:
            for each in of_module:
                each.frozen_moves = 0
            return
        parameters = [each for each in of_module if not (each.is_buffer or each.removed)]
        if self._process.steps and parameters and not any(each.requires_grad for each in parameters):
            tensor.frozen_moves += event.step > tensor.last_move
            tensor.last_move = event.step

    @staticmethod
    def _compare_with_first(tensor: TensorSummary, statistics: events.Statistics | None, stage: str) -> None:
        """Compare with the first values, not the last: restoring trained values after trying others is no training."""
        is_first = are_same_values(tensor.first, statistics)
        if is_first is None:
            tensor.undecided += 1
        elif not is_first:
            stage = known_name(stage, tensor.changes)
            tensor.changes[stage] = tensor.changes.get(stage, 0) + 1

    def _exchange(self, id_: int, statistics: events.Statistics | None) -> events.Statistics | None:
        """Store a tensor's new statistics; returns the old ones, None if they were unreadable."""
        before = self._current.get(id_)
        if id_ in self._tensors:
            self._current[id_] = statistics
        return before

    def _check_norm(self, event: events.Gradient | events.Update, tensor: TensorSummary) -> None:
        """Note the first infinite norm of a tensor, except for buffers created with such values, like masks."""
        numbers, first = event.statistics, tensor.first
        if numbers is None or numbers.norm != "inf" or numbers.nonfinite or event.tensor not in self._tensors:
            return
        if not (tensor.is_buffer and first is not None and first.norm == "inf"):
            self.overflows.setdefault((type(event), event.tensor), event)


def _is_frozen(tensor: TensorSummary) -> bool:
    """Whether a parameter is frozen and its gradient at this step is zero."""
    gradient = tensor.last_gradient
    return not (tensor.requires_grad or tensor.is_buffer) and (
        gradient is not None and gradient.minimum == 0.0 == gradient.maximum
    )
