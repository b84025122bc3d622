"""Checks that loaded weights came from elsewhere, under the names of the module.

`load_state_dict(strict=False)` skips weights with other names, and raises no error. A module that loads its own
tensors, as by `target.load_state_dict(net.state_dict())` where both are one module, stays the same.

In the source, an initialisation after `load_state_dict` overwrites what was loaded: loaded-weights-overwritten.

| a module loads its own tensors, and | code |
| --- | --- |
| training has not changed it | never-updated |
| it has two names there, like a target | target-is-the-network |
| it is trained further, and called with autograd off in training mode, like a target | target-is-the-network |
| it is trained further, and not called like that | model-not-reset |
| it is not trained further | best-weights-not-copied |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import WARNING
from proxy_trace.checks.rule import Rule
from proxy_trace.checks.updates import NEVER_UPDATED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.process.module_tree import ModuleTree
    from proxy_trace.process.process_summary import ProcessEvidence
    from proxy_trace.process.training_summary import LoadSummary

KEYS_SKIPPED: Final = Rule(
    "checkpoint-keys-skipped",
    WARNING,
    "Weights of a checkpoint that were not loaded",
    "A module loaded weights with `strict=False`, and some of its own were missing because the checkpoint has them "
    "under a longer or shorter name: with a prefix such as `module.` or `model.`, or without one. Or none of the "
    "weights were loaded. Or everything loaded before the first step was the module's own tensors. Parts with an "
    "entirely different name, such as a new head, are not reported.",
    "Print the result of `load_state_dict`. Rename the keys, or load into the module that the checkpoint was made "
    "from.",
    "show {run} --kind load",
    sources=("https://discuss.pytorch.org/t/missing-keys-unexpected-keys-in-state-dict/22009",),
    explains=("never-called",),
)
TARGET: Final = Rule(
    "target-is-the-network",
    WARNING,
    "Target networks that are the network itself",
    "A module that is trained repeatedly loaded its own tensors. In that line it has two names, one of which was "
    "assigned the other, or it was called with autograd off between its steps: two names refer to one module, and the "
    "target moves with each step. Or a model that is an average or a target by its name or class has the very modules "
    "of a trained model of its class, as a `copy.copy` of it has; and both are called. Or the source stores parameters "
    "in an average without a copy and scales it in place, and parameters of a trained model changed between its steps.",
    "Create the target with `copy.deepcopy(network)`, and update it only with `load_state_dict`, never with `=`. Store "
    "`p.detach().clone()` in an average.",
    "show {run} --kind load,source_pattern,update",
    sources=("https://docs.pytorch.org/tutorials/intermediate/reinforcement_q_learning.html",),
)
NOT_COPIED: Final = Rule(
    "best-weights-not-copied",
    WARNING,
    "Best weights that were not copied",
    "A module loaded its own tensors after the last step: the stored `state_dict()` refers to the weights themselves, "
    "which training continued to change.",
    "Keep `copy.deepcopy(model.state_dict())`, or save it to a file.",
    "show {run} --kind load",
    sources=("https://discuss.pytorch.org/t/how-to-save-the-best-model/84608",),
)
NOT_RESET: Final = Rule(
    "model-not-reset",
    WARNING,
    "Models that were not reset",
    "A module loaded its own tensors between steps that train it: the stored `state_dict()` refers to the weights "
    "themselves, so nothing was reset and training continued from what the model had learned. Or the source has a "
    "loop over the folds of a cross-validation, by its names, that passes a model from before the loop to a function "
    "that trains it, and neither of them copies, loads or resets anything. So later folds are tested on samples that "
    "the model was trained on.",
    "Keep `copy.deepcopy(model.state_dict())`, or create a new model.",
    "show {run} --kind load,source_pattern",
    sources=("https://github.com/McSpooder/camull-net/issues/6",),
)


LEFT: Final = Rule(
    "optimizer-not-resumed",
    WARNING,
    "Saved states of optimizers and schedulers that are not loaded",
    "The program saves the state of an optimizer or a scheduler of learning rates beside that of a model. It loaded "
    "the model from such a checkpoint and continues with the epoch that the checkpoint tells, but no code of the file "
    "reads the other state. So Adam starts with averages of zero, momentum is lost, or the learning rate is that of "
    "the first epoch. Plain `SGD` without momentum has no state, and is not reported.",
    "Load it, too: `optimizer.load_state_dict(checkpoint['optimizer'])`.",
    "show {run} --kind source_pattern,load",
    sources=("https://github.com/NVlabs/stylegan2-ada-pytorch/issues/108",),
)
OVERWRITTEN: Final = Rule(
    "loaded-weights-overwritten",
    WARNING,
    "Loaded weights that are drawn anew",
    "In the code of the training program, a model loads weights by `load_state_dict`, and then `apply` calls a "
    "function that draws the weights of convolutions. Nothing between mentions the model. So it trains from scratch, "
    "and only weights of other layers are those that were loaded.",
    "Initialise the model first and load the weights afterwards, or initialise only the new part: "
    "`model.head.apply(init_weights)`.",
    "show {run} --kind source_pattern,load",
    sources=("https://github.com/huggingface/picotron/issues/32",),
)


def _look(evidence: Evidence) -> Sight | None:
    findings: list[Finding] = []
    is_any = False
    for of_process, tree in zip(evidence.of_processes, evidence.trees, strict=True):
        loads = of_process.training.loads
        is_any |= bool(loads)
        reported: set[tuple[int, str]] = set()
        for load in loads:
            found = _own(load, loads, of_process, tree) if load.load.is_own else _skipped(load, of_process)
            if found is not None and (load.module, load.place) not in reported:
                reported.add((load.module, load.place))
                findings.append(found)
        loaded = {each.place for each in loads}
        for event, place, other in of_process.acts.sources:
            if event.what == "state-left-in-checkpoint" and place in loaded and _has_state(event.names[0], of_process):
                reason = f'its state is saved as "{event.names[1]}" at {other}, and not loaded with the model'
                findings.append(LEFT.finding(event.names[0], reason, [of_process.process.rank], place=place))
            elif event.what == "model-shared-by-folds":
                is_any = True
                reason = f"each fold of the loop at {other} goes on with what it learned in the others"
                findings.append(NOT_RESET.finding(event.names[0], reason, [of_process.process.rank], place=place))
            elif event.what == "weights-overwritten":
                is_any = True
                reason = f"its weights are drawn anew after they were loaded at {other}"
                findings.append(OVERWRITTEN.finding(event.names[0], reason, [of_process.process.rank], place=place))
    return Sight(findings) if is_any else None


def _name(module: int, of_process: ProcessEvidence) -> str:
    return next((each.name for each in of_process.process.modules if each.id == module), f"#{module}")


def _has_state(name: str, of_process: ProcessEvidence) -> bool:
    """Whether what has a name may have a state: a scheduler, or an optimizer that is not plain SGD."""
    optimizers = [each for each in of_process.training.optimizers.values() if each.steps]
    is_plain = all(
        each.name == "SGD" and not any(group.settings.get("momentum") for group in each.groups) for each in optimizers
    )
    return bool(optimizers) and ("sched" in name.lower() or not is_plain)


def _own(
    load: LoadSummary, loads: Sequence[LoadSummary], of_process: ProcessEvidence, tree: ModuleTree
) -> Finding | None:
    """The finding about a load of a module's own tensors, if there is one."""
    name, rank = _name(load.module, of_process), [of_process.process.rank]
    below = [
        tensor
        for tensor in of_process.process.tensors
        if not tensor.is_buffer and any(each.id == load.module for each in tree.upwards(tensor.module))
    ]
    if not of_process.has_trained or not below:
        return None
    reason = "it loaded its own weights"
    if not any(tensor.has_changed or tensor.is_stepped for tensor in below):
        return NEVER_UPDATED.finding(name, reason, rank, step=load.step, place=load.place, concerns=[name])
    root = of_process.training.roots.get(tree.root_of(load.module))
    if root is None:
        return None
    is_only = sum(each.load.is_own and each.module == load.module for each in loads) == 1
    if is_only and 0 <= load.step <= root.first_step:
        reason = "it loaded its own weights before training: nothing else had a matching name"
        return KEYS_SKIPPED.finding(name, reason, rank, step=load.step, place=load.place)
    if load.load.names and not is_only:
        rule, reason = TARGET, f"{' and '.join(load.load.names)} are one model, which loaded its own weights"
    elif load.step > root.last_step:
        rule = NOT_COPIED
    elif is_only:
        return None
    else:
        rule = TARGET if root.blind_calls >= 2 else NOT_RESET
    return rule.finding(name, reason, rank, step=load.step, place=load.made or load.place)


def _skipped(load: LoadSummary, of_process: ProcessEvidence) -> Finding | None:
    """The finding about weights that were skipped because of a prefix, if there is one."""
    event = load.load
    if event.strict or not (event.missing and event.unexpected):
        return None
    alike = sum(any(_differ_by_prefix(each, other) for other in event.unexpected) for each in event.missing)
    if event.loaded and alike * 2 < len(event.missing):
        return None
    name = _name(load.module, of_process)
    numbers = [
        f"{event.missing_count:,} missing, such as {event.missing[0]}",
        f"{event.unexpected_count:,} unexpected, such as {event.unexpected[0]}",
    ]
    reason = f"{event.loaded:,} of the given weights were loaded"
    return KEYS_SKIPPED.finding(
        name, reason, [of_process.process.rank], step=load.step, place=load.place, evidence=numbers, concerns=[name]
    )


def _differ_by_prefix(one: str, other: str) -> bool:
    """Whether one of two names is the other with a prefix."""
    return one.endswith(f".{other}") or other.endswith(f".{one}")


CHECK: Final = Check(
    "loading",
    "modules loaded weights from elsewhere, under matching names",
    _look,
    (KEYS_SKIPPED, OVERWRITTEN, LEFT, TARGET, NOT_COPIED, NOT_RESET, NEVER_UPDATED),
)
