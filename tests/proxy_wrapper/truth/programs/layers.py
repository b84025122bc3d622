"""Layers of all sorts, trained by an ordinary loop."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import prune
from torch.nn.utils.parametrizations import orthogonal, spectral_norm, weight_norm
from torch.nn.utils.parametrize import remove_parametrizations

from tests.proxy_wrapper.truth.judgement import TruthProgram
from tests.proxy_wrapper.truth.networks import CLASSES, Normed, Perceptron, Pictures, loss_of, state_of, train

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.proxy_wrapper.truth.run import Run


def with_sgd(build: Callable[[], nn.Module]) -> Callable[[Run], Any]:
    """A program that trains what `build` makes, as it is in the docs of PyTorch."""

    def run(run: Run) -> Any:
        model = run.model(build())
        optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
        return train(model, optimizer), state_of(model)

    return run


def convolve(run: Run) -> Any:
    model = run.model(Pictures())
    optimizer = run.optimizer(torch.optim.AdamW(model.parameters(), lr=0.01))
    losses = []
    for _ in range(4):
        optimizer.zero_grad(set_to_none=False)
        loss = F.cross_entropy(model(torch.randn(4, 1, 6, 6)), torch.tensor([0, 1, 2, 0]))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses, state_of(model)


def train_and_evaluate(run: Run) -> Any:
    model = run.model(Normed())
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    results = []
    for _ in range(3):
        model.train()
        train(model, optimizer, steps=2)
        model.eval()
        with torch.no_grad():
            results += [loss_of(model) for _ in range(3)]
    return results, state_of(model)


class Recurrent(nn.Module):
    """Reads a sequence by an LSTM and by a cell that is called at each place."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 4)
        self.lstm = nn.LSTM(4, 5, num_layers=2, batch_first=True)
        self.cell = nn.GRUCell(5, 5)
        self.head = nn.Linear(5, 10)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        found, _ = self.lstm(self.embedding(words))
        state = found.new_zeros(len(words), 5)
        for place in range(found.shape[1]):
            state = self.cell(found[:, place], state)
        out: torch.Tensor = self.head(state)
        return out


def read_sequences(run: Run) -> Any:
    model = run.model(Recurrent())
    optimizer = run.optimizer(torch.optim.RMSprop(model.parameters(), lr=0.01))
    losses = []
    for length in (3, 5, 2):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(torch.randint(0, 10, (2, length))), torch.tensor([1, 2]))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        losses.append(loss.detach())
    return losses, state_of(model)


def attend(run: Run) -> Any:
    model = run.model(nn.Transformer(8, 2, 1, 1, 16, dropout=0.1, batch_first=True))
    optimizer = run.optimizer(torch.optim.Adam(model.parameters(), lr=0.01))
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = model(torch.randn(2, 4, 8), torch.randn(2, 3, 8)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses, state_of(model)


def encode(run: Run) -> Any:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = run.model(nn.TransformerEncoder(layer, 2))
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.01))
    optimizer.zero_grad()
    model(torch.randn(2, 4, 8)).square().mean().backward()
    optimizer.step()
    model.eval()
    with torch.no_grad():
        return model(torch.randn(2, 4, 8)), state_of(model)


class Tied(nn.Module):
    """A decoder that shares the weight of its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(9, 4)
        self.decoder = nn.Linear(4, 9, bias=False)
        self.decoder.weight = self.embedding.weight

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.decoder(self.embedding(words).mean(1))
        return out


def share_weights(run: Run) -> Any:
    model = run.model(Tied())
    optimizer = run.optimizer(torch.optim.Adagrad(model.parameters(), lr=0.1))
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(model(torch.randint(0, 9, (2, 3))), torch.tensor([1, 2])).backward()
        optimizer.step()
    return state_of(model)


class Repeated(nn.Module):
    """Calls one layer three times, another as often as a value says, and a third never."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 6)
        self.alias = self.inner
        self.loop = nn.Linear(6, 6)
        self.unused = nn.Linear(6, 6)
        self.head = nn.Linear(6, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            x = torch.relu(self.inner(x))
        x = self.alias(x)
        while x.abs().max() > 0.3:
            x = torch.tanh(self.loop(x)) * 0.5
        out: torch.Tensor = self.head(x)
        return out


class Containers(nn.Module):
    """Layers in a list, a dictionary, and parameters in both."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = nn.ModuleList([nn.Linear(6, 6) for _ in range(3)])
        self.choices = nn.ModuleDict({"left": nn.Linear(6, CLASSES), "right": nn.Linear(6, CLASSES)})
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(6)) for _ in range(2)])
        self.shifts = nn.ParameterDict({"a": nn.Parameter(torch.zeros(6))})
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        for step in self.steps:
            x = torch.relu(step(x))
        x = x * self.scales[self.calls % 2] + self.shifts["a"]
        out: torch.Tensor = self.choices["left" if self.calls % 2 else "right"](x)
        return out


def become_concrete(run: Run) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = run.model(nn.Sequential(nn.LazyLinear(8), nn.LazyBatchNorm1d(), nn.ReLU(), nn.LazyLinear(CLASSES)))
    loss_of(model)
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    return train(model, optimizer), state_of(model)


def parametrize(run: Run) -> Any:
    model = Perceptron()
    weight_norm(model.first)
    spectral_norm(model.second)
    model = run.model(model)
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    return train(model, optimizer), state_of(model)


def parametrize_late(run: Run) -> Any:
    model = run.model(Perceptron(hidden=6))
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    first = train(model, optimizer, steps=2)
    orthogonal(model.first)
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.05))
    second = train(model, optimizer, steps=2)
    remove_parametrizations(model.first, "weight")
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.05))
    return first, second, train(model, optimizer, steps=2), state_of(model)


def normalize_spectrally(run: Run) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = Perceptron()
        torch.nn.utils.spectral_norm(model.first)
    model = run.model(model)
    optimizer = run.optimizer(torch.optim.Adam(model.parameters(), lr=0.1))
    return train(model, optimizer), state_of(model)


def prune_weights(run: Run) -> Any:
    model = run.model(Perceptron())
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    first = train(model, optimizer, steps=2)
    prune.l1_unstructured(model.first, "weight", 0.5)
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    second = train(model, optimizer, steps=2)
    prune.remove(model.first, "weight")
    return first, second, loss_of(model).detach(), state_of(model)


def replace_a_head(run: Run) -> Any:
    model = run.model(Perceptron())
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    first = train(model, optimizer, steps=2)
    model.second = nn.Linear(8, CLASSES)
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    return first, train(model, optimizer, steps=2), state_of(model)


def embed_sparsely(run: Run) -> Any:
    model = run.model(nn.Sequential(nn.EmbeddingBag(12, 4, sparse=True, mode="sum")))
    optimizer = run.optimizer(torch.optim.SparseAdam(list(model.parameters()), lr=0.1))
    for words in ([[1, 2], [3, 3]], [[3, 0], [5, 6]]):
        optimizer.zero_grad()
        model(torch.tensor(words)).sum().backward()
        optimizer.step()
    return state_of(model)


def use_complex_numbers(run: Run) -> Any:
    model = run.model(nn.Linear(3, 2, dtype=torch.cfloat))
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(2, 3, dtype=torch.cfloat)).abs().sum().backward()
        optimizer.step()
    return state_of(model)


class Odd(nn.Module):
    """Parameters without elements, with one, transposed in memory, of another dtype, and buffers of all kinds."""

    mask: torch.Tensor
    count: torch.Tensor
    mean: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.nothing = nn.Parameter(torch.empty(0, 4))
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.turned = nn.Parameter(torch.randn(4, 6).t())
        self.precise = nn.Parameter(torch.randn(4, CLASSES, dtype=torch.float64))
        self.register_buffer("mask", torch.tensor([True, False, True, True]))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(4), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = (x @ self.turned) * self.mask * self.scale
        with torch.no_grad():
            self.count += 1
            self.mean.lerp_(x.mean(0), 0.1)
        return (x - self.mean).double() @ self.precise


def in_dtype(dtype: torch.dtype) -> Callable[[Run], Any]:
    """A program whose parameters are of a narrow dtype."""

    def run(run: Run) -> Any:
        model = run.model(Perceptron().to(dtype))
        optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(5, 6).to(dtype)).float().square().mean().backward()
            optimizer.step()
        return state_of(model)

    return run


PROGRAMS = (
    TruthProgram("a perceptron", with_sgd(Perceptron)),
    TruthProgram("pictures, gradients zeroed in place", convolve),
    TruthProgram("evaluation between epochs", train_and_evaluate),
    TruthProgram("an LSTM and a cell in a loop", read_sequences),
    TruthProgram("a transformer", attend),
    TruthProgram("an encoder that takes its fast path", encode),
    TruthProgram("tied weights", share_weights),
    TruthProgram("layers called several times, as values say", with_sgd(Repeated)),
    TruthProgram("lists and dictionaries, not all used in each step", with_sgd(Containers)),
    TruthProgram("lazy layers", become_concrete),
    TruthProgram("parametrizations", parametrize),
    TruthProgram("parametrized in the middle, and no longer", parametrize_late),
    TruthProgram("spectral norm of the old kind", normalize_spectrally),
    TruthProgram("pruning", prune_weights),
    TruthProgram("a head replaced in the middle", replace_a_head),
    TruthProgram("sparse gradients", embed_sparsely),
    TruthProgram("complex parameters", use_complex_numbers),
    TruthProgram("odd parameters and buffers", with_sgd(Odd)),
    TruthProgram("parameters of float16", in_dtype(torch.float16)),
    TruthProgram("parameters of bfloat16", in_dtype(torch.bfloat16)),
)
