"""The patterns of fixtures/patterns.jsonl written in other ways: each root still gets a proxy, and all trains the same.

Each pattern is tried in a few ways that a fixed seed draws; INSTRUMENT_VARIANTS=all, as `make variants` sets it, tries
every way, and a number so many of each pattern.
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Any

import pytest

from instrumentor.instrument import instrument_source
from instrumentor.resolve.project import Sources
from instrumentor.settings import Settings
from tests.instrumentor.program_variants import variants
from tests.instrumentor.test_patterns import RACING, ROWS, read_weights

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.instrumentor.conftest import Run

WANTED = os.environ.get("INSTRUMENT_VARIANTS", "3")
# These start processes or compile, which says no more of the analysis and takes long.
LONG = frozenset({"compile", "fsdp", "ddp"})


def drawn(row: dict[str, Any]) -> list[tuple[str, Callable[[], str]]]:
    found = list(variants(row["snippet"]))
    return found if WANTED == "all" else random.Random(row["id"]).sample(found, min(int(WANTED), len(found)))


CASES = [
    pytest.param(row, write, id=f"{row['id']} {how}")
    for row in ROWS
    if LONG.isdisjoint(row.get("tags", ()))
    for how, write in drawn(row)
]


@pytest.mark.parametrize(("row", "write"), CASES)
@pytest.mark.filterwarnings("default")
def test_each_root_keeps_its_proxy(
    row: dict[str, Any],
    write: Callable[[], str],
    run_script: Run,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import torch

    import proxy_wrapper.proxy as Proxy

    source = write()
    files = {**row.get("site_files", {}), **row.get("files", {})}
    try:
        plain = run_script(source.encode(), files, read_weights)
    except Exception as error:  # noqa: BLE001 - what a variant breaks says nothing
        pytest.skip(f"does not run, written like this: {error!r}")
    printed = capsys.readouterr().out
    sources = Sources({name: text.encode() for name, text in row.get("files", {}).items()}.get)
    result = instrument_source(source.encode(), Settings(), source_name="script.py", sources=sources)
    asked: list[Any] = []
    roots: list[Any] = []

    def note(model: Any, **_: Any) -> Any:
        asked.append(model)
        return model

    def finish(names: dict[str, Any]) -> list[dict[str, torch.Tensor]]:
        roots.extend(names["ALL_MODELS"])
        return read_weights(names)

    monkeypatch.setattr(Proxy, "Proxy", note)
    traced = run_script(result.instrumented, files, finish)
    below = {id(each) for model in asked if isinstance(model, torch.nn.Module) for each in model.modules()}
    assert [root for root in roots if id(root) not in below] == []
    if row["id"] not in RACING:
        assert capsys.readouterr().out == printed
        assert [list(state) for state in plain] == [list(state) for state in traced]
        assert all(
            torch.equal(one[name], other[name]) for one, other in zip(plain, traced, strict=True) for name in one
        )
