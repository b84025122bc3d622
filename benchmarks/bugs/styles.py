"""Writes a script in another style: the same program, with every statement on the line where it was.

What is found in a program should not depend on how it is written. Each style changes one habit:

    renamed        functions, classes and variables have meaningless names
    in-function    the script is one function, which defines the others
    temporaries    arguments that are calls are assigned to variables of their own first
    aliases        what is imported has other names
"""

from __future__ import annotations

import ast
import builtins
import re
from typing import TYPE_CHECKING, Final

import libcst as cst
import libcst.matchers as m

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_GLOBAL: Final = re.compile(r"^(\s*)global ")
_NEVER_RENAMED: Final = frozenset({"self", "cls", "_", "main", *dir(builtins)})
_UNORDERED: Final = m.OneOf(
    m.Lambda(),
    m.ListComp(),
    m.SetComp(),
    m.DictComp(),
    m.GeneratorExp(),
    m.IfExp(),
    m.BooleanOperation(),
    m.NamedExpr(),
    m.Yield(),
    m.Await(),
    m.FormattedString(),
    m.Arg(star="*"),
    m.Arg(star="**"),
)
"""What evaluates its parts more than once, not at all, or in an order that temporaries would change."""


class StyleError(Exception):
    """A script cannot be written in a style."""


def rewrite(text: str, style: str) -> str:
    """The text of a script in one of `STYLES`, with its statements on the same lines.

    Raises:
        StyleError: the script has no room for it, or uses what the style cannot express.
    """
    rewritten = _REWRITERS[style](text)
    try:
        compile(rewritten, "<script>", "exec")
    except SyntaxError as error:
        raise StyleError(f"the result does not compile: {error}") from error
    return rewritten


def _renamed(text: str) -> str:
    module = cst.parse_module(text)
    bound = _BoundNames()
    module.visit(bound)
    names = sorted(name for name in bound.names - bound.fixed - _NEVER_RENAMED if not name.startswith("__"))
    return module.visit(_Renaming({name: f"v{index}" for index, name in enumerate(names)})).code


def _in_function(text: str) -> str:
    tree, lines = ast.parse(text), text.splitlines()
    head = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom)) or _is_text(node)]
    rest = [node for node in tree.body if node not in head]
    first = min(line for node in rest for line in (node.lineno, *(each.lineno for each in _decorators(node))))
    blank = next((number for number in range(first - 1, 0, -1) if not lines[number - 1].strip()), 0)
    if not blank or any((node.end_lineno or 0) > blank for node in head):
        raise StyleError("no blank line between the imports and the rest")
    within_text = {
        number
        for node in ast.walk(tree)
        if isinstance(node, (ast.Constant, ast.JoinedStr))
        for number in range(node.lineno + 1, (node.end_lineno or node.lineno) + 1)
    }
    indented = [
        line if number in within_text or not line else _GLOBAL.sub(r"\1nonlocal ", f"    {line}")
        for number, line in enumerate(lines[blank:], blank + 1)
    ]
    return "\n".join([*lines[: blank - 1], "def whole_script():", *indented, "", "whole_script()", ""])


def _temporaries(text: str) -> str:
    return cst.parse_module(text).visit(_Temporaries()).code


def _aliases(text: str) -> str:
    imports = _AliasedImports()
    module = cst.parse_module(text).visit(imports)
    return module.visit(_Renaming(imports.names)).code


_REWRITERS: Final[Mapping[str, Callable[[str], str]]] = {
    "renamed": _renamed,
    "in-function": _in_function,
    "temporaries": _temporaries,
    "aliases": _aliases,
}

STYLES: Final = tuple(_REWRITERS)


class _BoundNames(cst.CSTVisitor):
    """Collects the names that a script binds.

    Attributes:
        names: what it binds by assignments, loops, parameters and definitions, those of methods left out.
        fixed: names that are also attributes of classes, keywords of calls, or imported.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.fixed: set[str] = set()
        self._is_class = [False]

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self._define(node.name)
        self._is_class.append(True)
        for statement in node.body.body:
            for target in m.findall(statement, m.AssignTarget() | m.AnnAssign()):
                self._bind(target.target, self.fixed)  # type: ignore[attr-defined]

    def leave_ClassDef(self, original_node: cst.ClassDef) -> None:
        self._is_class.pop()

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self._define(node.name)
        self._is_class.append(False)

    def leave_FunctionDef(self, original_node: cst.FunctionDef) -> None:
        self._is_class.pop()

    def visit_Param(self, node: cst.Param) -> None:
        self._bind(node.name, self.names)

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        self._bind(node.target, self.names)

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
        self._bind(node.target, self.names)

    def visit_NamedExpr(self, node: cst.NamedExpr) -> None:
        self._bind(node.target, self.names)

    def visit_For(self, node: cst.For) -> None:
        self._bind(node.target, self.names)

    def visit_CompFor(self, node: cst.CompFor) -> None:
        self._bind(node.target, self.names)

    def visit_AsName(self, node: cst.AsName) -> None:
        self._bind(node.name, self.names)

    def visit_Arg(self, node: cst.Arg) -> None:
        if node.keyword is not None:
            self.fixed.add(node.keyword.value)

    def visit_ImportAlias(self, node: cst.ImportAlias) -> bool:
        self.fixed.add(node.evaluated_alias or node.evaluated_name.partition(".")[0])
        return False

    def _define(self, name: cst.Name) -> None:
        (self.fixed if self._is_class[-1] else self.names).add(name.value)

    def _bind(self, target: cst.BaseExpression, names: set[str]) -> None:
        if isinstance(target, cst.Name):
            names.add(target.value)
        elif isinstance(target, (cst.Tuple, cst.List)):
            for element in target.elements:
                self._bind(element.value, names)


class _Renaming(cst.CSTTransformer):
    """Renames variables; attributes, keywords and imports keep their names."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def visit_Import(self, node: cst.Import) -> bool:
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        return False

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.Attribute:
        return updated_node.with_changes(attr=original_node.attr)

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        return updated_node.with_changes(keyword=original_node.keyword)

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        return updated_node.with_changes(value=self._names.get(original_node.value, original_node.value))


class _Temporaries(cst.CSTTransformer):
    """Turns `loss = criterion(model(x), y)` into `t0 = model(x); loss = criterion(t0, y)`."""

    def __init__(self) -> None:
        self._count = 0

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine:
        statement = updated_node.body[0]
        if len(updated_node.body) != 1 or not isinstance(statement, (cst.Assign, cst.Expr, cst.Return)):
            return updated_node
        call = statement.value
        if not isinstance(call, cst.Call) or m.findall(call, _UNORDERED) or m.findall(call.func, m.Call()):
            return updated_node
        if isinstance(statement, cst.Assign) and not m.matches(statement.targets[0].target, m.Name() | m.Tuple()):
            return updated_node
        before: list[cst.BaseSmallStatement] = []
        arguments = []
        for argument in call.args:
            if m.findall(argument.value, m.Call()):
                name = cst.Name(f"t{self._count}")
                self._count += 1
                before.append(cst.Assign([cst.AssignTarget(name)], argument.value))
                arguments.append(argument.with_changes(value=name))
            else:
                arguments.append(argument)
        return updated_node.with_changes(
            body=[*before, statement.with_changes(value=call.with_changes(args=arguments))]
        )


class _AliasedImports(cst.CSTTransformer):
    """Gives what is imported another name; `names` has it for each."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        return not m.matches(node, m.ImportFrom(module=m.Name("__future__")))

    def leave_ImportAlias(self, original_node: cst.ImportAlias, updated_node: cst.ImportAlias) -> cst.ImportAlias:
        name = original_node.evaluated_alias or original_node.evaluated_name
        if "." in name:
            raise StyleError(f"import {name} has no alias")
        self.names[name] = f"imported_{name.lower()}"
        space = cst.SimpleWhitespace(" ")
        return updated_node.with_changes(asname=cst.AsName(cst.Name(self.names[name]), space, space))


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _decorators(node: ast.stmt) -> list[ast.expr]:
    return list(getattr(node, "decorator_list", []))
