"""The section that tells where two runs part holds whatever traces hold as text."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from proxy_trace.comparison.records.compare_records import RecordComparison
from proxy_trace.comparison.records.distances import KINDS, Distance, Series
from proxy_trace.comparison.records.parting import Parting, SeenRecord
from proxy_trace.comparison.runs import ComparedRun
from proxy_trace.reading.places import Place
from proxy_trace.report.parting_section import parting_section

SIZES: tuple[float | str, ...] = (1e-3, 0.0, "inf", 1.0)
HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e\" onload='x"


class Page(HTMLParser):
    """What a browser would make of a page: tags, attributes, and the text in between."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def comparison(name: str = "model.fc", *, steps: int = 5, modules: int = 3) -> RecordComparison:
    run = ComparedRun("p", "20261121T080911-3f2a9c", name, [name], "3.11", name, [0], steps, "exit")
    record = SeenRecord("call_function", name, name, Place(name, 3, name, [name]), name, [name])
    series = [
        Series(0, f"{name}{module}", kind, 0, [Distance(step, step, size, 2) for step in range(-1, steps)])
        for module in range(modules)
        for kind, size in zip(KINDS, SIZES, strict=True)
    ]
    partings = [
        Parting("configuration", 0, 0, "", "", name, name, [name, name], [record, None]),
        Parting("value", 0, 1, name, name, name, name, [name, name], [record, record]),
        Parting("more", 0, 2, name, name, name, "", [], [None, record], 1),
    ]
    return RecordComparison([run, run], [0], 9, partings, {"value": 1}, series, 2, [(name, name)], [[name], []], [name])


def test_the_section_loads_nothing_and_runs_nothing() -> None:
    page = Page(parting_section(comparison()))
    assert not {"script", "link", "img", "iframe", "a"} & set(page.tags)
    names = {name for name, _ in page.attributes}
    assert not {"href", "src", "style"} & names
    assert not any(name.startswith("on") for name in names)


def test_what_a_trace_holds_is_text() -> None:
    plain, hostile = Page(parting_section(comparison())), Page(parting_section(comparison(HOSTILE)))
    assert hostile.tags == plain.tags
    assert [name for name, _ in hostile.attributes] == [name for name, _ in plain.attributes]
    assert "<script>alert(1)</script>\\x1b[31m\\u202e" in hostile.text
    assert "\x1b" not in hostile.text


def test_it_says_where_the_runs_part_and_how_far_they_go_apart() -> None:
    page = Page(parting_section(comparison()))
    assert "They part at step 1, in model.fc: another value of call_function model.fc" in page.text
    assert page.tags.count("svg") == 2
    assert page.tags.count("polyline") == len(KINDS)
    assert page.tags.count("rect") == len(KINDS) + 3 * len(KINDS) * 6
    assert "1.0e-03" in page.text


def test_runs_that_agree_have_a_section_without_plots() -> None:
    found = comparison()
    found.partings, found.series = [], []
    page = Page(parting_section(found))
    assert "The runs agree in every record compared." in page.text
    assert "svg" not in page.tags


@pytest.mark.parametrize("steps", [0, 1, 64])
def test_any_number_of_steps_can_be_drawn(steps: int) -> None:
    assert "nan" not in parting_section(comparison(steps=steps)).lower()


def test_many_modules_are_drawn_as_far_as_there_is_room() -> None:
    assert "and 340 more" in Page(parting_section(comparison(modules=100))).text
