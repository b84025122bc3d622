"""Annotations for GitHub Actions: workflow commands, shown at the lines of a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instrumentor.plain_text import escape_unprintable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from instrumentor.paths.files import Output
    from instrumentor.report.record import FileRecord, Summary


def render(records: Callable[[], Iterator[FileRecord]], summary: Summary, out: Output) -> None:  # noqa: ARG001
    """Write a notice for each model that gets a proxy, and an error for each file that failed."""
    for record in records():
        if record.error is not None:
            place = [("file", record.path), ("line", record.error.line), ("col", record.error.column)]
            out.write(_command("error", place, "instrument", record.error.message))
        for site in record.sites:
            if site.decision == "wrap":
                cell = "" if site.cell is None else f"cell {site.cell}: "
                line = site.line if site.cell is None else None
                place = [("file", record.path), ("line", line), ("col", site.column if line else None)]
                message = f"{cell}{site.target} ({site.object}) gets a proxy: {site.reason}"
                out.write(_command("notice", place, f"instrument: {site.code}", message))


def _command(kind: str, place: list[tuple[str, str | int | None]], title: str, message: str) -> bytes:
    properties = [f"{name}={_escape_property(str(value))}" for name, value in [*place, ("title", title)] if value]
    return f"::{kind} {','.join(properties)}::{_escape(message)}\n".encode()


def _escape(text: str) -> str:
    return escape_unprintable(text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


def _escape_property(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")
