"""Targets that are not what a loss takes are told, and so is an attention to nothing but padding."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_trace.checks import targets
from proxy_wrapper import events
from tests.proxy_trace.checks.judged import BACKWARD, CALLS, NET, STEP, find, said

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

BATCH, LENGTH, TOKENS = 4, 12, 20
PAD = 0


def tokens() -> torch.Tensor:
    """Rows of tokens that are no padding."""
    return torch.randint(1, TOKENS, (BATCH, LENGTH), generator=torch.Generator().manual_seed(0))


def padded() -> torch.Tensor:
    """Rows that end with padding, but the first."""
    rows = tokens()
    for place, row in enumerate(rows):
        row[LENGTH - 2 * place :] = PAD
    return rows


class Recurrent(nn.Module):
    """Predicts tokens by a recurrent layer."""

    def __init__(self, *, both: bool = False, padding: int | None = None) -> None:
        super().__init__()
        self.embed = nn.Embedding(TOKENS, 8, padding_idx=padding)
        self.rnn = nn.LSTM(8, 8, batch_first=True, bidirectional=both)
        self.fc = nn.Linear(16 if both else 8, TOKENS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.rnn(self.embed(x))[0])  # type: ignore[no-any-return]


class Attending(nn.Module):
    """Predicts tokens by an attention."""

    def __init__(self, *, is_causal: bool, is_fused: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(TOKENS, 8)
        self.fc = nn.Linear(8, TOKENS)
        self.is_causal, self.is_fused = is_causal, is_fused

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.embed(x)
        if self.is_fused:
            one = h[:, None]
            return self.fc(F.scaled_dot_product_attention(one, one, one, is_causal=self.is_causal)[:, 0])  # type: ignore[no-any-return]
        scores = h @ h.transpose(1, 2)
        if self.is_causal:
            later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(later, float("-inf"))
        return self.fc(scores.softmax(-1) @ h)  # type: ignore[no-any-return]


class Masked(nn.Module):
    """Classifies sequences by an attention that is given which tokens are padding."""

    def __init__(self, *, is_right: bool, kind: str) -> None:
        super().__init__()
        self.embed = nn.Embedding(TOKENS, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.fc = nn.Linear(8, 3)
        self.is_right, self.kind = is_right, kind

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.embed(x)
        left_out = (x == PAD) if self.is_right else (x != PAD)
        if self.kind == "function":
            one = h[:, None]
            h = F.scaled_dot_product_attention(one, one, one, attn_mask=~left_out[:, None, None])[:, 0]
        elif self.kind == "by hand":
            scores = (h @ h.transpose(1, 2)).masked_fill(left_out[:, None], -1e9)
            h = scores.softmax(-1) @ h
        elif self.kind == "layer":
            h = self.layer(h, src_key_padding_mask=left_out)
        else:
            h, _ = self.attention(h, h, h, key_padding_mask=left_out)
        return self.fc(h.nan_to_num().mean(1))  # type: ignore[no-any-return]


def judged(model: nn.Module, loss_of: Callable[[Any], torch.Tensor], tmp_path: Path) -> list[str]:
    """The codes of what the check finds where a model is trained for two steps."""
    proxied = Proxy.Proxy(model, recurse=True, name="model", logdir=tmp_path, log_level=Proxy.INFO)
    optimizer = torch.optim.SGD(proxied.parameters(), 0.01)
    for _ in range(2):
        optimizer.zero_grad()
        loss_of(proxied).backward()
        optimizer.step()
    Proxy.unproxy(proxied)
    codes = {rule.code for rule in targets.CHECK.rules}
    found = [each.code for each in find(tmp_path) if each.code in codes]
    assert said(tmp_path, "targets")[0] == ("finding" if found else "passed")
    return found


def next_tokens(model: Any, given: torch.Tensor, wanted: torch.Tensor, **settings: Any) -> torch.Tensor:
    return F.cross_entropy(model(given).reshape(-1, TOKENS), wanted.reshape(-1), **settings)


@pytest.mark.parametrize(
    ("given", "wanted", "codes"),
    [
        pytest.param(slice(0, -1), slice(1, None), [], id="the next"),
        pytest.param(slice(0, None), slice(0, None), ["target-shift-wrong"], id="the same"),
        pytest.param(slice(0, -2), slice(2, None), ["target-shift-wrong"], id="the next but one"),
        pytest.param(slice(1, None), slice(0, -1), [], id="the one before"),
    ],
)
def test_targets_of_a_language_model_are_the_next_tokens(
    given: slice, wanted: slice, codes: list[str], tmp_path: Path
) -> None:
    rows = tokens()
    assert judged(Recurrent(), lambda model: next_tokens(model, rows[:, given], rows[:, wanted]), tmp_path) == codes


@pytest.mark.parametrize(("first", "codes"), [(5, []), (6, ["target-shift-wrong"])], ids=["the next", "the same"])
def test_scores_from_a_later_position_on_are_compared_with_its_tokens(
    first: int, codes: list[str], tmp_path: Path
) -> None:
    half = tokens()[:, :6]
    text = torch.cat([half, half], 1)  # So targets of the second half are also tokens of the first.

    def loss(model: Any) -> torch.Tensor:
        scores = model(text[:, :11])[:, first:11]
        return F.cross_entropy(scores.flatten(0, 1), text[:, 6 : 6 + scores.shape[1]].flatten())

    assert judged(Recurrent(), loss, tmp_path) == codes


def test_a_model_that_sees_all_tokens_may_give_them_back(tmp_path: Path) -> None:
    rows = tokens()
    assert judged(Recurrent(both=True), lambda model: next_tokens(model, rows, rows), tmp_path) == []


@pytest.mark.parametrize("is_fused", [True, False])
@pytest.mark.parametrize(("is_causal", "codes"), [(True, ["target-shift-wrong"]), (False, [])])
def test_an_attention_that_sees_no_later_tokens_only_copies(
    is_causal: bool, codes: list[str], is_fused: bool, tmp_path: Path
) -> None:
    rows = tokens()
    model = Attending(is_causal=is_causal, is_fused=is_fused)
    assert judged(model, lambda model: next_tokens(model, rows, rows), tmp_path) == codes


@pytest.mark.parametrize("is_fused", [True, False])
@pytest.mark.parametrize(("is_causal", "codes"), [(True, []), (False, ["causal-mask-missing"])])
def test_an_attention_must_not_see_what_is_to_be_predicted(
    is_causal: bool, codes: list[str], is_fused: bool, tmp_path: Path
) -> None:
    rows = tokens()
    model = Attending(is_causal=is_causal, is_fused=is_fused)
    assert judged(model, lambda model: next_tokens(model, rows[:, :-1], rows[:, 1:]), tmp_path) == codes


class Translating(nn.Module):
    """Reads one text with an attention that sees all of it, and predicts another one of the same length."""

    def __init__(self) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(TOKENS, 8), nn.Embedding(TOKENS, 8)
        self.fc = nn.Linear(8, TOKENS)

    def forward(self, source: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        memory, one = self.source(source)[:, None], self.target(given)[:, None]
        memory = F.scaled_dot_product_attention(memory, memory, memory)
        one = F.scaled_dot_product_attention(one, one, one, is_causal=True)
        return self.fc(F.scaled_dot_product_attention(one, memory, memory)[:, 0])  # type: ignore[no-any-return]


def test_an_encoder_may_see_all_of_its_text(tmp_path: Path) -> None:
    rows = tokens()

    def loss_of(model: Any) -> torch.Tensor:
        return F.cross_entropy(model(rows.flip(1)[:, 1:], rows[:, :-1]).reshape(-1, TOKENS), rows[:, 1:].reshape(-1))

    assert judged(Translating(), loss_of, tmp_path) == []


@pytest.mark.parametrize(
    ("settings", "padding", "codes"),
    [
        ({}, PAD, ["padding-in-loss"]),
        ({"ignore_index": PAD}, PAD, []),
        ({"weight": (torch.arange(TOKENS) != PAD).float()}, PAD, []),
        ({}, None, []),
    ],
    ids=["counts", "is ignored", "has no weight", "is not declared"],
)
def test_padding_in_targets(settings: dict[str, Any], padding: int | None, codes: list[str], tmp_path: Path) -> None:
    rows = padded()
    model = Recurrent(padding=padding)
    assert judged(model, lambda model: next_tokens(model, rows[:, :-1], rows[:, 1:], **settings), tmp_path) == codes


def tag_tokens(rows: torch.Tensor, labels: torch.Tensor, tmp_path: Path, **settings: Any) -> list[str]:
    """The codes of a model that gives each token one of three labels."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(TOKENS, 8, padding_idx=PAD), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    wanted = labels.reshape(-1)
    return judged(model, lambda model: F.cross_entropy(model(rows).flatten(0, 1), wanted, **settings), tmp_path)


def labels_of(rows: torch.Tensor, of_padding: int) -> torch.Tensor:
    return (rows % 3).masked_fill(rows == PAD, of_padding)


@pytest.mark.parametrize("rows", [padded(), padded().flip(1)], ids=["at the end", "at the start"])
def test_labels_of_padding(rows: torch.Tensor, tmp_path: Path) -> None:
    assert tag_tokens(rows, labels_of(rows, 1), tmp_path) == ["padding-in-loss"]


@pytest.mark.parametrize(
    ("rows", "labels", "settings"),
    [
        pytest.param(padded(), labels_of(padded(), -100), {}, id="they are ignored"),
        pytest.param(padded(), labels_of(padded(), 2), {"ignore_index": 2}, id="another label is ignored"),
        pytest.param(padded(), labels_of(padded(), 2), {"weight": torch.tensor([1.0, 1, 0])}, id="they have no weight"),
        pytest.param(padded(), labels_of(tokens(), 2), {}, id="they differ"),
        pytest.param(tokens(), labels_of(tokens(), 2), {}, id="there is no padding"),
    ],
)
def test_labels_of_padding_that_are_right(
    rows: torch.Tensor, labels: torch.Tensor, settings: dict[str, Any], tmp_path: Path
) -> None:
    assert tag_tokens(rows, labels, tmp_path, **settings) == []


@pytest.mark.parametrize("kind", ["function", "by hand", "module", "layer"])
@pytest.mark.parametrize(("is_right", "codes"), [(True, []), (False, ["attention-mask-inverted"])])
def test_a_mask_that_is_inverted(is_right: bool, codes: list[str], kind: str, tmp_path: Path) -> None:
    rows, wanted = padded(), torch.arange(BATCH) % 3
    rows[0, -1] = PAD  # Else its attention is over nothing, where the mask is inverted.
    model = Masked(is_right=is_right, kind=kind)
    assert judged(model, lambda model: F.cross_entropy(model(rows), wanted), tmp_path) == codes


HALF = torch.arange(6) % 2
SIGNS = 2 * HALF - 1


@pytest.mark.parametrize(
    ("loss", "codes"),
    [
        (lambda out: F.cosine_embedding_loss(out, out.detach() + 1, SIGNS), []),
        (lambda out: F.cosine_embedding_loss(out, out.detach() + 1, HALF), ["labels-of-other-set"]),
        (lambda out: F.hinge_embedding_loss(out.pow(2).sum(1), SIGNS), []),
        (lambda out: F.hinge_embedding_loss(out.pow(2).sum(1), HALF), ["labels-of-other-set"]),
        (lambda out: F.soft_margin_loss(out[:, 0], SIGNS.float()), []),
        (lambda out: F.soft_margin_loss(out[:, 0], HALF.float()), ["labels-of-other-set"]),
        (lambda out: F.binary_cross_entropy_with_logits(out[:, 0], HALF.float()), []),
        (lambda out: F.binary_cross_entropy_with_logits(out[:, 0], HALF * 1.2), []),
        (lambda out: F.binary_cross_entropy_with_logits(out[:, 0], SIGNS.float()), ["labels-of-other-set"]),
    ],
)
def test_labels_of_another_set(loss: Callable[[torch.Tensor], torch.Tensor], codes: list[str], tmp_path: Path) -> None:
    x = torch.randn(6, 5, generator=torch.Generator().manual_seed(1))
    assert judged(nn.Linear(5, 3), lambda model: loss(model(x)), tmp_path) == codes


WANTED = torch.linspace(-1, 1, 12).reshape(6, 2)


@pytest.mark.parametrize(
    ("activation", "wanted", "codes"),
    [
        (torch.relu, WANTED, ["targets-out-of-range"]),
        (torch.relu, WANTED.abs(), []),
        (torch.relu, WANTED + 0.95, []),
        (F.softplus, WANTED, ["targets-out-of-range"]),
        (torch.sigmoid, WANTED, ["targets-out-of-range"]),
        (torch.sigmoid, WANTED.abs(), []),
        (torch.tanh, WANTED, []),
        (torch.tanh, 2 * WANTED, ["targets-out-of-range"]),
        (F.leaky_relu, WANTED, []),
        (lambda out: torch.relu(out) - 1, WANTED, []),
    ],
)
@pytest.mark.parametrize("loss", [F.mse_loss, F.smooth_l1_loss, F.huber_loss])
def test_targets_that_an_activation_cannot_reach(
    loss: Callable[..., torch.Tensor],
    activation: Callable[..., torch.Tensor],
    wanted: torch.Tensor,
    codes: list[str],
    tmp_path: Path,
) -> None:
    x = torch.randn(6, 5, generator=torch.Generator().manual_seed(1))
    found = judged(nn.Linear(5, 2), lambda model: loss(activation(model(x)), wanted), tmp_path)
    assert [code for code in found if code == "targets-out-of-range"] == codes


def test_pairs_that_are_neither_may_be_left_out_by_hand(tmp_path: Path) -> None:
    def loss_of(model: Any) -> torch.Tensor:
        similarity = F.cosine_similarity(model(torch.ones(6, 5)), torch.randn(6, 3))
        zero = torch.zeros(())
        alike, unlike = torch.where(HALF == 1, 1 - similarity, zero), (similarity - 0.1).clamp(min=0)
        return (alike + torch.where(torch.arange(6) == 2, unlike, zero)).mean()

    assert judged(nn.Linear(5, 3), loss_of, tmp_path) == []


LABELS = (torch.arange(18).reshape(6, 3) % 5 < 2).float()
"""Rows with none, one and two labels."""


@pytest.mark.parametrize(
    ("targets_of", "codes"),
    [
        pytest.param(lambda: LABELS, ["multi-hot-in-softmax"], id="any number of labels"),
        pytest.param(lambda: LABELS / LABELS.sum(1, keepdim=True).clamp(min=1), [], id="shares"),
        pytest.param(lambda: LABELS[LABELS.sum(1) > 0].repeat(2, 1)[:6], [], id="one or more"),
        pytest.param(lambda: torch.eye(3).repeat(2, 1), [], id="one class"),
        pytest.param(lambda: torch.eye(3).repeat(2, 1) * (torch.arange(6) > 1)[:, None], [], id="one class or none"),
        pytest.param(lambda: LABELS * 0.9 + 0.05, [], id="smoothed"),
    ],
)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_a_softmax_is_not_for_any_number_of_labels(
    targets_of: Callable[[], torch.Tensor], codes: list[str], reduction: str, tmp_path: Path
) -> None:
    x = torch.randn(6, 5, generator=torch.Generator().manual_seed(1))

    def loss_of(model: Any) -> torch.Tensor:
        return F.cross_entropy(model(x), targets_of(), reduction=reduction).mean()

    assert judged(nn.Linear(5, 3), loss_of, tmp_path) == codes


def test_several_may_belong_together_among_products(tmp_path: Path) -> None:
    x = torch.randn(6, 5, generator=torch.Generator().manual_seed(1))
    alike = (torch.arange(6)[:, None] % 4 == torch.arange(6) % 4).float().fill_diagonal_(0)
    alike[0] = 1

    def loss_of(model: Any) -> torch.Tensor:
        out = model(x)
        return F.cross_entropy(out @ model(x + 1).T, alike)

    assert judged(nn.Linear(5, 3), loss_of, tmp_path) == []


class Last(nn.Module):
    """Classifies sequences by a step of a recurrent layer."""

    def __init__(self, layer: type[nn.Module], padding: int | None, *, both: bool, batch_first: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(TOKENS, 8, padding_idx=padding)
        self.rnn = layer(8, 8, 2, batch_first=batch_first, bidirectional=both)
        self.fc = nn.Linear(16 if both else 8, 3)
        self.batch_first = batch_first

    def forward(self, x: torch.Tensor, at: torch.Tensor | None = None) -> torch.Tensor:
        out, _ = self.rnn(self.embed(x if self.batch_first else x.T))
        out = out if self.batch_first else out.transpose(0, 1)
        return self.fc(out[:, -1] if at is None else out[torch.arange(len(out)), at])  # type: ignore[no-any-return]


@pytest.mark.parametrize("layer", [nn.RNN, nn.GRU, nn.LSTM])
@pytest.mark.parametrize(("both", "batch_first"), [(False, True), (True, True), (False, False)])
def test_the_last_step_of_padded_sequences(
    layer: type[nn.Module], both: bool, batch_first: bool, tmp_path: Path
) -> None:
    rows, wanted = padded(), torch.arange(BATCH) % 3
    model = Last(layer, PAD, both=both, batch_first=batch_first)
    assert judged(model, lambda model: F.cross_entropy(model(rows), wanted), tmp_path) == ["last-step-is-padding"]


@pytest.mark.parametrize(
    ("rows", "padding", "at"),
    [
        pytest.param(padded(), PAD, torch.arange(BATCH), id="another step is taken"),
        pytest.param(padded(), None, None, id="no padding is declared"),
        pytest.param(padded().flip(1), PAD, None, id="padded on the left"),
        pytest.param(tokens(), PAD, None, id="not padded"),
    ],
)
def test_steps_that_are_no_padding(
    rows: torch.Tensor, padding: int | None, at: torch.Tensor | None, tmp_path: Path
) -> None:
    model = Last(nn.GRU, padding, both=False, batch_first=True)
    wanted = torch.arange(BATCH) % 3
    assert judged(model, lambda model: F.cross_entropy(model(rows, at), wanted), tmp_path) == []


def test_where_values_are_not_at_hand_it_is_said(tmp_path: Path, write_trace: WriteTrace) -> None:
    held = [
        events.Parameter(number, f"model.{name}", 1, "float32[2, 2]", device, True)
        for number, (name, device) in enumerate([("a", "cpu"), ("b", "cuda:0"), ("c", "cuda:0")], 1)
    ]
    path = write_trace(tmp_path / "a.jsonl", NET, *held, CALLS[0], *BACKWARD, STEP)
    assert said(path, "targets") == ("passed", ["2 of 3 parameters not on the CPU"])


@pytest.mark.parametrize("where", ["around the loss", "around the whole program", "at one tensor"])
def test_what_hooks_have_saved_is_not_asked_for(where: str, tmp_path: Path) -> None:
    """To ask for it would call them once more."""
    asked: list[int] = []

    def unpack(saved: torch.Tensor) -> torch.Tensor:
        asked.append(1)
        return saved

    def hooks(at: str) -> AbstractContextManager[object]:
        if where != at:
            return nullcontext()
        return torch.autograd.graph.saved_tensors_hooks(lambda saved: saved, unpack)

    def loss_of(model: Any) -> torch.Tensor:
        out = model(torch.ones(6, 5))
        with hooks("around the loss"):
            loss = F.binary_cross_entropy_with_logits(out[:, 0], SIGNS.float())
        if where == "at one tensor":
            node: Any = loss.grad_fn
            node._raw_saved_target.register_hooks(lambda saved: saved, unpack)
        return loss

    with hooks("around the whole program"):
        assert judged(nn.Linear(5, 3), loss_of, tmp_path) == []
        traced = len(asked)
        asked.clear()
        plain = nn.Linear(5, 3)
        for _ in range(2):
            loss_of(plain).backward()
    assert traced == len(asked) > 0


class Translator(nn.Module):
    """Predicts the tokens of one text from those before them, and from another text."""

    def __init__(self, *, is_attending: bool) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(TOKENS, 8), nn.Embedding(TOKENS, 8)
        self.encoder = nn.GRU(8, 8, batch_first=True)
        self.decoder: nn.Module = nn.GRU(8, 8, batch_first=True)
        if is_attending:
            self.decoder = nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
        self.fc = nn.Linear(8, TOKENS)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        memory, state = self.encoder(self.source(source))
        given = self.target(target)
        if isinstance(self.decoder, nn.GRU):
            return self.fc(self.decoder(given, state)[0])  # type: ignore[no-any-return]
        later = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        return self.fc(self.decoder(given, memory, tgt_mask=later))  # type: ignore[no-any-return]


@pytest.mark.parametrize("is_attending", [False, True])
@pytest.mark.parametrize(
    ("given", "is_copy", "codes"),
    [
        pytest.param(slice(0, -1), False, [], id="the tokens before"),
        pytest.param(slice(1, None), False, ["target-shift-wrong"], id="the targets"),
        pytest.param(slice(0, -1), True, [], id="the tokens before, of a text to copy"),
    ],
)
def test_a_model_that_translates_is_not_given_its_targets(
    is_attending: bool, given: slice, is_copy: bool, codes: list[str], tmp_path: Path
) -> None:
    rows = tokens()
    source = rows[:, 1:] if is_copy else rows[:, 1:].flip(1)

    def loss(model: Any) -> torch.Tensor:
        return F.cross_entropy(model(source, rows[:, given]).reshape(-1, TOKENS), rows[:, 1:].reshape(-1))

    assert judged(Translator(is_attending=is_attending), loss, tmp_path) == codes


@pytest.mark.parametrize(
    ("activation", "targets", "codes"),
    [
        pytest.param(lambda out: out.softmax(1), LABELS, ["multi-hot-in-softmax"], id="a softmax"),
        pytest.param(lambda out: out.softmax(0), LABELS, [], id="over the samples, one of which has a label each"),
        pytest.param(torch.sigmoid, LABELS, [], id="a sigmoid"),
        pytest.param(lambda out: out.softmax(1), torch.eye(3).repeat(2, 1), [], id="one label each"),
    ],
)
def test_a_softmax_is_not_for_a_binary_cross_entropy_of_any_number_of_labels(
    activation: Callable[[torch.Tensor], torch.Tensor], targets: torch.Tensor, codes: list[str], tmp_path: Path
) -> None:
    x = torch.randn(6, 5, generator=torch.Generator().manual_seed(1))

    def loss_of(model: Any) -> torch.Tensor:
        return F.binary_cross_entropy(activation(model(x)), targets)

    assert judged(nn.Linear(5, 3), loss_of, tmp_path) == codes


KINDS = torch.arange(8) % 4


@pytest.mark.parametrize(
    ("model", "loss", "is_told"),
    [
        pytest.param(nn.Linear(5, 4), lambda out: F.cross_entropy(out, KINDS, ignore_index=0), True, id="a class"),
        pytest.param(
            nn.Sequential(nn.Linear(5, 4), nn.LogSoftmax(1)),
            lambda out: F.nll_loss(out, KINDS, ignore_index=3),
            True,
            id="of log-probabilities",
        ),
        pytest.param(nn.Linear(5, 4), lambda out: F.cross_entropy(out, KINDS), False, id="none"),
        pytest.param(
            nn.Linear(5, 4),
            lambda out: F.cross_entropy(out, KINDS % 2, ignore_index=3),
            False,
            id="a class without samples",
        ),
        pytest.param(
            nn.Linear(5, 4),
            lambda out: F.cross_entropy(out, KINDS // 3, ignore_index=0),
            False,
            id="most have no label",
        ),
        pytest.param(
            nn.Linear(5, 4),
            lambda out: F.cross_entropy(out, (KINDS - 1) % 256, ignore_index=255),
            False,
            id="no class at all",
        ),
        pytest.param(
            nn.Linear(5, 8),
            lambda out: F.cross_entropy(out.view(16, 4), KINDS.repeat(2), ignore_index=0),
            False,
            id="items of sequences",
        ),
        pytest.param(
            nn.Linear(5, 4),
            lambda out: (
                F.cross_entropy(out, KINDS, ignore_index=0) + F.cross_entropy(out, KINDS.flip(0), ignore_index=0)
            ),
            False,
            id="step by step",
        ),
        pytest.param(
            nn.Linear(5, 4),
            lambda out: F.cross_entropy(out[:, :2], KINDS % 2, ignore_index=0) + F.cross_entropy(out[:, 2:], KINDS % 2),
            False,
            id="scores that are no layer's",
        ),
        pytest.param(
            nn.Sequential(nn.Unflatten(1, (1, 1, 5)), nn.Conv2d(1, 4, 1)),
            lambda out: F.cross_entropy(out, KINDS[:, None, None].expand(8, 1, 5), ignore_index=0),
            False,
            id="pixels",
        ),
    ],
)
def test_a_class_that_a_loss_ignores(
    model: nn.Module, loss: Callable[[torch.Tensor], torch.Tensor], is_told: bool, tmp_path: Path
) -> None:
    x = torch.randn(8, 5, generator=torch.Generator().manual_seed(1))
    found = judged(model, lambda model: loss(model(x)), tmp_path)
    assert [code for code in found if code == "class-ignored"] == ["class-ignored"] * is_told


class TwoHeads(nn.Module):
    """A classifier of `kinds` kinds, and one of four others."""

    def __init__(self, kinds: int) -> None:
        super().__init__()
        self.kind, self.other = nn.Linear(5, kinds), nn.Linear(5, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.kind(x), self.other(x)


@pytest.mark.parametrize(
    ("kinds", "targets", "is_told"),
    [
        pytest.param(2, (KINDS > 0).long(), True, id="one of two"),
        pytest.param(2, (KINDS == 0).long(), True, id="most samples"),
        pytest.param(2, torch.ones(8, dtype=torch.long), False, id="no sample"),
        pytest.param(3, KINDS % 3, False, id="perhaps no label"),
    ],
)
def test_a_class_that_one_of_several_losses_ignores(
    kinds: int, targets: torch.Tensor, is_told: bool, tmp_path: Path
) -> None:
    x = torch.randn(8, 5, generator=torch.Generator().manual_seed(1))

    def loss_of(model: Any) -> torch.Tensor:
        kind, other = model(x)
        return F.cross_entropy(kind, targets, ignore_index=0) + F.cross_entropy(other, KINDS)

    found = judged(TwoHeads(kinds), loss_of, tmp_path)
    assert [code for code in found if code == "class-ignored"] == ["class-ignored"] * is_told


@pytest.mark.parametrize(("rows", "is_told"), [(4, False), (20, True)], ids=["writes what it reads", "reads text"])
def test_a_model_that_may_write_padding_is_not_judged(rows: int, is_told: bool, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Embedding(rows, 3), nn.Flatten(), nn.Linear(9, 4))
    read = torch.arange(24).reshape(8, 3) % 4
    found = judged(model, lambda model: F.cross_entropy(model(read), KINDS, ignore_index=0), tmp_path)
    assert [code for code in found if code == "class-ignored"] == ["class-ignored"] * is_told
