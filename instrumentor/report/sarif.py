"""The report for code scanning: SARIF 2.1.0, each site a result.

The standard: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from instrumentor import __version__
from instrumentor.report.statistics import MEANINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from instrumentor.paths.files import Output
    from instrumentor.report.record import FileRecord, Site, Summary

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_VERDICTS = {"wrap": "gets a proxy", "merged": "is covered by another proxy", "not wrapped": "gets no proxy"}


def render(records: Callable[[], Iterator[FileRecord]], summary: Summary, out: Output) -> None:
    """Write the log: a rule for each reason, a result for each site, a notification for each failure."""
    encode = msgspec.json.encode
    rules = [
        {"id": code, "shortDescription": {"text": MEANINGS.get(code, code)}, "defaultConfiguration": {"level": "note"}}
        for code in summary.codes
    ]
    index = {code: position for position, code in enumerate(summary.codes)}
    driver = {
        "name": "instrument",
        "semanticVersion": __version__,
        "rules": rules,
        "notifications": [{"id": "failed", "shortDescription": {"text": "a file could not be processed"}}],
    }
    out.write(b'{\n"$schema": %s,\n"version": "2.1.0",\n"runs": [{\n' % encode(SCHEMA))
    out.write(b'"tool": %s,\n"columnKind": "unicodeCodePoints",\n' % encode({"driver": driver}))
    out.write(b'"invocations": [%s],\n' % encode(_invocation(records)))
    out.write(b'"results": [')
    is_first = True
    for record in records():
        seen: dict[str, int] = {}
        for position, site in enumerate(record.sites):
            out.write(b"\n" if is_first else b",\n")
            out.write(encode(_result(record, position, site, index, seen)))
            is_first = False
    out.write(b"\n]\n}]\n}\n")


def _invocation(records: Callable[[], Iterator[FileRecord]]) -> dict[str, Any]:
    failures = [
        {
            "descriptor": {"id": "failed"},
            "level": "error",
            "message": {"text": record.error.message},
            "locations": [_location(record.path, record.error.line, record.error.column)],
        }
        for record in records()
        if record.error is not None
    ]
    return {"executionSuccessful": not failures, "toolExecutionNotifications": failures}


def _result(
    record: FileRecord, position: int, site: Site, index: dict[str, int], seen: dict[str, int]
) -> dict[str, Any]:
    # Code scanning shows results with a level, and in SARIF only the kind "fail" has one other than "none".
    kind, level = ("fail", "note") if site.decision == "wrap" else ("informational", "none")
    cell = "" if site.cell is None else f"cell {site.cell}, line {site.line}: "
    # A site remains the same alert when lines above it are added or removed.
    name = f"{site.code}\0{site.target}\0{site.object}"
    ordinal = seen[name] = seen.get(name, 0) + 1
    result: dict[str, Any] = {
        "ruleId": site.code,
        "ruleIndex": index[site.code],
        "kind": kind,
        "level": level,
        "message": {"text": f"{cell}{site.target} ({site.object}) {_VERDICTS[site.decision]}: {site.reason}"},
        # Lines of a notebook's cells are not lines of its file.
        "locations": [_location(record.path, *((site.line, site.column) if site.cell is None else (None, None)))],
        "partialFingerprints": {
            "site/v1": hashlib.sha256(f"{record.path}\0{name}\0{ordinal}".encode()).hexdigest()[:32]
        },
        "properties": {
            "decision": site.decision,
            "target": site.target,
            "object": site.object,
            "confidence": site.confidence,
        },
    }
    related = [(alias.line, f"also called {alias.name}") for alias in site.aliases]
    if site.wrapped_at is not None:
        related.append((site.wrapped_at, "the proxy that covers it"))
    if related and site.cell is None:
        result["relatedLocations"] = [
            {**_location(record.path, line), "id": number, "message": {"text": text}}
            for number, (line, text) in enumerate(related, start=1)
        ]
    added = [addition for addition in record.additions if addition.site == position]
    if added:
        result["properties"]["added"] = [addition.text for addition in added]
    return result


def _location(path: str, line: int | None = None, column: int | None = None) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": quote(path)}}
    if line is not None:
        physical["region"] = {"startLine": line, **({"startColumn": column} if column else {})}
    return {"physicalLocation": physical}
