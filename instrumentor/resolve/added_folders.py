"""The folders that a script adds to `sys.path`, as far as its text shows them."""

from __future__ import annotations

import ast
import posixpath
from typing import TYPE_CHECKING

from instrumentor.source.nodes import last_name

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping

_SAME = frozenset(
    {"abspath", "realpath", "normpath", "expanduser", "fspath", "str"}
    | {"Path", "PurePath", "resolve", "absolute", "as_posix"}
)  # fmt: skip
_MAX_DEPTH = 16


def added_folders(tree: ast.Module, nodes: Iterable[ast.AST], imported: Container[str]) -> tuple[str, ...]:
    """The folders that a script adds to the import path, in the order of the text.

    Recognises paths that start from `__file__` or are relative. The script is assumed to run in its own folder.

    Args:
        tree: the script.
        nodes: all its nodes.
        imported: the names that it imports.

    Returns:
        Paths relative to the script's folder, with `/`; the empty path for that folder.
    """
    if "sys" not in imported and "site" not in imported:
        return ()
    variables = _variables(tree)
    found = (_folder(each, variables) for node in nodes for each in _added_by(node))
    return tuple(dict.fromkeys("" if each == "." else each for each in found if each is not None))


def _variables(tree: ast.Module) -> dict[str, ast.expr]:
    """The values of the names assigned at the top level of a file; for several assignments, the last one."""
    return {
        target.id: statement.value
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }


def _added_by(node: ast.AST) -> Iterator[ast.expr]:
    """The folders that a node adds: `sys.path.insert(0, folder)`, `sys.path += [folder]`, `site.addsitedir(folder)`."""
    if isinstance(node, ast.AugAssign) and _is_search_path(node.target):
        yield from getattr(node.value, "elts", ())
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
        return
    if node.func.attr == "addsitedir":
        yield node.args[0]
    elif _is_search_path(node.func.value):
        if node.func.attr in {"append", "insert"}:
            yield node.args[-1]
        elif node.func.attr == "extend":
            yield from getattr(node.args[0], "elts", ())


def _is_search_path(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "path"
        and isinstance(node.value, ast.Name)
        and node.value.id == "sys"
    )


def _folder(node: ast.expr, variables: Mapping[str, ast.expr], depth: int = 0) -> str | None:
    """The path that an expression gives, relative to the script's folder; None if unknown."""
    if depth > _MAX_DEPTH:
        return None

    def inner(of: ast.expr) -> str | None:
        return _folder(of, variables, depth + 1)

    if isinstance(node, ast.Constant):
        text = node.value if isinstance(node.value, str) else "/"
        return None if posixpath.isabs(text) or text[:1] == "~" or "\\" in text else posixpath.normpath(text)
    if isinstance(node, ast.Name):
        if node.id == "__file__":
            return "script.py"
        return inner(variables[node.id]) if node.id in variables else None
    if isinstance(node, ast.Attribute):
        if node.attr in {"pardir", "curdir"}:
            return ".." if node.attr == "pardir" else "."
        return _above(inner(node.value), 1) if node.attr == "parent" else None
    if isinstance(node, ast.Subscript):
        return _indexed(node, inner)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.Add)):
        return _joined([inner(node.left), _text(node.right) or inner(node.right)])
    return _called(node, inner) if isinstance(node, ast.Call) else None


def _called(node: ast.Call, inner: Callable[[ast.expr], str | None]) -> str | None:
    """The result of a path function or method."""
    name = last_name(node.func)
    if name in {"getcwd", "cwd"}:
        return "."
    if name == "dirname":
        return _above(inner(node.args[0]), 1) if node.args else None
    if name in {"join", "joinpath"}:
        is_method = name == "joinpath" and isinstance(node.func, ast.Attribute)
        start = [inner(node.func.value)] if is_method else []  # type: ignore[attr-defined]
        return _joined([*start, *map(inner, node.args)])
    if name not in _SAME:
        return None
    if node.args:
        return _joined([*map(inner, node.args)])
    return inner(node.func.value) if isinstance(node.func, ast.Attribute) else None


def _indexed(node: ast.Subscript, inner: Callable[[ast.expr], str | None]) -> str | None:
    """The value of `Path(__file__).parents[1]` or `os.path.split(__file__)[0]`."""
    index = node.slice.value if isinstance(node.slice, ast.Constant) else None
    if not isinstance(index, int):
        return None
    if isinstance(node.value, ast.Attribute) and node.value.attr == "parents":
        return _above(inner(node.value.value), index + 1)
    is_split = isinstance(node.value, ast.Call) and getattr(node.value.func, "attr", "") == "split" and index == 0
    return _above(inner(node.value.args[0]), 1) if is_split and node.value.args else None  # type: ignore[attr-defined]


def _text(node: ast.expr) -> str | None:
    """The constant suffix of a folder's path, without a leading separator: `+ "/.."`."""
    return node.value.lstrip("/") if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _above(path: str | None, count: int) -> str | None:
    return None if path is None else posixpath.normpath(posixpath.join(path, *[".."] * count))


def _joined(parts: list[str | None]) -> str | None:
    known = [each for each in parts if each is not None]
    return posixpath.normpath(posixpath.join(*known)) if known and len(known) == len(parts) else None
