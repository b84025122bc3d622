"""Flow steps of models of transformers, of whose code a script has none: results and compiled graphs stay the same."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
import torch
from torch._dynamo import explain

import proxy_wrapper.proxy as Proxy
from tests.oracles.models import MODELS
from tests.proxy_views.same_results import assert_same, outcome_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn

    from tests.oracles.models import Given

pytestmark = pytest.mark.filterwarnings("ignore")  # What transformers warns of is its own.


class Made(NamedTuple):
    """A model, another one that is the same, and what they are called with."""

    model: nn.Module
    plain: nn.Module
    given: Given


@pytest.fixture(params=["gpt2", "llama", "bert in training", "vit of transformers"])
def made(request: pytest.FixtureRequest) -> Iterator[Made]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    case = MODELS[request.param]
    model = case.make().train(case.training)
    yield Made(model, copy.deepcopy(model), case.inputs(2))
    torch.compiler.reset()


def test_the_library_s_steps_are_told_and_all_else_is_the_same(made: Made) -> None:
    model, plain, given = made
    wanted = outcome_of(plain, plain, given.args, given.kwargs)
    with Proxy.trace(model, flow=True) as trace:
        found = outcome_of(model, model, given.args, given.kwargs)
    assert_same(found, wanted)
    assert_same(outcome_of(model, model, given.args, given.kwargs), outcome_of(plain, plain, given.args, given.kwargs))
    steps = trace.flow_steps()
    of_library = [each for each in steps if "/transformers/" in each.file.replace("\\", "/")]
    assert {"for", "if"} <= {each.construct for each in of_library}
    assert any(each.iterations == 2 for each in of_library)  # The layers.
    for each in of_library:
        if each.construct in ("if", "elif", "while", "for", "assert"):
            before, line = Path(each.file).read_text(encoding="utf-8").splitlines()[each.line - 2 : each.line]
            assert line.split()[0] == each.construct or before.endswith("(")


def test_it_is_compiled_with_as_many_breaks(made: Made, tmp_path: Path) -> None:
    model, plain, given = made
    wanted = explain(plain)(*given.args, **given.kwargs)
    torch.compiler.reset()
    Proxy.Proxy(model, recurse=True, logdir=tmp_path, flow=True)
    try:
        found = explain(model)(*given.args, **given.kwargs)
    finally:
        Proxy.unproxy(model)
    assert (found.graph_break_count, found.graph_count) == (wanted.graph_break_count, wanted.graph_count)
    assert found.op_count == wanted.op_count
