"""The report for programs: one JSON document, see `record.Document`."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from instrumentor.errors import ReportError
from instrumentor.plain_text import escape_in_json
from instrumentor.report.record import VERSION, Document, Tool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from instrumentor.paths.files import Output
    from instrumentor.report.record import FileRecord, Summary


def render(records: Callable[[], Iterator[FileRecord]], summary: Summary, out: Output) -> None:
    """Write the document, one file per line."""
    out.write(b'{\n"version": %d,\n"tool": %s,\n"files": [' % (VERSION, _encode(Tool())))
    for position, record in enumerate(records()):
        out.write((b",\n" if position else b"\n") + _encode(record))
    out.write(b'\n],\n"summary": %s\n}\n' % _encode(summary))


def _encode(value: object) -> bytes:
    return escape_in_json(msgspec.json.encode(value).decode()).encode()


def read(path: str) -> Document:
    """Read a report back.

    Raises:
        ReportError: it cannot be read, or is not a report of this version.
    """
    try:
        document = msgspec.json.decode(Path(path).read_bytes(), type=Document)
    except OSError as error:
        raise ReportError(f"cannot be read ({error.strerror})", path=path) from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _no_report(path, str(error)) from None
    for record in document.files:
        for addition in record.additions:
            if addition.site is not None and not 0 <= addition.site < len(record.sites):
                raise _no_report(path, f"{record.path} has no site {addition.site}")
    return document


def _no_report(path: str, reason: str) -> ReportError:
    return ReportError(
        f"is not a report that this version can read ({reason}); name .json files that `instrument --report` wrote",
        path=path,
    )


def schema() -> bytes:
    """The JSON schema of the document, as stored in docs/report.schema.json."""
    described = msgspec.json.schema(Document)
    described["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    described["title"] = f"Report of `instrument`, version {VERSION}"
    for definition in described["$defs"].values():
        if "description" in definition:  # A docstring: Python 3.13 removes its indentation, others keep it.
            definition["description"] = inspect.cleandoc(definition["description"])
    return msgspec.json.format(msgspec.json.encode(described), indent=2) + b"\n"
