"""Programs drawn at random: models of any layers, each with a way to train it, and what else is done in each step."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import clip_grad_norm_, clip_grad_value_
from torch.nn.utils.parametrizations import weight_norm
from torch.utils.checkpoint import checkpoint

from tests.proxy_wrapper.truth.in_threads import run_in_threads
from tests.proxy_wrapper.truth.judgement import TruthProgram
from tests.proxy_wrapper.truth.networks import CLASSES, FEATURES, state_of
from tests.proxy_wrapper.truth.programs import by_hand, optimizers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.proxy_wrapper.truth.run import Run


class Recurrence(nn.Module):
    """Calls its cell twice."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(FEATURES, FEATURES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.cell(x, self.cell(x))
        return out


class Branch(nn.Module):
    """Calls one layer or the other, as the values say."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Linear(FEATURES, FEATURES)
        self.right = nn.Linear(FEATURES, FEATURES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.left(x) if x.sum() > 0 else self.right(x)
        return out


class Recomputed(nn.Module):
    """Computes its activations once more in the backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(FEATURES, FEATURES), nn.Tanh())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = checkpoint(self.inner, x, use_reentrant=False)
        return out


class Detached(nn.Module):
    """Has a layer that no gradient reaches."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(FEATURES, FEATURES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.inner(x)
        return x + out.detach()


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(FEATURES, FEATURES),
    "batch norm": lambda: nn.BatchNorm1d(FEATURES),
    "layer norm": lambda: nn.LayerNorm(FEATURES),
    "dropout": lambda: nn.Dropout(0.3),
    "relu in place": lambda: nn.Sequential(nn.Linear(FEATURES, FEATURES), nn.ReLU(inplace=True)),
    "prelu": lambda: nn.PReLU(),
    "weight norm": lambda: weight_norm(nn.Linear(FEATURES, FEATURES)),
    "convolution": lambda: nn.Sequential(
        nn.Unflatten(1, (1, FEATURES)), nn.Conv1d(1, 2, 3, padding=1), nn.Flatten(), nn.LazyLinear(FEATURES)
    ),
    "recurrence": Recurrence,
    "branch": Branch,
    "recomputed": Recomputed,
    "detached": Detached,
}
"""Each takes (n, 6) and gives (n, 6)."""


class Model(nn.Module):
    """Layers in a row, perhaps gone through twice, a head, perhaps one that shares its weight, and one without use."""

    def __init__(self, plan: ModelPlan) -> None:
        super().__init__()
        self.layers = nn.ModuleList([LAYERS[layer]() for layer in plan.layers])
        self.head = nn.Linear(FEATURES, CLASSES)
        self.repeats = plan.repeats
        if plan.has_unused:
            self.unused = nn.Linear(2, 2)
        if plan.is_tied:
            self.tied = nn.Linear(FEATURES, CLASSES)
            self.tied.weight = self.head.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(1 + self.repeats):
            for layer in self.layers:
                x = layer(x)
        out: torch.Tensor = self.head(x)
        if hasattr(self, "tied"):
            out = out + self.tied(x)
        return out


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda given: torch.optim.SGD(given, lr=0.05),
    "SGD with momentum, one by one": lambda given: torch.optim.SGD(given, lr=0.05, momentum=0.9, foreach=False),
    "Adam": lambda given: torch.optim.Adam(given, lr=0.01, foreach=True),
    "AdamW, fused": lambda given: torch.optim.AdamW(given, lr=0.01, fused=True),
    "RMSprop, centred": lambda given: torch.optim.RMSprop(given, lr=0.01, centered=True),
    "through .data": optimizers.DataSGD,
    "by copying": optimizers.CopyingSGD,
    "by foreach": optimizers.ForeachSGD,
    "by swapping": optimizers.SwappingSGD,
    "by setting .data": optimizers.SettingSGD,
    "by super": optimizers.ClippingAdam,
    "around another": lambda given: optimizers.Lookahead(torch.optim.SGD(given, lr=0.05)),
}

BY_CLOSURE: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "LBFGS": lambda given: torch.optim.LBFGS(given, lr=0.1, max_iter=3),
    "RMSprop by closures": lambda given: torch.optim.RMSprop(given, lr=0.01),
    "SGD by closures, through .data": optimizers.ClosedDataSGD,
}
"""Those whose steps ask for the loss themselves."""

BY_HAND: dict[str, Callable[[nn.Module], None]] = {
    "by hand, in place": by_hand.in_place,
    "by hand, through .data": by_hand.by_data,
    "by hand, through NumPy": by_hand.by_numpy,
    "by hand, by foreach": by_hand.by_foreach,
}

ACTIONS = (
    "two batches",
    "clip by norm",
    "clip by value",
    "freeze or thaw",
    "zero in place",
    "leave out the step",
    "evaluate",
    "average",
    "clamp",
    "load",
    "call functionally",
    "fail in forward",
)
"""What a step may do besides."""

OF_HAND_TRAINING = frozenset({"two batches", "clip by norm", "clip by value", "freeze or thaw", "zero in place"})
"""Those after which it is beyond doubt what a step by hand is: a round of backward passes and changes."""


@dataclass(frozen=True)
class ModelPlan:
    """A model, how it is trained, and what each step does."""

    layers: tuple[str, ...]
    trainer: str
    steps: tuple[frozenset[str], ...]
    repeats: bool = False
    has_unused: bool = False
    is_tied: bool = False
    starts_frozen: bool = False


@dataclass(frozen=True)
class ProgramPlan:
    """Models, and whether they are trained one after another, in turns, or in threads."""

    models: tuple[ModelPlan, ...]
    schedule: str


def _model_plans(*, layers: list[str], trainers: list[str], actions: list[str]) -> st.SearchStrategy[ModelPlan]:
    return st.builds(
        ModelPlan,
        layers=st.lists(st.sampled_from(layers), max_size=3).map(tuple),
        trainer=st.sampled_from(trainers),
        steps=st.lists(st.frozensets(st.sampled_from(actions), max_size=3), min_size=1, max_size=5).map(tuple),
        repeats=st.booleans(),
        has_unused=st.booleans(),
        is_tied=st.booleans(),
        starts_frozen=st.booleans(),
    )


_WITHOUT_CHANCE = [layer for layer in LAYERS if layer != "dropout"]
"""Threads share torch's generator: what they draw from it depends on their turns."""

PLANS: st.SearchStrategy[ProgramPlan] = st.one_of(
    st.builds(
        ProgramPlan,
        st.lists(
            _model_plans(layers=list(LAYERS), trainers=[*OPTIMIZERS, *BY_CLOSURE], actions=list(ACTIONS)),
            min_size=1,
            max_size=3,
        ).map(tuple),
        st.sampled_from(["one after another", "in turns"]),
    ),
    st.builds(
        ProgramPlan,
        st.lists(
            _model_plans(layers=_WITHOUT_CHANCE, trainers=[*OPTIMIZERS, *BY_CLOSURE], actions=list(ACTIONS)),
            min_size=2,
            max_size=4,
        ).map(tuple),
        st.just("in threads"),
    ),
    st.builds(
        ProgramPlan,
        st.tuples(_model_plans(layers=list(LAYERS), trainers=list(BY_HAND), actions=sorted(OF_HAND_TRAINING))),
        st.just("one after another"),
    ),
)


def program_of(plan: ProgramPlan) -> TruthProgram:
    """The program that a plan describes."""
    return TruthProgram("random", lambda run: _carry_out(plan, run), in_order=plan.schedule != "in threads")


def _carry_out(plan: ProgramPlan, run: Run) -> Any:
    trainings = []
    for number, each in enumerate(plan.models):
        training = Training(each, number)
        run.model(training.model, f"model{number}")
        trainings.append(training)
    if plan.schedule == "in threads":
        run_in_threads([partial(list, training.steps(run)) for training in trainings])
    elif plan.schedule == "in turns":
        pending = [training.steps(run) for training in trainings]
        while pending:
            pending = [steps for steps in pending if next(steps, None) is not None]
    else:
        for training in trainings:
            list(training.steps(run))
    return [(training.results, state_of(training.model)) for training in trainings]


class Training:
    """One model of a program, its data, and what its steps give."""

    def __init__(self, plan: ModelPlan, number: int) -> None:
        self.plan = plan
        self.results: list[torch.Tensor] = []
        self.generator = torch.Generator().manual_seed(number)
        self.model = Model(plan)
        with torch.no_grad():
            self.model(torch.randn(4, FEATURES))  # Lazy layers get their sizes.
        self.slow = copy.deepcopy([parameter.detach() for parameter in self.model.parameters()])
        self.kept = copy.deepcopy(self.model.state_dict())
        if plan.starts_frozen and plan.layers:
            self.model.layers[0].requires_grad_(False)

    def steps(self, run: Run) -> Iterator[int]:
        """Make the steps, one at a time."""
        trainer = self.plan.trainer
        optimizer = None
        if trainer not in BY_HAND:
            make = {**OPTIMIZERS, **BY_CLOSURE}[trainer]
            optimizer = run.optimizer(make(list(self.model.parameters())))
        for number, actions in enumerate(self.plan.steps):
            self._prepare(actions)
            self.model.zero_grad(set_to_none="zero in place" not in actions)
            for _ in range(2 if "two batches" in actions else 1):
                self._backward()
            self._change_gradients(actions)
            if optimizer is None:
                BY_HAND[trainer](self.model)
                run.hand_step()
            elif "leave out the step" not in actions:
                optimizer.step(self._closure if trainer in BY_CLOSURE else None)
            if "leave out the step" not in actions:  # Else the change would be a step by hand, unless one had stepped.
                self._change_weights(actions)
            self._call_again(actions)
            yield number

    def _batch(self) -> torch.Tensor:
        return torch.randn(5, FEATURES, generator=self.generator)

    def _closure(self) -> float:
        self.model.zero_grad()
        return float(self._backward())

    def _backward(self) -> torch.Tensor:
        labels = torch.randint(0, CLASSES, (5,), generator=self.generator)
        loss = F.cross_entropy(self.model(self._batch()), labels)
        loss.backward()
        self.results.append(loss.detach())
        return loss.detach()

    def _prepare(self, actions: frozenset[str]) -> None:
        if "freeze or thaw" in actions and self.plan.layers:
            layer = self.model.layers[0]
            layer.requires_grad_(not all(parameter.requires_grad for parameter in layer.parameters()))
        if "fail in forward" in actions:
            try:
                self.model(torch.randn(2, FEATURES + 1, generator=self.generator))
            except (RuntimeError, ValueError):
                return
            raise AssertionError("a wrong shape went through")

    def _change_gradients(self, actions: frozenset[str]) -> None:
        if "clip by norm" in actions:
            self.results.append(clip_grad_norm_(self.model.parameters(), 0.1))
        if "clip by value" in actions:
            clip_grad_value_(self.model.parameters(), 0.01)

    def _change_weights(self, actions: frozenset[str]) -> None:
        if "clamp" in actions:
            for parameter in self.model.parameters():
                parameter.data.clamp_(-0.2, 0.2)
        if "average" in actions:
            for slow, parameter in zip(self.slow, self.model.parameters(), strict=True):
                slow.lerp_(parameter.detach(), 0.5)
            with torch.no_grad():
                torch._foreach_copy_(list(self.model.parameters()), self.slow)
        if "load" in actions:
            self.model.load_state_dict(self.kept)

    def _call_again(self, actions: frozenset[str]) -> None:
        if "evaluate" in actions:
            self.model.eval()
            with torch.no_grad():
                self.results += [self.model(self._batch()) for _ in range(2)]
            self.model.train()
        if "call functionally" in actions:
            weights = {name: parameter.detach() * 1.5 for name, parameter in self.model.named_parameters()}
            self.model.eval()
            self.results.append(torch.func.functional_call(self.model, weights, (self._batch(),)).detach())
            self.model.train()
