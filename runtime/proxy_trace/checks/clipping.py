"""Checks that gradients were clipped between the backward pass and the step.

Clipping by norm (`torch.nn.utils.clip_grad_norm_`) changes gradients in place, and raises no error if there are none.
Clipping written by hand is not observed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import ERROR, WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence

AFTER_STEP: Final = Rule(
    "clip-after-step",
    ERROR,
    "Gradients clipped after the step",
    "At one place, gradients were clipped only after an optimizer had stepped with them, never before a step. The "
    "next backward pass replaces the clipped gradients or adds to them.",
    "Clip between `backward()` and `step()`.",
    "show {run} --kind clip,backward,optimizer_step",
    sources=("https://discuss.pytorch.org/t/proper-way-to-do-gradient-clipping/191",),
)
BEFORE_BACKWARD: Final = Rule(
    "clip-before-backward",
    ERROR,
    "Gradients clipped before the backward pass",
    "At one place, parameters were passed to be clipped, but none of them ever had a gradient at that time, although "
    "optimizers stepped with gradients of theirs: the backward pass comes later.",
    "Clip between `backward()` and `step()`.",
    "show {run} --kind clip,backward,optimizer_step",
    sources=("https://discuss.pytorch.org/t/proper-way-to-do-gradient-clipping/191",),
)
WITHOUT_PARAMETERS: Final = Rule(
    "clip-without-parameters",
    WARNING,
    "Clipping without parameters",
    "At one place, clipping never received any parameter: the argument was an exhausted iterator, such as "
    "`model.parameters()` stored in a variable, or an empty list.",
    "Pass `model.parameters()` itself in each call, or a list of it.",
    "show {run} --kind clip",
)
AGAIN: Final = Rule(
    "clip-per-microbatch",
    WARNING,
    "Gradients clipped before they are complete",
    "At one place, gradients were clipped, the next backward pass added to them, and they were clipped again before an "
    "optimizer stepped: in at least a third of all times, and at least twice. Each time, the earlier gradients are "
    "scaled down again, so the last of the accumulated batches counts most.",
    "Clip once, right before `optimizer.step()`.",
    "show {run} --kind clip,backward,optimizer_step",
    sources=(
        "https://github.com/huggingface/transformers/issues/1563",
        "https://github.com/facebookresearch/lingua/pull/59",
    ),
)
OTHERS: Final = Rule(
    "clip-of-other-parameters",
    WARNING,
    "Clipping of parameters that the step does not update",
    "After gradients were clipped at one place, at least twice and every time, the optimizers that stepped before the "
    "next backward pass had none of these parameters, so their gradients were not clipped. Limits of a million and "
    "more, which only measure the norm, are not reported.",
    "Clip the parameters of the network whose optimizer steps.",
    "show {run} --kind clip,optimizer_step",
    sources=("https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html",),
)


def _look(evidence: Evidence) -> Sight | None:
    findings = []
    is_any = False
    for of_process in evidence.of_processes:
        tensors = {tensor.id: tensor for tensor in of_process.process.tensors}
        for clip in of_process.training.clips.values():
            is_any = True
            rank = [of_process.process.rank]
            if clip.again >= 2 and clip.again * 3 >= clip.count:
                reason = "gradients were clipped several times before one step, and added to in between"
                numbers = [f"in {clip.again:,} of {clip.count:,} times"]
                findings.append(AGAIN.finding("clipping", reason, rank, place=clip.place, evidence=numbers))
            if clip.others >= 2 and clip.others + 1 >= clip.count:
                reason = "the steps that followed updated other parameters"
                numbers = [f"{clip.others:,} times"]
                findings.append(OTHERS.finding("clipping", reason, rank, place=clip.place, evidence=numbers))
            if clip.in_time:
                continue
            if clip.late:
                reason = "the step had used the gradients before they were clipped"
                findings.append(AFTER_STEP.finding("clipping", reason, rank, step=clip.step, place=clip.place))
            elif clip.empty:
                reason = "there was no parameter whose gradient could be clipped"
                findings.append(WITHOUT_PARAMETERS.finding("clipping", reason, rank, step=clip.step, place=clip.place))
            elif (tensor := tensors.get(clip.without)) is not None and tensor.is_stepped and tensor.gradients >= 2:
                reason = "there was no gradient yet"
                numbers = [f"{tensor.name} had one in {tensor.gradients:,} steps"]
                findings.append(
                    BEFORE_BACKWARD.finding(
                        "clipping", reason, rank, step=clip.step, place=clip.place, evidence=numbers
                    )
                )
    return Sight(findings, evidence.sampling_words) if is_any else None


CHECK: Final = Check(
    "clipping",
    "gradients were clipped before the step",
    _look,
    (AFTER_STEP, BEFORE_BACKWARD, WITHOUT_PARAMETERS, AGAIN, OTHERS),
)
