"""Views that mix samples or classes are told by graphs, and so are samples that compete with themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_trace.checks import views
from tests.proxy_trace.checks.judged import find, said

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Loss: TypeAlias = "Callable[[torch.Tensor], torch.Tensor]"

LABELS = torch.arange(5) % 3
PIXELS = torch.arange(5 * 16) % 3


class Reader(nn.Module):
    """Reads sequences, and joins the states of both directions."""

    def __init__(self, *, is_right: bool) -> None:
        super().__init__()
        self.rnn = nn.GRU(4, 6, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(12, 3)
        self.is_right = is_right

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        _, states = self.rnn(x)
        if self.is_right:
            states = states.transpose(0, 1)
        return self.fc(states.reshape(len(x), -1))  # type: ignore[no-any-return]


def judged(model: nn.Module, given: torch.Tensor, loss: Loss, tmp_path: Path) -> list[str]:
    """The codes of what the check finds where a model is trained for two steps."""
    proxied = Proxy.Proxy(model, recurse=True, name="model", logdir=tmp_path, log_level=Proxy.INFO)
    optimizer = torch.optim.SGD(proxied.parameters(), 0.01)
    for _ in range(2):
        optimizer.zero_grad()
        loss(proxied(given)).backward()
        optimizer.step()
    Proxy.unproxy(proxied)
    codes = {rule.code for rule in views.CHECK.rules}
    found = [each.code for each in find(tmp_path) if each.code in codes]
    assert said(tmp_path, "views")[0] == ("finding" if found else "passed")
    return found


@pytest.mark.parametrize(("is_right", "codes"), [(True, []), (False, ["view-mixes-samples"])])
def test_states_of_a_recurrent_layer_are_viewed(tmp_path: Path, is_right: bool, codes: list[str]) -> None:
    model = Reader(is_right=is_right)
    assert judged(model, torch.randn(5, 7, 4), lambda out: F.cross_entropy(out, LABELS), tmp_path) == codes


@pytest.mark.parametrize(
    ("loss", "codes"),
    [
        (lambda out: F.cross_entropy(out.reshape(-1, 3), PIXELS), ["view-mixes-classes"]),
        (lambda out: F.cross_entropy(out.permute(0, 2, 3, 1).reshape(-1, 3), PIXELS), []),
        (lambda out: F.cross_entropy(out, PIXELS.view(5, 4, 4)), []),
        (lambda out: F.cross_entropy(out.flatten(2), PIXELS.view(5, 16)), []),
    ],
    ids=["viewed", "permuted", "as they are", "places joined"],
)
def test_scores_of_classes_are_viewed(tmp_path: Path, loss: Loss, codes: list[str]) -> None:
    assert judged(nn.Conv2d(2, 3, 3, padding=1), torch.randn(5, 2, 4, 4), loss, tmp_path) == codes


def contrast(out: torch.Tensor) -> torch.Tensor:
    """The products of vectors with themselves."""
    unit = F.normalize(out, dim=1)
    return unit @ unit.t() / 0.1


@pytest.mark.parametrize(
    ("loss", "codes"),
    [
        (lambda out: F.cross_entropy(contrast(out), (torch.arange(5) + 1) % 5), ["self-similarity-not-masked"]),
        (
            lambda out: F.cross_entropy(
                contrast(out).masked_fill(torch.eye(5, dtype=torch.bool), float("-inf")), (torch.arange(5) + 1) % 5
            ),
            [],
        ),
        (lambda out: F.cross_entropy(contrast(out) - 1e9 * torch.eye(5), (torch.arange(5) + 1) % 5), []),
        (lambda out: F.cross_entropy(out @ out.T, (torch.arange(5) + 1) % 5), ["self-similarity-not-masked"]),
        (lambda out: F.cross_entropy(out @ out.flip(0).t(), torch.arange(5)), []),
        (lambda out: F.cross_entropy(out @ out.flip(0).T, torch.arange(5)), []),
        (lambda out: (contrast(out).softmax(1) @ out).square().mean(), []),
        (lambda out: F.kl_div(contrast(out).log_softmax(1), torch.full((5, 5), 0.2), reduction="batchmean"), []),
    ],
    ids=[
        "with itself",
        "masked",
        "masked by a number",
        "with itself, by T",
        "of two views",
        "of two views, by T",
        "as attention",
        "beside those of a teacher",
    ],
)
def test_samples_that_compete_with_themselves(tmp_path: Path, loss: Loss, codes: list[str]) -> None:
    assert judged(nn.Linear(4, 6), torch.randn(5, 4), loss, tmp_path) == codes


class Attending(nn.Module):
    """Attends with several heads, which are split and merged by views."""

    def __init__(self, split: str, merge: str, *, is_flat: bool, is_fused: bool) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(8, 8), nn.Linear(8, 8)
        self.fc = nn.Linear(8, 3)
        self.splitting, self.merging, self.is_flat, self.is_fused = split, merge, is_flat, is_fused

    def split(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, _ = x.shape
        if self.splitting == "swapped":
            heads = x.view(batch, tokens, 2, 4).transpose(1, 2)
            return heads.reshape(batch * 2, tokens, 4) if self.is_flat else heads
        return x.view(batch * 2, tokens, 4) if self.is_flat else x.view(batch, 2, tokens, 4)

    def merge(self, x: torch.Tensor) -> torch.Tensor:
        x = x.reshape(-1, 2, x.shape[-2], 4)
        return (x.transpose(1, 2) if self.merging == "swapped" else x).reshape(len(x), -1, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key = self.split(self.query(x)), self.split(self.key(x))
        if self.is_fused:
            attended = F.scaled_dot_product_attention(query, key, key)
        else:
            attended = (query @ key.transpose(-2, -1) / 2).softmax(-1) @ key
        return self.fc(self.merge(attended).mean(1))  # type: ignore[no-any-return]


@pytest.mark.parametrize("is_fused", [False, True])
@pytest.mark.parametrize("is_flat", [False, True])
@pytest.mark.parametrize(
    ("split", "merge", "codes"),
    [
        pytest.param("swapped", "swapped", [], id="heads and tokens are swapped"),
        pytest.param("viewed", "swapped", ["view-mixes-tokens"], id="split by a view"),
        pytest.param("swapped", "viewed", ["view-mixes-tokens"], id="merged by a view"),
    ],
)
def test_heads_of_an_attention_are_swapped_with_its_tokens(
    split: str, merge: str, codes: list[str], is_flat: bool, is_fused: bool, tmp_path: Path
) -> None:
    model = Attending(split, merge, is_flat=is_flat, is_fused=is_fused)
    assert judged(model, torch.randn(5, 7, 8), lambda out: F.cross_entropy(out, LABELS), tmp_path) == codes


class Mapped(nn.Module):
    """Sums up the positions of a feature map."""

    def __init__(self, channels: int, view: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.conv, self.fc = nn.Conv2d(1, channels, 3, padding=1), nn.Linear(channels, 3)
        self.view = view

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.view(torch.relu(self.conv(x))).mean(1))  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("channels", "view", "codes"),
    [
        pytest.param(6, lambda x: x.view(5, 16, 6), ["view-instead-of-permute"], id="viewed"),
        pytest.param(6, lambda x: x.reshape(len(x), -1, 6), ["view-instead-of-permute"], id="reshaped"),
        pytest.param(6, lambda x: x.flatten(2).transpose(1, 2), [], id="transposed"),
        pytest.param(6, lambda x: x.permute(0, 2, 3, 1).reshape(5, 16, 6), [], id="permuted"),
        pytest.param(16, lambda x: x.view(5, 16, 16).transpose(1, 2), [], id="as many positions as channels"),
        pytest.param(32, lambda x: x.view(5, 16, 32), [], id="perhaps groups of channels"),
    ],
)
def test_a_feature_map_is_viewed_as_tokens(
    channels: int, view: Callable[[torch.Tensor], torch.Tensor], codes: list[str], tmp_path: Path
) -> None:
    def loss(out: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(out, LABELS)

    assert judged(Mapped(channels, view), torch.randn(5, 1, 4, 4), loss, tmp_path) == codes


class Colours(nn.Module):
    """Classifies images; views them first, if it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.fc = nn.Conv2d(3, 4, 3), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.conv(x).mean((2, 3)))  # type: ignore[no-any-return]


class Viewing(Colours):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.view(-1, 3, 6, 8)
        return super().forward(x)


IMAGES = torch.randn(5, 6, 8, 3)


@pytest.mark.parametrize(
    ("model", "given", "codes"),
    [
        pytest.param(Colours, lambda: IMAGES.view(-1, 3, 6, 8), ["view-instead-of-permute"], id="before the call"),
        pytest.param(Colours, lambda: IMAGES[1:].reshape(4, 3, 6, 8), ["view-instead-of-permute"], id="of a part"),
        pytest.param(Viewing, lambda: IMAGES, ["view-instead-of-permute"], id="in the model"),
        pytest.param(Colours, lambda: IMAGES.permute(0, 3, 1, 2), [], id="permuted"),
        pytest.param(Colours, lambda: IMAGES.permute(0, 3, 1, 2).contiguous(), [], id="permuted and copied"),
        pytest.param(Colours, lambda: IMAGES.flatten(1).clone().view(5, 3, 6, 8), [], id="of rows"),
        pytest.param(Colours, lambda: torch.randn(5, 3, 6, 8), [], id="no view"),
        pytest.param(Viewing, lambda: torch.randn(5, 3, 6, 8), [], id="a view that changes nothing"),
        pytest.param(Viewing, lambda: torch.randn(5, 144), [], id="a view of rows in the model"),
    ],
)
def test_images_are_viewed_with_other_sizes(
    model: type[nn.Module], given: Callable[[], torch.Tensor], codes: list[str], tmp_path: Path
) -> None:
    images = given()
    found = judged(model(), images, lambda out: F.cross_entropy(out, LABELS[: len(out)]), tmp_path)
    assert found == codes


def test_a_channel_of_one_may_move(tmp_path: Path) -> None:
    class Grey(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(48, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(x.flatten(1))  # type: ignore[no-any-return]

    images = torch.randn(5, 6, 8, 1).view(5, 1, 6, 8)
    assert judged(Grey(), images, lambda out: F.cross_entropy(out, LABELS), tmp_path) == []
