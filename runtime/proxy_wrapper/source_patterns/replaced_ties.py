"""Finds ties of two weights that the initialiser of a model undoes, because it puts a new parameter in one's place.

self.decoder.weight = self.embed.weight
self.init_weights()                             # self.embed.weight = nn.Parameter(torch.randn(...))
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.syntax import certain_nodes, last_name
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy_wrapper.program_code.syntax import Scope

REPLACED: Final = "tie-replaced"

_INIT: Final = "__init__"


def replaced_ties(scopes: Sequence[Scope]) -> Iterator[Pattern]:
    """The lines that replace one of two tied weights. `names` has it and the other one, `other` is the tie's line."""
    for scope in scopes:
        if scope.owner is None or scope.name != _INIT:
            continue
        methods = {each.name: each for each in scopes if each.owner is scope.owner}
        for tie in _assigned(scope):
            names = [ast.unparse(tie.targets[0]), ast.unparse(tie.value)]
            if isinstance(tie.value, ast.Attribute) and all(map(_is_weight, names)) and names[0] != names[1]:
                later = [each for each in _assigned(scope) if each.lineno > tie.lineno]
                for call in certain_nodes(scope):
                    if isinstance(call, ast.Call) and call.lineno > tie.lineno and _is_own(call):
                        method = methods.get(last_name(call.func))
                        later += _assigned(method) if method is not None else []
                yield from _replacing(names, later, tie.lineno)


def _assigned(scope: Scope) -> list[ast.Assign]:
    """The assignments that surely run, with one target each."""
    return [node for node in certain_nodes(scope) if isinstance(node, ast.Assign) and len(node.targets) == 1]


def _is_own(call: ast.Call) -> bool:
    """Whether a call is one of a method of `self`."""
    return isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "self"


def _is_weight(name: str) -> bool:
    return name.startswith("self.") and name.endswith(".weight")


def _replacing(names: Sequence[str], later: Sequence[ast.Assign], tied: int) -> Iterator[Pattern]:
    """The only assignment of a new parameter to one of two tied weights, if nothing else assigns them."""
    found = [each for each in later if ast.unparse(each.targets[0]) in names]
    if len(found) == 1 and isinstance(found[0].value, ast.Call) and last_name(found[0].value.func) == "Parameter":
        name = ast.unparse(found[0].targets[0])
        (other,) = (each for each in names if each != name)
        if other not in ast.unparse(found[0].value):  # `Parameter(other)` is a copy of the tie.
            yield Pattern(REPLACED, found[0].lineno, (name, other), tied)
