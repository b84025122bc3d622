"""A program as compiled code that Python can start with: what `instrument run` passes in memory."""

from __future__ import annotations

import ast
import importlib.util
import marshal
import runpy
import warnings
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instrumentor import emit
from instrumentor.source.original_tree import original_tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import CodeType

# The header of a .pyc file: magic number, then flags, source time and source size, which are all zero here.
_HEADER = importlib.util.MAGIC_NUMBER + bytes(12)


def compile_original(source: bytes, path: str) -> CodeType:
    """The code of an instrumented script, with the original's positions.

    Args:
        source: the instrumented script.
        path: the original's path, which the code names as its file.

    Raises:
        SyntaxError: Python's compiler cannot handle it.
    """
    return _compiled(original_tree(source, source_name=path), path)


def pack_files(files: Iterable[tuple[str, bytes, bytes]]) -> dict[str, tuple[bytes, bytes]]:
    """Map each absolute path to the original's digest and the code to run in its place.

    Args:
        files: for each file, the path, the original bytes and the instrumented bytes.
    """
    return {
        path: (sha256(original).digest(), marshal.dumps(compile_original(instrumented, path)))
        for path, original, instrumented in files
    }


def script_file(source: bytes, path: str, message: Mapping[str, Any]) -> bytes:
    """A code file that runs a script as its main program.

    Python runs it without any frame of this tool below it. Its first statement corrects what Python derived from the
    code file's name.

    Args:
        source: the script, instrumented or not.
        path: the original, absolute, as Python would name it.
        message: the message to the runtime.
    """
    tree = original_tree(source, source_name=path)
    statement = ast.parse(emit.render_begin(marshal.dumps(dict(message)))).body[0]
    before = _count_fixed(tree.body)
    place = tree.body[before] if before < len(tree.body) else tree.body[-1] if tree.body else None
    _put_at(statement, 1 if place is None else place.lineno)
    tree.body.insert(before, statement)
    return _HEADER + marshal.dumps(_compiled(tree, path))


def module_file(message: Mapping[str, Any]) -> bytes:
    """A code file that runs a module as its main program, as `python -m` does.

    Its only frame looks like that of the `runpy` function that Python would call.
    """
    original = runpy._run_module_as_main.__code__  # type: ignore[attr-defined]  # noqa: SLF001
    last_line = _line_of_call(original.co_name)
    tree = ast.parse(emit.render_begin_module(marshal.dumps(dict(message))))
    for statement in tree.body:
        _put_at(statement, last_line)
    code = _compiled(tree, original.co_filename)
    return _HEADER + marshal.dumps(code.replace(co_name=original.co_name))


def _line_of_call(function: str) -> int:
    """The line of the last statement of a `runpy` function."""
    tree = ast.parse(Path(runpy.__file__).read_bytes())
    (found,) = (each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == function)
    return found.body[-1].lineno


def _compiled(tree: ast.Module, path: str) -> CodeType:
    """The code of a tree, compiled without warnings, which Python already gives for the original."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        code: CodeType = compile(tree, path, "exec", dont_inherit=True)
    return code


def _count_fixed(body: list[ast.stmt]) -> int:
    """How many statements must stay first: the docstring and `__future__` imports."""
    count = 1 if body and isinstance(body[0], ast.Expr) and _is_text(body[0].value) else 0
    while count < len(body) and _is_future_import(body[count]):
        count += 1
    return count


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_future_import(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__" and not statement.level


def _put_at(statement: ast.stmt, line: int) -> None:
    for node in ast.walk(statement):
        if isinstance(node, (ast.stmt, ast.expr, ast.keyword)):
            node.lineno = node.end_lineno = line
            node.col_offset = node.end_col_offset = -1
