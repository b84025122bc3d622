"""Checks that a discriminator is given different labels for what it should tell apart.

The trace says at which places all that a layer puts out is compared with one label. At a generator's place, that is
right: the optimizer that steps afterwards does not have the layer.

It also says at which places generated samples are compared with the label with which the discriminator is trained for
them. A generator should be trained with the other one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.process.acts_summary import PlacedPattern
    from proxy_trace.process.process_summary import ProcessEvidence
    from proxy_wrapper.events import GraphPattern

ONE_LABEL: Final = Rule(
    "discriminator-labels-equal",
    WARNING,
    "Discriminators with the same label for everything",
    "Before every step of an optimizer, several outputs of one of its layers, as for real and for generated samples, "
    "were compared by binary cross entropies, and all with the same label, in the first 64 backward passes and some "
    "later ones at each place. No other backward pass preceded these steps. So the layer learns to put out this label "
    "for everything, and the generator learns nothing from it. Labels near 0.5 are not judged. Values on a GPU are not "
    "read.",
    "Compare the outputs for real samples with ones, and those for generated samples with zeros.",
    "show {run} --kind graph_pattern,optimizer_step",
    sources=(
        "https://github.com/SerezD/vqvae-vqgan-pytorch-lightning/issues/3",
        "https://github.com/basiclab/GNGAN-PyTorch/issues/1",
    ),
)

OWN_LABEL: Final = Rule(
    "generator-label-of-fakes",
    WARNING,
    "Generators that are trained to be recognised",
    "At a place, generated samples were compared by a binary cross entropy with one label, 16 times, and in another "
    "backward pass the discriminator was trained with the same label for the very same samples. The loss was neither "
    "negated nor maximized, and the optimizer that stepped afterwards has the generator, not the discriminator. So "
    "both are trained for the same, and nothing makes the samples look real. A few elements of the samples are "
    "compared. Values on a GPU are not read.",
    "Give the generator the label of real samples: `loss = criterion(discriminator(fake), ones)`.",
    "show {run} --kind graph_pattern,optimizer_step",
    sources=("https://github.com/ptran1203/pytorch-animeGAN/issues/17",),
)

_FEWEST_STEPS: Final = 16
_FEWEST_OUTPUTS: Final = 2
_HALF: Final = 0.5
_FARTHEST_FROM_HALF: Final = 0.2
"""Labels in between are meant to confuse a discriminator."""
_LOSSES: Final = ("binary_cross_entropy", "binary_cross_entropy_with_logits")


def _look(evidence: Evidence) -> Sight | None:
    findings = []
    is_any = False
    for of_process in evidence.of_processes:
        ended = {each.event.location for each in of_process.acts.patterns if each.event.what == "several-labels"}
        of_places = {
            each.event.location: each.event
            for each in of_process.acts.patterns
            if each.event.what == "one-label" and each.event.location not in ended
        }
        is_any |= bool(of_places)
        generated = [each for each in of_process.acts.patterns if each.event.what == "label-of-generated"]
        is_any |= bool(generated)
        # A discriminator with one label for everything has that of the generator, too.
        findings += _of_optimizers(of_places, of_process) or _of_generators(generated, of_process)
    return Sight(findings, evidence.sampling_words) if is_any else None


def _of_optimizers(of_places: dict[int, GraphPattern], of_process: ProcessEvidence) -> list[Finding]:
    """The optimizers of one process that are fed only with one label, by the places where labels are all the same."""
    found = []
    names = {tensor.id: tensor.name for tensor in of_process.process.tensors}
    places = {each.event.location: each.place for each in of_process.acts.patterns}
    for optimizer in of_process.training.optimizers.values():
        is_fed = bool(optimizer.fed_at) and not optimizer.unfed
        if optimizer.steps < _FEWEST_STEPS or not is_fed or not optimizer.fed_at <= of_places.keys():
            continue
        fed = [of_places[location] for location in sorted(optimizer.fed_at)]
        compared = {(each.weights[0], each.values[0]) for each in fed}
        outputs = sum(float(each.values[1]) for each in fed)
        weight, label = compared.pop()
        is_label = abs(float(label) - _HALF) > _FARTHEST_FROM_HALF
        if compared or weight not in optimizer.tensors or outputs < _FEWEST_OUTPUTS or not is_label:
            continue
        place = _place_of_loss(places[fed[-1].location], of_process)
        name = names.get(weight, "").removesuffix(".weight")
        reason = f"all that it puts out is compared with {float(label):g}"
        numbers = [f"{outputs:g} outputs before each of {optimizer.steps:,} steps"]
        found.append(ONE_LABEL.finding(name, reason, [of_process.process.rank], place=place, evidence=numbers))
    return found


def _of_generators(patterns: Sequence[PlacedPattern], of_process: ProcessEvidence) -> list[Finding]:
    """Findings about the optimizers of one process that step after passes with the label of generated samples."""
    found = []
    names = {tensor.id: tensor.name for tensor in of_process.process.tensors}
    stepped = [each for each in of_process.training.optimizers.values() if each.steps >= _FEWEST_STEPS]
    for pattern in patterns:
        (weight,), (label,) = pattern.event.weights, map(float, pattern.event.values)
        fed = [each for each in stepped if pattern.event.location in each.fed_at and weight not in each.tensors]
        is_told = any(weight in each.tensors for each in stepped) and abs(label - _HALF) > _FARTHEST_FROM_HALF
        for optimizer in fed if is_told else ():
            if optimizer.tensors and not any(group.settings.get("maximize") for group in optimizer.groups):
                name = names.get(min(optimizer.tensors), "").partition(".")[0]
                reason = f"its loss has the label {label:g}, with which the discriminator is trained for its samples"
                rank, place = [of_process.process.rank], _place_of_loss(pattern.place, of_process)
                found.append(OWN_LABEL.finding(name, reason, rank, place=place))
    return found


def _place_of_loss(place: str, of_process: ProcessEvidence) -> str:
    """Where the loss of the backward passes at a place was computed, or else that place."""
    losses = [each for each in of_process.training.losses.values() if each.place == place]
    return next((each.place_of_call(_LOSSES) or each.computed for each in losses), place)


CHECK: Final = Check("labels", "discriminators have different labels", _look, (ONE_LABEL, OWN_LABEL))
"""Applies if all labels at a place are the same."""
