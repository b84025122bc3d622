"""The parts of a script that its comments exclude."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from instrumentor.source.source_text import read_comments

if TYPE_CHECKING:
    import ast

    from instrumentor.source.source_text import SourceText

_SKIP = re.compile(r"#\s*instrument:\s*skip(?P<file>-file)?(?![\w-])")


@dataclass(frozen=True)
class Suppressions:
    """The lines with `# instrument: skip`, and whether there is a `# instrument: skip-file`."""

    lines: frozenset[int] = frozenset()
    whole_file: bool = False

    def covers(self, statement: ast.stmt) -> bool:
        """Whether a statement is excluded; for a compound statement, only the head counts."""
        body = getattr(statement, "body", None)
        last = body[0].lineno - 1 if isinstance(body, list) and body else statement.end_lineno or statement.lineno
        lines = range(statement.lineno, max(last, statement.lineno) + 1)
        return self.whole_file or not self.lines.isdisjoint(lines)


def read_suppressions(source: SourceText) -> Suppressions:
    """Read a script's comments; look-alikes in strings do not count."""
    if not _SKIP.search(source.text):
        return Suppressions()  # avoids tokenizing nearly every script
    found = {line: match for line, text in read_comments(source).items() if (match := _SKIP.search(text))}
    return Suppressions(
        frozenset(line for line, match in found.items() if not match["file"]),
        any(match["file"] for match in found.values()),
    )
