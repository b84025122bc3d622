"""Every operator, module and optimizer that PyTorch tests gives the same bits traced as untraced.

Run as part of all tests a seeded sample is tried; `make conformance` tries every case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.conformance.compare import compare

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conformance.cases import Case


@pytest.mark.filterwarnings("ignore")  # What torch warns of when results are compared is of no interest.
def test_a_traced_run_gives_the_same_bits(
    case: Case, tmp_path: Path, record_property: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    _check(case, tmp_path, record_property, capfd)


@pytest.mark.cuda
@pytest.mark.filterwarnings("ignore")
def test_a_traced_run_gives_the_same_bits_on_cuda(
    case: Case, tmp_path: Path, record_property: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    _check(case, tmp_path, record_property, capfd)


def _check(case: Case, folder: Path, record_property: Any, capfd: pytest.CaptureFixture[str]) -> None:
    if case.skip:
        pytest.skip(case.skip)
    findings = compare(case, folder)
    if not findings.samples:
        pytest.skip("PyTorch has no sample of it for this device")
    counts = {
        "kind": case.kind,
        "name": case.name,
        "samples": findings.samples,
        "raised": findings.raised,
        "nondeterministic": len(findings.nondeterministic),
        "differences": len(findings.differences),
        "unseen": len(findings.unseen),
        "without_torch_calls": findings.without_torch_calls,
    }
    record_property("conformance", counts)
    assert findings.differences == []
    assert findings.unseen == []
    assert "proxy_wrapper" not in capfd.readouterr().err
