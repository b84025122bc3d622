"""Checks that training has changed every parameter that it should.

Fingerprints decide whether values changed. A parameter without them, as in older traces, is not judged. The reason
for no change is derived from what its optimizer found:

| the parameter | is reported as |
| --- | --- |
| is in an optimizer, and has not changed | never-updated, or why: grad-cut-off, dead-units, update-too-small |
| likewise, but its gradients were negligible beside those of its module | a note: a bias before a normalisation |
| likewise, a bias without gradients, of whose layer only derivatives are used | a note: the bias of an energy |
| is in no optimizer, but had gradients | optimizer-misses-parameters; never-updated if no optimizer steps |
| likewise, in a model that was called in evaluation mode while others trained | a note: a feature extractor |
| is in no optimizer, and never had a gradient | a note: a stored copy, or a part that is not meant to be trained |
| is frozen | a note |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.evidence import NO_TRAINING, is_recorded, is_sampled, of
from proxy_trace.checks.finding import ERROR, NOTE, WARNING
from proxy_trace.checks.rounding import are_updates_lost
from proxy_trace.checks.rule import Rule
from proxy_trace.reading.folded_names import fold_names
from proxy_trace.terminal.units import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.process.module_tree import ModuleTree
    from proxy_trace.process.process_summary import ModuleSummary, ProcessEvidence, TensorSummary
    from proxy_trace.process.training_summary import OptimizerSummary

_NO_OPTIMIZER: Final = "no optimizer has it"
NEVER_UPDATED: Final = Rule(
    "never-updated",
    ERROR,
    "Parameters never updated",
    "Training should have changed a parameter, because it is in an optimizer or had gradients, but by its exact "
    "fingerprint it still has its initial values. The finding says what is known about the reason. Requires level "
    "INFO or DEBUG. Parameters that are not watched, or that have no fingerprints, are not judged.",
    "Check that the optimizer was created from the parameters of this very model after its last change, that the loss "
    "depends on the parameter (no `detach`, `.data` or `no_grad` in between), and that `zero_grad` is not called "
    "between `backward` and `step`.",
    "history {run} {name}",
    "parameter",
    ("Zhang et al., AUTOTRAINER: An Automatic DNN Training Problem Detection and Repair System, ICSE 2021",),
    explains=("untrained", "only-evaluated"),
)
MISSES_PARAMETERS: Final = Rule(
    "optimizer-misses-parameters",
    ERROR,
    "Parameters that no optimizer has",
    "A parameter had gradients, but no optimizer has it and its values never changed, while an optimizer trains "
    "others: its module was created or unfrozen after the optimizer, or left out of its list. Or a parameter was "
    "unfrozen and never changed again, while others of its model had ten or more steps.",
    "Create the optimizer with the parameters of every module to be trained, after all of them are created and "
    "unfrozen; or add them with `add_param_group`.",
    "history {run} {name}",
    "parameter",
    ("https://discuss.pytorch.org/t/how-to-add-parameters-in-module-class-in-pytorch-custom-model/29126",),
)
CUT_OFF: Final = Rule(
    "grad-cut-off",
    ERROR,
    "Parameters that gradients do not reach",
    "Parameters are in an optimizer and their module was called, but no step found a gradient for them: the graph is "
    "cut between the module and the loss.",
    "Look between the module and the loss for `detach()`, `.data`, `.item()`, `no_grad`, a conversion to NumPy, or an "
    "operation without a gradient such as `argmax`.",
    "history {run} {name}",
    "parameter",
    ("https://discuss.pytorch.org/t/model-param-grad-is-none-how-to-debug/52634",),
)
DEAD_UNITS: Final = Rule(
    "dead-units",
    ERROR,
    "Layers whose gradients are always zero",
    "Every gradient of a layer was exactly zero in every step, while others in the model were not: the layer is "
    "followed by something that is flat for every input, such as a ReLU whose inputs are all negative, `sign`, "
    "`round`, or a quantity subtracted from itself.",
    "Look at the initial weights and biases and at the range of the inputs; try a smaller learning rate, or a leaky "
    "activation. Where values are rounded, let the gradient through: `x + (x.round() - x).detach()`.",
    "history {run} {name}",
    "parameter",
    ("Lu et al., Dying ReLU and Initialization: Theory and Numerical Examples, 2019",),
)
TOO_SMALL: Final = Rule(
    "update-too-small",
    ERROR,
    "Updates lost in rounding",
    "A parameter in half precision had non-zero gradients, but no step changed its values: the updates are smaller "
    "than half the distance to the next number that its dtype can represent. Or steps changed few elements of a "
    "weight, which is a warning: with SGD without momentum, or Adam, the root mean square of its updates reached in "
    "none of at least ten steps an eighth of that half, taken at the root mean square of the elements.",
    "Keep the weights in float32 and use `torch.autocast` for the calls; or use an optimizer that keeps a float32 "
    "copy.",
    "history {run} {name}",
    "parameter",
    ("Micikevicius et al., Mixed Precision Training, ICLR 2018",),
    explains=("no-effect",),
)
_MOSTLY_TOO_SMALL: Final = TOO_SMALL._replace(severity=WARNING)
ONLY_EVALUATED: Final = Rule(
    "only-evaluated",
    NOTE,
    "Parameters of models that were only evaluated",
    "A parameter is in no optimizer, and its module or model was only called in evaluation mode while others were "
    "trained: a feature extractor, a teacher, an average.",
    counts="parameter",
)
UNTRAINED: Final = Rule(
    "untrained",
    NOTE,
    "Parameters that nothing trains",
    "A parameter is in no optimizer and never had a gradient, or its gradients were only rounding errors (a bias "
    "before a normalisation), or it is the bias of a layer of whose output the loss uses only derivatives, as that of "
    "an energy.",
    counts="parameter",
)
FROZEN: Final = Rule(
    "frozen",
    NOTE,
    "Frozen parameters",
    "A parameter has `requires_grad=False`, and never had a gradient.",
    counts="parameter",
)

_SAMPLED: Final = "it still has its initial values; only a sample of its gradients and steps is recorded"

_FEWEST_STEPS: Final = 10
"""The least number of steps that the rest of a model makes without an unfrozen parameter. Fewer may be a phase."""

_NEGLIGIBLE: Final = 1e-5
"""Rounding errors in a gradient that should be 0, relative to others: for a bias before `BatchNorm`."""


class _Reason(NamedTuple):
    """Why a parameter has not changed: the rule, and the text."""

    rule: Rule
    words: str


_FROZEN: Final = _Reason(FROZEN, "frozen (requires_grad is False)")


def _look(evidence: Evidence) -> Sight:
    findings: list[Finding] = []
    unknown = awaiting = 0
    trained = [of_process for of_process in evidence.of_processes if of_process.has_trained]
    for of_process, tree in zip(evidence.of_processes, evidence.trees, strict=True):
        if of_process.has_trained:
            judge = _Judge(of_process, tree)
            findings += judge.findings()
            unknown += judge.unknown
            awaiting += judge.awaiting
    parameters = len(evidence.parameters)
    unseen = [*evidence.level_words, *evidence.watching_words]
    if unknown:
        unseen.append(f"the values of {of(unknown, parameters, 'parameter')} were not compared")
    if awaiting:
        unseen.append(f"the run ended before the optimizer of {of(awaiting, parameters, 'parameter')} stepped")
    if not trained:
        return Sight(findings, evidence.level_words or [NO_TRAINING], has_looked=False)
    if evidence.is_quiet or unknown + awaiting >= parameters:
        return Sight(findings, unseen or ["no parameter was traced"], has_looked=False)
    return Sight(findings, unseen)


class _Judge:
    """Judges the parameters of one process that has trained.

    Attributes:
        unknown: the number of parameters for which it is unknown whether their values changed.
        awaiting: the number of parameters whose optimizer had not stepped when the run ended early.
    """

    def __init__(self, of_process: ProcessEvidence, tree: ModuleTree) -> None:
        self.unknown = self.awaiting = 0
        self._of_process = of_process
        self._tree = tree
        self._modules = {module.id: module for module in of_process.process.modules}
        self._has_optimizer = bool(of_process.process.steps)
        optimizers = of_process.training.optimizers.values()
        self._optimizers = {number: each for each in optimizers for number in each.tensors if each.steps}
        self._idle = {number for each in optimizers if not each.steps for number in each.tensors}
        # A part that was removed from the model is not missing: a replaced head, a weight that is now computed.
        self._parameters = [
            each
            for each in of_process.process.tensors
            if not (each.is_buffer or each.is_empty or each.removed or each.derived)
        ]
        self._roots = {tensor.id: tree.root_of(tensor.module) for tensor in self._parameters}
        self._stepped_roots = {self._roots[tensor.id] for tensor in self._parameters if tensor.is_stepped}
        self._roots_by_hand = {
            self._roots[tensor.id] for tensor in self._parameters if tensor.gradients and tensor.has_changed
        } - self._stepped_roots
        self._last_steps: dict[int, int] = {}
        for tensor in self._parameters:
            root = self._roots[tensor.id]
            self._last_steps[root] = max(tensor.last_gradient_step, self._last_steps.get(root, -1))
        self._gradients_of_modules: dict[int, float] = {}
        for tensor in self._parameters:
            if tensor.has_changed:
                largest = max(tensor.largest_gradient, self._gradients_of_modules.get(tensor.module, 0.0))
                self._gradients_of_modules[tensor.module] = largest
        self._is_mode_telling = any(
            tensor.has_changed and not self._is_called_in_evaluation_mode(tensor) for tensor in self._parameters
        )
        self._evaluated_roots = self._only_evaluated()
        with_some = {module.id for tensor in self._parameters for module in tree.upwards(tensor.module)}
        trainable = (tensor for tensor in self._parameters if tensor.requires_grad)
        self._frozen = with_some - {module.id for tensor in trainable for module in tree.upwards(tensor.module)}

    def findings(self) -> list[Finding]:
        """The findings; parameters with one reason that make up a module are merged."""
        tensors_by_reason: dict[_Reason, list[TensorSummary]] = {}
        for tensor in self._parameters:
            module = self._modules.get(tensor.module)
            if not tensor.watched or (module is not None and not is_recorded(module)):
                continue
            reason = self._reason(tensor, module)
            if reason is not None:
                tensors_by_reason.setdefault(reason, []).append(tensor)
        rank = self._of_process.process.rank
        return [
            reason.rule.finding(
                name, reason.words, [rank], count, place=self._place(reason.rule, name, tensors), concerns=[name]
            )
            for reason, tensors in tensors_by_reason.items()
            for name, count in self._folded(reason.rule, [tensor.name for tensor in tensors])
        ]

    def _folded(self, rule: Rule, names: list[str]) -> Iterable[tuple[str, int]]:
        """The names for which one finding each is made, with how many parameters it counts."""
        if rule is _MOSTLY_TOO_SMALL:  # One choice of a dtype is behind all of these.
            return [(names[0], len(names))]
        return fold_names(names, [tensor.name for tensor in self._parameters])

    def _place(self, rule: Rule, name: str, tensors: Sequence[TensorSummary]) -> str:
        """Where the optimizer was created, or the module with the parameters `name` was called or created."""
        prefix = name.removesuffix("*")
        first = next(tensor for tensor in tensors if tensor.name == name or tensor.name.startswith(prefix))
        root = self._modules.get(self._roots[first.id])
        if rule in (MISSES_PARAMETERS, TOO_SMALL, _MOSTLY_TOO_SMALL):
            optimizer = self._nearest_optimizer(first, root)
            if optimizer is not None and optimizer.origin:
                return optimizer.origin
        holder = self._modules.get(first.module)
        is_reached = any(each.gradients for each in self._parameters if each.module == first.module)
        if rule is CUT_OFF and not is_reached:  # Otherwise the cut is within the module.
            place = self._line_of_cut(first, root) or self._place_of_cut(first, prefix)
            if place:
                return place
        if rule is DEAD_UNITS:
            patterns = self._of_process.acts.patterns
            rounded = (
                each.made for each in patterns if each.event.what == "rounded" and first.id in each.event.weights
            )
            place = next((each for each in rounded if each), "")
            if place:
                return place
        if holder is not None and holder.made:
            return holder.made
        return "" if root is None else root.place

    def _line_of_cut(self, first: TensorSummary, root: ModuleSummary | None) -> str:
        """The line that cut a tensor off the graph, if no parameter of a model has gradients but its output had, or "".

        It is the only such line among those that computed the loss of the model's optimizer; "" if not known.
        """
        own = [] if root is None else [each for each in self._parameters if self._roots[each.id] == root.id]
        if root is None or root.is_cut_off or any(each.gradients for each in own):
            return ""
        training = self._of_process.training
        optimizers = [each for each in training.optimizers.values() if each.steps and first.id in each.tensors]
        losses = [training.losses[each.loss] for each in optimizers if each.loss in training.losses]
        return losses[0].cut if len(losses) == 1 else ""

    def _place_of_cut(self, first: TensorSummary, prefix: str) -> str:
        """Where the module was called after which no gradient comes back; "" if none was called.

        The module's own output still had a path for gradients, while that of the module around it had none. If all
        modules called in a module had none, as under `no_grad`, it is the outermost of these. If no module is known to
        have had none, it is the outermost one with the parameters.
        """
        called = [each for each in self._tree.upwards(first.module) if each.called_place]
        index = next((index for index, module in enumerate(called) if module.is_cut_off), None)
        if index is None:
            within = [each for each in called if f"{each.name}.".startswith(prefix)] or called[:1]
            return within[-1].called_place if within else ""
        if index:
            return called[index - 1].called_place
        last = called[0]
        for module in called[1:]:
            if not (module.is_cut_off and self._are_all_cut_off(module)):
                break
            last = module
        return last.called_place

    def _are_all_cut_off(self, module: ModuleSummary) -> bool:
        """Whether no gradient reaches any called module with trainable parameters directly inside another one."""
        inside = (each for each in self._modules.values() if each.parent == module.id)
        return all(each.is_cut_off for each in inside if each.calls and each.parameters and each.id not in self._frozen)

    def _nearest_optimizer(self, tensor: TensorSummary, root: ModuleSummary | None) -> OptimizerSummary | None:
        """The optimizer that has a parameter, or others of its model, or else the first that stepped."""
        optimizers = [each for each in self._of_process.training.optimizers.values() if each.steps]
        if tensor.unfrozen_step >= 0:  # Optimizers from before it was frozen do not count.
            optimizers = [each for each in reversed(optimizers) if tensor.id not in each.tensors]
        of_root = {each.id for each in self._parameters if root is not None and self._roots[each.id] == root.id}
        for wanted in ({tensor.id}, of_root):
            found = next((each for each in optimizers if wanted & each.tensors), None)
            if found is not None:
                return found
        return next(iter(optimizers), None)

    def _reason(self, tensor: TensorSummary, module: ModuleSummary | None) -> _Reason | None:
        """Why a parameter has not changed, or not since it was unfrozen; None if it has, or if unknown."""
        if self._is_unfrozen_in_vain(tensor):
            unfrozen = format_count(tensor.unfrozen_step, "step")
            return _Reason(MISSES_PARAMETERS, f"unfrozen after {unfrozen}, but {_NO_OPTIMIZER}")
        if tensor.has_changed:
            is_lost = are_updates_lost(tensor, self._optimizers.get(tensor.id))
            dtype = tensor.type.partition("[")[0]
            return _Reason(_MOSTLY_TOO_SMALL, f"nearly all of its updates are lost in {dtype}") if is_lost else None
        if not (tensor.requires_grad or tensor.gradients):
            return _FROZEN
        if not tensor.is_compared:
            self.unknown += 1
            return None
        if module is not None and is_sampled(module):
            is_told = tensor.is_stepped or bool(tensor.gradients)
            return _Reason(NEVER_UPDATED if is_told else UNTRAINED, _SAMPLED)
        is_bias = "," not in tensor.type
        if tensor.gradients and (is_bias or tensor.has_nonzero_gradient) and self._is_negligible(tensor):
            what = "only rounding errors" if tensor.has_nonzero_gradient else "zero: the loss does not depend on it"
            return _Reason(UNTRAINED, f"compared with the other gradients of its module, its own were {what}")
        if tensor.is_stepped and self._is_differentiated_away(tensor):
            return _Reason(UNTRAINED, "the loss depends only on derivatives of its layer's output")
        if tensor.is_stepped:
            return _Reason(self._rule_of_stepped(tensor), f"in an optimizer, but {_why_not_stepped(tensor)}")
        if tensor.changes and not tensor.gradients:
            return None  # It received another model's weights for evaluation: an average.
        return self._reason_outside_of_steps(tensor)

    def _is_differentiated_away(self, tensor: TensorSummary) -> bool:
        """Whether the loss has only derivatives of a layer's output: its weight has gradients, but its bias has none.

        A loss of the output itself would give gradients to both. Tied weights may have theirs from elsewhere.
        """
        holder = self._modules.get(tensor.module)
        training = self._of_process.training
        if not training.differentiable_passes or tensor.gradients or not tensor.name.endswith(".bias"):
            return False
        if holder is None or not holder.settings or any(each.cut for each in training.losses.values()):
            return False  # Layers of the program may not use their bias.
        others = [each for each in self._parameters if each.module == tensor.module and each is not tensor]
        return bool(others) and all(each.gradients and not each.aliases for each in others)

    def _is_unfrozen_in_vain(self, tensor: TensorSummary) -> bool:
        """Whether the model was trained for a while since a parameter was unfrozen, but the parameter was not."""
        last = self._last_steps.get(self._roots[tensor.id], -1)
        return 0 <= tensor.unfrozen_step <= last - _FEWEST_STEPS and not self._is_called_in_evaluation_mode(tensor)

    def _rule_of_stepped(self, tensor: TensorSummary) -> Rule:
        """The rule for a parameter that its optimizer's steps have not changed."""
        if tensor.has_nonzero_gradient:
            is_half = tensor.type.startswith(("float16", "bfloat16"))
            return TOO_SMALL if is_half and not tensor.missing_gradients else NEVER_UPDATED
        if _were_cleared(tensor):
            return NEVER_UPDATED
        is_called = any(module.training_calls for module in self._tree.upwards(tensor.module) if module.calls)
        holder = self._modules.get(tensor.module)
        if not tensor.gradients:
            return CUT_OFF if is_called and holder is not None and holder.calls else NEVER_UPDATED
        others = any(each.has_nonzero_gradient for each in self._parameters if each is not tensor)
        return DEAD_UNITS if not tensor.missing_gradients and others else NEVER_UPDATED

    def _reason_outside_of_steps(self, tensor: TensorSummary) -> _Reason | None:
        root = self._roots[tensor.id]
        is_by_hand = root in self._roots_by_hand or not self._has_optimizer
        if tensor.id in self._idle and self._of_process.process.end not in ("exit", "unproxied"):
            self.awaiting += 1
            return None
        subject = "nothing changed it" if is_by_hand else _NO_OPTIMIZER
        if self._is_mode_telling and self._is_called_in_evaluation_mode(tensor):
            return _Reason(ONLY_EVALUATED, f"{subject}; the module was called in evaluation mode only")
        if tensor.gradients:
            if tensor.id in self._idle and not is_by_hand:
                subject = "its optimizer never stepped"
            elif not (tensor.is_without_optimizer or is_by_hand):
                subject = "no optimizer's step updated it"
            rule = MISSES_PARAMETERS if subject == _NO_OPTIMIZER and self._has_optimizer else NEVER_UPDATED
            return _Reason(rule, f"had gradients, but {subject}")
        if root in self._evaluated_roots:
            return _Reason(ONLY_EVALUATED, f"{subject}; the model was called for evaluation only")
        if root in self._roots_by_hand:
            return _Reason(NEVER_UPDATED, "it never had a gradient, and nothing changed it")
        return _Reason(UNTRAINED, f"{subject}, and it never had a gradient")

    def _is_negligible(self, tensor: TensorSummary) -> bool:
        """Whether all gradients of a parameter were no more than rounding beside those of one that did change."""
        return tensor.largest_gradient < _NEGLIGIBLE * self._gradients_of_modules.get(tensor.module, 0.0)

    def _is_called_in_evaluation_mode(self, tensor: TensorSummary) -> bool:
        """Whether the module of a parameter, or the first around it that was called, never was in training mode."""
        for module in self._tree.upwards(tensor.module):
            if module.calls:
                return not module.training_calls
        return False

    def _only_evaluated(self) -> set[int]:
        """The roots that were called, but in no stage that trained anything: as a checkpoint is that is tried out."""
        of_process = self._of_process
        trained_stages = of_process.trained_stages or of_process.stages_with_gradients
        stages: dict[int, set[str]] = {}
        for module in of_process.process.modules:
            stages.setdefault(self._tree.root_of(module.id), set()).update(module.stages)
        return {
            root
            for root, called_in in stages.items()
            if trained_stages and called_in and not called_in & trained_stages
        }


def _were_cleared(tensor: TensorSummary) -> bool:
    """Whether most steps found no gradient of a parameter, or only zeros, because it had been cleared."""
    return tensor.cleared_gradients * 2 > tensor.missing_gradients + tensor.gradients


def _why_not_stepped(tensor: TensorSummary) -> str:
    """Why its optimizer's steps have not changed a parameter."""
    if not tensor.has_nonzero_gradient:
        if _were_cleared(tensor):
            return "its gradient was cleared before the step"
        if tensor.missing_gradients and not tensor.gradients:
            return "it never had a gradient"
        if tensor.missing_gradients:
            return "it had no gradient, or only zeros"
    unchanged = "no step changed its values" if tensor.changes else "its values never changed"
    is_zero = tensor.gradients and not tensor.has_nonzero_gradient
    return f"{unchanged}{'; its gradient was always zero' if is_zero else ''}"


CHECK: Final = Check(
    "updates",
    "training has changed every parameter that it should",
    _look,
    (NEVER_UPDATED, MISSES_PARAMETERS, CUT_OFF, DEAD_UNITS, TOO_SMALL, ONLY_EVALUATED, UNTRAINED, FROZEN),
)
