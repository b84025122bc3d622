"""The late device itself: it does nothing before it is waited for, says who waited, and computes what the CPU does."""

from __future__ import annotations

import gc
import threading
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

from tests.devices.late.work import EarlyReadError
from tests.devices.programs import PROGRAMS, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.devices.late.device import LateDevice


def computing() -> torch.Tensor:
    """A tensor whose values, all 3, are not there yet."""
    return torch.ones(2, 2, device="late") * 2 + 1


THREES = [[3.0, 3.0], [3.0, 3.0]]


def test_its_tensors_are_ordinary_ones() -> None:
    tensor = computing()
    assert type(tensor) is torch.Tensor
    assert type(nn.Parameter(tensor)) is nn.Parameter
    assert (str(tensor.device), tensor.is_cpu, tensor.shape, tensor.dtype) == ("late:0", False, (2, 2), torch.float32)
    assert tensor.data_ptr() != computing().data_ptr()


def test_nothing_is_done_before_somebody_waits(late: LateDevice) -> None:
    tensor = computing()
    with pytest.raises(EarlyReadError):
        late.peek(tensor)
    assert not late.queue.waits
    late.synchronize()
    assert late.peek(tensor).tolist() == THREES


WAITING: dict[str, Callable[[torch.Tensor], object]] = {
    "item": lambda tensor: tensor.sum().item(),
    "bool": lambda tensor: bool((tensor > 0).all()),
    "tolist": lambda tensor: tensor.tolist(),
    "cpu": lambda tensor: tensor.cpu(),
    "to": lambda tensor: tensor.to("cpu"),
    "nonzero": lambda tensor: tensor.nonzero(),
    "a mask": lambda tensor: tensor[tensor > 2],
    "equal": lambda tensor: torch.equal(tensor, tensor.clone()),
    "print": str,
}


@pytest.mark.parametrize("how", WAITING)
def test_whoever_asks_for_values_waits_and_is_counted(how: str, late: LateDevice) -> None:
    tensor = computing()
    WAITING[how](tensor)
    assert late.waits_of(threading.get_ident()) >= 1
    assert late.waits_of(threading.get_ident()) == sum(late.queue.waits.values())
    late.synchronize()
    assert late.peek(tensor).tolist() == THREES


NOT_WAITING: dict[str, Callable[[torch.Tensor], object]] = {
    "arithmetic": lambda tensor: (tensor @ tensor).relu().sum(),
    "views": lambda tensor: tensor.t()[0].view(2, 1).expand(2, 3).detach(),
    "in place": lambda tensor: tensor.add_(1).zero_().t().fill_(4),
    "dtypes": lambda tensor: tensor.to(torch.bfloat16).to(torch.int64),
    "a copy that does not block": lambda tensor: torch.empty(2, 2).copy_(tensor, non_blocking=True),
    "shapes": lambda tensor: (tensor.shape, tensor.stride(), tensor.data_ptr(), tensor._version),
    "random numbers": lambda tensor: tensor.bernoulli_(0.5).normal_(),
    "out": lambda tensor: torch.add(tensor, 1, out=torch.empty(0, device="late")),
}


@pytest.mark.parametrize("what", NOT_WAITING)
def test_what_needs_no_values_does_not_wait(what: str, late: LateDevice) -> None:
    NOT_WAITING[what](computing())
    assert not late.queue.waits


def test_a_copy_that_does_not_block_arrives_with_its_event(late: LateDevice) -> None:
    host = torch.zeros(2, 2).copy_(computing(), non_blocking=True)
    event = late.Event()
    event.record()
    assert host.isnan().all()
    with pytest.raises(EarlyReadError):
        late.peek(host)
    assert not event.query()
    after = computing()
    event.synchronize()
    assert event.query()
    assert late.peek(host).tolist() == THREES
    with pytest.raises(EarlyReadError):
        late.peek(after)


def test_what_the_host_changes_later_is_not_what_was_sent() -> None:
    numbers = torch.tensor([1.0, 2.0])
    sent = torch.zeros(2, device="late").add_(numbers.to("late", non_blocking=True))
    copied = torch.empty(2, device="late").copy_(numbers, non_blocking=True)
    numbers.zero_()
    assert sent.tolist() == copied.tolist() == [1.0, 2.0]


def test_waits_are_counted_for_each_thread(late: LateDevice) -> None:
    other = threading.Thread(target=late.synchronize)
    other.start()
    other.join()
    assert (late.waits_of(threading.get_ident()), late.waits_but_of(threading.get_ident())) == (0, 1)


def test_random_numbers_are_those_of_their_turn(late: LateDevice) -> None:
    def draw(*, waits: bool) -> tuple[torch.Tensor, list[list[float]]]:
        torch.manual_seed(7)
        first = torch.randn(3, device="late")
        if waits:
            late.synchronize()
        on_host = torch.randn(3)
        second = nn.functional.dropout(torch.ones(30, device="late"), 0.5)
        return on_host, [first.tolist(), second.tolist()]

    host, numbers = draw(waits=True)
    again, same = draw(waits=False)
    assert torch.equal(host, again)
    assert numbers == same
    assert numbers[0] != host.tolist()
    assert set(numbers[1]) == {0.0, 2.0}


def test_memory_ends_and_comes_back(late: LateDevice) -> None:
    gc.collect()
    late.memory.limit = late.memory.allocated + 400
    held = torch.zeros(64, device="late")
    with pytest.raises(torch.OutOfMemoryError, match="late:0 is out of memory"):
        held + 1
    part = held[:2]
    del held
    with pytest.raises(torch.OutOfMemoryError):  # A view keeps the whole.
        torch.zeros(64, device="late")
    del part
    assert torch.zeros(64, device="late").tolist() == [0.0] * 64


def test_a_lost_device_says_so_to_everybody(late: LateDevice) -> None:
    tensor = computing()
    late.queue.fail(RuntimeError("late:0 is lost"))
    uses: tuple[Callable[[], object], ...] = (lambda: tensor + 1, tensor.tolist, late.synchronize)
    for use in uses:
        with pytest.raises(RuntimeError, match="late:0 is lost"):
            use()


def test_a_saved_tensor_comes_back_to_it(tmp_path: Path) -> None:
    path = tmp_path / "saved.pt"
    torch.save({"tensor": computing()}, path)
    loaded = torch.load(path)["tensor"]
    assert str(loaded.device) == "late:0"
    assert loaded.tolist() == THREES
    assert torch.load(path, map_location="cpu")["tensor"].device.type == "cpu"


@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - {"in_mixed_precision"}))  # Each device has its own list there.
def test_programs_give_what_they_give_on_the_cpu(name: str) -> None:
    assert run(name, "late").bytes() == run(name, "cpu").bytes()


def test_autocast_computes_in_the_dtype_that_it_is_given() -> None:
    linear = nn.Linear(3, 4).to("late")
    with torch.autocast("late", dtype=torch.bfloat16):
        out = linear(torch.ones(2, 3, device="late"))
    assert out.dtype is torch.bfloat16
    assert linear(torch.ones(2, 3, device="late")).dtype is torch.float32
