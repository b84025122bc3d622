"""Checks that the program prepares its data rightly, as far as its source shows.

| the source | code |
| --- | --- |
| shuffles inputs and labels by two different permutations | labels-shuffled-apart |
| fits a scaler to all data, and then splits these into training and test data | scaler-sees-test-data |
| moves an image at random in `__getitem__`, and its mask otherwise or not at all | mask-augmented-apart |
| augments validation or test images at random | evaluation-augmented |
| normalises training images, and not those of validation or tests | evaluation-not-normalized |
| gives parts of one data set different transforms, through the data set itself | transform-shared |
| resizes a map of labels by interpolation | labels-interpolated |
| standardises validation or test data by their own mean and deviation | evaluation-own-statistics |
| subtracts bytes in `__getitem__`, and the values of some samples wrap around | byte-difference-wraps |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding

APART: Final = Rule(
    "labels-shuffled-apart",
    WARNING,
    "Inputs and labels that are shuffled apart",
    "In the code of the training program, inputs and their labels, by the names of the variables, are each replaced by "
    "a random permutation of themselves, or shuffled in place. Each draws a permutation of its own, nothing sets a "
    "seed in between, and both are passed to one call, returned together, or read with the same index. So the labels "
    "are those of other inputs.",
    "Draw one permutation for both: `order = torch.randperm(len(x))`, then `x[order]` and `y[order]`.",
    "show {run} --kind source_pattern",
    sources=("https://github.com/xudonmao/VMT/issues/1", "https://github.com/mlcommons/GaNDLF/pull/870"),
)
SCALER: Final = Rule(
    "scaler-sees-test-data",
    WARNING,
    "Scalers that are fitted to test data",
    "In the code of the training program, a scaler, by the name of its class, is fitted to data that are scaled by it "
    "and then split into training and test data: by `train_test_split` or `random_split`, or by two slices that are "
    "assigned to variables named for training and for tests. So training knows the mean, the range or the deviation of "
    "the test data, which are the future if the data are a series, and the metrics on them are too good.",
    "Split first. Fit the scaler to the training data, and transform both parts: `scaler.fit(x[:cut])`.",
    "show {run} --kind source_pattern",
    sources=(
        "https://github.com/huseinzol05/Stock-Prediction-Models/issues/126",
        "https://github.com/nijamudheen/CheMLFlow/issues/9",
    ),
)
WRAPS: Final = Rule(
    "byte-difference-wraps",
    WARNING,
    "Differences of bytes that wrap around",
    "The `__getitem__` of a data set that a `DataLoader` reads subtracts two uint8 arrays or tensors, which are "
    "attributes of the data set, or items of these. For some of eight samples that were looked up, a negative "
    "difference wraps around: -1 becomes 255. Or the `forward` of a module subtracts parts of its arguments so, in one "
    "of its first calls, or the code that calls a model does so with its variables.",
    "Convert before subtracting: `self.after[index].float() - self.before[index].float()`.",
    "show {run} --kind source_pattern",
    sources=(
        "https://github.com/dwave-examples/image-segmentation/issues/10",
        "https://github.com/waveform80/picamera/pull/263",
    ),
)
AUGMENTED: Final = Rule(
    "mask-augmented-apart",
    WARNING,
    "Images and masks that are augmented apart",
    "The `__getitem__` of a data set that a `DataLoader` reads returns an image and a mask, by their names. It flips "
    "the image at random, and the mask in no way, or under a condition that draws another number. Or it calls one "
    "transform, such as `RandomCrop` or `Compose` with a `Random...`, first for the image and then for the mask, and "
    "nothing sets a seed: the transform draws anew for each. So the mask is that of another place.",
    "Draw once, and move both: `if random.random() < 0.5: image, mask = image.flip(-1), mask.flip(-1)`.",
    "show {run} --kind source_pattern",
    sources=("https://github.com/thuanz123/realfill/issues/4",),
)

AT_RANDOM: Final = Rule(
    "evaluation-augmented",
    WARNING,
    "Validation or test data that are augmented at random",
    "In the code of the training program, a transform whose name says that it is for validation or tests is a "
    "`Compose` with a random augmentation, such as `RandomCrop`. Or a data set with such a name, also a part by "
    "`random_split`, gets the random transform of training. So the metrics are those of changed data, and differ from "
    "one evaluation to the next. Files that mention contrastive learning or augmentation at test time are not judged.",
    "Give held-out data a transform without random parts, such as `Resize` and `CenterCrop`.",
    "show {run} --kind source_pattern",
    sources=(
        "https://github.com/zoogzog/chexnet/issues/27",
        "https://github.com/gpleiss/efficient_densenet_pytorch/issues/51",
    ),
)
OTHERWISE: Final = Rule(
    "evaluation-not-normalized",
    WARNING,
    "Validation or test data that are not normalised as in training",
    "In the code of the training program, the only transform whose name says that it is for training has a "
    "`Normalize`. One for validation or tests, in the same file, has none, and consists of transforms that are known "
    "not to normalise. Or both have one, with other numbers, which are written out.",
    "Normalise held-out data by the mean and the deviation of the training data, as in training.",
    "show {run} --kind source_pattern,input",
    sources=(
        "https://github.com/JeasunLok/ResNet-pytorch/issues/1",
        "https://github.com/PolymathicAI/the_well/issues/68",
    ),
)

INTERPOLATED: Final = Rule(
    "labels-interpolated",
    WARNING,
    "Maps of labels that are resized by interpolation",
    "In the code of the training program, a map of labels or a mask, by the name of the variable, is resized with "
    '`mode="bilinear"` or another mode that takes averages, and the result is cut to integers, with no rounding, '
    "threshold or change in between. The average of two labels is the label of a class that is not there, such as 3 "
    "between 0 and 7, and what is cut downwards shrinks a mask of 0 and 1.",
    'Resize labels with `mode="nearest"`.',
    "show {run} --kind source_pattern",
    sources=(
        "https://github.com/shekkizh/FCN.tensorflow/issues/4",
        "https://github.com/divamgupta/image-segmentation-keras/issues/11",
    ),
)

OWN: Final = Rule(
    "evaluation-own-statistics",
    WARNING,
    "Validation or test data that are standardised by their own statistics",
    "In the code of the training program, the mean of held-out data, by the name of the variable, is subtracted from "
    "them, and they are divided by their standard deviation; likewise the training data, called the same, by theirs. "
    "This may be done by a function or a data set of the file, or by `fit_transform` of a scaler. So the same value "
    "means one thing in training and another in the evaluation, and a difference between the two sets is hidden from "
    "the model. Statistics of each sample by itself do not count.",
    "Keep the statistics of the training data: `x_val = (x_val - mean) / std`, `scaler.transform(x_val)`.",
    "show {run} --kind source_pattern",
    sources=(
        "https://github.com/aiff22/HAR/issues/4",
        "https://github.com/deepchem/deepchem/issues/51",
        "https://github.com/tensorflow/skflow/issues/157",
    ),
)

SHARED: Final = Rule(
    "transform-shared",
    WARNING,
    "Parts of a data set that share the last transform",
    "In the code of the training program, `random_split` or `Subset` makes parts of one data set, and the transforms "
    "of two parts differ: each is assigned by `part.dataset.transform = ...`; or the data set was created with one, "
    "which another replaces for a part that is called validation or test data. But all parts have the same data set, "
    "so the last transform applies to all of them. Training data lose their augmentation, or held-out data are "
    "augmented. Assignments in loops are not judged, nor parts that get a data set of their own.",
    "Create the data set once for each transform, and take the parts from these with the same indices: "
    "`Subset(train_data, order[:n])` and `Subset(val_data, order[n:])`.",
    "show {run} --kind source_pattern",
    sources=("https://github.com/yoshitomo-matsubara/torchdistill/issues/209",),
)


def _look(evidence: Evidence) -> Sight | None:
    findings: list[Finding] = []
    for of_process in evidence.of_processes:
        rank = [of_process.process.rank]
        for event, place, other in of_process.acts.sources:
            if event.what == "shuffled-apart":
                name, reason = " and ".join(event.names), f"they are shuffled by two permutations, the first at {other}"
                findings.append(APART.finding(name, reason, rank, place=place))
            elif event.what == "scaler-fitted-on-all":
                reason = f"a scaler is fitted to all of it, before it is split at {other}"
                findings.append(SCALER.finding(event.names[0], reason, rank, place=place))
            elif event.what == "unsigned-difference":
                left, right = event.names
                reason = "both are uint8, and negative differences wrap around"
                findings.append(WRAPS.finding(f"{left} - {right}", reason, rank, place=place))
            elif event.what == "augmented-apart":
                image, mask = event.names
                findings.append(AUGMENTED.finding(image, f"`{mask}` is not moved with it", rank, place=place))
            elif event.what == "evaluation-augmented":
                name, drawn = event.names
                findings.append(AT_RANDOM.finding(name, f"`{drawn}` changes it at random", rank, place=place))
            elif event.what == "transform-shared":
                part, changed = event.names
                which = "the one it was created with" if other == place else f"the one assigned at {other}"
                reason = f"`{changed}` is a part of the same data set: this transform replaces {which}"
                findings.append(SHARED.finding(f"{part}.dataset", reason, rank, place=place))
            elif event.what == "evaluation-not-normalised":
                name, training = event.names
                reason = f"it is not normalised as `{training}` is, at {other}"
                findings.append(OTHERWISE.finding(name, reason, rank, place=place))
            elif event.what == "scaled-by-own-statistics":
                name, training = event.names
                reason = (
                    f"its own mean and deviation are used, and not those of `{training}`, whose own are used at {other}"
                )
                findings.append(OWN.finding(name, reason, rank, place=place))
            elif event.what == "labels-interpolated":
                reason = f"its labels are averaged, and cut to integers at {other}"
                findings.append(INTERPOLATED.finding(event.names[0], reason, rank, place=place))
    return Sight(findings) if findings else None


CHECK: Final = Check(
    "preparation",
    "data were prepared rightly",
    _look,
    (APART, SCALER, WRAPS, AUGMENTED, AT_RANDOM, OTHERWISE, INTERPOLATED, OWN, SHARED),
)
"""Applies if the source shows that they were not."""
