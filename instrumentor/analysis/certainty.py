"""What holds in every run at a point of the script: a value surely is an object, true, or None."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.analysis.arguments import default_of
from instrumentor.analysis.environment import PARAMETER
from instrumentor.analysis.values import Instance, Made, Parameter
from instrumentor.resolve import catalogue
from instrumentor.resolve.nature import Nature

if TYPE_CHECKING:
    from collections.abc import Callable

    from instrumentor.analysis.entries import Site
    from instrumentor.analysis.scope import Scope
    from instrumentor.analysis.values import Value
    from instrumentor.resolve.unit import Class, Function


class Certainty:
    """Answers such questions about the values of one scope."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.facts = scope.facts

    def is_object(self, held: Value) -> bool:
        """Whether a value is a module in every run, and never None."""
        return self._are_all(held, lambda site: site.nature is Nature.MODULE)

    def is_true(self, held: Value) -> bool:
        """Whether a value is a true module in every run: its class defines neither length nor truth."""
        return self._are_all(held, self._is_true_site)

    def _are_all(self, held: Value, is_such: Callable[[Site], bool]) -> bool:
        known = [
            each for atom in held for each in (self.facts.passed.to(atom) if isinstance(atom, Parameter) else (atom,))
        ]
        sites = [self.facts.sites.get(atom.site) if isinstance(atom, Made) else None for atom in known]
        return bool(sites) and all(site is not None and is_such(site) for site in sites)

    def _is_true_site(self, site: Site, *seen: Site) -> bool:
        classes = [self.scope.kinds.class_of(key) for key in sorted(site.class_keys)]
        origins = [self.facts.sites.get(key) for key in sorted(site.origins)]
        names = {cls.node.name for cls in classes if cls is not None}
        names |= {each.function.name for each in origins if each is not None and each.function is not None}
        return (
            site.nature is Nature.MODULE
            and bool(classes)
            and names.issuperset(site.labels)
            and all(cls is not None and self._is_without_length(cls) for cls in classes)
            and all(each is not None and each not in seen and self._is_true_site(each, site, *seen) for each in origins)
        )

    def _is_without_length(self, cls: Class) -> bool:
        hierarchy = self.scope.hierarchy
        bases = {None if base is None else catalogue.canonical_name(base) for base in hierarchy.library_bases(cls)}
        return bases == {"torch.nn.Module"} and not any(
            each.node.decorator_list or each.node.keywords or hierarchy.method(each, name)
            or self.facts.attributes.get((Instance(each.key), name))
            for each in hierarchy.ancestors(cls)
            for name in ("__len__", "__bool__")
        )  # fmt: skip

    def is_test_for_none(self, test: ast.expr) -> bool | None:
        """Whether the result of a test is known because a parameter, passed by no call, is None; None if unknown."""
        function = self.scope.function
        if function is None or not isinstance(test, ast.Compare) or not isinstance(test.left, ast.Name):
            return None
        name, operator, other = test.left.id, test.ops[0], test.comparators[0]
        is_about_none = len(test.ops) == 1 and isinstance(other, ast.Constant) and other.value is None
        if not is_about_none or not isinstance(operator, (ast.Is, ast.IsNot)):
            return None
        is_kept = self.scope.env.number((name,)) == (PARAMETER, name)
        return isinstance(operator, ast.Is) if is_kept and self._is_never_passed(function, name) else None

    def _is_never_passed(self, function: Function, name: str) -> bool:
        """Whether every call of a function omits a parameter whose default is None."""
        default = default_of(function, name)
        is_none = isinstance(default, ast.Constant) and default.value is None
        is_seen = function.key in self.facts.calls and function.key not in self.facts.called_unseen
        return is_none and is_seen and (function.key, name) not in self.facts.passed.ever
