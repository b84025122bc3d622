"""The settings written in the lines of an instrumented script."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, Final

from instrumentor import emit

if TYPE_CHECKING:
    from collections.abc import Iterator

# The keyword of each setting; a setting that is not stated has its default.
_SETTINGS: Final = {
    "logdir": "logdir",
    "log_level": "log_level",
    "recurse": "recurse",
    "statistics": "statistics_of",
    "first": "first",
    "every": "every",
    "ranks": "ranks",
    "max_size": "max_size",
    "flow": "flow",
}
NAMES: Final = frozenset(_SETTINGS.values())
"""Which settings a line states."""


def stated_settings(script: bytes) -> dict[str, Any]:
    """The settings of the first line that puts a model under a proxy, by name; empty if there is no such line.

    Args:
        script: source that Python can parse.
    """
    tree = ast.parse(script)
    aliases = {
        name.asname
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for name in node.names
        if name.name == emit.RUNTIME_MODULE
    }
    for call in _calls(tree):
        function = call.func
        if (
            isinstance(function, ast.Attribute)
            and function.attr == emit.PROXY
            and isinstance(function.value, ast.Name)
            and function.value.id in aliases
        ):
            return {
                _SETTINGS[keyword.arg]: _value(keyword.value) for keyword in call.keywords if keyword.arg in _SETTINGS
            }
    return {}


def _calls(tree: ast.Module) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _value(node: ast.expr) -> Any:
    """A constant, or the name of a level."""
    return node.attr if isinstance(node, ast.Attribute) else ast.literal_eval(node)
