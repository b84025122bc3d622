"""Tensors are remembered by identity, and not kept alive."""

from __future__ import annotations

import gc
import weakref

import torch

from proxy_wrapper.known.seen_tensors import SeenTensors


def test_a_tensor_has_a_number_of_its_own() -> None:
    seen, one, other = SeenTensors(), torch.ones(1), torch.ones(1)
    assert one not in seen
    assert seen.number(one) == 0
    assert seen.meet(one) == 1
    assert seen.meet(other) == 2
    assert seen.meet(one) == seen.number(one) == 1
    assert one in seen


def test_a_tensor_made_anew_at_the_same_address_gets_another_number() -> None:
    seen = SeenTensors()
    numbers, addresses = [], set()
    for _ in range(100):
        tensor = torch.ones(4)
        addresses.add((id(tensor), tensor.data_ptr()))
        numbers.append(seen.meet(tensor))
        del tensor
    assert len(addresses) < 100, "no address was used twice, so this shows nothing"
    assert numbers == list(range(1, 101))


def test_a_tensor_is_not_kept_alive() -> None:
    seen, tensor = SeenTensors(), torch.ones(1)
    seen.meet(tensor)
    gone = weakref.ref(tensor)
    del tensor
    gc.collect()
    assert gone() is None


def test_the_program_finds_no_weak_reference() -> None:
    seen, tensor = SeenTensors(), torch.ones(1)
    seen.meet(tensor)
    assert weakref.getweakrefs(tensor) == []
    assert vars(tensor) == {}


def test_the_dead_are_swept_out_and_the_living_keep_their_numbers() -> None:
    seen = SeenTensors()
    living = [torch.ones(1) for _ in range(10)]
    numbers = [seen.meet(tensor) for tensor in living]
    for _ in range(5000):
        seen.meet(torch.ones(1))
    assert len(seen.refs) <= 2048
    assert [seen.number(tensor) for tensor in living] == numbers


def test_a_tensor_that_lives_on_in_a_graph_is_still_known() -> None:
    seen = SeenTensors()
    leaf = torch.ones(1, requires_grad=True)
    tensor = leaf.exp()
    number = seen.meet(tensor)
    out = tensor * tensor
    del tensor
    gc.collect()
    saved = out.grad_fn._saved_self  # type: ignore[union-attr]
    assert seen.number(saved) == number


def test_what_is_forgotten_has_no_reference_left() -> None:
    seen, one, other = SeenTensors(), torch.ones(1), torch.zeros(1)
    seen.meet(one)
    seen.forget(one)
    seen.forget(other)
    torch.utils.swap_tensors(one, other)
    assert one not in seen
