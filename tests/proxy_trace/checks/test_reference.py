"""The page on the checks is made from the checks, and says of each rule what a reader needs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bugs.pairs import read_codes, read_pairs
from proxy_trace.checks.all_checks import CHECKS, all_rules
from proxy_trace.checks.finding import NOTE
from proxy_trace.checks.kinds_of_bugs import KINDS_OF_BUGS
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


def test_every_kind_of_bug_that_there_is_a_pair_of_is_listed_with_its_reports() -> None:
    listed = {kind.code: kind for kind in KINDS_OF_BUGS if kind.code}
    pairs = read_pairs()
    assert set(listed) == set(read_codes())
    for pair in pairs:
        assert pair.report in listed[pair.code].sources, f"{pair.name}: add its report to the kind {pair.code}"


def test_every_kind_of_bug_has_a_source() -> None:
    assert not [kind for kind in KINDS_OF_BUGS if not kind.sources]
