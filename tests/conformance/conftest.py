"""Options for how much of PyTorch's test databases is tried, and the counts at the end."""

from __future__ import annotations

import random
import warnings
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pytest

    from tests.conformance.cases import Case

_SAMPLE: Final = {"operator": 10, "module": 4, "optimizer": 1}
"""How many cases of each kind are tried without `--conformance-full`."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("conformance", "PyTorch's own test databases, plain against traced")
    group.addoption("--conformance-full", action="store_true", help="try every case, not a sample")
    group.addoption("--conformance-seed", type=int, default=0, help="which sample to try (default: 0)")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" not in metafunc.fixturenames:
        return
    option = metafunc.config.getoption
    cases = _all_cases("cuda" if metafunc.definition.get_closest_marker("cuda") else "cpu")
    if not option("--conformance-full", default=False):
        cases = _sample(cases, option("--conformance-seed", default=0))
    metafunc.parametrize("case", cases, ids=lambda case: case.id)


@cache
def _all_cases(device: str) -> list[Case]:
    with warnings.catch_warnings():  # torch's own tests use what torch deprecates.
        warnings.simplefilter("ignore")
        from tests.conformance.modules import module_cases
        from tests.conformance.operators import operator_cases
        from tests.conformance.optimizers import optimizer_cases

        return [*module_cases(device), *optimizer_cases(device), *operator_cases(device)]


def _sample(cases: list[Case], seed: int) -> list[Case]:
    chooser = random.Random(seed)
    chosen = []
    for kind, count in _SAMPLE.items():
        of_kind = [case for case in cases if case.kind == kind]
        chosen += chooser.sample(of_kind, min(count, len(of_kind)))
    return chosen


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what was tried, and what came out."""
    reports = [
        (dict(report.user_properties)["conformance"], report)
        for outcome in ("passed", "failed")
        for report in terminalreporter.getreports(outcome)
        if "conformance" in dict(report.user_properties)
    ]
    if not reports:
        return
    write = terminalreporter.write_line
    terminalreporter.section("conformance: PyTorch's test databases, plain against INFO and DEBUG")
    for kind in ("module", "operator", "optimizer"):
        found = [values for values, _ in reports if values["kind"] == kind]
        total: Counter[str] = Counter()
        for values in found:
            total.update({key: value for key, value in values.items() if isinstance(value, int)})
        write(
            f"{kind + 's':<10} {len({values['name'] for values in found}):5} in {len(found):5} cases, "
            f"{total['samples']:6} samples at both levels: {total['differences']} differences, "
            f"{total['unseen']} unseen, {total['raised']} raise the same exception, "
            f"{total['nondeterministic']} nondeterministic untraced"
        )
    nondeterministic = sorted({values["name"] for values, _ in reports if values["nondeterministic"]})
    write(f"nondeterministic untraced, not compared: {', '.join(nondeterministic) or 'none'}")
    quiet = sorted({values["name"] for values, _ in reports if values["without_torch_calls"]})
    write(f"call nothing of torch that a function mode is told of: {', '.join(quiet) or 'none'}")
    for report in terminalreporter.getreports("skipped"):
        if "conformance" in report.nodeid:
            write(f"skipped {report.nodeid.rpartition('[')[2][:-1]}: {report.longrepr[2].removeprefix('Skipped: ')}")
