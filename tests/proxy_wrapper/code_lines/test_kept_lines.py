"""The line that keeps a loss with its graph is found; lines that use its number are not."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from proxy_wrapper.code_lines.kept_lines import kept_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType


def syntax_of(code: CodeType) -> Any:
    tree = ast.parse(textwrap.dedent(inspect.getsource(sys.modules[__name__])))
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return next((node for node in functions if node.lineno == code.co_firstlineno), None)


class Loss:
    """Its `backward` notes which line keeps it, counted from the first of its function."""

    found: tuple[str, int] | None = None

    def backward(self) -> None:
        line = kept_line(sys._getframe(1), syntax_of)
        Loss.found = None if line is None else (line.code.co_name, line.line - line.code.co_firstlineno)

    def __radd__(self, other: Any) -> Any:
        return other

    def __rmul__(self, other: Any) -> Any:
        return other

    def item(self) -> float:
        return 0.0


def added(total: Any = 0) -> None:
    loss = Loss()
    loss.backward()
    total += 4 * loss


def added_anew(total: Any = 0) -> None:
    loss = Loss()
    loss.backward()
    print(loss.item())
    total = total + loss


def appended(losses: Any) -> None:
    loss = Loss()
    loss.backward()
    losses.append({"step": 1, "loss": loss})


def under_a_key(log: Any) -> None:
    loss = Loss()
    loss.backward()
    log[1] = loss


def returned() -> Loss:
    loss = Loss()
    loss.backward()
    return loss


def kept_by_caller(losses: Any) -> None:
    value = returned()
    losses.append(value)


def in_two_places(losses: Any) -> None:
    loss = Loss()
    loss.backward()
    losses.append(loss)
    losses.append((1, loss))


def as_number(losses: Any, total: float = 0.0) -> None:
    loss = Loss()
    loss.backward()
    total += loss.item()
    losses.append(loss.item())


@pytest.mark.parametrize(
    ("function", "line"),
    [(added, 3), (appended, 3), (added_anew, 4), (under_a_key, 3), (kept_by_caller, 2)],
)
def test_the_line_that_keeps_a_loss(function: Callable[..., None], line: int) -> None:
    function(*[{} if function is under_a_key else []] * (function not in (added, added_anew)))
    assert Loss.found == (function.__name__, line)


@pytest.mark.parametrize("function", [in_two_places, as_number])
def test_the_assignment_counts_if_no_line_is_certain(function: Callable[[Any], None]) -> None:
    function([])
    assert Loss.found == (function.__name__, 1)
