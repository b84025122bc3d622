"""Random statements whose classes and functions are in another file: what is not analysed would not change."""

from __future__ import annotations

import ast
import os
import re
from typing import TYPE_CHECKING

from instrumentor.instrument import Result, instrument_source
from instrumentor.resolve.outline_cache import OutlineCache
from instrumentor.resolve.project import Sources
from instrumentor.resolve.unit_cache import UnitCache
from instrumentor.settings import Settings
from tests.instrumentor.program_grammar import HEAD, write_program

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAMS = int(os.environ.get("INSTRUMENT_SCREENED_PROGRAMS", "6"))
# Unlike in the programs that run, `use` shows its arguments to be modules.
PARTS = HEAD.rpartition("top = Net()")[0].replace(
    "def use(*anything):\n    pass", "def use(*anything):\n    for each in anything:\n        each.train()"
)
NAMES = sorted(
    each.name
    for each in ast.parse(PARTS).body
    if isinstance(each, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
)
START = f"""\
import contextlib, copy, functools, random
import unseen
from torch import nn
from parts import {", ".join(NAMES)}
"""


def scripts(seed: int) -> Iterator[str]:
    """The statements of a random program, each in a script of its own, in a function, and with unknown makers."""
    text = write_program(seed)[len(HEAD) :]
    lines = text.splitlines(keepends=True)
    for statement in ast.parse(text).body:
        start = min([statement.lineno, *(each.lineno for each in getattr(statement, "decorator_list", ()))])
        alone = "".join(lines[start - 1 : statement.end_lineno])
        inside = "def task(top, m1, m2, m3, m4, m5, m6, xs, e, h, t):\n" + re.sub(
            "^", "    ", alone, flags=re.MULTILINE
        )
        for each in (alone, inside):
            yield START + each
            yield START + re.sub(r"\b(Net|Other|make|build)\(", "unseen.made(", each)


def look(source: str, *, is_brief: bool) -> Result:
    def read(path: str) -> bytes | None:
        return PARTS.encode() if path == "parts.py" else None

    outlines = OutlineCache(UnitCache(), None) if is_brief else None
    return instrument_source(source.encode(), Settings(), source_name="a.py", sources=Sources(read), outlines=outlines)


def test_statements_with_parts_of_another_file_get_the_same_lines() -> None:
    sources = [source for seed in range(PROGRAMS) for source in scripts(seed)]
    looks = [(look(source, is_brief=True), look(source, is_brief=False)) for source in sources]
    for source, (brief, full) in zip(sources, looks, strict=True):
        assert brief.instrumented == full.instrumented, source
    assert any(full.decisions and not brief.decisions for brief, full in looks), "none was screened out"
    assert any(full.changed for _, full in looks)
