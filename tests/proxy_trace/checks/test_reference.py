"""The page on the checks is made from the checks, and says of each rule what a reader needs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from proxy_trace.checks.all_checks import CHECKS, all_rules
from proxy_trace.checks.finding import NOTE
from proxy_trace.checks.reference import reference
from proxy_trace.checks.rule import SEVERITIES, Rule

PAGE = Path(__file__).parents[3] / "docs" / "checks.md"
RULES = list(all_rules(CHECKS).values())


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), "run `make checks`"


def test_every_rule_has_one_section() -> None:
    text = reference()
    for rule in RULES:
        assert text.count(f"\n### {rule.code}\n") == 1


@pytest.mark.parametrize("rule", RULES, ids=[rule.code for rule in RULES])
def test_a_rule_says_what_is_wrong_and_what_to_do(rule: Rule) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.code)
    assert rule.severity in SEVERITIES
    assert rule.title[0].isupper()
    assert rule.meaning.endswith(".")
    assert rule.remedy.endswith(".") or rule.severity == NOTE
    assert not rule.more or "{run}" in rule.more
