"""Flow steps as a trace has them: the outcome of each condition, and the iterations of each loop."""

from __future__ import annotations

import ast
import builtins
import keyword
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from proxy_trace.reading.names import Names
    from proxy_wrapper.events import AnyEvent

_COMPARISONS: Final = {ast.Gt: "gt", ast.Lt: "lt", ast.GtE: "ge", ast.LtE: "le", ast.Eq: "eq", ast.NotEq: "ne"}

_TRUTHS: Final = frozenset({"all", "any", "allclose", "bool", "equal", "is_nonzero", "isclose", "isfinite", "isinf",
                            "isnan", "item", "logical_and", "logical_not", "logical_or", "logical_xor"})  # fmt: skip
"""Tensor methods used in conditions."""

_TRUTH: Final = "__bool__"

_REMEMBERED: Final = 1 << 12
"""The most tensors whose calls are remembered to name conditions."""


class FlowStep(NamedTuple):
    """A condition that was evaluated, or a loop that ended.

    Attributes:
        construct: "if", "elif", "while", "for", "ifexp", "assert", "comprehension" or "match"; "" if the trace only
            shows that a tensor's truth was read.
        name: for a single comparison or tensor method, the call, numbered as `torch.fx` numbers nodes within one call
            of the model ("gt", "gt_1", "all_1"); for a loop, what it iterates over; else the text of the condition.
        value: the outcome of a condition; None for a loop.
        iterations: the number of elements of a loop; None for a condition.
        file: the file, as in the trace.
        function: the qualified name of the function.
        line: the line of the condition or loop.
    """

    construct: str
    name: str
    value: bool | None
    iterations: int | None
    file: str
    function: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.function}.{self.line}"


class FlowSighting(NamedTuple):
    """A flow step, and the record that it was read from."""

    step: FlowStep
    event: events.FlowStep | events.ReadValue
    text: str


def has_flow_steps(happened: Iterable[AnyEvent]) -> bool:
    """Whether a flow step record is among the events."""
    return any(type(event) is events.FlowStep for event in happened)


def flow_steps(happened: Iterable[AnyEvent], names: Names, *, from_reads: bool = False) -> Iterator[FlowSighting]:
    """The flow steps among the events of one process, in order.

    Args:
        happened: the events.
        names: resolves the ids in the events.
        from_reads: whether to use reads of tensors' truth values, as in a trace at DEBUG, instead of flow step records.
            Their constructs are then unknown, and conditions on other values are missing.
    """
    counts: dict[int, Counter[str]] = {}
    makers: dict[int, str] = {}
    for event in happened:
        if isinstance(event, events.CallModule):
            module = names.modules.get(event.module)
            if module is not None and not module.parent:
                counts.pop(event.thread, None)
        elif isinstance(event, events.FlowStep) and not from_reads:
            yield _of_record(event, names, counts.setdefault(event.thread, Counter()))
        elif from_reads and isinstance(event, events.CallFunction):
            if len(makers) > _REMEMBERED:
                makers.clear()
            makers.update(dict.fromkeys(event.output_ids, event.target.rpartition(".")[2]))
        elif from_reads and isinstance(event, events.ReadValue) and event.target == _TRUTH:
            maker = makers.get(event.input_ids[0], "") if event.input_ids and event.input_ids[0] else ""
            text = maker or (event.inputs[0] if event.inputs else "")
            name = _numbered(maker, counts.setdefault(event.thread, Counter())) if maker else text
            value = event.value if isinstance(event.value, bool) else None
            yield FlowSighting(FlowStep("", name, value, None, *_place(event.location, names)), event, text)


def name_of_step(construct: str, text: str, counts: Counter[str]) -> str:
    """The name of a flow step.

    Args:
        construct: its construct.
        text: its text.
        counts: the number of earlier uses of each name in the same call of the model; updated.
    """
    name, is_call = _name(construct, text)
    return _numbered(name, counts) if is_call else name


def _of_record(event: events.FlowStep, names: Names, counts: Counter[str]) -> FlowSighting:
    name = name_of_step(event.construct, event.text, counts)
    step = FlowStep(event.construct, name, event.value, event.iterations, *_place(event.location, names))
    return FlowSighting(step, event, event.text)


def _place(id_: int, names: Names) -> tuple[str, str, int]:
    location = names.locations.get(id_)
    return (location.file, location.function, location.line) if location is not None else ("", "", 0)


def _numbered(name: str, counts: Counter[str]) -> str:
    """`name`, followed by a number if it was used before or is a Python name."""
    number = counts[name] + (hasattr(builtins, name) or keyword.iskeyword(name))
    counts[name] += 1
    return f"{name}_{number}" if number else name


@lru_cache(maxsize=1 << 12)
def _name(construct: str, text: str) -> tuple[str, bool]:
    """The name of a flow step by its text, and whether that is a call."""
    try:
        if construct == "for" or (construct == "comprehension" and text.startswith("for ")):
            loop = ast.parse(f"for {text.removeprefix('for ')}: pass").body[0]
            return (ast.unparse(loop.iter) if isinstance(loop, ast.For) else text), False
        test = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # The text was truncated, or is arbitrary.
        return text, False
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in _COMPARISONS:
        return _COMPARISONS[type(test.ops[0])], True
    if isinstance(test, ast.Call) and isinstance(test.func, ast.Attribute) and test.func.attr in _TRUTHS:
        return test.func.attr, True
    return text, False
