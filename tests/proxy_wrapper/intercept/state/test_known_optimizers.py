"""Which tensors the program's optimizers have, as of the moment of the question."""

from __future__ import annotations

import torch
from torch import nn

from proxy_wrapper.intercept.state.known_optimizers import KnownOptimizers


def parameters(count: int) -> list[nn.Parameter]:
    return [nn.Parameter(torch.zeros(1)) for _ in range(count)]


def identities(tensors: list[nn.Parameter]) -> set[int]:
    return set(map(id, tensors))


def test_of_those_asked_for_it_gives_what_optimizers_have() -> None:
    first, second, other = parameters(3)
    stepped, found = torch.optim.SGD([first], lr=0.1), torch.optim.SGD([second], lr=0.1)
    known = KnownOptimizers()
    known.add(stepped)
    assert known.taken(identities([first, second, other])) == identities([first])
    known.find_all()
    assert known.taken(identities([first, second, other])) == identities([first, second])
    assert stepped in known
    assert found not in known


def test_what_an_optimizer_is_given_later_counts_whichever_way_it_is_given() -> None:
    first, second, third, fourth = parameters(4)
    optimizer = torch.optim.SGD([first], lr=0.1)
    known = KnownOptimizers()
    known.add(optimizer)
    asked = identities([first, second, third, fourth])
    assert known.taken(asked) == identities([first])
    optimizer.add_param_group({"params": [second]})
    assert known.taken(asked) == identities([first, second])
    optimizer.param_groups[1]["params"][0] = third
    assert known.taken(asked) == identities([first, third])
    optimizer.param_groups[0] = {**optimizer.param_groups[0], "params": [fourth]}
    assert known.taken(asked) == identities([fourth, third])


def test_an_optimizer_that_is_gone_has_nothing() -> None:
    (parameter,) = parameters(1)
    known = KnownOptimizers()
    known.add(torch.optim.SGD([parameter], lr=0.1))
    assert known.taken(identities([parameter])) == set()


def test_an_optimizer_that_another_thread_is_making_has_nothing_yet() -> None:
    (parameter,) = parameters(1)
    unfinished = torch.optim.SGD.__new__(torch.optim.SGD)
    known = KnownOptimizers()
    known.find_all()
    assert known.taken(identities([parameter])) == set()
    unfinished.__init__([parameter], lr=0.1)  # type: ignore[misc]
    assert known.taken(identities([parameter])) == identities([parameter])
