"""Checks that training sees all data, in an order that changes.

| the loader | code |
| --- | --- |
| is restarted for each step and yields its first batch, in a fixed order | same-batch |
| is a function that sets the same seed in each step, and the first inputs are equal | same-batch |
| shuffles, but has the same order in each iteration: the seed was set again, or `set_epoch` was not called \
| same-order |
| does not shuffle, and its samples come in the order of their classes | batches-in-class-order |
| has several workers whose batches are equal, or that copy a generator of the data set | equal-worker-streams |
| evaluates with some of the samples of training, and with others | evaluated-on-training-samples |
| is called validation or test data, and has the training data | evaluated-on-training-samples |
| draws samples by weights, and has fewer weights than samples | samples-without-weight |
| stores all samples in a tensor that it changes in each iteration | data-set-changes |
| has fewer samples than a batch, and drops them | loader-without-batches |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import ERROR, WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.process.acts_summary import LoaderSummary
    from proxy_trace.process.process_summary import ProcessEvidence

SAME_BATCH: Final = Rule(
    "same-batch",
    ERROR,
    "The same first batch in every step",
    "At least nine of ten iterations over a data loader, and at least seven, yielded only the first of several "
    "batches in a fixed order. An optimizer step followed each, and then a model was called for training. Or, in the "
    "code of the training program, each pass of the training loop sets a constant seed and then draws, or never reads "
    "the variables of the loop, which have the batch; and the first three inputs of a model in training were equal to "
    "the bit.",
    "Keep one iterator, and create a new one when it is exhausted: `next(iter(loader))` starts over each time. Set the "
    "seed once, before the loop. Pass the batch of the loop to the model.",
    "show {run} --kind loading",
    sources=(
        "https://github.com/ZhaoJ9014/face.evoLVe/pull/39",
        "https://github.com/huggingface/diffusers/issues/7991",
    ),
)
SAME_ORDER: Final = Rule(
    "same-order",
    WARNING,
    "The same order of the data in every epoch",
    "A data loader that is used for training, and whose sampler shuffles, had the same order as in the previous "
    "iteration in at least nine of ten iterations, and at least three (two for a `DistributedSampler`). Either the "
    "random numbers started from the same state, because something sets the seed in each epoch; or the sampler "
    "shuffles by an epoch number that never changed.",
    "Set the seed once, before the first epoch; call `sampler.set_epoch(epoch)` at the top of each epoch.",
    "show {run} --kind loading,configuration",
    sources=("https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler",),
)
CLASS_ORDER: Final = Rule(
    "batches-in-class-order",
    WARNING,
    "Batches in the order of their classes",
    "A data loader that is used for training does not shuffle. In two epochs, no batch of a classification had a lower "
    "class than the batch before: the samples are sorted by class, so a step sees one class or two. It undoes what the "
    "steps with the other classes learned, and batch norms see one class at a time.",
    "Pass `shuffle=True` to the `DataLoader` of the training data.",
    "show {run} --kind graph_pattern,loading",
    sources=(
        "https://github.com/Deci-AI/super-gradients/issues/416",
        "https://github.com/pytorch/vision/issues/7818",
    ),
)
SHARED: Final = Rule(
    "evaluated-on-training-samples",
    WARNING,
    "Evaluation with samples of training",
    "Two loaders draw from parts of one data set, by a `Subset` or a `SubsetRandomSampler`. A model was trained with "
    "one of them, and then evaluated with the other. Some samples of the second part are also in the first one, and "
    "some are not: so it is not meant to be a part of the training data, and its results are too good. If the second "
    "contains the first, nothing is reported; if the first contains the second, only if a variable with the loader is "
    "called validation or test data, and it was used twice. Or the code of the training program uses training data "
    "where the names say that others are meant: in a loader called `val_loader`, for a result called `val_loss`, or in "
    "a function called `validate` that mentions no other data. The program has the same for held-out data, such as "
    "`val_set` or `val_loader`.",
    "Split the indices once, and use each for one part only, as `torch.utils.data.random_split` does. Evaluate with "
    "the data that were held out.",
    "show {run} --kind loading",
    sources=(
        "https://github.com/marin-community/marin/pull/2700",
        "https://github.com/TensorAuto/OpenTau/pull/498",
        "https://github.com/HuCaoFighting/Swin-Unet/issues/135",
        "https://github.com/KrishnaDN/x-vector-pytorch/issues/8",
    ),
)
EQUAL_WORKERS: Final = Rule(
    "equal-worker-streams",
    ERROR,
    "Workers that draw the same random numbers",
    "A data loader has several workers. In each round the batches of all workers had the same values, to the bit, "
    "while the rounds differed from each other. Or the loader trains a model, and its data set draws samples with a "
    "random generator that it keeps in an attribute. Each worker gets a copy with the same state, in each epoch again, "
    "and neither the data set nor a `worker_init_fn` seeds it.",
    "Seed each worker differently: in `worker_init_fn` from `torch.initial_seed()`, which differs between workers; or "
    "draw from `torch` instead of a generator that the data set keeps.",
    "show {run} --kind loading",
    sources=("https://tanelp.github.io/posts/a-bug-that-plagues-thousands-of-open-source-ml-projects/",),
)

WITHOUT_WEIGHT: Final = Rule(
    "samples-without-weight",
    ERROR,
    "Samples that are never drawn",
    "A loader's `WeightedRandomSampler` has fewer weights than the data set has samples. It draws only from the first "
    "samples, as many as it has weights; the others are never seen.",
    "Pass one weight per sample, `class_weights[labels]`, not one per class.",
    "show {run} --kind loading",
    sources=("https://github.com/deep-voice/soundbay/pull/49",),
)
CHANGES: Final = Rule(
    "data-set-changes",
    WARNING,
    "Data sets that change with each epoch",
    "In all iterations over a loader that trains, and at least three, the data set changed a floating-point tensor in "
    "place while it returned samples. The tensor has one row per sample, so samples that are normalised or augmented "
    "in place are normalised or augmented again in the next epoch.",
    "Compute a new tensor in `__getitem__`, `(x - mean) / std`, or change a copy: `x = self.data[index].clone()`.",
    "show {run} --kind loading",
    sources=("https://github.com/facebookresearch/pycls/pull/21",),
)

WITHOUT_BATCHES: Final = Rule(
    "loader-without-batches",
    WARNING,
    "Loaders that have no batch",
    "A loop went through a data loader with `drop_last=True` whose samples are fewer than a batch. So all of them are "
    "dropped, and the loop does nothing.",
    "Make batches smaller, or pass `drop_last=False`.",
    "show {run} --kind loading",
    sources=(
        "https://github.com/RasmussenLab/vamb/pull/425",
        "https://github.com/PaddlePaddle/PaddleScience/pull/355",
    ),
)

_FEWEST_FIRST: Final = 7
_FEWEST_ORDERS: Final = 3
_FEWEST_EPOCHS: Final = 2
"""The fewest repeated orders of a sampler that shuffles by the number of the epoch: it tells that it never changed."""
_FEWEST_EVALUATIONS: Final = 2
"""How often a loader of held-out data must be used: before a fold trains, the last that trained is that of another."""
_FEWEST_RUNS: Final = 3
_OF_ORDER: Final = 3
"""The values of an order of classes: the number of batches, the lowest class and the highest."""
_FEWEST_CHANGES: Final = 3
_FEWEST_INPUTS: Final = 3
"""How many inputs of training the trace tells of."""


def _look(evidence: Evidence) -> Sight | None:
    findings: list[Finding] = []
    is_any = False
    for of_process in evidence.of_processes:
        rank = [of_process.process.rank]
        orders = [each.event.values for each in of_process.acts.patterns if each.event.what == "classes-in-order"]
        for loader in of_process.acts.loaders.values():
            is_any = True
            found = _judge(loader) or _judge_order(loader, orders)
            if found is not None:
                rule, reason, numbers = found
                name = f"DataLoader ({loader.last.sampler})"
                nearer = {
                    CHANGES: loader.changed_place,
                    WITHOUT_WEIGHT: loader.sampler_place,
                    EQUAL_WORKERS: loader.draw_place,
                }.get(rule, "")
                place = nearer or loader.place
                findings.append(rule.finding(name, reason, rank, place=place, evidence=[numbers]))
        for source in of_process.acts.sources:
            if source.event.what == "seed-repeated" and _are_inputs_equal(of_process):
                is_any = True
                reason = f"each step sets this seed and draws the same batch at {source.other}"
                told = ["the first inputs in training are equal to the bit"]
                findings.append(
                    SAME_BATCH.finding(source.event.names[0], reason, rank, place=source.place, evidence=told)
                )
            elif source.event.what == "batch-unused" and _are_inputs_equal(of_process):
                is_any = True
                name = ", ".join(source.event.names)
                reason = "the loop does not use its batch, and each step has the same one"
                told = ["the first inputs in training are equal to the bit"]
                findings.append(SAME_BATCH.finding(name, reason, rank, place=source.place, evidence=told))
            elif source.event.what == "training-data-evaluated":
                is_any = True
                reason = f"`{source.event.names[1]}` has the training data"
                findings.append(SHARED.finding(source.event.names[0], reason, rank, place=source.place))
    return Sight(findings) if is_any else None


def _are_inputs_equal(of_process: ProcessEvidence) -> bool:
    """Whether the inputs of the first calls of a model in training, by one layer, are equal to the bit."""
    seen: dict[tuple[int, int], list[str | None]] = {}
    for each in of_process.training.inputs:
        if not each.is_evaluation:
            seen.setdefault((each.root, each.layer), []).append(each.statistics.bits)
    return any(len(bits) >= _FEWEST_INPUTS and None not in bits and len({*bits}) == 1 for bits in seen.values())


def _judge(loader: LoaderSummary) -> tuple[Rule, str, str] | None:
    """The rule that a loader breaks, the reason, and the numbers; None if it breaks none."""
    last, earlier = loader.last, loader.last.count - 1
    if last.dropped:
        return WITHOUT_BATCHES, "it drops all of its samples, which are fewer than a batch", f"{last.dropped:,} samples"
    if last.first_only >= _FEWEST_FIRST and _is_most(last.first_only, earlier) and loader.trained == loader.calls > 0:
        return (
            SAME_BATCH,
            "each step started over and used the first batch",
            f"in {last.first_only:,} of {earlier:,} steps",
        )
    fewest = _FEWEST_EPOCHS if last.sampler == "DistributedSampler" else _FEWEST_ORDERS
    if last.trains and last.same_order >= fewest and _is_most(last.same_order, earlier):
        return (
            SAME_ORDER,
            "its order is random, but was the same each time",
            f"in {last.same_order:,} of {earlier:,} epochs",
        )
    if 0 < last.shared < last.samples and loader.calls and not loader.trained and not last.trains:
        reason = "it evaluates with samples that it shares with the loader that trained before"
        return SHARED, reason, f"{last.shared:,} of {last.samples:,} samples"
    is_only_evaluated = loader.calls > 0 == loader.trained and not last.trains
    if is_only_evaluated and last.held_out and 0 < last.shared == last.samples and last.count >= _FEWEST_EVALUATIONS:
        reason = f"`{last.held_out}` has only samples of the loader that trained before"
        return SHARED, reason, f"all {last.samples:,} samples"
    if last.unweighted:
        reason = "its sampler has fewer weights than there are samples"
        return WITHOUT_WEIGHT, reason, f"{last.unweighted:,} samples have no weight"
    if last.trains and last.changed_samples >= _FEWEST_CHANGES and last.changed_samples >= earlier:
        return (
            CHANGES,
            "its data set changed its stored samples",
            f"in {last.changed_samples:,} of {earlier:,} epochs",
        )
    if last.trains and last.generator:
        return EQUAL_WORKERS, f"each worker has a copy of `{last.generator}`", f"{last.workers:,} workers"
    runs = last.given - last.same_batch
    if (
        last.workers > 1
        and runs >= _FEWEST_RUNS
        and _is_most(last.same_batch * last.workers, last.given * (last.workers - 1))
    ):
        reason = "its workers returned batches with the same values"
        return EQUAL_WORKERS, reason, f"{last.given:,} batches of {last.workers:,} workers, {runs:,} of them different"
    return None


def _judge_order(loader: LoaderSummary, orders: Sequence[Sequence[float | str]]) -> tuple[Rule, str, str] | None:
    """The finding if a loader that does not shuffle has as many batches as a sequence of batches in class order."""
    last = loader.last
    if last.sampler != "SequentialSampler" or not last.trains:
        return None
    found = next((each for each in orders if len(each) == _OF_ORDER and each[0] == last.batches), None)
    if found is None:
        return None
    _, lowest, highest = found
    reason = "it does not shuffle, and its samples are sorted by class"
    return CLASS_ORDER, reason, f"{last.batches:,} batches, from class {lowest:g} to class {highest:g}"


def _is_most(part: int, whole: int) -> bool:
    return part * 10 >= whole * 9


CHECK: Final = Check(
    "data",
    "training saw all data, in an order that changes",
    _look,
    (SAME_BATCH, SAME_ORDER, CLASS_ORDER, SHARED, EQUAL_WORKERS, WITHOUT_WEIGHT, CHANGES, WITHOUT_BATCHES),
)
"""Applies if batches came from a `DataLoader`, or the source shows a mistake."""
