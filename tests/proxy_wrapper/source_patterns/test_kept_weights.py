"""Comparisons that keep the worst weights are found by the source."""

from __future__ import annotations

import pytest

from proxy_wrapper.source_patterns.kept_weights import worst_kept
from tests.proxy_wrapper.source_patterns.found import found

BRANCH = """
for epoch in range(10):
    if {0} {1} {2}:
        {3} = {4}
        {5}
"""
SAVE = "torch.save(model.state_dict(), path)"


@pytest.mark.parametrize(
    ("new", "test", "best", "keep"),
    [
        ("val_loss", ">", "best_loss", SAVE),
        ("val_loss", ">=", "self.best_val_loss", "self.weights = copy.deepcopy(model)"),
        ("loss", ">", "best", SAVE),
        ("loss", ">", "min_loss", "save_checkpoint(model, path)"),
        ("val_acc", "<", "best_acc", "best = {k: v.clone() for k, v in model.state_dict().items()}"),
        ("self.accuracy", "<=", "self.best", SAVE),
    ],
)
def test_a_worse_value_that_becomes_the_best(new: str, test: str, best: str, keep: str) -> None:
    assert found(BRANCH.format(new, test, best, best, new, keep), worst_kept) == [(3, (new, best))]
    turned = {">": "<", "<": ">", ">=": "<=", "<=": ">="}[test]
    assert found(BRANCH.format(best, turned, new, best, new, keep), worst_kept) == [(3, (new, best))]
    assert found(BRANCH.format(new, turned, best, best, new, keep), worst_kept) == []


@pytest.mark.parametrize(
    ("new", "test", "best", "target", "keep"),
    [
        pytest.param("val_loss", ">", "best_loss", "patience", SAVE, id="the best one stays"),
        pytest.param("loss", ">", "best_loss", "best_loss", "delta = x.grad.sign()", id="no weights are kept"),
        pytest.param("loss", ">", "best_loss", "best_loss", "best = copy.deepcopy(delta)", id="another copy"),
        pytest.param("loss", ">", "max_loss", "max_loss", SAVE, id="a maximum"),
        pytest.param("loss", ">", "worst_loss", "worst_loss", SAVE, id="the worst"),
        pytest.param("score", ">", "best_score", "best_score", SAVE, id="a name that does not tell"),
        pytest.param("acc", ">", "best_loss", "best_loss", SAVE, id="names that differ"),
        pytest.param("adv_loss", ">", "best_loss", "best_loss", SAVE, id="the loss of an attack"),
        pytest.param("losses[0]", ">", "best_loss", "best_loss", SAVE, id="no variable"),
        pytest.param("loss", "!=", "best_loss", "best_loss", SAVE, id="another comparison"),
    ],
)
def test_other_comparisons(new: str, test: str, best: str, target: str, keep: str) -> None:
    assert found(BRANCH.format(new, test, best, target, new, keep), worst_kept) == []


def test_a_loss_that_has_been_negated() -> None:
    branch = BRANCH.format("val_loss", ">", "best_loss", "best_loss", "val_loss", SAVE)
    assert found(f"val_loss = evaluate(model)\n{branch}", worst_kept) != []
    assert found(f"val_loss = -evaluate(model)\n{branch}", worst_kept) == []


@pytest.mark.parametrize(
    ("line", "is_told"),
    [
        ("best_loss = max(val_loss, best_loss)", True),
        ("best_acc = min(best_acc, acc)", True),
        ("best_loss = min(val_loss, best_loss)", False),
        ("best_acc1 = max(acc1, best_acc1)", False),
        ("max_loss = max(val_loss, max_loss)", False),
        ("best_loss = max(first_loss, second_loss)", False),
    ],
)
def test_the_extreme_that_comes_with_is_best(line: str, is_told: bool) -> None:
    text = f"is_best = compare()\n{line}\nsave_checkpoint(model, is_best)\n"
    assert bool(found(text, worst_kept)) == is_told
    assert found(text.replace("is_best", "flag"), worst_kept) == []
