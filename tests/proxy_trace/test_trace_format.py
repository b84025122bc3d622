"""The page that describes the format names every kind of record and every field."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from proxy_trace.export.columns import all_columns
from proxy_trace.reading.trace import KINDS
from proxy_wrapper import events

PAGE = (Path(__file__).parents[2] / "docs" / "trace_format.md").read_text(encoding="utf-8")
COMMON = set(events.Happening.__struct_fields__)


def described(kind: str) -> str:
    """What the page says of a kind: its row in the table of what happens, or the section with it in the heading."""
    row = re.search(rf"^\| `{kind}` \|.*$", PAGE.partition("| kind | fields |")[2], re.MULTILINE)
    if row is not None:
        return row[0]
    section = re.search(rf"^### [^\n]*\b{kind}\b[^\n]*$(.*?)^##", PAGE, re.MULTILINE | re.DOTALL)
    assert section is not None, f"docs/trace_format.md does not speak of {kind}"
    return section[1]


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_a_kind_is_described(kind: str) -> None:
    event_class = KINDS[kind]
    fields = set(event_class.__struct_fields__)  # type: ignore[attr-defined]
    if issubclass(event_class, events.Happening):
        fields -= COMMON
    text = described("call_function" if kind == "call_method" else kind)
    assert {field for field in fields if f"`{field}`" not in text} == set()


def test_fields_that_all_happenings_have_and_statistics_are_described() -> None:
    names = {*COMMON, *events.Statistics.__struct_fields__, *(column.name for column in all_columns())}
    assert {name for name in names if f"`{name}`" not in PAGE} == set()


def test_the_number_of_the_format_is_the_one_described() -> None:
    assert f"format **{events.FORMAT}**" in PAGE
