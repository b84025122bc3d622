"""Compiles Python source so that each condition reports its outcome, and each loop its end.

A condition stays in its place, where Python evaluates it as usual:

    if x.sum() > 0:         if __proxy_flow_truth__(site, True) if x.sum() > 0 else __proxy_flow_truth__(site, False):

So none of our functions runs while the condition is evaluated, its exceptions have their usual tracebacks, and nothing
is evaluated twice. A loop uses an iterator created in its place:

    for row in x:           for row in __proxy_flow_loop__(site, __proxy_flow_iter__(x)):

where `__proxy_flow_iter__` is Python's own `iter`, and the result of `__proxy_flow_loop__` is implemented in C, so it
has no frame. The added code has no lines of its own, so debuggers and coverage visit the same lines as before. (At a
condition joined by `and` or `or`, they may return to its first line.)
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from proxy_wrapper.program_code.compiler_warnings import no_compiler_warnings

if TYPE_CHECKING:
    from types import CodeType

TRUTH: Final = "__proxy_flow_truth__"
LOOP: Final = "__proxy_flow_loop__"
ITER: Final = "__proxy_flow_iter__"
"""The names that observed code uses from `builtins`. None of them is mangled in a class."""

_MOST_TEXT: Final = 200

E = TypeVar("E", bound=ast.expr)


class Site(NamedTuple):
    """A condition or loop. In code it is a plain tuple, and thus a constant."""

    construct: str
    text: str
    line: int


def compile_observed(source: bytes | str, file: str) -> CodeType:
    """The code of a whole file, with its conditions and loops observed.

    Raises:
        SyntaxError, ValueError, RecursionError: if it cannot be compiled.
    """
    with no_compiler_warnings(file):
        tree = _Observer().visit(ast.parse(source, file))
        code: CodeType = compile(tree, file, "exec", dont_inherit=True)
    return code


class _Observer(ast.NodeTransformer):
    """Inserts the calls. Conditions nested in a condition come first, as in evaluation."""

    def visit_If(self, node: ast.If) -> ast.If:
        self._observe_if(node, "if")
        return node

    def _observe_if(self, node: ast.If, construct: str) -> None:
        # Iterative, because a chain of `elif` may exceed Python's recursion limit.
        while True:
            node.test = self._truth(construct, node.test)
            node.body = self._visited(node.body)
            following = node.orelse[0] if len(node.orelse) == 1 else None
            if not (isinstance(following, ast.If) and following.col_offset == node.col_offset):
                node.orelse = self._visited(node.orelse)
                return
            node, construct = following, "elif"

    def visit_While(self, node: ast.While) -> ast.While:
        node.test = self._truth("while", node.test)
        node.body, node.orelse = self._visited(node.body), self._visited(node.orelse)
        return node

    def visit_For(self, node: ast.For) -> ast.For:
        node.target = self.visit(node.target)
        node.iter = self._loop("for", f"{ast.unparse(node.target)} in {ast.unparse(node.iter)}", node.iter)
        node.body, node.orelse = self._visited(node.body), self._visited(node.orelse)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.IfExp:
        node.test = self._truth("ifexp", node.test)
        node.body, node.orelse = self.visit(node.body), self.visit(node.orelse)
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.Assert:
        node.test = self._truth("assert", node.test)
        if node.msg is not None:
            node.msg = self.visit(node.msg)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.comprehension:
        if node.is_async:
            node.iter = self.visit(node.iter)
        else:
            text = f"for {ast.unparse(node.target)} in {ast.unparse(node.iter)}"
            node.iter = self._loop("comprehension", text, node.iter)
        node.ifs = [self._truth("comprehension", test) for test in node.ifs]
        return node

    def visit_match_case(self, node: ast.match_case) -> ast.match_case:
        """Report that the pattern of a case matches or, if the case has a guard, the outcome of the guard."""
        pattern = ast.unparse(node.pattern)
        if node.guard is None:
            site = Site("match", _shortened(f"case {pattern}"), node.pattern.lineno)
            node.guard = _call(TRUTH, site, _without_line(ast.Constant(True)))
        else:
            site = Site("match", _shortened(f"case {pattern} if {ast.unparse(node.guard)}"), node.pattern.lineno)
            node.guard = self._split(site, node.guard)
        node.body = self._visited(node.body)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self._visit_function(node)
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AsyncFunctionDef:
        self._visit_function(node)
        return node

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        # Skip annotations: under `from __future__ import annotations` they are strings that the program can read.
        node.decorator_list = [self.visit(each) for each in node.decorator_list]
        node.args.defaults = [self.visit(each) for each in node.args.defaults]
        node.args.kw_defaults = [each and self.visit(each) for each in node.args.kw_defaults]
        node.body = self._visited(node.body)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign:
        node.target = self.visit(node.target)
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def _visited(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        return [self.visit(each) for each in statements]

    def _truth(self, construct: str, test: ast.expr) -> ast.expr:
        """The condition, with its outcome reported. One that Python does not evaluate (`while True`) is unchanged."""
        if isinstance(test, ast.Constant) or (isinstance(test, ast.Name) and test.id == "__debug__"):
            return test
        return self._split(Site(construct, _shortened(ast.unparse(test)), test.lineno), test)

    def _split(self, site: Site, test: ast.expr) -> ast.expr:
        told = (_call(TRUTH, site, _without_line(ast.Constant(truth))) for truth in (True, False))
        return _without_line(ast.IfExp(self.visit(test), *told))

    def _loop(self, construct: str, text: str, iterated: ast.expr) -> ast.expr:
        site = Site(construct, _shortened(text), iterated.lineno)
        # All of it has the position where Python takes the iterator, which is where the loop begins.
        made = _at(iterated, ast.Call(_at(iterated, ast.Name(ITER, ast.Load())), [self.visit(iterated)], []))
        name, constant = ast.Name(LOOP, ast.Load()), _constant(site)
        return _at(iterated, ast.Call(_at(iterated, name), [_at(iterated, constant), made], []))


def _call(name: str, site: Site, value: ast.expr) -> ast.expr:
    function = _without_line(ast.Name(name, ast.Load()))
    return _without_line(ast.Call(function, [_without_line(_constant(site)), value], []))


def _constant(site: Site) -> ast.expr:
    parts: Any = tuple(site)  # Python compiles any constant, but the type annotations allow fewer.
    return ast.Constant(parts)


def _at(where: ast.expr, node: ast.expr) -> ast.expr:
    return ast.copy_location(node, where)


def _without_line(node: E) -> E:
    node.lineno = node.end_lineno = node.col_offset = node.end_col_offset = -1
    return node


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT - 3]}..."
