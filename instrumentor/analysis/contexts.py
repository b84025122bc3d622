"""Context managers and iterators: the code that `with` and `for` run implicitly."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.analysis.running import let_others_run, let_run
from instrumentor.analysis.values import Atom, Box, FunctionRef, Instance, Made, Named, Pack, Value, join, value
from instrumentor.resolve.catalogue import is_giving_context, never_suppresses
from instrumentor.resolve.nature import Nature
from instrumentor.source.nodes import TRIES, walk

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeGuard

    from instrumentor.analysis.environment import Number
    from instrumentor.analysis.expressions import Evaluator
    from instrumentor.resolve.unit import Function


class Contexts:
    """Evaluates the contexts and iterators of one scope."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._scope = evaluator.scope

    def enter(self, node: ast.expr, held: Value) -> tuple[Value, Number]:
        """The value that `with ... as` binds, and its object number, where known.

        Args:
            node: the context expression, just evaluated.
            held: its value.
        """
        return self._evaluator.numbering.entered(node, held) or (self._entered(held), None)

    def may_suppress(self, node: ast.expr, held: Value) -> bool:
        """Whether leaving a context may end an exception, so that execution continues after an incomplete block."""
        return not self._is_plain_generator(node) and self._may_suppress(held)

    def go_over(self, node: ast.expr, held: Value) -> None:
        """Apply the effects of iterating over a value, or of entering it as a context: generators run."""
        makers = self._evaluator.evaluate(node.func) if isinstance(node, ast.Call) else frozenset()
        functions = [self._scope.kinds.function_at(atom.key) for atom in makers if isinstance(atom, FunctionRef)]
        if makers and len(functions) == len(makers):
            for function in functions:
                if function is not None:
                    let_run(self._scope, function)
        elif isinstance(node, (ast.Tuple, ast.List)) or makers == {Named("builtins.range")}:
            return
        elif not held or not all(isinstance(atom, (Box, Pack)) or self._is_library_context(atom) for atom in held):
            let_others_run(self._scope)  # generators count as containers; their code counts as run unseen anyway

    def _is_library_context(self, atom: Atom) -> bool:
        """Whether a context comes from a library and runs no user code."""
        return self._is_made_by(atom, lambda label: label == "contextlib.suppress" or never_suppresses(label))

    def _is_plain_generator(self, node: ast.expr) -> bool:
        """Whether a context comes from a generator of the project that contains no `try`."""
        if not isinstance(node, ast.Call):
            return False
        makers = self._evaluator.evaluate(node.func)
        functions = [self._scope.kinds.function_at(atom.key) for atom in makers if isinstance(atom, FunctionRef)]
        return bool(functions) and all(
            function is not None and not any(isinstance(each, TRIES) for each in walk(function.node))
            for function in functions
        )

    def _may_suppress(self, held: Value) -> bool:
        """Whether some context in a value may end an exception."""
        for atom in held:
            if self._is_made_by(atom, never_suppresses):
                continue
            if isinstance(atom, Instance):
                cls = self._scope.kinds.class_of(atom.key)
                leave = None if cls is None else self._scope.hierarchy.method(cls, "__exit__")
                if leave is not None and not any(isinstance(each, ast.Return) for each in walk(leave.node)):
                    continue
            return True
        return False

    def _enter_method(self, atom: Atom) -> Function | None:
        if not isinstance(atom, Instance):
            return self._scope.kinds.method_of(atom, "__enter__")
        cls = self._scope.kinds.class_of(atom.key)
        return None if cls is None else self._scope.hierarchy.method(cls, "__enter__")

    def _is_made_by(self, atom: Atom, is_such: Callable[[str], bool]) -> TypeGuard[Made]:
        """Whether an object is no module and all calls that make it have such a name."""
        if not isinstance(atom, Made) or self._scope.kinds.nature(atom) is not Nature.NOT_MODULE:
            return False
        labels = self._scope.facts.site_of(atom).labels
        return bool(labels) and all(map(is_such, labels))

    def _entered(self, held: Value) -> Value:
        """What `with ... as` binds: the yielded value, the result of `__enter__`, or the object itself."""
        entered: list[Value] = []
        for atom in held:
            enter = self._enter_method(atom)
            if enter is not None:
                entered.append(self._evaluator.members.property_value(enter, value(atom)))
            elif self._is_made_by(atom, is_giving_context):  # as `nullcontext(model)`
                entered.append(self._scope.facts.arguments_of(self._scope.facts.site_of(atom)))
            elif isinstance(atom, Instance) or atom.is_object:
                entered.append(value(atom))
            else:
                entered.append(self._evaluator.members.elements(value(atom)))
        return join(entered)
