"""Instruments a notebook cell for `%%trace`, in a separate process.

It reads a pickled request: the code of the earlier cells and of the cell itself. It writes the pickled tree of the
cell, with the original positions, or None if there is nothing to add.
"""

from __future__ import annotations

import ast
import os
import pickle
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from instrumentor import emit
from instrumentor.configuration import Configurations
from instrumentor.engine.cache_directory import cache_directory
from instrumentor.engine.outcome import Task
from instrumentor.engine.work import process_script
from instrumentor.paths.files import STDIN_NAME, Script
from instrumentor.resolve.search_path import SearchPaths
from instrumentor.source.original_tree import original_tree

if TYPE_CHECKING:
    from collections.abc import Iterable


def instrument_cell(before: Iterable[str], cell: str) -> ast.Module | None:
    """The tree of a cell with its models wrapped; None if it has none.

    Args:
        before: the code of the earlier cells; cells that are not Python are skipped.
        cell: the code of the cell.
    """
    known = "".join(f"{text.rstrip()}\n" for text in before if _is_python(text))
    offset = known.count("\n")
    script = Script(STDIN_NAME, STDIN_NAME, (known + cell).encode(), None, Path())
    task = Task(
        path="",
        shown=STDIN_NAME,
        name=STDIN_NAME,
        settings=Configurations().of_directory("").settings,
        packages=SearchPaths().packages(""),
        modules_cache=str(cache_directory()),
    )
    outcome = process_script(script, task)
    if outcome.result is None:
        return None
    tree = original_tree(outcome.result, source_name=STDIN_NAME)
    own = [statement for statement in tree.body if statement.lineno > offset]
    for statement in own:
        ast.increment_lineno(statement, -offset)
    _use_settings_of_cell(own, _alias(tree))
    return ast.Module(own, [])


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


def _alias(tree: ast.Module) -> str:
    """The name of the runtime module in the instrumented code."""
    names = (alias for each in tree.body if isinstance(each, ast.Import) for alias in each.names)
    return next(str(alias.asname) for alias in names if alias.name == emit.RUNTIME_MODULE)


def _use_settings_of_cell(statements: Iterable[ast.stmt], alias: str) -> None:
    """Make the added lines use the settings of `%%trace`, and bind no names in the notebook."""
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and _is_proxy(node.func, alias):
                wrap = ast.parse(emit.render_wrap_in_cell(), mode="eval").body
                for part in ast.walk(wrap):
                    ast.copy_location(part, node.func)
                node.func = wrap
                node.keywords = [keyword for keyword in node.keywords if keyword.arg == "name"]


def _is_proxy(function: ast.expr, alias: str) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and function.attr == emit.PROXY
        and isinstance(function.value, ast.Name)
        and function.value.id == alias
    )


def main() -> None:
    """Answer the request on standard input."""
    request = pickle.load(sys.stdin.buffer)
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as out:
        pickle.dump(instrument_cell(request["before"], request["cell"]), out)


if __name__ == "__main__":
    main()
