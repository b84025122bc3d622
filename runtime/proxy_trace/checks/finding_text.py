"""A finding in one line of text, and the file and line of its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy_trace.checks.finding import Finding


def message_of(finding: Finding) -> str:
    """What was found, the evidence, and the remedy."""
    step = f", at step {finding.step:,}" if finding.step is not None else ""
    found = f"{finding.name}: {finding.reason}{step}"
    return ". ".join(part.rstrip(".") for part in (found, *finding.evidence, finding.remedy) if part) + "."


def place_of(finding: Finding) -> tuple[str, int] | None:
    """The file and the line of a finding; None if it has no place."""
    file, _, line = finding.place.rpartition(":")
    return (file, int(line)) if file and line.isdigit() else None
