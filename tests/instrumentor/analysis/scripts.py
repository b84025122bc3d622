"""Scripts to analyse in more than one way: the patterns of public repositories, and random programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from instrumentor.resolve.project import Sources
from tests.instrumentor.program_grammar import write_program

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

_PATTERNS = Path(__file__).parents[3] / "fixtures" / "patterns.jsonl"


def scripts(seeds: range) -> list[ParameterSet]:
    """All patterns, and a program for each seed, as (source, sources)."""
    rows = [json.loads(line) for line in _PATTERNS.read_text(encoding="utf-8").splitlines()]
    files = [{name: text.encode() for name, text in row.get("files", {}).items()} for row in rows]
    return [
        *(
            pytest.param(row["snippet"].encode(), Sources(each.get), id=row["id"])
            for row, each in zip(rows, files, strict=True)
        ),
        *(pytest.param(write_program(seed).encode(), Sources(), id=f"program {seed}") for seed in seeds),
    ]
