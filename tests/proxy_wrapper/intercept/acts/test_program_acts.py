"""Data loaders, scalers, dropout, freezing and graphs are told of, and nothing changes by that."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import (
    DataLoader,
    Dataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import (
    ActiveDropout,
    CallModule,
    Clip,
    FreezeWithoutEffect,
    GraphPattern,
    Loading,
    Location,
    ScalerStep,
)
from proxy_wrapper.intercept.acts.clipped_gradients import _is_scaling, _may_be_lower, _Scaler, _Skip

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from proxy_wrapper.writing.observers.memory import MemoryObserver


def of(seen: MemoryObserver, kind: type[Any]) -> list[Any]:
    """The events of a class."""
    return [event for event in seen.events if type(event) is kind]


def line(seen: MemoryObserver, number: int) -> int:
    """The line of a location."""
    return int(next(each.line for each in of(seen, Location) if each.id == number))


class Net(nn.Module):
    """Two linear layers, with a dropout between them."""

    def __init__(self, *, has_dropout: bool = True) -> None:
        super().__init__()
        self.first, self.second, self.dropout = nn.Linear(4, 8), nn.Linear(8, 2), nn.Dropout(0.5)
        self.has_dropout = has_dropout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        result: torch.Tensor = self.second(self.dropout(torch.relu(x)) if self.has_dropout else x)
        return result


class MadeAnew(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.Dropout(0.5)(self.first(x))
        result: torch.Tensor = self.second(x)
        return result


class Default(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.dropout(self.first(x), 0.5)
        result: torch.Tensor = self.second(x)
        return result


class Keyword(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.dropout(self.first(x), p=0.5)
        result: torch.Tensor = self.second(x)
        return result


def mask(x: torch.Tensor, kept: float) -> torch.Tensor:
    drawn = torch.rand(x.shape) < kept
    return x * drawn / kept


class ByHand(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = mask(self.first(x), 0.5)
        result: torch.Tensor = self.second(x)
        return result


class ByHandInTraining(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        if self.training:
            x = mask(x, 0.5)
        result: torch.Tensor = self.second(x)
        return result


class OfTheMode(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.second(F.dropout(self.first(x), 0.5, training=self.training))
        return result


class Meant(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.second(F.dropout(self.first(x), 0.5, True))
        return result


class Noise(Net):
    """Draws numbers, and drops nothing."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.second(self.first(x) + torch.randn(8))
        return result


def train(model: nn.Module, steps: int = 1) -> torch.optim.SGD:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        F.cross_entropy(model(torch.randn(6, 4)), torch.zeros(6, dtype=torch.long)).backward()
        optimizer.step()
        optimizer.zero_grad()
    return optimizer


# Data loaders.


@pytest.mark.parametrize(("seed", "repeated"), [(True, 3), (False, 0)])
def test_an_order_that_is_drawn_anew_from_one_seed_is_counted(
    seed: bool, repeated: int, logdir: str, seen: MemoryObserver
) -> None:
    model = Proxy.Proxy(nn.Linear(4, 2), recurse=True, logdir=logdir)
    loader = DataLoader(TensorDataset(torch.randn(12, 4)), 3, shuffle=True)
    for _ in range(4):
        if seed:
            torch.manual_seed(1)
        for (x,) in loader:
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            model(x).sum().backward()
            optimizer.step()
    last = of(seen, Loading)[-1]
    assert (last.count, last.same_order, last.trains, last.batches, last.given) == (4, repeated, True, 4, 12)


@pytest.mark.parametrize(("seed", "repeated"), [(True, 2), (False, 0)])
def test_an_order_that_is_drawn_from_a_generator_that_is_seeded_again_is_counted(
    seed: bool, repeated: int, logdir: str, seen: MemoryObserver
) -> None:
    Proxy.Proxy(nn.Linear(4, 2), recurse=True, logdir=logdir)
    generator = torch.Generator().manual_seed(1)
    loader = DataLoader(TensorDataset(torch.randn(12, 4)), 3, shuffle=True, generator=generator)
    for _ in range(3):
        if seed:
            generator.manual_seed(1)
        for _ in loader:
            pass
    last = of(seen, Loading)[-1]
    assert (last.count, last.same_order) == ((3, repeated) if seed else (2, 0))


@pytest.mark.parametrize(
    ("first", "is_sampled", "shared"),
    [(8, False, 0), (6, False, 2), (6, True, 2), (0, False, 0)],
    ids=["apart", "subsets", "samplers", "all"],
)
def test_samples_that_are_also_those_of_training_are_counted(
    first: int, is_sampled: bool, shared: int, logdir: str, seen: MemoryObserver
) -> None:
    model = Proxy.Proxy(nn.Linear(4, 2), recurse=True, logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = TensorDataset(torch.randn(12, 4))

    def part(indices: range) -> DataLoader[tuple[torch.Tensor, ...]]:
        if is_sampled:
            return DataLoader(data, 2, sampler=SubsetRandomSampler(indices))
        return DataLoader(Subset(data, indices), 2)

    trained, evaluated = part(range(8)), part(range(first, 12))
    for (x,) in trained:
        model(x).sum().backward()
        optimizer.step()
    for _ in evaluated:
        pass
    last = of(seen, Loading)[-1]
    assert (last.shared, last.samples) == (shared, 12 - first)


class Holder:
    """Keeps a loader under a name."""

    def __init__(self, name: str, loader: DataLoader[tuple[torch.Tensor, ...]]) -> None:
        setattr(self, name, loader)

    def read(self, name: str) -> None:
        for _ in getattr(self, name):
            pass


@pytest.mark.parametrize(
    ("name", "indices", "held_out"),
    [
        ("val_loader", range(8, 12), "val_loader"),
        ("testloader", range(8, 12), "testloader"),
        ("train_eval_loader", range(8, 12), ""),
        ("loader", range(8, 12), ""),
        ("val_loader", range(12), ""),
    ],
)
@pytest.mark.parametrize("is_whole", [False, True])
def test_held_out_samples_that_are_all_those_of_training_are_named(
    name: str, indices: range, held_out: str, is_whole: bool, logdir: str, seen: MemoryObserver
) -> None:
    model = Proxy.Proxy(nn.Linear(4, 2), recurse=True, logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = TensorDataset(torch.randn(12, 4))
    batches = DataLoader(data if is_whole else Subset(data, range(12)), 2, shuffle=True)
    holder = Holder(name, DataLoader(Subset(data, indices), 2))
    for _ in range(2):
        for (x,) in batches:
            model(x).sum().backward()
            optimizer.step()
        holder.read(name)
    last = of(seen, Loading)[-1]
    is_told = bool(held_out) or (is_whole and name == "val_loader")
    assert last.held_out == (name if is_told else "")


def test_folds_are_evaluated_with_what_others_were_trained_with(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(4, 2), recurse=True, logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = TensorDataset(torch.randn(12, 4))
    for fold in (range(4), range(4, 8), range(8, 12)):
        val_loader = DataLoader(Subset(data, fold), 2)
        train_loader = DataLoader(Subset(data, [each for each in range(12) if each not in fold]), 2)
        for _ in range(2):
            for _ in val_loader:
                pass
            for (x,) in train_loader:
                model(x).sum().backward()
                optimizer.step()
    assert [each.count for each in of(seen, Loading) if each.held_out] == [1, 1]


def test_a_first_batch_again_and_again_is_counted(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(4, 2), recurse=True, logdir=logdir)
    loader = DataLoader(TensorDataset(torch.randn(12, 4)), 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(8):
        (x,) = next(iter(loader))
        model(x).sum().backward()
        optimizer.step()
    found = of(seen, Loading)
    assert [each.count for each in found] == [1, 2, 4, 8]
    assert found[-1].first_only == 7


class Kept(Dataset[torch.Tensor]):
    """Keeps its samples in a tensor, and normalises each as it gives it: in place, or not."""

    def __init__(self, *, in_place: bool) -> None:
        self.samples = torch.randn(12, 4)
        self.in_place = in_place

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> torch.Tensor:
        sample = self.samples[index]
        return sample.mul_(0.5) if self.in_place else sample * 0.5


@pytest.mark.parametrize(("in_place", "changed"), [(True, 3), (False, 0)])
def test_a_data_set_that_changes_what_it_keeps_is_counted(
    in_place: bool, changed: int, logdir: str, seen: MemoryObserver
) -> None:
    model = Proxy.Proxy(nn.Linear(4, 2), recurse=True, logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(Kept(in_place=in_place), 3, shuffle=True)
    for _ in range(4):
        for x in loader:
            model(x).sum().backward()
            optimizer.step()
    last = of(seen, Loading)[-1]
    assert (last.count, last.changed_samples, last.changed_by > 0) == (4, changed, in_place)


def test_what_the_program_writes_into_the_data_between_batches_is_not_counted(
    logdir: str, seen: MemoryObserver
) -> None:
    Proxy.Proxy(nn.Linear(4, 2), recurse=True, logdir=logdir)
    data = Kept(in_place=False)
    for _ in range(4):
        for _ in DataLoader(data, 3):
            data.samples.mul_(0.5)
    assert [each.changed_samples for each in of(seen, Loading)] == [0] * 4


@pytest.mark.parametrize(("weights", "unweighted"), [(2, 10), (12, 0)])
def test_samples_that_have_no_weight_are_counted(
    weights: int, unweighted: int, logdir: str, seen: MemoryObserver
) -> None:
    Proxy.Proxy(nn.Linear(4, 2), recurse=True, logdir=logdir)
    made = sys._getframe().f_lineno + 1
    sampler = WeightedRandomSampler([0.5] * weights, 12)
    for _ in DataLoader(TensorDataset(torch.randn(12, 4)), 3, sampler=sampler):
        pass
    (found,) = of(seen, Loading)
    assert found.unweighted == unweighted
    assert (found.sampler_made and line(seen, found.sampler_made)) == (made if unweighted else 0)


# Scalers.


@pytest.mark.parametrize(
    ("step", "scaler", "counts"),
    [
        pytest.param("optimizer.step()", "8.0", [1, 2], id="scaled"),
        pytest.param("scaler.step(optimizer); scaler.update()", "8.0", [], id="by the scaler"),
        pytest.param("scaler.unscale_(optimizer); optimizer.step(); scaler.update()", "8.0", [], id="unscaled"),
        pytest.param("optimizer.step()", "8.0, enabled=False", [], id="a scaler that does nothing"),
        pytest.param("optimizer.step()", "1.0", [], id="a scale of 1"),
        pytest.param("w.grad /= scaler.get_scale(); optimizer.step()", "8.0", [], id="divided by hand"),
        pytest.param("optimizer.zero_grad(); w.sum().backward(); optimizer.step()", "8.0", [], id="of another loss"),
    ],
)
def test_steps_with_scaled_gradients_are_counted(
    step: str, scaler: str, counts: list[int], logdir: str, seen: MemoryObserver, tmp_path: Path
) -> None:
    program = f"""\
import torch
def train(w, scaler):
    optimizer = torch.optim.SGD([w], lr=0.1)
    for _ in range(3):
        scaler.scale(w.square().sum()).backward()
        {step}
train(model.weight, torch.amp.GradScaler("cpu", init_scale={scaler}))
"""
    file = tmp_path / "program.py"
    file.write_text(program)
    model = Proxy.Proxy(nn.Linear(4, 2), recurse=True, logdir=logdir)
    exec(compile(program, str(file), "exec"), {"model": model})
    assert [each.undivided for each in of(seen, ScalerStep)] == counts


def test_a_step_after_the_scaled_pass_of_another_model_is_not_counted(logdir: str, seen: MemoryObserver) -> None:
    model, other = (Proxy.Proxy(nn.Linear(4, 2), recurse=True, logdir=logdir) for _ in range(2))
    first, second = (torch.optim.SGD(each.parameters(), lr=0.1) for each in (model, other))
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    for _ in range(4):
        first.zero_grad()
        second.zero_grad()
        other(torch.randn(3, 4)).sum().backward()
        scaler.scale(model(torch.randn(3, 4)).sum()).backward()
        second.step()
        scaler.step(first)
        scaler.update()
    assert not of(seen, ScalerStep)


@pytest.mark.parametrize("function", [nn.utils.clip_grad_norm_, nn.utils.clip_grad_value_])
@pytest.mark.parametrize("is_unscaled", [True, False])
def test_clipping_before_the_gradients_are_divided_is_counted(
    function: Callable[..., Any], is_unscaled: bool, logdir: str, seen: MemoryObserver
) -> None:
    model = Proxy.Proxy(nn.Linear(4, 2), recurse=True, logdir=logdir)
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu", init_scale=8.0)
    for _ in range(2):
        scaler.scale(model(torch.randn(3, 4)).sum()).backward()
        if is_unscaled:
            scaler.unscale_(optimizer)
        function(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    assert [each.clipped for each in of(seen, ScalerStep)] == ([] if is_unscaled else [1, 2])
    assert len(of(seen, Clip)) == 1


def test_steps_that_are_skipped_with_one_scale_are_counted(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(4, 2), recurse=True, logdir=logdir)
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu", init_scale=8.0)
    for infinite in (False, True, True, True):
        scaler.scale(model(torch.randn(3, 4)).sum() * (float("inf") if infinite else 1.0)).backward()
        scaler.step(optimizer)
        scaler.update(8.0)
        optimizer.zero_grad()
    last = of(seen, ScalerStep)[-1]
    assert (last.count, last.skipped, last.stuck) == (4, 3, 2)


def test_a_scale_on_an_accelerator_is_not_read() -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    known = _Scaler(1, 0, type(scaler))
    scaler._scale = torch.ones((), device="meta")  # Reading it would raise.
    assert _is_scaling(scaler, known)
    known.updates = 3  # It may have been halved three times.
    assert not _is_scaling(scaler, known)
    known.updates, known.is_given = 0, True
    assert not _is_scaling(scaler, known)


def test_steps_skipped_with_a_scale_that_is_not_read_are_stuck_without_an_update() -> None:
    class OwnUpdate(torch.amp.GradScaler):
        def update(self, new_scale: Any = None) -> None:
            super().update(new_scale)

    first, second = _Skip(1, None, 0), _Skip(2, None, 0)
    plain, own = _Scaler(1, 0, torch.amp.GradScaler), _Scaler(2, 0, OwnUpdate)
    assert not _may_be_lower(plain, second, first)
    assert _may_be_lower(plain, _Skip(2, None, 1), first)
    assert _may_be_lower(own, second, first)  # Nothing counts its updates.


# Dropout.


@pytest.mark.parametrize(
    ("kind", "function"),
    [
        pytest.param(Default, "dropout", id="default"),
        pytest.param(Keyword, "dropout", id="keyword"),
        pytest.param(ByHand, "mask of `rand`", id="by hand"),
        pytest.param(ByHandInTraining, "", id="by hand, in training"),
        pytest.param(OfTheMode, "", id="told of the mode"),
        pytest.param(Meant, "", id="meant"),
        pytest.param(Noise, "", id="noise"),
        pytest.param(Net, "", id="module"),
    ],
)
def test_dropout_that_nobody_told_of_the_mode_is_told(
    kind: type[Net], function: str, logdir: str, seen: MemoryObserver
) -> None:
    model = Proxy.Proxy(kind(), recurse=True, logdir=logdir)
    model(torch.randn(3, 4))
    assert not of(seen, ActiveDropout)
    model.eval()
    for _ in range(3):
        model(torch.randn(3, 4))
    found = [(each.function, line(seen, each.location)) for each in of(seen, ActiveDropout)]
    assert found == ([(function, kind.forward.__code__.co_firstlineno + 1)] if function else [])


def test_dropout_that_was_put_into_training_mode_is_meant(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Net(), recurse=True, logdir=logdir)
    model.eval()
    model.dropout.train()
    model(torch.randn(3, 4))
    assert not of(seen, ActiveDropout)


# Freezing.


def test_a_misspelt_attribute_is_told_where_it_is_assigned(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Net(), recurse=True, logdir=logdir)
    for parameter in model.first.parameters():
        assigned = sys._getframe().f_lineno + 1
        parameter.require_grad = False  # type: ignore[attr-defined]
    train(model, 2)
    (found,) = of(seen, FreezeWithoutEffect)
    assert (found.attribute, found.count, line(seen, found.made)) == ("require_grad", 2, assigned)


def test_what_is_frozen_is_not_told(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(Net(), recurse=True, logdir=logdir)
    model.first.requires_grad_(False)
    train(model)
    assert not of(seen, FreezeWithoutEffect)


class Wrapped(nn.Module):
    """Its own attribute says whether it trains."""

    def __init__(self) -> None:
        super().__init__()
        self.requires_grad = False
        self.first = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))

    def forward(self, x: torch.Tensor) -> Any:
        return self.first(x)


@pytest.mark.parametrize("own", [False, True])
def test_an_attribute_of_a_module_around_the_layers_is_told_unless_its_class_has_it(
    own: bool, logdir: str, seen: MemoryObserver
) -> None:
    model: Any = Proxy.Proxy(Wrapped() if own else nn.Sequential(Net()), recurse=True, logdir=logdir)
    assigned = 0
    if not own:
        assigned = sys._getframe().f_lineno + 1
        model[0].requires_grad = False
    train(model, 2)
    found = [(each.attribute, each.count, line(seen, each.made)) for each in of(seen, FreezeWithoutEffect)]
    assert found == ([] if own else [("requires_grad", len(list(model.parameters())), assigned)])


def test_unfreezing_a_module_by_an_attribute_is_told(logdir: str, seen: MemoryObserver) -> None:
    model: Any = Proxy.Proxy(Net(), recurse=True, logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.first.requires_grad_(False)
    for step in range(33):
        model(torch.randn(3, 4)).sum().backward()
        optimizer.step()
        if step == 5:
            assigned = sys._getframe().f_lineno + 1
            model.first.requires_grad = True
    found = [(each.count, each.unfreezes, line(seen, each.made)) for each in of(seen, FreezeWithoutEffect)]
    assert found == [(2, True, assigned)]


def test_unfreezing_a_module_by_an_attribute_for_a_new_optimizer_is_told(logdir: str, seen: MemoryObserver) -> None:
    model: Any = Proxy.Proxy(Net(), recurse=True, logdir=logdir)
    train(model, 2)
    model.first.requires_grad_(False)
    assigned = sys._getframe().f_lineno + 1
    model.first.requires_grad = True
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.randn(3, 4)).sum().backward()
    optimizer.step()
    found = [(each.count, each.unfreezes, line(seen, each.made)) for each in of(seen, FreezeWithoutEffect)]
    assert found == [(2, True, assigned)]


# Graphs.


@pytest.mark.parametrize("has_dropout", [False, True])
def test_linear_layers_with_nothing_between_them_are_told(has_dropout: bool, logdir: str, seen: MemoryObserver) -> None:
    train(Proxy.Proxy(Net(has_dropout=has_dropout), recurse=True, logdir=logdir), 3)
    found = [(each.what, tuple(each.values)) for each in of(seen, GraphPattern)]
    assert found == [("linear-linear", (0.0,))] * 2 * (not has_dropout)


def test_whether_other_linear_layers_follow_an_activation_is_told(logdir: str, seen: MemoryObserver) -> None:
    layers = [nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.Linear(4, 2)]
    train(Proxy.Proxy(nn.Sequential(*layers), recurse=True, logdir=logdir), 1)
    assert [(each.what, tuple(each.values)) for each in of(seen, GraphPattern)] == [("linear-linear", (1.0,))]


def test_a_softmax_is_told_with_its_dimension(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Sequential(nn.Linear(4, 5), nn.Softmax(-1)), recurse=True, logdir=logdir)
    model(torch.randn(3, 4)).pow(2).sum().backward()
    assert [(each.what, each.dim, tuple(each.shape)) for each in of(seen, GraphPattern)] == [("softmax", 1, (3, 5))]


# What the program does is left as it is.


def _run(logdir: str | None) -> list[torch.Tensor]:
    """All that a program computes which does everything that is seen here."""
    torch.manual_seed(0)
    model: Any = Default()
    if logdir is not None:
        model = Proxy.Proxy(model, recurse=True, logdir=logdir)
    model.first.require_grad = False
    loader = DataLoader(TensorDataset(torch.randn(12, 4)), 3, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**120)
    found = []
    for _ in range(3):
        model.train()
        for (x,) in loader:
            loss = model(x).pow(2).sum()
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            nn.utils.clip_grad_value_(model.parameters(), 0.5)
            scaler.step(optimizer)
            scaler.update()
            found.append(loss.detach().clone())
        model.eval()
        with torch.no_grad():
            found.append(model(x))
    return [*found, *(each.detach().clone() for each in model.parameters()), torch.get_rng_state()]


def test_nothing_changes(logdir: str) -> None:
    for plain, traced in zip(_run(None), _run(logdir), strict=True):
        assert torch.equal(plain, traced)


def test_calls_of_a_model_without_a_wrapper_are_not_around_one(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Linear(4, 2), recurse=True, logdir=logdir)
    model(torch.randn(3, 4))
    assert [each.around for each in of(seen, CallModule)] == [False]


def test_a_dropout_that_is_made_in_the_call_is_told(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(MadeAnew(), recurse=True, logdir=logdir).eval()
    model(torch.randn(3, 4))
    (event,) = of(seen, ActiveDropout)
    assert event.function == "Dropout"


@pytest.mark.parametrize(("batch_size", "drop_last", "dropped"), [(8, True, 6), (8, False, 0), (3, True, 0)])
def test_samples_that_are_fewer_than_a_batch_are_told(
    batch_size: int, drop_last: bool, dropped: int, logdir: str, seen: MemoryObserver
) -> None:
    model = Proxy.Proxy(nn.Linear(4, 2), recurse=True, logdir=logdir)
    for (x,) in DataLoader(TensorDataset(torch.randn(6, 4)), batch_size, shuffle=True, drop_last=drop_last):
        model(x)
    assert of(seen, Loading)[-1].dropped == dropped
