"""Writes the findings of a run as GitHub workflow annotations.

https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.finding import ERROR, NOTE, WARNING
from proxy_trace.checks.finding_text import message_of, place_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_trace.checks.finding import Finding
    from proxy_trace.summary.run_summary import Summary

_COMMANDS: Final = {ERROR: "error", WARNING: "warning", NOTE: "notice"}


def annotation_lines(summary: Summary) -> Iterator[str]:
    """A workflow command for each finding, at its place in the script."""
    return map(_annotation, summary.findings)


def _annotation(finding: Finding) -> str:
    properties = {"title": f"{finding.code}: {finding.name}"}
    place = place_of(finding)
    if place is not None:
        properties = {"file": place[0], "line": str(place[1]), **properties}
    written = ",".join(f"{key}={_escaped(value, ':,')}" for key, value in properties.items())
    return f"::{_COMMANDS[finding.severity]} {written}::{_escaped(message_of(finding))}"


def _escaped(text: str, also: str = "") -> str:
    """Text escaped for a workflow command: special characters as `%` and hexadecimal digits."""
    for character in f"%\r\n{also}":
        text = text.replace(character, f"%{ord(character):02X}")
    return text
