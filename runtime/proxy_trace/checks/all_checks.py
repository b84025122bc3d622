"""All checks, in the order of their reports."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final

from proxy_trace.checks import (
    activations,
    adapters,
    arguments,
    averages,
    batch_dimension,
    batch_norms,
    calls,
    class_weights,
    clearing,
    clipping,
    data_order,
    directions,
    draws,
    dropouts,
    end,
    files,
    formulas,
    freezing,
    good_run,
    gradients,
    initial_weights,
    inputs,
    labels,
    layers,
    loading,
    loops,
    loss_functions,
    loss_signs,
    losses,
    metrics,
    modes,
    optimizers,
    outputs,
    overwritten_gradients,
    parameters,
    penalties,
    positions,
    preparation,
    progress,
    ranks,
    rates,
    recurrent_states,
    registration,
    replicas,
    results,
    scalers,
    schedulers,
    selection,
    steps,
    targets,
    tied_weights,
    tracing,
    training,
    unread_schedulers,
    updates,
    views,
    weight_decay,
    wrappers,
)
from proxy_trace.checks.check import Check, CheckResult, Sight, result_of
from proxy_trace.checks.choice import EVERYTHING
from proxy_trace.checks.finding import in_order
from proxy_trace.checks.folding import fold
from proxy_trace.checks.non_finite_folding import fold_non_finite
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
        overwritten_gradients,
        clipping,
        scalers,
        optimizers,
        freezing,
        adapters,
        rates,
        weight_decay,
        schedulers,
        unread_schedulers,
        loss_functions,
        targets,
        formulas,
        class_weights,
        arguments,
        labels,
        loss_signs,
        inputs,
        data_order,
        preparation,
        recurrent_states,
        directions,
        metrics,
        loops,
        selection,
        modes,
        dropouts,
        draws,
        batch_norms,
        penalties,
        progress,
        initial_weights,
        layers,
        registration,
        activations,
        batch_dimension,
        positions,
        views,
        results,
        tied_weights,
        loading,
        averages,
        updates,
        calls,
        wrappers,
        ranks,
        replicas,
        tracing,
        files,
    )
)
"""The checks that come with `proxy-trace`."""

_GROUP: Final = "proxy_trace.checks"


def all_checks() -> list[Check]:
    """The checks that come with `proxy-trace`, followed by those of other packages, sorted by entry point.

    Raises:
        BadCheckError: if a package's check cannot be loaded, is not a check, or reuses a name or code.
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
            raise BadCheckError(point.name, point.value, "it is not a proxy_trace.checks.check.Check")
        taken = sorted(({check.name} & names) | {rule.code for rule in check.rules if rule.code in codes})
        if taken:
            raise BadCheckError(point.name, point.value, f"{', '.join(taken)} is already taken by another check")
        names.add(check.name)
        codes |= {rule.code for rule in check.rules}
        checks.append(check)
    return checks


def all_rules(checks: Sequence[Check] | None = None) -> dict[str, Rule]:
    """The rules of the checks, by code; of all checks by default."""
    checks = all_checks() if checks is None else checks
    return {rule.code: rule for check in checks for rule in check.rules}


def run_checks(
    evidence: Evidence, checks: Sequence[Check], choice: Choice = EVERYTHING
) -> tuple[list[Finding], list[CheckResult]]:
    """The findings of a run, and the result of each check; checks that do not apply are left out."""
    sights: list[tuple[Check, Sight]] = []
    for check in checks:
        try:
            sight = check.look(evidence)
        except Exception as error:
            if check in CHECKS:
                raise
            sight = Sight(unseen=[f"it raised {type(error).__name__}"], has_looked=False)
        if sight is not None:
            sights.append((check, sight))
    rules = all_rules(checks)
    chosen = choice.with_known()
    found = [finding for _, sight in sights for finding in sight.findings if chosen.has(finding)]
    values = fold_non_finite(found)
    folded = fold(values.remaining, rules)
    # Known findings are removed only now, together with their consequences.
    reported = in_order(folded.remaining, list(rules), {NON_FINITE.code})
    reported = [finding for finding in reported if choice.has(finding)]
    are_reported = {(finding.code, finding.name) for finding in reported}
    results = []
    for check, sight in sights:
        causes = [
            (finding, folded.cause_of(values.cause_of(finding))) for finding in sight.findings if chosen.has(finding)
        ]
        of_check = [finding for finding, cause in causes if (cause.code, cause.name) in are_reported]
        results.append(result_of(check, sight, of_check))
    return reported, results
