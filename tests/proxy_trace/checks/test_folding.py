"""What follows from another finding is told as its evidence, where a rule says so and the names are the same."""

from __future__ import annotations

import pytest

from proxy_trace.checks.finding import ERROR, NOTE, WARNING
from proxy_trace.checks.folding import fold
from proxy_trace.checks.rule import Rule

CAUSE = Rule("cause", WARNING, "Causes", "", explains=("middle", "effect"))
MIDDLE = Rule("middle", ERROR, "Between", "", explains=("effect",))
EFFECT = Rule("effect", ERROR, "Effects", "")
OTHER = Rule("other", NOTE, "Others", "")
RULES = {rule.code: rule for rule in (CAUSE, MIDDLE, EFFECT, OTHER)}


def test_an_effect_is_evidence_of_its_cause_which_becomes_as_grave() -> None:
    cause, effect, other = (
        CAUSE.finding("SGD", "", [0]),
        EFFECT.finding("model.w", "", [0]),
        OTHER.finding("x", "", [0]),
    )
    assert fold([effect, cause, other], RULES).remaining == [cause, other]
    assert (cause.severity, cause.evidence) == (ERROR, ["so effect: model.w"])


def test_what_lies_between_goes_with_its_effect_to_the_first_cause() -> None:
    cause, middle, effect = CAUSE.finding("SGD", "", [0]), MIDDLE.finding("m", "", [0]), EFFECT.finding("w", "", [0])
    assert fold([middle, effect, cause], RULES).remaining == [cause]
    assert cause.evidence == ["so middle: m", "so effect: w"]


@pytest.mark.parametrize(
    ("concerns", "name", "is_folded"),
    [
        (["model"], "model.fc.*", True),
        (["model.fc.*"], "model.fc.weight", True),
        (["model.fc"], "model.fc", True),
        (["model.fc"], "model.fc2.weight", False),
        (["model.fc"], "model.*", False),
        (["model", "other"], "other.w", True),
    ],
)
def test_a_cause_explains_what_it_concerns(concerns: list[str], name: str, is_folded: bool) -> None:
    cause, effect = CAUSE.finding("SGD", "", [0], concerns=concerns), EFFECT.finding(name, "", [0])
    assert fold([cause, effect], RULES).remaining == ([cause] if is_folded else [cause, effect])


def test_what_was_found_in_other_ranks_has_another_cause() -> None:
    cause, effect = CAUSE.finding("SGD", "", [0]), EFFECT.finding("w", "", [0, 1])
    assert fold([cause, effect], RULES).remaining == [cause, effect]
