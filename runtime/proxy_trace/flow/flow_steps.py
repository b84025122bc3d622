"""Flow steps: which way a program went, test by test and loop by loop, as a trace has it."""

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
"""Methods of tensors that tests ask."""

_TRUTH: Final = "__bool__"

_REMEMBERED: Final = 1 << 12
"""How many tensors the calls are remembered of that made them, where tests have to be named after these."""


class FlowStep(NamedTuple):
    """A test that came out, or a loop that ended.

    Attributes:
        construct: "if", "elif", "while", "for", "ifexp", "assert", "comprehension" or "match"; "" where the trace has
            only that a tensor's truth was asked.
        name: of a single comparison or a tensor's method that of the call, numbered as `torch.fx` numbers nodes within
            one call of the model ("gt", "gt_1", "all_1"); of a loop what it goes over; else the text of the test.
        value: the truth of a test; None for a loop.
        iterations: how many elements a loop took; None for a test.
        file: where it stands, as the trace has it.
        function: the qualified name of the function.
        line: the line of the test.
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
    """Whether a record of a flow step is among the events."""
    return any(type(event) is events.FlowStep for event in happened)


def flow_steps(happened: Iterable[AnyEvent], names: Names, *, from_reads: bool = False) -> Iterator[FlowSighting]:
    """The flow steps among the events of one process, in their order.

    Args:
        happened: the events.
        names: what the ids in them stand for.
        from_reads: take the truths of tensors that a trace at DEBUG has, in place of records of flow steps. Their
            constructs are not known, and tests on other values are not among them.
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
    """What a step is called.

    Args:
        construct: its construct.
        text: its text.
        counts: how often each call was named before in the same call of the model; this one is added.
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
    """`name`, with a number behind it if it was given before, or is one of Python's."""
    number = counts[name] + (hasattr(builtins, name) or keyword.iskeyword(name))
    counts[name] += 1
    return f"{name}_{number}" if number else name


@lru_cache(maxsize=1 << 12)
def _name(construct: str, text: str) -> tuple[str, bool]:
    """What a step is called by its text, and whether that is a call."""
    try:
        if construct == "for" or (construct == "comprehension" and text.startswith("for ")):
            loop = ast.parse(f"for {text.removeprefix('for ')}: pass").body[0]
            return (ast.unparse(loop.iter) if isinstance(loop, ast.For) else text), False
        test = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # It was shortened, or is from anywhere.
        return text, False
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in _COMPARISONS:
        return _COMPARISONS[type(test.ops[0])], True
    if isinstance(test, ast.Call) and isinstance(test.func, ast.Attribute) and test.func.attr in _TRUTHS:
        return test.func.attr, True
    return text, False
