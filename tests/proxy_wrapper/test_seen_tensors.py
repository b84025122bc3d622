"""Tensors are remembered by identity, and not kept alive."""

from __future__ import annotations

import gc
import weakref

import torch

from proxy_wrapper.seen_tensors import SeenTensors


def test_a_tensor_is_new_once() -> None:
    seen, tensor = SeenTensors(), torch.ones(1)
    assert tensor not in seen
    assert not seen.add(tensor)
    assert seen.add(tensor)
    assert tensor in seen


def test_a_tensor_is_not_kept_alive() -> None:
    seen, tensor = SeenTensors(), torch.ones(1)
    seen.add(tensor)
    gone = weakref.ref(tensor)
    del tensor
    gc.collect()
    assert gone() is None


def test_the_dead_are_swept_out() -> None:
    seen = SeenTensors()
    for _ in range(5000):
        seen.add(torch.ones(1))
    assert len(seen._refs) <= 2048


def test_a_tensor_that_lives_on_in_a_graph_is_still_known() -> None:
    seen = SeenTensors()
    leaf = torch.ones(1, requires_grad=True)
    tensor = leaf.exp()
    seen.add(tensor)
    out = tensor * tensor
    del tensor
    gc.collect()
    saved = out.grad_fn._saved_self  # type: ignore[union-attr]
    assert saved in seen
