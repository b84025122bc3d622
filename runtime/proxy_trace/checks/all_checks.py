"""Every check, in the order in which they are told."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final

from proxy_trace.checks import (
    batch_norms,
    calls,
    clearing,
    clipping,
    end,
    files,
    good_run,
    gradients,
    inputs,
    layers,
    loading,
    loss_functions,
    losses,
    modes,
    optimizers,
    outputs,
    parameters,
    progress,
    ranks,
    rates,
    schedulers,
    steps,
    tracing,
    training,
    updates,
)
from proxy_trace.checks.check import NOT_CHECKED, Check, CheckResult, run_check
from proxy_trace.checks.choice import EVERYTHING
from proxy_trace.checks.finding import in_order
from proxy_trace.checks.folding import fold
from proxy_trace.checks.non_finite_values import NON_FINITE
from proxy_trace.errors import BadCheckError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy_trace.checks.choice import Choice
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.checks.rule import Rule

CHECKS: Final[tuple[Check, ...]] = tuple(
    module.CHECK
    for module in (
        end,
        good_run,
        outputs,
        losses,
        gradients,
        parameters,
        training,
        steps,
        clearing,
        clipping,
        optimizers,
        rates,
        schedulers,
        loss_functions,
        inputs,
        modes,
        batch_norms,
        progress,
        layers,
        loading,
        updates,
        calls,
        ranks,
        tracing,
        files,
    )
)
"""The checks that come with `proxy-trace`."""

_GROUP: Final = "proxy_trace.checks"


def all_checks() -> list[Check]:
    """The checks that come with `proxy-trace`, and those of other packages, by the name of their entry point.

    Raises:
        BadCheckError: if the check of a package cannot be loaded, is none, or has a name or a code that is taken.
    """
    checks = list(CHECKS)
    names = {check.name for check in checks}
    codes = {rule.code for check in checks for rule in check.rules}
    for point in sorted(entry_points(group=_GROUP), key=lambda point: (point.name, point.value)):
        try:
            check = point.load()
        except Exception as error:
            raise BadCheckError(point.name, point.value, f"it cannot be loaded: {error}") from error
        if not isinstance(check, Check):
            raise BadCheckError(point.name, point.value, "it is no proxy_trace.checks.check.Check")
        taken = sorted(({check.name} & names) | {rule.code for rule in check.rules if rule.code in codes})
        if taken:
            raise BadCheckError(point.name, point.value, f"{', '.join(taken)} is the name of another one")
        names.add(check.name)
        codes |= {rule.code for rule in check.rules}
        checks.append(check)
    return checks


def all_rules(checks: Sequence[Check] | None = None) -> dict[str, Rule]:
    """What the checks may find, by code; all checks by default."""
    checks = all_checks() if checks is None else checks
    return {rule.code: rule for check in checks for rule in check.rules}


def run_checks(
    evidence: Evidence, checks: Sequence[Check], choice: Choice = EVERYTHING
) -> tuple[list[Finding], list[CheckResult]]:
    """What checks find in a run, and what each of them says; those that have nothing to do with it are left out."""
    found: list[Finding] = []
    results = []
    for check in checks:
        try:
            findings, result = run_check(check, evidence, choice)
        except Exception as error:
            if check in CHECKS:
                raise
            words = f"it raised {type(error).__name__}"
            findings, result = [], CheckResult(check.name, NOT_CHECKED, check.meaning, [words])
        found += findings
        if result is not None:
            results.append(result)
    rules = all_rules(checks)
    return in_order(fold(found, rules), list(rules), {NON_FINITE.code}), results
