"""Finds the line where a value was assigned: that of a variable in a running function, that of a module's attribute.

Both are read off the bytecode, where each instruction has its line. Nothing is run, and no source is needed.
"""

from __future__ import annotations

import dis
from bisect import bisect_right
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from types import FrameType

_STORES: Final = frozenset({"STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF", "STORE_ATTR"})
_MOST_BYTES: Final = 1 << 16
"""How long bytecode may be to be read: longer is written by programs, and reading it would take a while."""


class AssignedLine(NamedTuple):
    """A line of a function: its code, and the number of the line in its file."""

    code: CodeType
    line: int


class _Instruction(NamedTuple):
    """An instruction that reads or writes a name."""

    offset: int
    line: int
    is_store: bool
    name: str


def variable_used(frame: FrameType) -> AssignedLine | None:
    """Where the variable was assigned that the line which `frame` is at uses; None if that line uses none.

    Of several variables it is the one that was assigned last before that line: of `(loss / count).backward()` the loss,
    which is computed anew each time.
    """
    code = frame.f_code
    instructions = _instructions(code)
    place = bisect_right(instructions, (frame.f_lasti, code.co_firstlineno + len(code.co_code)))
    line = frame.f_lineno
    used = set()
    while place and instructions[place - 1].line == line:
        place -= 1
        if not instructions[place].is_store:
            used.add(instructions[place].name)
    stores = (each for each in reversed(instructions[:place]) if each.is_store and each.name in used)
    found = next(stores, None)
    return None if found is None else AssignedLine(code, found.line)


def attribute_assigned(frame: FrameType, name: str) -> AssignedLine | None:
    """Where an attribute of that name is assigned, by a function that is running, or one that is defined beside it."""
    at: FrameType | None = frame
    seen: set[int] = set()
    while at is not None:
        pending = [at.f_code]
        while pending:
            code = pending.pop()
            if id(code) in seen:
                continue
            seen.add(id(code))
            pending += [each for each in code.co_consts if isinstance(each, CodeType)]
            if name in code.co_names:
                found = next((each for each in _instructions(code) if each.is_store and each.name == f".{name}"), None)
                if found is not None:
                    return AssignedLine(code, found.line)
        at = at.f_back
    return None


def arguments_given(frame: FrameType) -> tuple[int, tuple[str, ...]] | None:
    """How many arguments the call that `frame` is at gives by position, and the names of the rest; None if unknown."""
    upto = [each for each in dis.get_instructions(frame.f_code) if each.offset <= frame.f_lasti]
    upto = [each for each in upto if each.opname not in ("CACHE", "PRECALL")]
    if len(upto) < 2:
        return None
    before, call = upto[-2:]
    if not call.opname.startswith("CALL") or call.opname == "CALL_FUNCTION_EX" or call.arg is None:
        return None
    names: Any = ()
    if before.opname == "KW_NAMES":
        names = frame.f_code.co_consts[before.arg or 0]
    elif call.opname in ("CALL_KW", "CALL_FUNCTION_KW"):
        names = before.argval
    return (call.arg - len(names), names) if isinstance(names, tuple) else None


class AttributeLines:
    """Finds where the `__init__` of a class assigns an attribute, and reads the code of each class once."""

    def __init__(self) -> None:
        # By id, since the hash of a code object reads all its instructions; the codes are kept, so that ids stay true.
        self._known: dict[int, tuple[CodeType, dict[str, int]]] = {}

    def find(self, owner: type, name: str) -> AssignedLine | None:
        """Where the `__init__` of a class, or of one that it is derived from, assigns an attribute by its name."""
        for each in owner.__mro__:
            function = vars(each).get("__init__")
            if not isinstance(function, FunctionType) or each.__module__.startswith("torch."):
                continue
            code = function.__code__
            if id(code) not in self._known:
                lines: dict[str, int] = {}
                for instruction in _instructions(code):
                    if instruction.is_store:
                        lines.setdefault(instruction.name, instruction.line)
                self._known[id(code)] = code, lines
            line = self._known[id(code)][1].get(f".{name}")
            if line is not None:
                return AssignedLine(code, line)
        return None


def _instructions(code: CodeType) -> list[_Instruction]:
    """The instructions that read or write names, in order; an attribute has a dot before its name."""
    if len(code.co_code) > _MOST_BYTES:
        return []
    ranges = [(start, line or 0) for start, _, line in code.co_lines()]
    starts = [start for start, _ in ranges]
    found = []
    for instruction in dis.get_instructions(code):
        kind, _, what = instruction.opname.partition("_")
        if kind not in ("LOAD", "STORE") or what.startswith("CONST"):
            continue
        names = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
        line = ranges[bisect_right(starts, instruction.offset) - 1][1]
        dot = "." if what in ("ATTR", "METHOD") else ""
        kinds = _kinds(instruction.opname, len(names))
        found += [
            _Instruction(instruction.offset, line, is_store, f"{dot}{name}")
            for name, is_store in zip(names, kinds, strict=True)
            if isinstance(name, str)
        ]
    return found


def _kinds(opname: str, count: int) -> list[bool]:
    """For each name of an instruction whether it is written: several have two, as `STORE_FAST_LOAD_FAST`."""
    stores = [part == "STORE" for part in opname.split("_") if part in ("LOAD", "STORE")]
    return stores if len(stores) == count else [opname in _STORES] * count
