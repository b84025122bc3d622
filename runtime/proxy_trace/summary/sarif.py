"""Writes the findings of a run for code scanning: SARIF 2.1.0.

The standard: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from proxy_trace.checks.finding_text import message_of, place_of
from proxy_wrapper import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy_trace.checks.finding import Finding
    from proxy_trace.checks.rule import Rule
    from proxy_trace.summary.run_summary import Summary

_SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def sarif_log(summary: Summary, rules: Mapping[str, Rule]) -> dict[str, Any]:
    """A SARIF log with a result per finding. Findings without a place are attributed to the run."""
    codes = list(dict.fromkeys(finding.code for finding in summary.findings))
    driver = {
        "name": "proxy-trace",
        "semanticVersion": __version__,
        "rules": [_rule(rules[code]) for code in codes],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "automationDetails": {"id": f"proxy-trace/{quote(summary.run)}"},
        "results": [_result(finding, codes) for finding in summary.findings],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: Rule) -> dict[str, Any]:
    text = f"{rule.meaning} {rule.remedy}".strip()
    return {
        "id": rule.code,
        "shortDescription": {"text": f"{rule.title}."},
        "fullDescription": {"text": rule.meaning},
        "help": {"text": text},
        "defaultConfiguration": {"level": rule.severity},
    }


def _result(finding: Finding, codes: list[str]) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": codes.index(finding.code),
        "level": finding.severity,
        "message": {"text": message_of(finding)},
        # The same finding is the same alert in the next run, whatever its step and line.
        "partialFingerprints": {"finding/v1": f"{finding.code}:{finding.name}"},
    }
    place = place_of(finding)
    if place is not None:
        file, line = place
        path = PurePath(file)
        uri = path.as_uri() if path.is_absolute() else quote(path.as_posix())
        result["locations"] = [{"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": line}}}]
    return result
