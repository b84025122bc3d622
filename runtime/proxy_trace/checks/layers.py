"""Checks that layers are created once each, and that their units begin with different weights.

A layer that is created in `forward` has new random weights in each call, and no optimizer has them. A list that
multiplies one layer, `[Block()] * 4`, has the same layer four times. If two consecutive layers begin with one number
for all weights, the units between them have equal outputs and gradients, and stay equal.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.process.module_tree import ModuleTree
    from proxy_trace.process.process_summary import ProcessEvidence, TensorSummary

MADE_IN_FORWARD: Final = Rule(
    "layers-made-in-forward",
    WARNING,
    "Layers created in each call",
    "In at least nine of ten calls of a module, and at least five, its parameters had different values although "
    "nothing had changed them: the call was of another module of the same kind, which had just been created.",
    "Create the layer in `__init__`, before the optimizer, and call it in `forward`.",
    "history {run} {name}",
    sources=("https://discuss.pytorch.org/t/create-layers-in-forward-or-in-init/83929",),
    explains=("untrained", "never-updated", "optimizer-misses-parameters", "grad-cut-off"),
)
REPEATED: Final = Rule(
    "layer-repeated",
    WARNING,
    "One layer in place of several",
    "A container has the same module at all of its positions, two or more, because the list that it was created from "
    "multiplies a new module, as `[Block()] * 4` does. All positions share one set of weights. A container that "
    "repeats a module created before, in its own statement, is not reported: it may share on purpose. For a container "
    "that is no attribute of a module of the program, such a list is searched in the code that created the model.",
    "Create one module for each position: `[Block() for _ in range(4)]`. To share weights on purpose, assign the "
    "module to a variable first.",
    "show {run} --kind module --name {name}",
    sources=(
        "https://github.com/zalandoresearch/pytorch-vq-vae/issues/2",
        "https://github.com/acids-ircam/ddsp_pytorch/issues/37",
        "https://github.com/yaoppeng/U-Net_v2/issues/10",
    ),
)
EQUAL_UNITS: Final = Rule(
    "equal-units",
    WARNING,
    "Units that start out equal",
    "Two consecutive linear, convolutional or recurrent layers each started with all weights equal to one number "
    "other than 0, the biases of the first were all equal too, and both were trained: the units between them stay "
    "equal, so they act as a single unit.",
    "Draw initial weights at random (`nn.init.kaiming_uniform_`, `nn.init.xavier_uniform_`).",
    "history {run} {name}",
    sources=("Goodfellow et al., Deep Learning, chapter 8.4, MIT Press 2016",),
)

_FEWEST: Final = 5
_LAYER: Final = re.compile(r"(Linear|Conv\dd|RNN|LSTM|GRU)(Cell)?$")
_WEIGHT: Final = re.compile(r"\[(\d+), .*\d\]$")
"""The end of the description of a tensor with two or more dimensions, with its number of units."""


def _look(evidence: Evidence) -> Sight:
    findings: list[Finding] = []
    for of_process, tree in zip(evidence.of_processes, evidence.trees, strict=True):
        findings += _made_in_forward(of_process)
        findings += _repeated(of_process)
        findings += _equal(of_process, tree)
    if not evidence.parameters:
        return Sight((), evidence.level_words or ["no parameter was traced"], has_looked=False)
    return Sight(findings, evidence.sampling_words)


def _made_in_forward(of_process: ProcessEvidence) -> list[Finding]:
    """The modules of one process that are created for each call."""
    found = {}
    modules = {module.id: module for module in of_process.process.modules}
    for tensor in of_process.process.tensors:
        module = modules.get(tensor.module)
        if module is None or not module.parent or tensor.made_anew < _FEWEST or tensor.is_buffer:
            continue
        if (tensor.made_anew + 1) * 10 >= module.calls * 9 and module.id not in found:
            found[module.id] = MADE_IN_FORWARD.finding(
                module.name,
                "created anew for each call",
                [of_process.process.rank],
                place=module.called_place,
                evidence=[f"{tensor.made_anew + 1:,} of them in {module.calls:,} calls"],
                concerns=[module.name],
            )
    return list(found.values())


def _repeated(of_process: ProcessEvidence) -> list[Finding]:
    """The containers of one process that have one new module at all positions."""
    return [
        REPEATED.finding(
            module.name,
            f"one module is at all {module.repeated:,} positions",
            [of_process.process.rank],
            place=module.origin,
            evidence=[f"they share {module.parameters:,} weights"],
            concerns=[module.name],
        )
        for module in of_process.process.modules
        if module.repeated > 1
    ]


def _equal(of_process: ProcessEvidence, tree: ModuleTree) -> list[Finding]:
    """The weights of one process that begin with one number, as do the next ones of the same model."""
    found = []
    before: dict[int, TensorSummary] = {}
    modules = {module.id: module for module in of_process.process.modules}
    for tensor in of_process.process.tensors:
        holder = modules.get(tensor.module)
        is_weight = not (tensor.is_buffer or tensor.removed) and _WEIGHT.search(tensor.type)
        if not is_weight or holder is None or not _LAYER.search(holder.type):
            continue
        root = tree.root_of(tensor.module)
        earlier = before.get(root)
        before[root] = tensor
        if earlier is None or not (_is_one_number(tensor) and _is_one_number(earlier) and tensor.has_changed):
            continue
        if any(each.module == earlier.module and not _is_even(each) for each in of_process.process.tensors):
            continue  # Different biases distinguish the units.
        holder = modules.get(earlier.module)
        reason = f"all weights started as one number, and so did those of {tensor.name}"
        place = earlier.filled_place or ("" if holder is None else holder.origin)
        found.append(EQUAL_UNITS.finding(earlier.name, reason, [of_process.process.rank], place=place))
    return found


def _is_even(tensor: TensorSummary) -> bool:
    """Whether a parameter is known to have begun with one number for all its elements."""
    return tensor.first is not None and tensor.first.minimum == tensor.first.maximum


def _is_one_number(tensor: TensorSummary) -> bool:
    """Whether a weight of several units began with one number other than 0."""
    first, units = tensor.first, _WEIGHT.search(tensor.type)
    if first is None or units is None or int(units[1]) < 2 or not tensor.requires_grad:
        return False
    return isinstance(first.minimum, float) and first.minimum == first.maximum != 0.0


CHECK: Final = Check(
    "layers", "layers are created once each, with different units", _look, (MADE_IN_FORWARD, REPEATED, EQUAL_UNITS)
)
