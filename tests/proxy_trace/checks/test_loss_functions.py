"""Losses of what they are not meant for are told by their graphs: those that torch makes, and made ones."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, TypeAlias

import pytest
import torch
import torch.nn.functional as F
from torch.distributions import Categorical

from proxy_trace.checks import loss_functions
from proxy_wrapper import events
from proxy_wrapper.loss_graph.loss_nodes import last_node_of, loss_nodes
from tests.proxy_trace.checks.judged import CALLS, NET, find, said, weight
from tests.proxy_trace.checks.judged import VALUES as STATISTICS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

CLASSES = torch.tensor([0, 2, 1, 1])
VALUES = torch.tensor([0.1, 0.7, -0.3, 0.2])
LABELS = (VALUES > 0).float()
Function: TypeAlias = "Callable[[torch.Tensor], torch.Tensor]"


def focal(loss: torch.Tensor) -> torch.Tensor:
    """A focal loss of each element of a cross entropy."""
    return 0.25 * (1 - torch.exp(-loss)) ** 2 * loss


WRONG: dict[str, tuple[str, int, Function, Function]] = {
    "cross entropy of a softmax": (
        "softmax-before-cross-entropy", 3, lambda x: x.softmax(1), lambda out: F.cross_entropy(out, CLASSES),
    ),
    "of one outside the model": (
        "softmax-before-cross-entropy", 3, lambda x: x, lambda out: F.cross_entropy(F.softmax(out, 1), CLASSES),
    ),
    "of a sigmoid, seen through a view": (
        "softmax-before-cross-entropy", 3, lambda x: x.sigmoid().view(4, 3), lambda out: F.cross_entropy(out, CLASSES),
    ),
    "with weights and smoothing": (
        "softmax-before-cross-entropy", 3, lambda x: x.softmax(1),
        lambda out: F.cross_entropy(out, CLASSES, weight=torch.ones(3), label_smoothing=0.1),
    ),
    "binary with logits of a sigmoid": (
        "sigmoid-before-logits-loss", 1, lambda x: x.sigmoid().squeeze(1),
        lambda out: F.binary_cross_entropy_with_logits(out, LABELS),
    ),
    "nll of a softmax": (
        "nll-without-log-softmax", 3, lambda x: x.softmax(1), lambda out: F.nll_loss(out, CLASSES),
    ),
    "nll of a linear layer": ("nll-without-log-softmax", 3, lambda x: x, lambda out: F.nll_loss(out, CLASSES)),
    "mse of a column and a row": ("loss-broadcasts", 1, lambda x: x, lambda out: F.mse_loss(out, VALUES)),
    "l1 of a row and a column": (
        "loss-broadcasts", 1, lambda x: x.squeeze(1), lambda out: F.l1_loss(out, VALUES[:, None]),
    ),
    "smooth l1": ("loss-broadcasts", 1, lambda x: x, lambda out: F.smooth_l1_loss(out, VALUES)),
    "mse of a column of the output": ("loss-broadcasts", 3, lambda x: x, lambda out: F.mse_loss(out[:, :1], VALUES)),
    "mse of the actions that were chosen": (
        "loss-broadcasts", 3, lambda x: x, lambda out: F.mse_loss(out.gather(1, CLASSES[:, None]), VALUES),
    ),
    "a difference written out": ("loss-broadcasts", 1, lambda x: x, lambda out: ((out - VALUES) ** 2).mean()),
    "a difference of vectors": (
        "loss-broadcasts", 3, lambda x: x, lambda out: ((out - torch.zeros(4, 1, 3)) ** 2).mean(),
    ),
    "mse of vectors": (
        "loss-broadcasts", 3, lambda x: x.unsqueeze(1), lambda out: F.mse_loss(out, torch.zeros(4, 3)),
    ),
    "the other way round": ("loss-broadcasts", 1, lambda x: x, lambda out: (VALUES - out).abs().mean()),
    "a target of Q-learning": (
        "target-not-detached", 3, lambda x: x,
        lambda out: F.smooth_l1_loss(out.gather(1, CLASSES[:, None]).squeeze(1), 0.9 * out.max(1).values + VALUES),
    ),
    "one by differences": (
        "target-not-detached", 3, lambda x: x,
        lambda out: (out.amax(1) * 0.9 - out.gather(1, CLASSES[:, None])[:, 0]).square().mean(),
    ),
    "outputs of an episode, stacked": (
        "loss-broadcasts", 1, lambda x: x,
        lambda out: (VALUES - torch.stack([out[i] for i in range(4)])).square().mean(),
    ),
    "divergence of a softmax": (
        "kl-div-of-probabilities", 3, lambda x: x,
        lambda out: F.kl_div((out / 2).softmax(1), torch.full((4, 3), 1 / 3), reduction="batchmean") * 4,
    ),
    "divergence of what the model made probabilities": (
        "kl-div-of-probabilities", 3, lambda x: x.softmax(1),
        lambda out: F.kl_div(out, torch.full((4, 3), 1 / 3), reduction="sum"),
    ),
    "a policy of probabilities as logits": (
        "probabilities-as-logits", 3, lambda x: x.softmax(1),
        lambda out: -(Categorical(logits=out).log_prob(CLASSES) * VALUES).mean(),
    ),
    "focal loss of the mean": ("focal-loss-of-mean", 3, lambda x: x, lambda out: focal(F.cross_entropy(out, CLASSES))),
    "binary focal loss of the mean": (
        "focal-loss-of-mean", 1, lambda x: x,
        lambda out: focal(F.binary_cross_entropy_with_logits(out, LABELS[:, None])),
    ),
}  # fmt: skip

RIGHT: dict[str, tuple[int, Function, Function]] = {
    "cross entropy of logits": (3, lambda x: x, lambda out: F.cross_entropy(out, CLASSES)),
    "nll of a log softmax": (3, lambda x: x.log_softmax(1), lambda out: F.nll_loss(out, CLASSES)),
    "nll of the log of a softmax": (3, lambda x: x.softmax(1).log(), lambda out: F.nll_loss(out, CLASSES)),
    "entropy of the output": (3, lambda x: x.softmax(1), lambda out: -(out.log_softmax(1) * out).sum()),
    "distillation": (
        3, lambda x: x, lambda out: F.kl_div(out.log_softmax(1), torch.full((4, 3), 1 / 3), reduction="batchmean"),
    ),
    "an attention in the model": (
        3, lambda x: x.softmax(1) @ torch.ones(3, 3), lambda out: F.cross_entropy(out, CLASSES),
    ),
    "binary of a sigmoid": (
        1, lambda x: x.sigmoid().squeeze(1), lambda out: F.binary_cross_entropy(out, LABELS),
    ),
    "binary with logits": (
        1, lambda x: x.squeeze(1), lambda out: F.binary_cross_entropy_with_logits(out, LABELS),
    ),
    "divergence to a softmax that is trained": (
        3, lambda x: x.softmax(1), lambda out: F.kl_div(torch.full((4, 3), 1 / 3).log(), out, reduction="sum"),
    ),
    "an entropy bonus": (
        3, lambda x: x.softmax(1),
        lambda out: -Categorical(probs=out).log_prob(CLASSES).mean() - Categorical(probs=out).entropy().mean(),
    ),
    "a policy of logits": (3, lambda x: x, lambda out: -(Categorical(logits=out).log_prob(CLASSES) * VALUES).mean()),
    "focal loss of each sample": (
        3, lambda x: x, lambda out: focal(F.cross_entropy(out, CLASSES, reduction="none")).mean(),
    ),
    "focal loss of one sample": (3, lambda x: x[0], lambda out: focal(F.cross_entropy(out, CLASSES[0]))),
    "a loss that is bounded": (3, lambda x: x, lambda out: 1 - torch.exp(-F.cross_entropy(out, CLASSES))),
    "mse of two columns": (1, lambda x: x, lambda out: F.mse_loss(out, VALUES[:, None])),
    "mse of a square output": (4, lambda x: x, lambda out: F.mse_loss(out, torch.zeros(4, 4))),
    "a penalty that is broadcast": (3, lambda x: x, lambda out: (out - VALUES[:, None]).square().mean()),
    "distances of all pairs": (1, lambda x: x, lambda out: (out - out.t()).abs().mean()),
    "distances to all centres": (
        3, lambda x: x, lambda out: (out - torch.zeros(4, 1, 3)).pow(2).sum(2).mean(),
    ),
    "samples of one condition": (3, lambda x: x, lambda out: ((out - torch.zeros(7, 1, 3)) ** 2).mean()),
    "pairs that are asked for": (
        1, lambda x: x.squeeze(1), lambda out: (out.unsqueeze(1) - VALUES.unsqueeze(0)).abs().mean(),
    ),
    "pairs that a loss is asked for": (
        1, lambda x: x.squeeze(1), lambda out: F.mse_loss(out.unsqueeze(1), VALUES.unsqueeze(0)),
    ),
    "actions that were chosen": (
        3, lambda x: x, lambda out: F.mse_loss(out.gather(1, CLASSES[:, None]).squeeze(1), VALUES),
    ),
    "a target that is detached": (
        3, lambda x: x,
        lambda out: F.mse_loss(out.gather(1, CLASSES[:, None])[:, 0], out.detach().max(1).values * 0.9 + VALUES),
    ),
    "a margin to the largest": (
        3, lambda x: x, lambda out: (out.max(1).values - out.gather(1, CLASSES[:, None])[:, 0]).mean(),
    ),
    "a batch of one": (1, lambda x: x[:1], lambda out: F.mse_loss(out, VALUES[:1])),
}  # fmt: skip


def graph(width: int, model: Function, loss: Function) -> tuple[events.LossNode, ...]:
    """The nodes of a loss of what a linear layer and `model` put out for four samples."""
    torch.manual_seed(0)
    out = model(torch.nn.Linear(5, width)(torch.randn(4, 5)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Torch itself warns of some sizes.
        return loss_nodes(loss(out), last_node_of([out]))


def judged(path: Path, write_trace: WriteTrace, nodes: Sequence[events.LossNode]) -> list[str]:
    """The codes of what is found in a run with such a loss."""
    place = events.Location(3, "train.py", 20, "main")
    loss = events.Loss(3, location=3, id=1, nodes=nodes)
    passes = [events.Backward(4, inputs=["float32[]"], loss=1), events.BackwardEnd(5)] * 2
    path = write_trace(path, place, NET, weight(), loss, *passes)
    rules = {rule.code for rule in loss_functions.CHECK.rules}
    found = [each for each in find(path) if each.code in rules]
    assert said(path, "loss functions")[0] == ("finding" if found else "passed")
    assert all(each.place == "train.py:20" and "in 2 backward passes" in each.evidence[0] for each in found)
    return [each.code for each in found]


@pytest.mark.parametrize(("code", "width", "model", "loss"), WRONG.values(), ids=WRONG.keys())
def test_a_loss_of_what_it_is_not_meant_for_is_told(
    tmp_path: Path, write_trace: WriteTrace, code: str, width: int, model: Function, loss: Function
) -> None:
    assert judged(tmp_path / "a.jsonl", write_trace, graph(width, model, loss)) == [code]


@pytest.mark.parametrize(("width", "model", "loss"), RIGHT.values(), ids=RIGHT.keys())
def test_a_loss_of_what_it_is_meant_for_is_not(
    tmp_path: Path, write_trace: WriteTrace, width: int, model: Function, loss: Function
) -> None:
    assert judged(tmp_path / "a.jsonl", write_trace, graph(width, model, loss)) == []


def test_a_loss_that_no_record_tells_was_not_checked(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(tmp_path / "a.jsonl", NET, weight(), events.Backward(4), events.BackwardEnd(5))
    assert said(path, "loss functions") == ("not checked", ["no record of a loss"])


def test_nodes_that_are_each_others_parents_end_the_search(tmp_path: Path, write_trace: WriteTrace) -> None:
    names = ("NllLossBackward0", "ViewBackward0", "ViewBackward0", "LogSoftmaxBackward0", "MseLossBackward0")
    nodes = [events.LossNode(name, [4, 4], parent) for name, parent in zip(names, (2, 2, 1, 3, 99), strict=True)]
    assert judged(tmp_path / "a.jsonl", write_trace, nodes) == []


def test_a_target_of_a_network_that_nothing_steps_is_right(tmp_path: Path, write_trace: WriteTrace) -> None:
    """Its gradients are of no use, and do no harm."""
    _, _, model, function = WRONG["a target of Q-learning"]
    nodes = graph(3, model, function)
    unused = events.Gradient(5, tensor=1, statistics=STATISTICS, has_optimizer=False)
    passes = [events.Backward(4, inputs=["float32[]"], loss=1), events.BackwardEnd(5), unused] * 2
    path = write_trace(tmp_path / "a.jsonl", NET, weight(), events.Loss(3, id=1, nodes=nodes), *passes)
    assert not [each for each in find(path) if each.code in {rule.code for rule in loss_functions.CHECK.rules}]


@pytest.mark.parametrize(
    ("beside", "loss", "is_told"),
    [
        pytest.param(True, lambda out: F.mse_loss(out[:, 0], LABELS), True, id="beside the loss"),
        pytest.param(False, lambda out: F.binary_cross_entropy_with_logits(out[:, 0], LABELS), True, id="trained so"),
        pytest.param(False, lambda out: F.mse_loss(out[:, 0], LABELS), False, id="trained otherwise"),
        pytest.param(
            False, lambda out: F.binary_cross_entropy_with_logits(out[:, 0] - 0.5, LABELS), False, id="shifted"
        ),
    ],
)
def test_logits_are_not_compared_with_a_half(
    beside: bool, loss: Function, is_told: bool, tmp_path: Path, write_trace: WriteTrace
) -> None:
    pattern = events.GraphPattern(6, module=1, what="half-threshold", values=[float(beside)], made=2)
    passes = [events.Backward(4, inputs=["float32[]"], loss=1), events.BackwardEnd(5)]
    line = events.Location(2, "train.py", 30, "evaluate")
    defined = events.Loss(3, id=1, nodes=graph(1, lambda x: x, loss))
    path = write_trace(tmp_path / "a.jsonl", NET, weight(), line, *CALLS, defined, *passes, pattern)
    found = [each.place for each in find(path) if each.code == "logits-compared-with-half"]
    assert found == (["train.py:30"] if is_told else [])


THIRDS = torch.full((4, 3), 1 / 3)


@pytest.mark.parametrize(
    ("loss", "function", "is_told"),
    [
        pytest.param(lambda out: F.kl_div(out, THIRDS, reduction="batchmean"), "kl_div", True, id="of a layer"),
        pytest.param(lambda out: F.kl_div(out / 4, THIRDS, reduction="sum") * 16, "kl_div", True, id="scaled"),
        pytest.param(lambda out: F.kl_div(out.log_softmax(1), THIRDS), "kl_div", False, id="of a log-softmax"),
        pytest.param(lambda out: F.kl_div(out.sigmoid().log(), THIRDS), "kl_div", False, id="of other logarithms"),
        pytest.param(lambda out: F.kl_div(F.logsigmoid(out), THIRDS), "kl_div", False, id="of a log-sigmoid"),
        pytest.param(lambda out: (1 - VALUES[:, None] * out).sum(), "mse_loss", False, id="another loss"),
    ],
)
@pytest.mark.filterwarnings("ignore:reduction")
def test_a_divergence_of_scores(
    loss: Function, function: str, is_told: bool, tmp_path: Path, write_trace: WriteTrace
) -> None:
    line = events.Location(2, "train.py", 30, "distill")
    calls = [events.LossCall(function, 2)]
    defined = events.Loss(3, id=1, nodes=graph(3, lambda x: x, loss), calls=calls)
    passes = [events.Backward(4, inputs=["float32[]"], loss=1), events.BackwardEnd(5)]
    path = write_trace(tmp_path / "a.jsonl", NET, weight(), line, *CALLS, defined, *passes)
    found = [each.place for each in find(path) if each.code == "kl-div-of-probabilities"]
    assert found == (["train.py:30"] if is_told else [])


def test_a_broadcast_in_a_helper_is_told_where_that_is_called_with_where_it_computes(
    tmp_path: Path, write_trace: WriteTrace
) -> None:
    lines = [events.Location(2, "train.py", 30, "train"), events.Location(3, "train.py", 12, "squared_error")]
    nodes = graph(1, lambda x: x, lambda out: ((out - VALUES) ** 2).mean())
    defined = events.Loss(3, id=1, nodes=nodes, made=2, computed=3)
    passes = [events.Backward(4, inputs=["float32[]"], loss=1), events.BackwardEnd(5)]
    path = write_trace(tmp_path / "a.jsonl", NET, weight(), *lines, *CALLS, defined, *passes)
    (found,) = find(path)
    assert (found.code, found.place) == ("loss-broadcasts", "train.py:30")
    assert found.evidence[-1] == "computed at train.py:12"
