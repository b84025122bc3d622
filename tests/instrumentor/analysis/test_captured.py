"""What something besides the value returned keeps, found when all else is."""

from __future__ import annotations

from instrumentor.analysis.captured import Captured
from instrumentor.analysis.contents import ANY_KEY
from instrumentor.analysis.facts import Facts
from instrumentor.analysis.values import Box, Made, Parameter, Part, SiteKey, value

NET, LIST = (SiteKey("", line, 0, line, 9) for line in (1, 2))


def test_what_is_in_a_container_is_kept_with_it_whenever_it_was_put_there() -> None:
    facts, captured = Facts(), Captured()
    captured.keep(value(Box(LIST)))
    facts.contents.put(LIST, ANY_KEY, value(Made(NET)))
    assert captured.objects(facts.contents.reach, facts.passed.get) == {Made(NET)}


def test_what_is_passed_to_a_function_that_keeps_it_is_kept() -> None:
    facts, captured = Facts(), Captured()
    captured.keep(value(Parameter("inner", "x")))
    facts.grow(facts.passed, ("inner", "x"), value(Parameter("outer", "model")))
    facts.grow(facts.passed, ("outer", "model"), value(Made(NET)))
    assert Made(NET) in captured.objects(facts.contents.reach, facts.passed.get)


def test_code_that_cannot_be_seen_gets_to_the_whole_of_which_it_is_handed_a_part() -> None:
    facts, kept, handed_over = Facts(), Captured(), Captured()
    part = value(Part(Made(NET)))
    kept.keep(part)
    handed_over.hand_over(part)
    assert kept.objects(facts.contents.reach, facts.passed.get) == part
    assert handed_over.objects(facts.contents.reach, facts.passed.get) == {Made(NET)}
