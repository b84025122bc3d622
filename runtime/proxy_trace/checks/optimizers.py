"""Checks that optimizers have the parameters of the trained models.

An optimizer keeps the tensors that it was created with. If the model is then copied, replaced or given new parameters,
the optimizer still steps the old ones. Backward passes reach the new ones, which no optimizer steps.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import NOTE, WARNING
from proxy_trace.checks.rule import Rule
from proxy_trace.reading.folded_names import fold_names

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.process.module_tree import ModuleTree
    from proxy_trace.process.process_summary import ProcessEvidence, TensorSummary
    from proxy_trace.process.training_summary import OptimizerSummary

OTHER_MODEL: Final = Rule(
    "optimizer-of-other-model",
    WARNING,
    "Optimizers of other models",
    "An optimizer that stepped holds tensors that are not parameters of a traced model. Either it holds only such "
    "tensors, and a traced model has as many parameters or trainable parameters: some of these had gradients, but none "
    "was ever in a step or has changed. Or it also holds parameters of a model, and as many other parameters of that "
    "model had gradients that no optimizer used, and have not changed. Or its parameters had gradients at first, but "
    "not in its last steps (at least twenty, and a third of all), although none is frozen and there were backward "
    "passes.",
    "Create the optimizer after the last change to the model: after it was copied, wrapped, moved, given another "
    "head, or loaded as a whole. Or call `load_state_dict`, which keeps the tensors.",
    "show {run} --kind optimizer",
    sources=("https://docs.pytorch.org/docs/stable/optim.html#constructing-it",),
    explains=("no-effect", "never-updated", "optimizer-misses-parameters"),
)
RECREATED: Final = Rule(
    "optimizer-recreated",
    WARNING,
    "Optimizers recreated for each step or each epoch",
    "At least five optimizers of one class were created at one place for the same parameters, and each made one step. "
    "Their state (momentum, averages) is lost each time. Or each made as many steps as a data loader has batches, at "
    "the same learning rate, over several passes through that loader, and only steps changed the parameters; or the "
    "function that created them says by its name that it trains for one epoch, or the innermost loop in which they "
    "were created counts epochs. If they merely made the same number of steps, this is a note: each may be for another "
    "task.",
    "Create the optimizer once, before the loop.",
    "show {run} --kind optimizer",
    sources=("https://discuss.pytorch.org/t/optimizer-defined-inside-the-training-loop/",),
)
HAS_FROZEN: Final = Rule(
    "optimizer-has-frozen",
    WARNING,
    "Frozen parameters that steps still change",
    "A frozen parameter is still in an optimizer. Its gradient exists and is zero, and at least two steps changed its "
    "values through momentum, averages or weight decay.",
    "Freeze first, and pass only the trainable parameters to the optimizer; or let `zero_grad` set gradients to "
    "`None`.",
    "history {run} {name}",
    "parameter",
    ("https://github.com/neuralmagic/sparseml/issues/965",),
)
STAYS_FROZEN: Final = Rule(
    "optimizer-stays-frozen",
    WARNING,
    "Optimizers whose parameters stay frozen",
    "The parameters of an optimizer had gradients at first. In its last steps (at least twenty, and ten times as many "
    "as before) they had none, although there were backward passes, and all are frozen. They may have been frozen for "
    "the step of another model, as a discriminator is for the step of its generator, and never unfrozen.",
    "Set `requires_grad` to true again before the backward pass for this optimizer.",
    "show {run} --kind parameter,optimizer_step",
    sources=("https://github.com/junyanz/pytorch-CycleGAN-and-pix2pix/blob/master/models/pix2pix_model.py",),
)
_RECREATED_NOTE: Final = RECREATED._replace(severity=NOTE)
_FEWEST_EPOCHS: Final = 4
_FEWEST_LEFT: Final = 20
_TIMES_LEFT: Final = 10
_FEWEST_RECREATED: Final = 5
"""Fewer optimizers from one place may be phases of training."""

_STATELESS: Final = frozenset({"SGD"})
"""Classes that keep no state unless momentum is set."""

IS_GRADIENT: Final = Rule(
    "optimizer-keeps-gradient",
    WARNING,
    "Optimizers whose state shares memory with a gradient",
    "An optimizer that is not part of PyTorch began one of its first steps. A tensor in its state shared memory with "
    "the gradient of its parameter, although its name says that it keeps a value for later (`momentum_buffer`, "
    "`previous_grad`). The state was assigned without a copy, and gradients are set to zero or not cleared at all, so "
    "the backward pass overwrote the state.",
    'Store a copy: `state["momentum_buffer"] = p.grad.clone()`.',
    "show {run} --kind state_pattern",
    sources=(
        "https://github.com/jettify/pytorch-optimizer/issues/55",
        "https://github.com/shivram1987/diffGrad/issues/2",
    ),
)

BETAS: Final = Rule(
    "betas-swapped",
    WARNING,
    "Betas of Adam in the wrong order",
    "An optimizer of the Adam family steps with a first beta of at least 0.98 and a smaller second one, such as "
    "(0.999, 0.9). The first is the decay of the average of gradients, usually 0.9; the second that of their squares, "
    "usually 0.95 to 0.999. The other way round, gradients of a thousand steps ago still count, and are divided by the "
    "size of the last ten.",
    "Pass `betas=(0.9, 0.999)`.",
    "show {run} --kind optimizer",
    sources=(
        "https://github.com/mila-iqia/blocks/issues/1159",
        "https://docs.pytorch.org/docs/stable/generated/torch.optim.Adam.html",
    ),
)

_OF_EPOCH: Final = re.compile(r"(^|train|fit|run|one|do)_?(one_?|single_?)?epoch$", re.IGNORECASE)
"""Names of functions that train for one epoch."""
_COUNTS_EPOCHS: Final = re.compile(r"(.*[_.])?epoch(_?(num|number|idx|index|i|id|no))?", re.IGNORECASE)
"""Targets of loops over epochs."""

_ADAMS: Final = frozenset({"Adam", "AdamW", "NAdam", "RAdam", "Adamax", "SparseAdam"})
_SLOW: Final = 0.98


def _look(evidence: Evidence) -> Sight:
    findings: list[Finding] = []
    for of_process, tree in zip(evidence.of_processes, evidence.trees, strict=True):
        findings += _with_other_tensors(of_process, tree)
        findings += _without_gradients(of_process)
        findings += _recreated(of_process)
        findings += _frozen(of_process)
        findings += _with_gradients(of_process)
        findings += _with_swapped_betas(of_process)
    if not any(each.training.optimizers for each in evidence.of_processes):
        return Sight((), evidence.unseen_training("an optimizer"), has_looked=False)
    return Sight(findings, [*evidence.sampling_words, *evidence.watching_words])


def _with_other_tensors(of_process: ProcessEvidence, tree: ModuleTree) -> list[Finding]:
    """The optimizers of one process that have tensors of a replaced or untraced model."""
    process = of_process.process
    of_roots: dict[int, list[TensorSummary]] = {}
    for tensor in process.tensors:
        if not (tensor.is_buffer or tensor.removed):
            of_roots.setdefault(tree.root_of(tensor.module), []).append(tensor)
    names = {module.id: module.name for module in process.modules}
    found = []
    for optimizer in of_process.training.optimizers.values():
        others = sum(group.others for group in optimizer.groups)
        own = {number for group in optimizer.groups for number in group.tensors}
        which = "some of its tensors are not parameters" if own else "none of its tensors is a parameter"
        for root, tensors in of_roots.items():
            if others and _lacks(tensors, own, others):
                numbers = f"{others:,} are not; {names.get(root, '')} has as many with unused gradients"
                rank, place, concerns = process.rank, optimizer.origin, [names.get(root, "")]
                reason = f"{which} of a traced model"
                found.append(
                    OTHER_MODEL.finding(
                        optimizer.name, reason, [rank], place=place, evidence=[numbers], concerns=concerns
                    )
                )
    return found


def _without_gradients(of_process: ProcessEvidence) -> list[Finding]:
    """The optimizers of one process whose parameters had gradients only at first, with the reason."""
    tensors = {tensor.id: tensor for tensor in of_process.process.tensors}
    found = []
    for optimizer in of_process.training.optimizers.values():
        since = optimizer.steps - optimizer.last_fed
        own = [tensors[number] for number in optimizer.tensors if number in tensors]
        if not optimizer.last_fed or since < _FEWEST_LEFT or since * 3 < optimizer.steps or not own:
            continue
        if not any(each.requires_grad for each in own) and since >= optimizer.last_fed * _TIMES_LEFT:
            numbers = [f"frozen in its last {since:,} of {optimizer.steps:,} steps"]
            reason = "its parameters were frozen after its first steps, and stayed frozen"
            rank, place = [of_process.process.rank], optimizer.place
            found.append(STAYS_FROZEN.finding(optimizer.name, reason, rank, place=place, evidence=numbers))
        if not all(each.requires_grad for each in own):
            continue
        if optimizer.passes_since >= since and optimizer.idle * 10 < since and optimizer.cleared * 10 < since:
            numbers = [
                f"none in its last {since:,} of {optimizer.steps:,} steps, with {optimizer.passes_since:,} passes"
            ]
            reason = "its parameters no longer have gradients: another model is trained"
            rank, place = [of_process.process.rank], optimizer.origin
            found.append(OTHER_MODEL.finding(optimizer.name, reason, rank, place=place, evidence=numbers))
    return found


def _with_gradients(of_process: ProcessEvidence) -> list[Finding]:
    """The optimizers of one process whose state shares memory with a gradient."""
    found = []
    for state in of_process.acts.states:
        if state.event.what == "state-is-gradient":
            reason = f'"{state.event.name}" shares memory with the gradient'
            rank, place = [of_process.process.rank], state.made or state.place
            found.append(IS_GRADIENT.finding(state.tensor, reason, rank, step=state.event.step, place=place))
    return found


def _recreated(of_process: ProcessEvidence) -> list[Finding]:
    """The optimizers of one process that were created repeatedly for the same parameters."""
    alike: dict[tuple[str, str, frozenset[int], int], list[OptimizerSummary]] = {}
    for optimizer in of_process.training.optimizers.values():
        if optimizer.made and optimizer.steps and _keeps_state(optimizer):
            key = (optimizer.name, optimizer.made, frozenset(optimizer.tensors), optimizer.steps)
            alike.setdefault(key, []).append(optimizer)
    found = []
    for (name, made, tensors, steps), optimizers in alike.items():
        if not tensors or len(optimizers) < _FEWEST_RECREATED:
            continue
        is_sure = steps == 1 or _are_of_epochs(optimizers, tensors, of_process)
        rule = RECREATED if is_sure else _RECREATED_NOTE
        reason = "created anew for each step" if steps == 1 else f"created anew after {steps:,} steps each"
        numbers = [f"{len(optimizers):,} were made, and each made {steps:,} step{'' if steps == 1 else 's'}"]
        found.append(rule.finding(name, reason, [of_process.process.rank], place=made, evidence=numbers))
    return found


def _are_of_epochs(optimizers: list[OptimizerSummary], tensors: frozenset[int], of_process: ProcessEvidence) -> bool:
    """Whether each optimizer made the steps of one epoch at one rate, and nothing but steps changed the parameters.

    If weights are set in between, as in federated learning, a new optimizer is right.
    """
    steps = optimizers[0].steps
    loaders = [each.last for each in of_process.acts.loaders.values()]
    is_epoch = any(each.trains and each.batches == steps and each.count >= _FEWEST_EPOCHS for each in loaders)
    is_epoch |= all(_OF_EPOCH.search(each.maker) or _COUNTS_EPOCHS.fullmatch(each.loop) for each in optimizers)
    rates = {tuple(group.first_rate for group in each.groups) for each in optimizers}
    own = [each for each in of_process.process.tensors if each.id in tensors]
    is_set = any(set(each.updates) - {"step", "unchanged", "converted"} for each in own)
    return is_epoch and len(rates) == 1 and not is_set


def _with_swapped_betas(of_process: ProcessEvidence) -> list[Finding]:
    """The optimizers of one process whose averages of gradients are slower than those of their squares."""
    found = []
    for optimizer in of_process.training.optimizers.values():
        for group in optimizer.groups if optimizer.name in _ADAMS and optimizer.steps >= 2 else ():
            first, second = (group.settings.get(f"betas.{index}") for index in range(2))
            if isinstance(first, float) and isinstance(second, float) and first >= _SLOW and first > second:
                reason = f"its betas are ({first:g}, {second:g})"
                rank = [of_process.process.rank]
                found.append(BETAS.finding(optimizer.name, reason, rank, place=optimizer.origin))
                break
    return found


def _frozen(of_process: ProcessEvidence) -> list[Finding]:
    """The frozen parameters of one process that steps have changed, grouped by optimizer."""
    found = []
    moved = {each.id: each for each in of_process.process.tensors if each.frozen_steps >= 2 and not each.removed}
    all_names = [each.name for each in of_process.process.tensors if not each.is_buffer]
    for optimizer in of_process.training.optimizers.values():
        own = [moved[number] for number in sorted(optimizer.tensors) if number in moved]
        for name, count in fold_names([each.name for each in own], all_names):
            first = own[0]
            numbers = [f"{first.name} in {first.frozen_steps:,} steps"]
            found.append(
                HAS_FROZEN.finding(
                    name,
                    "frozen, with a gradient of zero, but steps changed it",
                    [of_process.process.rank],
                    count,
                    step=first.first_frozen_step,
                    place=optimizer.origin,
                    evidence=numbers,
                )
            )
    return found


def _keeps_state(optimizer: OptimizerSummary) -> bool:
    """Whether an optimizer keeps state between steps."""
    return optimizer.name not in _STATELESS or any(group.settings.get("momentum") for group in optimizer.groups)


def _lacks(parameters: list[TensorSummary], own: set[int], others: int) -> bool:
    """Whether a model lacks an optimizer for as many parameters as an optimizer has other tensors.

    Args:
        parameters: the parameters of the model.
        own: the ids of the traced parameters in the optimizer.
        others: the number of other tensors in it.
    """
    if own:
        starved = sum(_is_starved(each) and each.id not in own for each in parameters)
        return starved == others and any(each.id in own for each in parameters)
    return _is_starving(parameters) and others in (len(parameters), sum(each.requires_grad for each in parameters))


def _is_starved(parameter: TensorSummary) -> bool:
    """Whether a parameter had gradients that no optimizer used, or was replaced, and has not changed since."""
    if parameter.is_stepped:
        return False
    if parameter.requires_grad and parameter.updates.get("replaced") == parameter.update_count > 0:
        return True
    return parameter.is_without_optimizer and not parameter.has_changed


def _is_starving(parameters: list[TensorSummary]) -> bool:
    """Whether some parameters of a model had gradients, and none was ever in a step or has changed."""
    return any(each.gradients for each in parameters) and not any(
        each.is_stepped or each.has_changed for each in parameters
    )


CHECK: Final = Check(
    "optimizers",
    "optimizers have parameters of the models that are trained",
    _look,
    (OTHER_MODEL, RECREATED, HAS_FROZEN, STAYS_FROZEN, IS_GRADIENT, BETAS),
)
