"""The ways in which real training code makes and binds models: fixtures/patterns.jsonl."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from instrumentor.instrument import instrument_source
from instrumentor.resolve.project import Sources
from instrumentor.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    import torch

    from instrumentor.instrument import Result
    from tests.instrumentor.conftest import Run

PATTERNS = Path(__file__).parents[2] / "fixtures" / "patterns.jsonl"
ROWS = [json.loads(line) for line in PATTERNS.read_text(encoding="utf-8").splitlines()]
# Its threads update one model without a lock: two runs differ, traced or not.
RACING = {"p101"}


def by_name(rows: Iterable[dict[str, Any]]) -> list[Any]:
    return [pytest.param(row, id=f"{row['id']} {row['pattern']}") for row in rows]


def instrument(row: dict[str, Any]) -> Result:
    files = {name: text.encode() for name, text in row.get("files", {}).items()}
    return instrument_source(row["snippet"].encode(), Settings(), source_name="script.py", sources=Sources(files.get))


@pytest.mark.parametrize("row", by_name(ROWS))
def test_proxies_go_where_the_table_puts_them(row: dict[str, Any]) -> None:
    decisions = instrument(row).decisions
    wraps = Counter((each.line, each.target) for each in decisions if each.verdict == "wrap")
    allowed = [row["expected"]["wraps"], *row.get("also_ok", [])]
    assert wraps in [Counter((wrap["line"], wrap["target"]) for wrap in wanted) for wanted in allowed]


@pytest.mark.parametrize("row", by_name(ROWS))
def test_the_rest_is_told_with_its_reason(row: dict[str, Any]) -> None:
    decisions = instrument(row).decisions
    merged = {(each.line, each.target, each.relation) for each in decisions if each.verdict == "merged"}
    assert {(each["line"], each["target"], each["rel"]) for each in row["expected"]["merged"]} <= merged
    left = {(each.line, each.target, each.reason_code) for each in decisions if each.verdict == "not wrapped"}
    wanted = [each for each in row["expected"]["not_wrapped"] if "file" not in each]
    assert {(each["line"], each["target"], each["reason"]) for each in wanted} <= left


@pytest.mark.sample(60)
@pytest.mark.parametrize("row", by_name(ROWS))
@pytest.mark.filterwarnings("default")
def test_a_pattern_trains_the_same(
    row: dict[str, Any], run_script: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    import proxy_wrapper.proxy as Proxy

    files = {**row.get("site_files", {}), **row.get("files", {})}
    plain = run_script(row["snippet"].encode(), files, read_weights)
    printed = capsys.readouterr().out
    proxied: list[Any] = []

    def attach(model: Any, **settings: Any) -> Any:
        proxied.append(model)
        return original(model, **settings)

    original = Proxy.Proxy
    monkeypatch.setattr(Proxy, "Proxy", attach)
    roots: list[Any] = []

    def finish(names: dict[str, Any]) -> list[dict[str, torch.Tensor]]:
        roots.extend(names["ALL_MODELS"])
        return read_weights(names)

    traced = run_script(instrument(row).instrumented, files, finish)
    assert [list(state) for state in plain] == [list(state) for state in traced]
    if row["id"] not in RACING:
        assert capsys.readouterr().out == printed
        assert all(
            torch.equal(one[name], other[name]) for one, other in zip(plain, traced, strict=True) for name in one
        )
    modules = [model for model in proxied if isinstance(model, torch.nn.Module)]
    below = {id(each) for model in modules for each in model.modules()}
    assert [root for root in roots if id(root) not in below] == []
    if not row.get("also_ok"):
        assert len(modules) == sum(wrap["n"] for wrap in row["expected"]["wraps"])


def read_weights(names: dict[str, Any]) -> list[dict[str, torch.Tensor]]:
    """The state of all models of a script, shards as the tensors they are here."""
    from torch.distributed.tensor import DTensor

    states = [model.state_dict() for model in names["ALL_MODELS"]]
    return [
        {name: (held.to_local() if isinstance(held, DTensor) else held).clone() for name, held in state.items()}
        for state in states
    ]
