"""What finders find in a text."""

from __future__ import annotations

import ast
import textwrap
from typing import TYPE_CHECKING

from proxy_wrapper.program_code.syntax import scopes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from proxy_wrapper.program_code.syntax import Scope
    from proxy_wrapper.source_patterns.pattern import Pattern


def found(text: str, find: Callable[[Scope], Iterator[Pattern]]) -> list[tuple[int, tuple[str, ...]]]:
    """The lines and names of what a finder finds in a file."""
    patterns = (each for scope in scopes_of(ast.parse(textwrap.dedent(text))) for each in find(scope))
    return [(pattern.line, pattern.names) for pattern in patterns]


def found_in_file(text: str, find: Callable[[Sequence[Scope]], Iterator[Pattern]]) -> list[tuple[int, tuple[str, ...]]]:
    """The lines and names of what a finder that reads all scopes together finds in a file."""
    scopes = list(scopes_of(ast.parse(textwrap.dedent(text))))
    return [(pattern.line, pattern.names) for pattern in find(scopes)]
