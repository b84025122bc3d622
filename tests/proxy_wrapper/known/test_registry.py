"""Names of modules, and what the registry finds."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from proxy_wrapper.known.module_tree import is_wrapper, named_modules
from tests.proxy_wrapper.programs import Branching, Plain


def test_names_are_those_of_named_modules_behind_the_root_s() -> None:
    model = nn.Sequential(Plain(), Branching())
    names = [found.name for found in named_modules(model, "net")]
    assert names == [f"net.{name}" if name else "net" for name, _ in model.named_modules()]


def test_a_shared_module_is_found_once() -> None:
    layer = nn.Linear(1, 1)
    assert [found.name for found in named_modules(nn.Sequential(layer, layer), "net")] == ["net", "net.0"]


def test_wrappers_do_not_show_in_names() -> None:
    found = named_modules(nn.DataParallel(Plain()), "net")
    assert [each.name for each in found[:3]] == ["DataParallel(net)", "net", "net.first"]


def test_a_module_of_the_program_s_own_called_module_is_no_wrapper() -> None:
    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = nn.Linear(1, 1)

    assert not is_wrapper(Holder())
    assert [each.name for each in named_modules(Holder(), "net")] == ["net", "net.module"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_scripted_module_with_one_child_is_no_wrapper() -> None:
    scripted = torch.jit.script(nn.Sequential(nn.Linear(2, 2)))
    assert [each.name for each in named_modules(scripted, "net")] == ["net", "net.0"]
