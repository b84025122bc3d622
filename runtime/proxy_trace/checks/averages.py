"""Checks that averages of models follow their models.

A model should follow another one if its name says that it is an average (`ema`, `target`, `averaged`, ...), it began
with the values of that model, and it is called while that trains. The loop body `p = 0.99 * p + 0.01 * q` only
rebinds a variable. If only `parameters()` are averaged, batch norms keep their initial running statistics.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import WARNING
from proxy_trace.checks.loading import TARGET
from proxy_trace.checks.rule import Rule
from proxy_trace.checks.updates import NEVER_UPDATED
from proxy_trace.events.loss_text import call_of

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.process.module_tree import ModuleTree
    from proxy_trace.process.process_summary import ModuleSummary, ProcessEvidence, TensorSummary

OLD_STATISTICS: Final = Rule(
    "average-keeps-old-statistics",
    WARNING,
    "Averages of models with outdated batch statistics",
    "A model has the same parameter names as another one. No step changes them, and yet they change, so it is an "
    "average or a copy. It was called in evaluation mode, but the running statistics of its batch norms never changed, "
    "while those of the other model did. Or it is an `AveragedModel` with an `SWALR` schedule that was called only in "
    "evaluation mode: its statistics belong to the last weights, not to the average.",
    "Copy the buffers at each update, `for a, b in zip(average.buffers(), model.buffers()): a.copy_(b)`; or call "
    "`torch.optim.swa_utils.update_bn(loader, average)` before evaluation.",
    "show {run} --kind update --name '*running_mean'",
    sources=(
        "https://github.com/CuriousAI/mean-teacher/issues/9",
        "https://github.com/pytorch/pytorch/issues/84053",
    ),
)

FOLLOWS_AT_ONCE: Final = Rule(
    "average-follows-at-once",
    WARNING,
    "Averages that keep almost nothing of their own values",
    "A parameter that no optimizer steps was averaged with the same parameter of a model that trains, 16 times in a "
    "row, and at least every fourth step on average. Its own factor was always the same, and at most 0.1. A moving "
    "average should keep most of its own value, with a factor such as 0.99: the two factors may be swapped. This one "
    "is almost a copy of the current model. Eight elements are compared, up to rounding. Or the name of a model says "
    "that it is a target network, a loss chooses values by `gather`, as in Q-learning, and the model became equal to "
    "the one that trains at each step, 16 times in a row: it is what it was to replace, the network itself.",
    "Swap the factors: `average.copy_(decay * average + (1 - decay) * parameter)`. A small rate `tau`, such as 0.005, "
    "is the factor of the parameter. Copy a network into its target once in hundreds or thousands of steps.",
    "show {run} --kind state_pattern",
    sources=(
        "https://codefrydev.in/Reinforcement/curriculum/volume-03/chapter-05",
        "https://docs.pytorch.org/docs/stable/optim.html",
        "https://github.com/sebtheiler/tutorials/issues/6",
        "https://github.com/awjuliani/DeepRL-Agents/issues/70",
    ),
)

IS_TRAINED: Final = Rule(
    "average-is-trained",
    WARNING,
    "Averages and target networks that an optimizer trains",
    "All parameters of a model were changed by the steps of an optimizer, and also between steps, at least half as "
    "often. It began as a copy of another model, which only steps change. So it is a moving average of that, or a "
    "target network, but is trained, too, as if it were part of the model.",
    "Give the optimizer only the parameters of the model, and detach what the average puts out: "
    "`with torch.no_grad(): target = average(x)`.",
    "show {run} --kind update --name '{name}*'",
    sources=("https://github.com/DLR-RM/stable-baselines3/issues/1946",),
)

NOT_RESTORED: Final = Rule(
    "weights-not-restored",
    WARNING,
    "Weights that are replaced for an evaluation and never put back",
    "In the code of the training program, the training loop stores the weights of a model, so that others, such as "
    "their moving average, can take their place for an evaluation. But nothing in the file puts them back: the method "
    "for that is never called, or the variable never read. And by their exact fingerprints, steps began with other "
    "values than the steps before had left. So training goes on from the other weights.",
    "Put the stored weights back after the evaluation, as by `ema.restore(model.parameters())`.",
    "show {run} --kind source_pattern,update",
    sources=(
        "https://github.com/PKU-YuanGroup/Open-Sora-Plan/issues/186",
        "https://github.com/huggingface/diffusers/issues/7549",
    ),
)

_NAME: Final = re.compile(
    r"(^|[_.])(ema|ma|swa|avg|average[ds]?|averaged_model|target|shadow|momentum|mean_teacher)([_.\d]|$)"
)
_TYPES: Final = re.compile(r"AveragedModel|.*(EMA|Ema|MovingAverage).*|MeanTeacher")
_OWNERS: Final = re.compile(r".*(EMA|Ema|MovingAverage)([^a-z].*)?|AveragedModel|MeanTeacher")
"""Names of classes that keep an average; `Emacs` does not match."""
_RATE_OF_AVERAGING: Final = "SWALR"
_COUNT: Final = "n_averaged"
_FEWEST_CALLS: Final = 5
_FEWEST_STEPS: Final = 50
_VALUES: Final = 3
_LARGEST_FACTOR: Final = 0.1
_SAME_FACTOR: Final = 0.04
"""The largest difference of factors that counts as rounding."""

_MOST_STEPS: Final = 60
"""The most steps in which an average moves 16 times. One that moves less often may be an intended copy."""

_BY_HAND: Final = ("data", "in-place")
"""The causes of updates by code other than an optimizer's."""
_MOVES: Final = 16
_TARGET: Final = re.compile(r"(^|[_.])target([_.\d]|$)")
_CHOICE: Final = "Gather"
"""The function by which Q-learning chooses the values of the actions that were taken."""
_FEWEST_BETWEEN: Final = 8
_FEWEST_FOLLOWED: Final = 16

_STATISTICS: Final = ("running_mean", "running_var")


def _look(evidence: Evidence) -> Sight | None:
    findings: list[Finding] = []
    is_any = False
    for of_process, tree in zip(evidence.of_processes, evidence.trees, strict=True):
        owned = {root.id for root in tree.roots if _OWNERS.fullmatch(root.owner)}
        averages = [
            root for root in tree.roots if _NAME.search(root.name) or _TYPES.match(root.type) or root.id in owned
        ]
        shared = _sharing_memory(of_process)
        old = _with_old_statistics(of_process, tree) + _with_statistics_of_last(of_process, tree)
        swapped = _following_at_once(of_process) + _copied_at_each_step(of_process, tree)
        trained = _trained(of_process, tree)
        left = _left_in_model(of_process, tree)
        findings += old + swapped + shared + trained + left
        is_any |= bool(averages or old or swapped or shared or trained or left)
        of_roots: dict[int, list[TensorSummary]] = {}
        for tensor in of_process.process.tensors:
            if not (tensor.is_buffer or tensor.removed):
                of_roots.setdefault(tree.root_of(tensor.module), []).append(tensor)
        findings += _sharing(averages, of_process, tree)
        for root in averages:
            if _stands_still(root.id, of_roots, of_process, tree, is_owned=root.id in owned):
                reason = "its name says that it is an average of a trained model, but it never changed"
                rank = [of_process.process.rank]
                findings.append(NEVER_UPDATED.finding(root.name, reason, rank, place=root.origin, concerns=[root.name]))
    return Sight(findings, evidence.sampling_words) if is_any else None


def _sharing(averages: list[ModuleSummary], of_process: ProcessEvidence, tree: ModuleTree) -> list[Finding]:
    """The averages of one process that consist of the very modules of another model, which is trained."""
    found = []
    for root in averages:
        below = tree.children(root)
        for other in tree.roots:
            # What belongs to both counts as part of the one that was proxied last.
            is_same = other.taken.get(root.id) == len(below) > 0 and not tree.children(other)
            if not is_same or other.type != root.type or other.parameters != root.parameters:
                continue
            own = (each for each in of_process.process.tensors if tree.root_of(each.module) == root.id)
            if root.calls and other.training_calls and any(each.is_stepped and each.has_changed for each in own):
                reason = (
                    f"its name says that it is an average or a target, but its parameters are those of {other.name}"
                )
                rank = [of_process.process.rank]
                found.append(TARGET.finding(root.name, reason, rank, place=root.origin, concerns=[root.name]))
    return found


def _sharing_memory(of_process: ProcessEvidence) -> list[Finding]:
    """The averages of one process that refer to the parameters of a trained model, which change between its steps."""
    sources = [each for each in of_process.acts.sources if each.event.what == "average-shares-memory"]
    trained = [each.updates for each in of_process.process.tensors if each.is_stepped and not each.is_buffer]
    between = max((sum(updates.get(cause, 0) for cause in _BY_HAND) for updates in trained), default=0)
    if between < _FEWEST_BETWEEN or between * 2 < max(updates.get("step", 0) for updates in trained):
        return []
    reason = "it refers to the parameters themselves, which change with it"
    rank, numbers = [of_process.process.rank], [f"a trained parameter changed {between:,} times between steps"]
    return [
        TARGET.finding(event.names[0], reason, rank, place=place, evidence=[f"updated in place at {other}", *numbers])
        for event, place, other in sources
    ]


def _trained(of_process: ProcessEvidence, tree: ModuleTree) -> list[Finding]:
    """The copies of models that follow them between steps, and are stepped, too."""
    of_roots: dict[int, list[TensorSummary]] = {}
    for tensor in of_process.process.tensors:
        if not (tensor.is_buffer or tensor.removed):
            of_roots.setdefault(tree.root_of(tensor.module), []).append(tensor)
    roots = {root.id: root for root in tree.roots}
    found = []
    for number, own in of_roots.items():
        root = roots.get(number)
        between = [sum(each.updates.get(cause, 0) for cause in _BY_HAND) for each in own]
        steps = [each.updates.get("step", 0) for each in own]
        is_both = min(steps) >= _FEWEST_FOLLOWED and all(2 * a >= b for a, b in zip(between, steps, strict=True))
        if root is None or not is_both or None in (first := [_bits(each) for each in own]):
            continue
        for other, tensors in of_roots.items():
            is_copied = other != number and [_bits(each) for each in tensors] == first and other in roots
            is_moved = any(each.updates.get(cause) for each in tensors for cause in _BY_HAND)
            if is_copied and not is_moved and all(each.updates.get("step") for each in tensors):
                optimizers = of_process.training.optimizers.values()
                place = next((each.origin for each in optimizers if own[0].id in each.tensors), root.origin)
                numbers = [f"{min(steps):,} changes by steps", f"{min(between):,} changes between steps"]
                reason = f"it began as a copy of {roots[other].name}, and changes between steps and by steps"
                rank = [of_process.process.rank]
                found.append(IS_TRAINED.finding(root.name, reason, rank, place=place, evidence=numbers))
                break
    return found


def _left_in_model(of_process: ProcessEvidence, tree: ModuleTree) -> list[Finding]:
    """The places in one process that store the weights of a model, which then trains from other ones."""
    found = []
    roots = {root.id: root.name.rpartition(".")[2] for root in tree.roots}
    parameters = [each for each in of_process.process.tensors if not each.is_buffer]
    for event, place, other in of_process.acts.sources:
        if event.what != "weights-unrestored":
            continue
        model = event.names[1].rpartition(".")[2] if len(event.names) > 1 else ""
        own = [each for each in parameters if roots.get(tree.root_of(each.module)) == model]
        moved = max((each.moved_steps for each in own or parameters), default=0)
        if moved:
            numbers = [f"{moved:,} steps of a parameter began with other values than the step before had left"]
            reason, rank = f"nothing in the loop at {other} puts them back", [of_process.process.rank]
            found.append(NOT_RESTORED.finding(event.names[0], reason, rank, place=place, evidence=numbers))
    return found


def _following_at_once(of_process: ProcessEvidence) -> list[Finding]:
    """The averages of one process that take almost the whole value of the averaged parameter."""
    found = []
    reported = set()
    for state in of_process.acts.states:
        if state.event.what != "average" or len(state.event.values) != _VALUES:
            continue
        lowest, highest, steps = map(float, state.event.values)
        is_swapped = 0 < lowest <= highest <= _LARGEST_FACTOR and highest - lowest <= _SAME_FACTOR
        key = state.made or state.tensor
        if is_swapped and steps <= _MOST_STEPS and key not in reported:
            reported.add(key)
            reason = f"each update keeps {(lowest + highest) / 2:.3g} of it, and takes the rest from {state.other}"
            rank = [of_process.process.rank]
            found.append(FOLLOWS_AT_ONCE.finding(state.tensor, reason, rank, step=state.event.step, place=state.made))
    return found


def _copied_at_each_step(of_process: ProcessEvidence, tree: ModuleTree) -> list[Finding]:
    """The target networks of one process that become equal to the network at each step."""
    losses = of_process.training.losses.values()
    if not any(call_of(node) == _CHOICE for loss in losses for node in loss.nodes):
        return []
    modules = {tensor.id: tensor.module for tensor in of_process.process.tensors}
    roots = {root.id: root for root in tree.roots}
    found: dict[int, Finding] = {}
    for state in of_process.acts.states:
        root = roots.get(tree.root_of(modules.get(state.event.tensor, 0)))
        if state.event.what != "average" or root is None or not _TARGET.search(root.name):
            continue
        lowest, highest, steps = map(float, state.event.values)
        if lowest == highest == 0 and steps < _MOVES:
            places = [each.place for each in of_process.training.loads if each.module == root.id and each.step > 0]
            place = state.made or (places[0] if places else root.origin)
            reason = f"its name says that it is a target, but it becomes equal to {state.other} at each step"
            rank = [of_process.process.rank]
            found.setdefault(
                root.id, FOLLOWS_AT_ONCE.finding(state.tensor, reason, rank, step=state.event.step, place=place)
            )
    return list(found.values())


def _stands_still(
    root: int,
    of_roots: dict[int, list[TensorSummary]],
    of_process: ProcessEvidence,
    tree: ModuleTree,
    *,
    is_owned: bool,
) -> bool:
    """Whether a model began as a copy of another one, is called while that trains, and has never changed.

    If an averaging object owns the model, occasional calls are enough, such as those of validation.
    """
    own = of_roots.get(root, [])
    calls = of_process.training.roots.get(root)
    if not own or calls is None or any(each.update_count or each.is_stepped or not each.is_compared for each in own):
        return False
    while_training = calls.trained_calls + calls.blind_calls + calls.evaluated_calls
    steps = sum(each.steps for each in of_process.training.optimizers.values())
    is_used = while_training >= 2 and steps >= _FEWEST_STEPS if is_owned else False
    if not is_used and while_training < max(_FEWEST_CALLS, steps // 2):
        return False
    values = [_bits(each) for each in own]
    return any(
        other != root
        and [_bits(each) for each in tensors] == values
        and sum(each.has_changed and each.is_stepped for each in tensors) * 2 > len(tensors)
        for other, tensors in of_roots.items()
        if tree.root_of(other) == other
    )


def _with_old_statistics(of_process: ProcessEvidence, tree: ModuleTree) -> list[Finding]:
    """Models whose parameters follow those of a model that trains, while their batch statistics do not."""
    of_roots: dict[int, list[TensorSummary]] = {}
    for tensor in of_process.process.tensors:
        if not tensor.removed:
            of_roots.setdefault(tree.root_of(tensor.module), []).append(tensor)
    roots = {root.id: root for root in tree.roots}
    trained = [number for number, tensors in of_roots.items() if any(each.is_stepped for each in tensors)]
    found = []
    for number, tensors in of_roots.items():
        calls, root = of_process.training.roots.get(number), roots.get(number)
        statistics = [each for each in tensors if each.is_buffer and each.name.endswith(_STATISTICS)]
        if root is None or calls is None or not calls.evaluated_calls or not statistics:
            continue
        parameters = [each for each in tensors if not each.is_buffer]
        if any(each.is_stepped for each in parameters) or not any(each.update_count for each in parameters):
            continue
        if any(each.update_count or not each.is_compared for each in statistics):
            continue
        own = _relative_names(root.name, tensors)
        for other in trained:
            source = roots.get(other)
            if source is None or _relative_names(source.name, of_roots[other]) != own:
                continue
            if all(each.update_count for each in of_roots[other] if each.name.endswith(_STATISTICS)):
                reason = f"its running statistics never changed, those of {source.name} did"
                rank, numbers = [of_process.process.rank], [f"{len(statistics):,} buffers"]
                found.append(OLD_STATISTICS.finding(root.name, reason, rank, place=root.origin, evidence=numbers))
                break
    return found


def _with_statistics_of_last(of_process: ProcessEvidence, tree: ModuleTree) -> list[Finding]:
    """Averages of stochastic weight averaging that were evaluated but never called in training mode."""
    if not any(each.name == _RATE_OF_AVERAGING for each in of_process.training.schedulers.values()):
        return []
    found = []
    for root in tree.roots:
        calls = of_process.training.roots.get(root.id)
        if root.type != "AveragedModel" or calls is None or not calls.evaluated_calls:
            continue
        statistics = [
            each
            for each in of_process.process.tensors
            if tree.root_of(each.module) == root.id and each.name.endswith(_STATISTICS) and not each.removed
        ]
        if statistics and not (calls.trained_calls or calls.blind_calls or calls.dropped_calls):
            reason = "its running statistics belong to other weights"
            rank, numbers = [of_process.process.rank], [f"{len(statistics):,} buffers"]
            found.append(OLD_STATISTICS.finding(root.name, reason, rank, place=root.origin, evidence=numbers))
    return found


def _relative_names(root: str, tensors: list[TensorSummary]) -> set[str]:
    """The names of a model's tensors relative to the model, without the counter of `AveragedModel`."""
    names = (each.name for each in tensors if not each.name.endswith(f".{_COUNT}"))
    return {_relative(name, root) for name in names}


def _relative(name: str, root: str) -> str:
    """A name relative to its model; `AveragedModel(average)` calls its model `average`."""
    own = root.partition("(")[2].removesuffix(")") or root
    return name.removeprefix(f"{own}.")


def _bits(tensor: TensorSummary) -> str | None:
    return None if tensor.first is None else tensor.first.bits


_RULES: Final = (NEVER_UPDATED, OLD_STATISTICS, FOLLOWS_AT_ONCE, TARGET, IS_TRAINED, NOT_RESTORED)

CHECK: Final = Check("averages", "averages of models follow them", _look, _RULES)
"""Applies if a model is an average by its name or class, keeps old batch statistics, or follows another one."""
