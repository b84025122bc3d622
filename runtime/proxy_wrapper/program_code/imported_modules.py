"""Tells which names of a program are modules, whatever it calls them: `import torch as th` makes `th` one."""

from __future__ import annotations

import ast
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from proxy_wrapper.program_code.parsed_functions import statements_of

if TYPE_CHECKING:
    from collections.abc import Mapping

USUAL: Final[Mapping[str, str]] = MappingProxyType(
    {"torch": "torch", "nn": "torch.nn", "F": "torch.nn.functional", "np": "numpy", "numpy": "numpy"}
)
"""What modules are called where the imports are not known."""
TORCH: Final = "torch"
FUNCTIONAL: Final = "torch.nn.functional"


def modules_imported(tree: ast.Module) -> dict[str, str]:
    """The names that a file imports, each with its dotted name; some may be of functions or classes.

    The usual names of modules that it does not import, as by `import *`, have their usual meaning.
    """
    found = dict(USUAL)
    for node in statements_of(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                first = each.name.partition(".")[0]
                found[each.asname or first] = each.name if each.asname else first
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.update((each.asname or each.name, f"{node.module}.{each.name}") for each in node.names)
    return found


def modules_among(names: Mapping[str, Any]) -> dict[str, str]:
    """The names of the modules among the globals of a function, each with its dotted name."""
    return {name: value.__name__ for name, value in list(names.items()) if type(value) is ModuleType}


def module_of(expression: ast.expr, modules: Mapping[str, str]) -> str:
    """The dotted name of the module that an expression such as `torch.nn.functional` is; "" for other expressions."""
    if isinstance(expression, ast.Name):
        return modules.get(expression.id, "")
    within = module_of(expression.value, modules) if isinstance(expression, ast.Attribute) else ""
    return f"{within}.{expression.attr}" if within and isinstance(expression, ast.Attribute) else ""
