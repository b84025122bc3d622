"""Checks that linear layers have an activation between them.

Two consecutive linear layers are equivalent to one. That is intended if the first narrows the vector (a low-rank
factorisation), if the layers belong to different parts of a model, and perhaps if the whole model is linear. It is not
if the model has an activation beside them that it never calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.evidence import is_sampled
from proxy_trace.checks.finding import NOTE, WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.process.process_summary import ModuleSummary, ProcessEvidence, TensorSummary

MISSING: Final = Rule(
    "missing-activation",
    WARNING,
    "Linear layers with nothing between them",
    "In the graph of a loss, the output of a linear layer goes directly into another linear layer of the same module, "
    "and nowhere else. The first layer has a bias, and is at least as wide as its input or the output of the second, "
    "so this is not a low-rank factorisation. Optimizer steps have changed both. Other linear layers of the model "
    "follow an activation, or the module around the two has one that it never calls.",
    "Put an activation such as `nn.ReLU()` between them, or remove one of them.",
    "show {run} --kind graph_pattern",
    sources=("https://github.com/Nota-NetsPresso/netspresso-trainer/issues/320",),
)
LINEAR: Final = Rule(
    "linear-model",
    NOTE,
    "Models of linear layers without an activation",
    "As for missing-activation, but no linear layer in the graph follows an activation. The model can compute only "
    "what one linear layer can, which may be intended.",
    "Put an activation such as `nn.ReLU()` between the layers, if the model is not meant to be linear.",
    "show {run} --kind graph_pattern",
    sources=(
        "https://stackoverflow.com/questions/9782071/why-must-a-nonlinear-activation-function-be-used-in-a-backpropagation-neural-net",
    ),
)

_ACTIVATIONS: Final = frozenset(
    {"ReLU", "ReLU6", "LeakyReLU", "PReLU", "RReLU", "ELU", "CELU", "SELU", "GELU", "SiLU", "Mish", "Softplus"}
    | {"Tanh", "Sigmoid", "Hardtanh", "Hardswish", "Hardsigmoid", "Softsign", "Tanhshrink", "LogSigmoid"}
)


def _look(evidence: Evidence) -> Sight:
    findings = []
    for of_process in evidence.of_processes:
        reported: set[str] = set()
        for pattern in of_process.acts.patterns:
            if pattern.event.what != "linear-linear" or len(pattern.event.weights) != 2:
                continue
            first, second = pattern.event.weights
            layer = _redundant_layer(first, second, of_process)
            if layer is not None and layer.name not in reported:
                reported.add(layer.name)
                names = {tensor.id: tensor.name for tensor in of_process.process.tensors}
                reason = f"nothing lies between it and {names.get(second, '').removesuffix('.weight')}"
                rank = [of_process.process.rank]
                spare = _uncalled_activation(layer, of_process)
                rule = MISSING if any(pattern.event.values) or spare else LINEAR
                numbers = [f"{spare} was never called"] if spare else []
                findings.append(
                    rule.finding(layer.name, reason, rank, place=_place(layer, of_process), evidence=numbers)
                )
    if not any(process.backward_passes for process in evidence.processes):
        return Sight((), evidence.level_words or ["no backward pass was traced"], has_looked=False)
    return Sight(findings, evidence.compiled_words)


def _redundant_layer(first: int, second: int, of_process: ProcessEvidence) -> ModuleSummary | None:
    """The module of the first weight, if both are trained parts of one module and the first is no bottleneck."""
    tensors = {tensor.id: tensor for tensor in of_process.process.tensors}
    modules = {module.id: module for module in of_process.process.modules}
    one, other = tensors.get(first), tensors.get(second)
    if one is None or other is None or not (_is_trained(one) and _is_trained(other)):
        return None
    layer, following = modules.get(one.module), modules.get(other.module)
    if layer is None or following is None or layer.type != "Linear" or following.type != "Linear":
        return None
    has_bias = any(each.module == layer.id and each.name.endswith(".bias") for each in tensors.values())
    sizes = [layer.settings.get(key) for key in ("in_features", "out_features")]
    last = following.settings.get("out_features")
    if not has_bias or layer.parent != following.parent or not layer.parent:
        return None
    width, middle = sizes
    if not (isinstance(width, int) and isinstance(middle, int) and isinstance(last, int)):
        return None
    return layer if middle >= min(width, last) else None


def _uncalled_activation(layer: ModuleSummary, of_process: ProcessEvidence) -> str:
    """The name of an activation beside a layer that was never called, although the module around them was."""
    modules = of_process.process.modules
    if not any(each.id == layer.parent and each.calls for each in modules):
        return ""
    beside = (each for each in modules if each.parent == layer.parent and each.type in _ACTIVATIONS)
    return next((each.name for each in beside if not (each.calls or each.removed or is_sampled(each))), "")


def _place(layer: ModuleSummary, of_process: ProcessEvidence) -> str:
    """Where a layer is called; where it was created if a container calls it, as that has one place for all."""
    container = next((each for each in of_process.process.modules if each.id == layer.parent), None)
    is_own_call = container is not None and layer.called_place not in ("", container.called_place)
    return layer.called_place if is_own_call else layer.origin


def _is_trained(tensor: TensorSummary) -> bool:
    return tensor.is_stepped and tensor.has_changed


CHECK: Final = Check("activations", "linear layers have something between them", _look, (MISSING, LINEAR))
