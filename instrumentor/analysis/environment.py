"""What each access path holds at one point of a function."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.analysis.values import join

if TYPE_CHECKING:
    from collections.abc import Iterable

    from instrumentor.analysis.values import Value


class Environment:
    """A mapping from access paths (`model`, `self.net`, `nets['g']`) to values; copied at branches."""

    def __init__(self, paths: dict[str, Value] | None = None) -> None:
        self.paths = {} if paths is None else paths

    def copy(self) -> Environment:
        """An independent copy."""
        return Environment(dict(self.paths))

    def get(self, path: str) -> Value | None:
        """What `path` holds; None where this function has not said."""
        return self.paths.get(path)

    def assign(self, path: str, value: Value) -> None:
        """Let `path` hold `value` and nothing else; what was under the old object is forgotten."""
        self.forget(path)
        last = path.rpartition(".")[2]
        if last != path:
            # Another path may lead to the same object: its attribute of that name may have changed with it.
            for other in [p for p in self.paths if p.endswith(f".{last}")]:
                self.paths[other] = join((self.paths[other], value))
        self.paths[path] = value

    def forget(self, path: str) -> None:
        """Forget `path` and all that lies under it."""
        for other in [p for p in self.paths if p == path or p.startswith((f"{path}.", f"{path}["))]:
            del self.paths[other]

    def forget_objects(self) -> None:
        """Forget all attributes and elements: code that cannot be seen here may have changed them."""
        for path in [p for p in self.paths if "." in p or "[" in p]:
            del self.paths[path]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Environment) and self.paths == other.paths

    __hash__ = None  # type: ignore[assignment]


def join_environments(environments: Iterable[Environment | None]) -> Environment | None:
    """What holds after any of several ways; None stands for a way that does not come through."""
    ways = [each for each in environments if each is not None]
    if not ways:
        return None
    joined: dict[str, Value] = {}
    for path in dict.fromkeys(path for way in ways for path in way.paths):
        known = [way.paths[path] for way in ways if path in way.paths]
        # A name that one way has not bound would be an error to use there; an attribute may hold what it held before.
        if len(known) == len(ways) or not ("." in path or "[" in path):
            joined[path] = join(known)
    return Environment(joined)


def path_of(expression: ast.AST) -> str | None:
    """The access path that an expression spells; None where it is none or its index is not constant."""
    if isinstance(expression, ast.Name):
        return expression.id
    if isinstance(expression, ast.Attribute):
        above = path_of(expression.value)
        return None if above is None else f"{above}.{expression.attr}"
    if isinstance(expression, ast.Subscript) and isinstance(expression.slice, ast.Constant):
        above = path_of(expression.value)
        return None if above is None else f"{above}[{expression.slice.value!r}]"
    return None
