"""Checks that the parts of a loss agree with each other.

| the graph of a loss contains | code |
| --- | --- |
| comparisons of rows that were divided by the norm of the whole batch, or of each column | normalised-by-batch |
| noise that is scaled by the variance of the divergence | scale-is-variance |
| log-probabilities times the error of a critic, which is not detached | advantage-not-detached |
| a softmax over one dimension of the products of queries and keys, and a sum over another | softmax-over-queries |
| a custom function whose `backward` does not read the gradient of its result | backward-ignores-gradient |
| a term that the source cuts off the graph | loss-term-cut-off |
| a divergence that is summed, and a reconstruction that is averaged | divergence-outweighs |
| a Dice coefficient of the output of a layer, without a sigmoid or a softmax | dice-of-logits |
| in the source: a clipped ratio of a policy to itself, in several passes over the same data | ratio-to-itself |
| in the source: a reward plus a discounted value, and ends of episodes that nothing reads | episode-end-ignored |
| in the source: a loss that is overwritten before it is read | loss-overwritten |
| in the source: discounted returns in reverse, or added up from the first reward | returns-misordered |
| in the source: a loss over all nodes of a graph, also those that are held out | loss-over-held-out-nodes |
| in the source: a clean sample with the noise of one step of a diffusion | noise-of-one-step |

Only the structure of the graph, or the source, decides. The graph is examined in the first backward passes at a place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding

NORM: Final = Rule(
    "normalised-by-batch",
    WARNING,
    "Embeddings divided by the norm of the whole batch",
    "A loss compares the rows of matrices by distance or by product. Each matrix was first divided by the norm of all "
    "its elements: `norm()` without `dim`. The rows do not have length 1, but about 1 divided by the square root of "
    "their number, and each row depends on all others. Or a softmax over the products of rows follows, and each column "
    "was divided by its own norm: `F.normalize(z, dim=0)`. There, the rows of the other matrix may have length 1.",
    "Pass a dimension to the norm, `z / z.norm(dim=1, keepdim=True)`, or use `F.normalize(z, dim=1)`.",
    "show {run} --kind graph_pattern",
    sources=("https://github.com/HarryVolek/PyTorch_Speaker_Verification/issues/16",),
)
SCALE: Final = Rule(
    "scale-is-variance",
    WARNING,
    "Noise scaled by a variance",
    "A sample is a mean plus noise times an exponential, as in a variational autoencoder. The divergence from a "
    "standard normal distribution, `1 + logvar - mean ** 2 - exp(logvar)`, uses the same exponential as the variance. "
    "But noise must be scaled by the standard deviation, the square root of the variance.",
    "Scale the noise by `torch.exp(0.5 * logvar)`, and use `logvar.exp()` in the divergence.",
    "show {run} --kind graph_pattern",
    sources=("https://github.com/rachtsingh/ibp_vae/issues/3", "https://github.com/keras-team/keras/issues/3283"),
)
ADVANTAGE: Final = Rule(
    "advantage-not-detached",
    WARNING,
    "Policy losses that train the critic",
    "A loss multiplies log-probabilities by the error of a critic, such as `returns - values`, without detaching it. "
    "The critic is also trained on that error by a loss of its own. So the policy loss changes the critic, too: it "
    "raises or lowers the values of likely actions, whatever the returns are.",
    "Detach the error where it weights the log-probabilities: `(returns - values).detach()`.",
    "show {run} --kind graph_pattern",
    sources=(
        "https://github.com/astariul/encode-attend-navigate-pytorch/issues/2",
        "https://github.com/keras-team/keras-io/issues/194",
    ),
)
DIVERGENCE: Final = Rule(
    "divergence-outweighs",
    WARNING,
    "Divergences that are summed, with reconstructions that are averaged",
    "The loss of a variational autoencoder adds its reconstruction, computed from the noisy sample, to the divergence "
    "from a standard normal distribution. The reconstruction is the mean over all elements of the batch, or over its "
    "samples, but the divergence is a sum over them. So each of its elements counts 20 times or more as much as one of "
    "the reconstruction, and the encoder learns to ignore its input. This is reported only if the loss has no other "
    "term, and if the excess is just the number of elements averaged over, so that no factor was chosen for it.",
    "Sum both over the elements of a sample, and average both over the batch: "
    "`F.mse_loss(out, x, reduction='sum') / len(x)`. Or multiply the divergence by a factor on purpose.",
    "show {run} --kind graph_pattern",
    sources=(
        "https://github.com/zdebruine/MMVAE/pull/19",
        "https://github.com/orybkin/sigma-vae-tensorflow/issues/2",
    ),
)

END_IGNORED: Final = Rule(
    "episode-end-ignored",
    WARNING,
    "Targets that look past the end of an episode",
    "In the code of the training program, a function computes which episodes have ended, such as "
    "`dones = torch.tensor(batch.done)`, and never reads it, nor anything else that is called an end or a mask. It "
    "adds a discounted value to a reward. So the target of the last step of an episode has the value of a state that "
    "nobody reaches.",
    "Multiply the value by `1 - dones`.",
    "show {run} --kind source_pattern",
    sources=(
        "https://github.com/navneet-nmk/pytorch-rl/issues/2",
        "https://github.com/seungeunrho/minimalRL/pull/21",
    ),
)
MISORDERED: Final = Rule(
    "returns-misordered",
    WARNING,
    "Returns in another order than the steps",
    "In the code of the training program, a loop over the rewards in reverse appends each discounted return to a list, "
    "and nothing in the file reverses the list or anything else. So each action is credited with the return of another "
    "one. Or the loop begins at the first reward, so that each return adds up the rewards before its step. Only files "
    "with log-probabilities are searched.",
    "Loop over `reversed(rewards)`, and add each return at the beginning: `returns.insert(0, total)`.",
    "show {run} --kind source_pattern",
    sources=(
        "https://github.com/PacktPublishing/Tensorflow-2-Reinforcement-Learning-Cookbook/issues/27",
        "https://github.com/Farama-Foundation/Gymnasium/pull/1337",
    ),
)
UNMASKED: Final = Rule(
    "loss-over-held-out-nodes",
    WARNING,
    "Losses over the held-out nodes of a graph",
    "In the code of the training program, a loss compares the output of a model with the labels of all nodes, and goes "
    "backward. The file has a mask or indices of training nodes and others of validation or test nodes, and selects "
    "labels by such a variable elsewhere. So the model is trained on the labels with which it is tested.",
    "Select the training nodes: `cross_entropy(out[data.train_mask], data.y[data.train_mask])`.",
    "show {run} --kind source_pattern",
    sources=(
        "https://github.com/theislab/geome/issues/16",
        "https://github.com/waittim/graph-fraud-detection/issues/3",
    ),
)
ONE_STEP: Final = Rule(
    "noise-of-one-step",
    WARNING,
    "Diffusion models that see the noise of one step",
    "In the code of the training program, a sample is mixed with noise, `a.sqrt() * x + (1 - a).sqrt() * noise`, where "
    "`a` is the level of one step. The file also computes the cumulative product of these levels, which the level of "
    "the noise after all steps so far is. So the model hardly sees any noise, and cannot remove it when samples are "
    "drawn. A line that overwrites the sample, step by step, does not count.",
    "Take the level from the cumulative product: `torch.cumprod(alphas, dim=0)[t]`.",
    "show {run} --kind source_pattern",
    sources=("https://arxiv.org/abs/2006.11239",),
)
OVERWRITTEN: Final = Rule(
    "loss-overwritten",
    WARNING,
    "Losses that are overwritten before they are read",
    "In the code of the training program, a statement assigns a loss of torch to a variable, and a later one of the "
    "same block assigns another loss to it. Nothing reads the first one. Or a loop over tasks assigns the loss of each "
    "to a variable that was set to 0 right before the loop, and nothing else in it mentions the variable. So only the "
    "last loss has an effect on the gradients.",
    "Add the losses up: `loss = loss + other`, or `loss += other`.",
    "show {run} --kind source_pattern",
    sources=("https://github.com/chiphuyen/stanford-tensorflow-tutorials/pull/114",),
)
RATIO: Final = Rule(
    "ratio-to-itself",
    WARNING,
    "Ratios of a policy to itself",
    "In the code of the training program, a loop makes several passes over the same advantages and steps in each. It "
    "multiplies them by a clipped ratio, the exponential of log-probabilities minus themselves, detached. This is 1 "
    "in every pass, however far the policy has moved from the one that chose the actions, so nothing is ever clipped.",
    "Keep the log-probabilities of the policy that chose the actions, and subtract these: `(logp - old_logp).exp()`.",
    "show {run} --kind source_pattern",
    sources=(
        "https://github.com/tensorforce/tensorforce/issues/312",
        "https://github.com/higgsfield-ai/higgsfield/issues/20",
    ),
)

NOT_READ: Final = Rule(
    "backward-ignores-gradient",
    WARNING,
    "Custom functions that ignore the gradient of their result",
    "The `backward` of a `torch.autograd.Function` computes the gradient of its input from saved values, and never "
    "reads the gradient that it is given, although its result has several elements. So the layers below get the same "
    "gradient whatever the loss is, and loss weights and masks have no effect on them.",
    "Multiply the derivative by the gradient of the result: `return grad_output * derivative`. Compare with "
    "`torch.autograd.gradcheck`.",
    "show {run} --kind graph_pattern",
    sources=(
        "https://github.com/k2-fsa/k2/issues/341",
        "https://github.com/zergtant/pytorch-handbook/issues/69",
    ),
)

CUT_TERM: Final = Rule(
    "loss-term-cut-off",
    WARNING,
    "Terms of losses that have no gradient",
    "By the autograd graph, a term of the sum that is the loss has no gradient. By the source, it was computed from "
    "tensors and then cut off: by `.item()`, `.data`, `.numpy()` or `torch.tensor(...)`; or it uses scores only to "
    "pick the largest, as `argmax` does, or to compare them. It changes the value of the loss, but trains nothing. A "
    "term that is detached by `.detach()` is not reported, nor is a choice under `torch.no_grad()`.",
    "Keep the term as a tensor: leave out `.item()` and `.data`, and use `torch.stack(terms)` in place of "
    "`torch.tensor(terms)`. Use probabilities, `logits.softmax(1)`, in place of the class with the largest one.",
    "show {run} --kind graph_pattern",
    sources=(
        "https://github.com/laekov/fastmoe/issues/49",
        "https://github.com/allenai/open-instruct/issues/530",
    ),
    explains=("never-updated", "grad-cut-off", "untrained"),
)

QUERIES: Final = Rule(
    "softmax-over-queries",
    WARNING,
    "Attention weights that sum to 1 over the queries or the heads",
    "An attention of n queries to n keys applies a softmax to their products, and then sums values over another "
    "dimension: the weights with which one query sums up the values do not sum to 1. Either the softmax has the wrong "
    "dimension, or a transposition is missing before the second product. Weights that are divided by their sum first "
    "are not reported.",
    "Apply the softmax over the keys, `scores.softmax(dim=-1)` for `queries @ keys.transpose(-2, -1)`, and multiply "
    "the weights by the values: `weights @ values`.",
    "show {run} --kind graph_pattern",
    sources=(
        "https://github.com/labmlai/annotated_deep_learning_paper_implementations/issues/146",
        "https://github.com/heykeetae/Self-Attention-GAN/issues/11",
    ),
)

DICE: Final = Rule(
    "dice-of-logits",
    WARNING,
    "Dice coefficients of scores that are no probabilities",
    "A loss multiplies the output of a linear or convolutional layer by a mask of zeros and ones, and divides the sum "
    "by that of the output: a Dice coefficient. It is between 0 and 1 for probabilities, but has no bounds for such "
    "scores. The loss becomes negative, or jumps where the divisor is close to 0.",
    "Apply a sigmoid, or a softmax over the classes, before the coefficient is computed.",
    "show {run} --kind graph_pattern",
    sources=("https://github.com/milesial/Pytorch-UNet/issues/271",),
)

VIEWS: Final = Rule(
    "siamese-not-detached",
    WARNING,
    "Siamese networks without a stopped gradient",
    "Each term of a loss compares, element by element, what is predicted from one view of the samples with the "
    "representation of another view; from that, the same network predicts the first one. Gradients flow to both sides. "
    "So the loss is lowest if all representations are equal, and without a term that keeps samples apart, or a target "
    "that is not trained, they become so.",
    "Detach the representation that a prediction is compared with: `cosine_similarity(p1, z2.detach())`.",
    "show {run} --kind graph_pattern,loss",
    sources=(
        'Chen and He, "Exploring Simple Siamese Representation Learning", CVPR 2021',
        "https://github.com/lightly-ai/lightly/issues/559",
    ),
)

_RULES: Final = {
    "views-not-detached": (VIEWS, "loss", "both sides of its comparisons, of shape {shape}, have a gradient"),
    "dice-of-scores": (DICE, "loss", "it is computed from scores of shape {shape}, which are no probabilities"),
    "cut-term": (CUT_TERM, "loss", "one of its terms is a number without a gradient"),
    "softmax-over-queries": (QUERIES, "attention", "its weights, of shape {shape}, sum to 1 over another dimension"),
    "norm-of-batch": (NORM, "embedding", "a matrix of shape {shape} is divided by the norm of all its elements"),
    "scale-is-variance": (SCALE, "noise", "its scale, of shape {shape}, is the variance in the divergence"),
    "divergence-outweighs": (
        DIVERGENCE,
        "loss",
        "its divergence counts {value:,.0f} times as much as its reconstruction of shape {shape}",
    ),
    "gradient-not-read": (NOT_READ, "function", "the gradient of its result, of shape {shape}, is not read"),
    "error-not-detached": (ADVANTAGE, "loss", "the weights of log-probabilities, of shape {shape}, are not detached"),
}
"""For each pattern, its rule, and the name and reason of its findings."""

_OF_SOURCE: Final = {
    "ratio-of-one": (RATIO, "ratio", "{} is always 1"),
    "ends-unread": (END_IGNORED, "target", "{} has no part in which {} is read"),
    "loss-overwritten": (OVERWRITTEN, "loss", "{} is assigned again before anything reads it"),
    "returns-backwards": (MISORDERED, "returns", "{} begins with the return of the last step"),
    "returns-forwards": (MISORDERED, "returns", "{} adds up the rewards before each step"),
    "loss-unmasked": (UNMASKED, "loss", "{} are the labels of all nodes, some of which are held out"),
    "noise-of-one-step": (ONE_STEP, "noise", "{} is the level of one step, not of all so far"),
}
"""What the source shows: the rule, what it is about, and what is wrong with the names of the pattern."""


def _look(evidence: Evidence) -> Sight | None:
    findings: list[Finding] = []
    for of_process in evidence.of_processes:
        reported: set[tuple[str, str]] = set()
        for event, backward_place, made in of_process.acts.patterns:
            if event.what not in _RULES:
                continue
            rule, name, reason = _RULES[event.what]
            place = made or of_process.training.computed_at(backward_place)
            if (rule.code, place) in reported:
                continue
            reported.add((rule.code, place))
            words = reason.format(shape=tuple(event.shape), value=next(iter(event.values), 0.0))
            findings.append(rule.finding(name, words, [of_process.process.rank], step=event.step, place=place))
        findings += [
            rule.finding(name, reason.format(*source.event.names), [of_process.process.rank], place=source.place)
            for source in of_process.acts.sources
            if source.event.what in _OF_SOURCE
            for rule, name, reason in (_OF_SOURCE[source.event.what],)
        ]
    return Sight(findings, [*evidence.device_words, *evidence.compiled_words]) if findings else None


CHECK: Final = Check(
    "formulas",
    "the parts of each loss agree with each other",
    _look,
    (
        *(
            NORM,
            SCALE,
            ADVANTAGE,
            DIVERGENCE,
            NOT_READ,
            RATIO,
            CUT_TERM,
            QUERIES,
            DICE,
            VIEWS,
            END_IGNORED,
            OVERWRITTEN,
        ),
        *(MISORDERED, ONE_STEP, UNMASKED),
    ),
)
"""Present only if it finds something, because few programs contain such formulas."""
