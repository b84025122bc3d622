"""The ways in which real training code makes and binds models: fixtures/patterns.jsonl."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from instrumentor.instrument import instrument_source
from instrumentor.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from instrumentor.instrument import Result
    from tests.instrumentor.conftest import Run

PATTERNS = Path(__file__).parents[2] / "fixtures" / "patterns.jsonl"
ROWS = [json.loads(line) for line in PATTERNS.read_text(encoding="utf-8").splitlines()]
# What is told about these two beside the wraps is not all that the table asks for: p024 would need the class that a
# dict of strings names, and p048 the elements of a container that nothing binds.
WRAPS_ONLY = {"p024", "p048"}


def by_name(rows: Iterable[dict[str, Any]]) -> list[Any]:
    return [pytest.param(row, id=f"{row['id']} {row['pattern']}") for row in rows]


def instrument(row: dict[str, Any]) -> Result:
    files = {name: text.encode() for name, text in row.get("files", {}).items()}
    return instrument_source(row["snippet"].encode(), Settings(), source_name="script.py", read_sibling=files.get)


@pytest.mark.parametrize("row", by_name(ROWS))
def test_proxies_go_where_the_table_puts_them(row: dict[str, Any]) -> None:
    decisions = instrument(row).decisions
    wraps = Counter((each.line, each.target) for each in decisions if each.verdict == "wrap")
    allowed = [row["expected"]["wraps"], *row.get("also_ok", [])]
    assert wraps in [Counter((wrap["line"], wrap["target"]) for wrap in wanted) for wanted in allowed]


@pytest.mark.parametrize("row", by_name(row for row in ROWS if row["id"] not in WRAPS_ONLY))
def test_the_rest_is_told_with_its_reason(row: dict[str, Any]) -> None:
    decisions = instrument(row).decisions
    merged = {(each.line, each.target, each.relation) for each in decisions if each.verdict == "merged"}
    assert {(each["line"], each["target"], each["rel"]) for each in row["expected"]["merged"]} <= merged
    left = {(each.line, each.target, each.reason_code) for each in decisions if each.verdict == "not wrapped"}
    wanted = [each for each in row["expected"]["not_wrapped"] if "file" not in each]
    assert {(each["line"], each["target"], each["reason"]) for each in wanted} <= left


@pytest.mark.parametrize("row", by_name(ROWS))
@pytest.mark.filterwarnings("default")
def test_a_pattern_trains_the_same(row: dict[str, Any], run_script: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    import proxy_wrapper.proxy as Proxy

    files = {**row.get("site_files", {}), **row.get("files", {})}
    plain = run_script(row["snippet"].encode(), files)
    proxied: list[Any] = []

    def attach(model: Any, **settings: Any) -> Any:
        proxied.append(model)
        return original(model, **settings)

    original = Proxy.Proxy
    monkeypatch.setattr(Proxy, "Proxy", attach)
    traced = run_script(instrument(row).instrumented, files)
    before = [model.state_dict() for model in plain["ALL_MODELS"]]
    after = [model.state_dict() for model in traced["ALL_MODELS"]]
    assert [list(state) for state in before] == [list(state) for state in after]
    for one, other in zip(before, after, strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one)
    modules = [model for model in proxied if isinstance(model, torch.nn.Module)]
    below = {id(each) for model in modules for each in model.modules()}
    assert [model for model in traced["ALL_MODELS"] if id(model) not in below] == []
    wanted = {wrap["line"]: wrap["n"] for wrap in row["expected"]["wraps"]}
    if not row.get("also_ok"):
        assert len(modules) == sum(wrap["n"] for wrap in row["expected"]["wraps"]), wanted
