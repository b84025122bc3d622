"""Checks that steps of optimizers found gradients, and that gradients were used by a step.

A step without gradients changes nothing, and raises no error. What came before it shows why:

| before most steps of an optimizer | code |
| --- | --- |
| no backward pass since a step of any optimizer | step-without-backward |
| no backward pass, and the gradients of its previous step were still there | step-without-backward, as a warning |
| a backward pass had left gradients, and they were cleared | grad-cleared-before-step |
| likewise for some steps with accumulated gradients | grad-cleared-before-step, as a warning |
| backward passes of losses whose graph does not reach a model | loss-detached |
| backward passes that left only zeros | loss-constant |

For an optimizer that has parameters of a model called for training, but never stepped:

| the losses | code |
| --- | --- |
| were scaled, as for gradient accumulation, and no optimizer stepped | \
accumulation-never-stepped |
| were not scaled, or others stepped | backward-without-step |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import ERROR, WARNING
from proxy_trace.checks.rule import Rule
from proxy_trace.events.loss_text import call_of

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.process.module_tree import ModuleTree
    from proxy_trace.process.process_summary import ProcessEvidence
    from proxy_trace.process.training_summary import LossSummary, OptimizerSummary

_UNCHANGED: Final = ("no-effect", "never-updated", "grad-cut-off", "dead-units", "optimizer-misses-parameters")

CLEARED: Final = Rule(
    "grad-cleared-before-step",
    ERROR,
    "Gradients cleared before the step",
    "In at least nine of ten steps of an optimizer, and at least two, there was no gradient, or only zeros, although "
    "a backward pass had computed some: something such as `zero_grad` cleared them. Or, in as many steps, "
    "gradients were accumulated over several backward passes at one place, with a loss that is divided accordingly, "
    "and the gradients of each pass were cleared before the next. If that happens only now and then, because the last "
    "batches of an epoch are too few for a step, it is a warning. It is an error whatever the loss is divided by, if "
    "the source shows the step after the loop whose passes clear the gradients, instead of in it.",
    "Call `zero_grad()` before the backward pass, or after the step. Step in the loop over batches. If gradients "
    "are accumulated, step once more after the last batch of an epoch.",
    "show {run} --kind optimizer_step,gradient",
    sources=("https://discuss.pytorch.org/t/zero-grad-optimizer-or-net/1887",),
    explains=_UNCHANGED,
)
IDLE: Final = Rule(
    "step-without-backward",
    ERROR,
    "Steps without a backward pass",
    "In at least nine of ten steps of an optimizer, and at least two, there was no gradient, or only zeros, and there "
    "had been no backward pass since the last step of any optimizer. If there was none in a third of its steps, which "
    "used the gradients of the step before once more, to the bit, it is a warning.",
    "Before each step, call `backward()` on the loss that this optimizer minimises.",
    "show {run} --kind backward,optimizer_step",
    sources=("Humbatova et al., Taxonomy of Real Faults in Deep Learning Systems, ICSE 2020",),
    explains=_UNCHANGED,
)
DETACHED: Final = Rule(
    "loss-detached",
    ERROR,
    "Losses without a connection to a model",
    "At least nine of ten steps of an optimizer found no gradient, and no loss has a node of a model in its autograd "
    "graph: the loss was built from plain numbers, or its inputs were detached.",
    "Compute the loss from the model's outputs using only torch operations: no `.item()`, `.detach()`, `.data`, "
    "`torch.tensor(...)` or NumPy on the way.",
    "show {run} --kind loss",
    sources=("https://discuss.pytorch.org/t/loss-backward-runs-but-weights-do-not-change/50494",),
    explains=_UNCHANGED,
)
CONSTANT: Final = Rule(
    "loss-constant",
    ERROR,
    "Losses that do not depend on the weights",
    "At least nine of ten steps of an optimizer found only gradients that were exactly zero: the inputs of the loss "
    "do not change with the weights, such as a softmax over a single element, or a value far in the flat part of a "
    "function.",
    "Print the loss and the model's output for two batches, and find the operation that makes them equal.",
    "show {run} --kind loss,gradient",
    explains=_UNCHANGED,
)
NEVER_STEPPED: Final = Rule(
    "accumulation-never-stepped",
    WARNING,
    "Accumulated gradients that no step uses",
    "There were backward passes with losses that are divided for accumulation, and an optimizer was created for the "
    "model, but no optimizer ever stepped: the condition for the step was never met.",
    "Print the numbers in the condition: an epoch may have fewer batches than are accumulated. Step once more after "
    "the last batch.",
    "show {run} --kind backward,optimizer,optimizer_step",
    explains=(*_UNCHANGED, "untrained"),
)
CROSSES: Final = Rule(
    "accumulation-crosses-epochs",
    WARNING,
    "Accumulated gradients that are carried into the next epoch",
    "Gradients of a number of backward passes are accumulated for each step, with losses that are divided, and a "
    "`DataLoader` has a number of batches that this number does not divide. Two or more steps used as many passes more "
    "as remain at the end of an epoch, and all others the same number. So the last batches of an epoch have no step, "
    "and their gradients are added to those of the first step of the next epoch, which is too large; at the end of "
    "training, they are lost.",
    "Step after the last batch of an epoch, too: `if (i + 1) % n == 0 or i + 1 == len(loader)`.",
    "show {run} --kind backward,optimizer_step,loading",
    sources=(
        "https://github.com/huggingface/transformers/pull/22098",
        "https://github.com/meta-pytorch/torchtune/pull/2745",
    ),
)
WITHOUT_STEP: Final = Rule(
    "backward-without-step",
    WARNING,
    "Optimizers that never step",
    "An optimizer was created for parameters of a model that was called for training, and there were backward passes, "
    "but the optimizer never stepped, and no other one changed the parameters.",
    "Call `step()` on this optimizer, or delete it.",
    "show {run} --kind backward,optimizer,optimizer_step",
    sources=("Humbatova et al., Taxonomy of Real Faults in Deep Learning Systems, ICSE 2020",),
    explains=(*_UNCHANGED, "untrained"),
)

_END_CLEARED: Final = CLEARED._replace(severity=WARNING)
_REPEATED: Final = IDLE._replace(severity=WARNING)
_SCALINGS: Final = frozenset({"Div", "Mul"})


def _look(evidence: Evidence) -> Sight:
    findings: list[Finding] = []
    is_any = False
    for of_process, tree in zip(evidence.of_processes, evidence.trees, strict=True):
        is_any |= bool(of_process.training.optimizers)
        for optimizer in of_process.training.optimizers.values():
            found = (
                _of_steps(optimizer, of_process, tree) if optimizer.steps else _unstepped(optimizer, of_process, tree)
            )
            findings += [] if found is None else [found]
    if not is_any:
        return Sight((), evidence.unseen_training("an optimizer"), has_looked=False)
    return Sight(findings, evidence.sampling_words)


def _is_most(part: int, whole: int) -> bool:
    return part >= 2 and part * 10 >= whole * 9


def _of_steps(optimizer: OptimizerSummary, of_process: ProcessEvidence, tree: ModuleTree) -> Finding | None:
    """The finding about the steps of an optimizer, if something is wrong with them."""
    steps, starved = optimizer.steps, optimizer.starved
    if _is_most(optimizer.dropped, steps - 1) and _has_scaled_loss(optimizer, of_process):
        reason = "gradients of all passes but the last were cleared before a step could use them"
        found = [f"in {optimizer.dropped:,} of {steps:,} steps"]
        place = optimizer.clears or optimizer.place
        return CLEARED.finding(optimizer.name, reason, [of_process.process.rank], place=place, evidence=found)
    if _is_most(optimizer.dropped, steps - 1) and _is_after_loop(optimizer, of_process):
        reason = "it steps after the loop over batches, which has cleared the gradients of all but the last"
        rank, found = [of_process.process.rank], [f"in {optimizer.dropped:,} of {steps:,} steps"]
        return CLEARED.finding(optimizer.name, reason, rank, place=optimizer.place, evidence=found)
    if _is_end_dropped(optimizer, of_process):
        reason = "gradients of the last accumulated passes were cleared before a step could use them"
        found = [f"before {optimizer.dropped:,} of {steps:,} steps"]
        rank, place = [of_process.process.rank], optimizer.place
        return _END_CLEARED.finding(optimizer.name, reason, rank, place=place, evidence=found)
    if _crosses_epochs(optimizer, of_process):
        usual, whole = sorted(optimizer.windows)
        reason = f"gradients of the last {whole - usual:,} passes of an epoch are added to those of the next one"
        found = [f"{optimizer.windows[whole]:,} of {steps:,} steps used {whole:,} passes, the others {usual:,}"]
        rank, place = [of_process.process.rank], optimizer.place
        return CROSSES.finding(optimizer.name, reason, rank, place=place, evidence=found)
    if optimizer.repeated >= 2 and optimizer.repeated * 3 >= steps:
        reason = "without a backward pass before, steps used the gradients of the previous step again"
        found = [f"{optimizer.repeated:,} of {steps:,} steps"]
        rank, place = [of_process.process.rank], optimizer.place
        return _REPEATED.finding(optimizer.name, reason, rank, place=place, evidence=found)
    if not _is_most(starved, steps):
        return None
    numbers = [f"{starved:,} of {steps:,} steps found none"]
    rank, concerns = [of_process.process.rank], _root_names(optimizer, of_process, tree)
    first = optimizer.first_starved
    place = optimizer.place
    if _is_most(optimizer.idle, starved):
        rule, reason = IDLE, "there was no backward pass before its steps"
    elif _is_most(optimizer.cleared, starved):
        rule, reason = CLEARED, "its steps found no gradients, although backward passes had computed some"
        place = optimizer.clears or place
    else:
        return _of_loss(optimizer, of_process, concerns)
    return rule.finding(optimizer.name, reason, rank, step=first, place=place, evidence=numbers, concerns=concerns)


def _is_end_dropped(optimizer: OptimizerSummary, of_process: ProcessEvidence) -> bool:
    """Whether accumulated gradients were now and then cleared once before a step, like those that end an epoch."""
    usual = max(optimizer.passes, key=lambda passes: optimizer.passes[passes], default=0)
    is_once = 2 <= optimizer.dropped == optimizer.dropped_once
    return is_once and usual >= 2 and _has_scaled_loss(optimizer, of_process)


def _is_after_loop(optimizer: OptimizerSummary, of_process: ProcessEvidence) -> bool:
    """Whether the source shows that an optimizer steps after a loop that clears gradients."""
    return any(
        source.event.what == "step-after-loop" and source.place == optimizer.place for source in of_process.acts.sources
    )


def _crosses_epochs(optimizer: OptimizerSummary, of_process: ProcessEvidence) -> bool:
    """Whether some steps used the passes that were left over at the end of an epoch, besides their own."""
    windows = optimizer.windows
    if len(windows) != 2 or optimizer.dropped or not _has_scaled_loss(optimizer, of_process):
        return False
    usual, whole = sorted(windows)
    is_all = sum(windows.values()) == optimizer.steps and 2 <= windows[whole] <= windows[usual]
    loaders = [each.last.batches for each in of_process.acts.loaders.values() if each.last.trains]
    return is_all and usual < whole < 2 * usual and any(whole - usual == batches % usual for batches in loaders)


def _of_loss(optimizer: OptimizerSummary, of_process: ProcessEvidence, concerns: list[str]) -> Finding | None:
    """The finding about the losses, if steps of an optimizer found no gradients of them."""
    losses = [loss for loss in of_process.training.losses.values() if loss.passes]
    if not losses:
        return None
    rank, numbers = [of_process.process.rank], [f"{optimizer.starved:,} of {optimizer.steps:,} steps"]
    loss = max(losses, key=lambda each: each.passes)
    if _is_most(optimizer.all_zero, optimizer.starved):
        reason = "all of its gradients are zero"
        return CONSTANT.finding("loss", reason, rank, place=loss.made, evidence=numbers, concerns=concerns)
    if any(each.is_within or any(node.inside for node in each.nodes) for each in losses):
        return None
    reason = "no output of a model is in its graph"
    return DETACHED.finding("loss", reason, rank, place=loss.cut or loss.made, evidence=numbers, concerns=concerns)


def _unstepped(optimizer: OptimizerSummary, of_process: ProcessEvidence, tree: ModuleTree) -> Finding | None:
    """The finding about an optimizer that never stepped although it should have."""
    training, process = of_process.training, of_process.process
    own = optimizer.tensors
    tensors = [each for each in process.tensors if each.id in own]
    if not tensors or process.end != "exit" or any(each.is_stepped or each.has_changed for each in tensors):
        return None
    roots = {tree.root_of(each.module) for each in tensors}
    called = [training.roots[root] for root in roots if root in training.roots]
    places = [root.backward_place for root in called if root.trained_calls >= 2 and root.backward_place]
    if not places or process.backward_passes < 2:
        return None
    has_stepped = any(each.steps for each in training.optimizers.values())
    losses = [loss for loss in training.losses.values() if loss.passes]
    place = next((each.left_place for each in tensors if each.left_place), places[0])
    rule = WITHOUT_STEP if has_stepped or not any(map(_is_scaled, losses)) else NEVER_STEPPED
    return rule.finding(
        optimizer.name,
        "it never stepped",
        [process.rank],
        place=place,
        evidence=[f"{process.backward_passes:,} backward passes", f"made at {optimizer.made}"],
        concerns=_root_names(optimizer, of_process, tree),
    )


def _has_scaled_loss(optimizer: OptimizerSummary, of_process: ProcessEvidence) -> bool:
    """Whether the loss of an optimizer's steps was scaled."""
    loss = of_process.training.losses.get(optimizer.loss)
    return loss is not None and _is_scaled(loss)


def _is_scaled(loss: LossSummary) -> bool:
    """Whether the last operation on a loss was a multiplication or division."""
    return bool(loss.nodes) and call_of(loss.nodes[0]) in _SCALINGS and not loss.nodes[0].shape


def _root_names(optimizer: OptimizerSummary, of_process: ProcessEvidence, tree: ModuleTree) -> list[str]:
    """The names of the models that an optimizer has parameters of."""
    own = optimizer.tensors
    names = {module.id: module.name for module in of_process.process.modules}
    roots = {tree.root_of(each.module) for each in of_process.process.tensors if each.id in own}
    return sorted(names[root] for root in roots if root in names)


CHECK: Final = Check(
    "steps",
    "steps of optimizers found gradients",
    _look,
    (IDLE, CLEARED, DETACHED, CONSTANT, NEVER_STEPPED, CROSSES, WITHOUT_STEP),
)
