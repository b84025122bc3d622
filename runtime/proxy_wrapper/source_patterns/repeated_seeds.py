"""Finds functions that set a constant seed and draw, and that each pass of a training loop calls.

def sample_batch(x, y, size):
    torch.manual_seed(0)                        # so each call draws the same rows
    rows = torch.randint(len(x), (size,))
    return x[rows], y[rows]
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.syntax import last_name, nodes_within
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy_wrapper.program_code.syntax import Scope

RESEEDED: Final = "seed-repeated"

_SEEDS: Final = frozenset({"manual_seed", "seed", "seed_everything", "set_seed", "seed_all"})
_DRAWS: Final = frozenset(
    {"randint", "randperm", "multinomial", "choice", "choices", "sample", "shuffle", "permutation"}
)


def repeated_seeds(scopes: Sequence[Scope]) -> Iterator[Pattern]:
    """The lines of a file that set such a seed. `names` has the call, `other` is the line that draws."""
    for loop in (node for scope in scopes for node in scope.nodes if isinstance(node, (ast.For, ast.While))):
        calls = [node for node in nodes_within(loop) if isinstance(node, ast.Call)]
        if not any(last_name(call.func) == "backward" for call in calls):
            continue
        called = {last_name(call.func) for call in calls}
        inside = [calls, *(scope.calls for scope in scopes if scope.name in called)]
        for group in inside:
            seed = next((call for call in group if _is_constant_seed(call)), None)
            draw = None if seed is None else next((each for each in group if _draws_after(each, seed)), None)
            if seed is not None and draw is not None:
                yield Pattern(RESEEDED, seed.lineno, (ast.unparse(seed),), draw.lineno)
                return


def _is_constant_seed(call: ast.Call) -> bool:
    """Whether a call sets a seed that is a number, or a constant by its name."""
    if last_name(call.func) not in _SEEDS or len(call.args) != 1:
        return False
    (seed,) = call.args
    return isinstance(seed, ast.Constant) or (isinstance(seed, ast.Name) and seed.id.isupper())


def _draws_after(call: ast.Call, seed: ast.Call) -> bool:
    return last_name(call.func) in _DRAWS and call.lineno >= seed.lineno
