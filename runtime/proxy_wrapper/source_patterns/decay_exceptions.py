"""Finds lists of strings by which parameters are excepted from weight decay.

no_decay = ["bias", "LayerNorm.weight"]
decayed = [p for n, p in model.named_parameters() if not any(part in n for part in no_decay)]
groups = [{"params": decayed, "weight_decay": 0.01}, ...]
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.syntax import last_name
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy_wrapper.program_code.syntax import Scope

EXCEPTED: Final = "decay-excepted"

_DECAY: Final = "weight_decay"


def decay_exceptions(scopes: Sequence[Scope]) -> Iterator[Pattern]:
    """The line of each such list, with its strings."""
    seen: set[int] = set()
    for scope in scopes:
        keys = (key for node in scope.nodes if isinstance(node, ast.Dict) for key in node.keys)
        if not any(isinstance(key, ast.Constant) and key.value == _DECAY for key in keys):
            continue
        for call in scope.calls:
            searched = _searched(call)
            strings = None if searched is None else _literal(scope.resolved(searched, scopes[:1], with_defaults=True))
            if strings is not None and strings.lineno not in seen:
                seen.add(strings.lineno)
                yield Pattern(EXCEPTED, strings.lineno, tuple(_constants(strings)))


def _searched(call: ast.Call) -> ast.expr | None:
    """The strings of which any may be part of a name: `parts` in `any(part in name for part in parts)`; else None."""
    inside = call.args[0] if last_name(call.func) == "any" and len(call.args) == 1 else None
    if not isinstance(inside, (ast.GeneratorExp, ast.ListComp)) or len(inside.generators) != 1:
        return None
    test, loop = inside.elt, inside.generators[0]
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.In) or len(test.ops) != 1:
        return None
    part, name = test.left, test.comparators[0]
    is_part = isinstance(part, ast.Name) and isinstance(loop.target, ast.Name) and part.id == loop.target.id
    return loop.iter if is_part and isinstance(name, ast.Name) and not loop.ifs else None


def _literal(value: ast.expr) -> ast.List | ast.Tuple | ast.Set | None:
    """The literal of strings that an expression is; None for other expressions."""
    if not isinstance(value, (ast.List, ast.Tuple, ast.Set)) or len(_constants(value)) != len(value.elts):
        return None
    return value


def _constants(literal: ast.List | ast.Tuple | ast.Set) -> list[str]:
    values = [each.value for each in literal.elts if isinstance(each, ast.Constant)]
    return [each for each in values if isinstance(each, str)]
