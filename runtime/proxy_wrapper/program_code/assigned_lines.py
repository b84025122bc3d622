"""Finds the line that assigned a variable of a running function, an attribute or an item.

Lines are read from the bytecode, where each instruction has one. Nothing is run, and no source is needed.
"""

from __future__ import annotations

import dis
from bisect import bisect_right
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

_STORES: Final = frozenset({"STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF", "STORE_ATTR"})
_JUMPS: Final = frozenset({*dis.hasjrel, *dis.hasjabs})
_COPIES: Final = frozenset({"clone", "copy", "deepcopy", "zeros", "zeros_like", "empty_like"})
_LONGEST_WORD: Final = 100
_MOST_WORDS: Final = 20
MOST_BYTES: Final = 1 << 16
"""The most bytes of bytecode that are read. Longer code is generated, and reading it would take a while."""


class AssignedLine(NamedTuple):
    """A line of a function: its code, the line's number in the file, and the name assigned there."""

    code: CodeType
    line: int
    name: str = ""


class NamedInstruction(NamedTuple):
    """An instruction that reads or writes a name. The name of an attribute begins with a dot."""

    offset: int
    line: int
    is_store: bool
    name: str


def variable_used(frame: FrameType) -> AssignedLine | None:
    """The assignment of the variable that the current line of `frame` uses; None if the line uses none.

    Of several variables, it is the one assigned last before that line: for `(loss / count).backward()` it is the loss,
    which is recomputed each time.
    """
    code = frame.f_code
    instructions = named_instructions(code)
    place = bisect_right(instructions, (frame.f_lasti, code.co_firstlineno + len(code.co_code)))
    line = frame.f_lineno
    used = set()
    while place and instructions[place - 1].line == line:
        place -= 1
        if not instructions[place].is_store:
            used.add(instructions[place].name)
    stores = (each for each in reversed(instructions[:place]) if each.is_store and each.name in used)
    found = next(stores, None)
    return None if found is None else AssignedLine(code, found.line, found.name)


def variables_behind(frame: FrameType) -> list[AssignedLine]:
    """The variables that the current line of `frame` uses, those that they were computed from, and so on.

    Each has the line of its last assignment before its use, and they are in code order. Attributes and parameters are
    left out.
    """
    code = frame.f_code
    instructions = named_instructions(code)
    place = bisect_right(instructions, (frame.f_lasti, code.co_firstlineno + len(code.co_code)))
    return _variables_behind(code, instructions, place, frame.f_lineno)


def lines_behind(at: AssignedLine) -> set[int]:
    """The line itself, and the lines that assign the variables from which it computes its result."""
    instructions = named_instructions(at.code)
    place = max((index + 1 for index, each in enumerate(instructions) if each.line == at.line), default=0)
    return {at.line} | {each.line for each in _variables_behind(at.code, instructions, place, at.line)}


def _variables_behind(
    code: CodeType, instructions: list[NamedInstruction], place: int, line: int
) -> list[AssignedLine]:
    found: dict[int, AssignedLine] = {}
    pending = [(place, line)]
    while pending:
        end, line = pending.pop()
        for name, at in _loads_of_statement(instructions, end, line):
            index = next((i for i in reversed(range(at)) if instructions[i][2:] == (True, name)), None)
            if index is not None and index not in found:
                found[index] = AssignedLine(code, instructions[index].line, name)
                pending.append((index, instructions[index].line))
    return [found[index] for index in sorted(found) if not found[index].name.startswith(".")]


def _loads_of_statement(instructions: list[NamedInstruction], end: int, line: int) -> Iterator[tuple[str, int]]:
    """The names that the statement beginning at `line` reads before `end`, with the indices of their instructions.

    `a, b = ...` writes several names in a row. Earlier statements have smaller line numbers.
    """
    place = end
    while place and instructions[place - 1].is_store and instructions[place - 1].line == line:
        place -= 1
    while place and not instructions[place - 1].is_store and instructions[place - 1].line >= line:
        place -= 1
        yield instructions[place].name, place


def assigned_before(code: CodeType, line: int, name: str) -> AssignedLine | None:
    """The last assignment of a variable above a line, in code order; None if there is none."""
    found = None
    for each in named_instructions(code):
        if each.line == line and not each.is_store and each.name == name:
            break
        if each.is_store and each.name == name:
            found = AssignedLine(code, each.line, name)
    return found


def attribute_assigned(frame: FrameType, name: str, beside: CodeType | None = None) -> AssignedLine | None:
    """The assignment of an attribute of that name in a running function or in one defined within it.

    `beside`: a function that does not count.
    """
    for code in _codes_around(frame):
        if name in code.co_names and code is not beside:
            stores = (each for each in named_instructions(code) if each.is_store)
            found = next((each for each in stores if each.name == f".{name}"), None)
            if found is not None:
                return AssignedLine(code, found.line)
    return None


def constant_assigned(frame: FrameType, name: str, value: object) -> AssignedLine | None:
    """The only assignment of a constant to an attribute of that name, searched like `attribute_assigned`."""
    found = set()
    for code in _codes_around(frame):
        if name not in code.co_names or len(code.co_code) > MOST_BYTES:
            continue
        constant: object = None
        for each in dis.get_instructions(code):
            if each.opname.startswith("LOAD_CONST"):
                constant = each.argval
            elif each.opname == "STORE_ATTR" and each.argval == name and constant is value:
                found.add(AssignedLine(code, _line_at(code, each.offset)))
    return found.pop() if len(found) == 1 else None


def key_assigned(frame: FrameType, key: str) -> AssignedLine | None:
    """The assignment of an item with that key, such as `group["lr"] = rate`, searched like `attribute_assigned`."""
    return next((found for code in _codes_around(frame) if (found := key_assigned_in(code, key)) is not None), None)


def key_assigned_in(code: CodeType, key: str) -> AssignedLine | None:
    """The first assignment of an item with that key in a function; None if there is none."""
    if key in code.co_consts and len(code.co_code) <= MOST_BYTES:
        before = None
        for each in dis.get_instructions(code):
            if each.opname == "STORE_SUBSCR" and before is not None and before.argval == key:
                return AssignedLine(code, _line_at(code, each.offset))
            before = each
    return None


def kept_under(code: CodeType, key: str) -> AssignedLine | None:
    """The only line of a function that stores a value other than zeros or a copy under a key; else None."""
    if key not in code.co_consts or len(code.co_code) > MOST_BYTES:
        return None
    before = None
    found = set()
    for each in dis.get_instructions(code):
        if each.opname == "STORE_SUBSCR" and before is not None and before.argval == key:
            found.add(_line_at(code, each.offset))
        before = each
    found -= {each.line for each in named_instructions(code) if each.name.lstrip(".") in _COPIES}
    return AssignedLine(code, found.pop()) if len(found) == 1 else None


def words_of_line(frame: FrameType) -> tuple[str, ...]:
    """The names and short strings that the current line of `frame` reads, in order, without duplicates."""
    code, line = frame.f_code, frame.f_lineno
    spans = [(start, end) for start, end, at in code.co_lines() if at == line]
    return _words(code, lambda offset: any(start <= offset < end for start, end in spans))


def words_of_code(code: CodeType) -> tuple[str, ...]:
    """The names and short strings that a function reads, likewise."""
    return _words(code, lambda _: True)


def _words(code: CodeType, is_meant: Callable[[int], bool]) -> tuple[str, ...]:
    """The names and short strings that the instructions at some offsets read."""
    if len(code.co_code) > MOST_BYTES:
        return ()
    words = {
        str(each.argval): None
        for each in dis.get_instructions(code)
        if each.opname.startswith("LOAD")
        and isinstance(each.argval, str)
        and len(each.argval) <= _LONGEST_WORD
        and is_meant(each.offset)
    }
    return tuple(words)[:_MOST_WORDS]


def loops_of(code: CodeType) -> list[range]:
    """The lines of the loops of a function: those between a jump backwards and its target."""
    if len(code.co_code) > MOST_BYTES:
        return []
    jumps = [
        (each.argval, each.offset)
        for each in dis.get_instructions(code)
        if each.opcode in _JUMPS and each.argval < each.offset
    ]
    lines = [(start, line) for start, _, line in code.co_lines() if line]
    within = [[line for start, line in lines if target <= start <= jump] for target, jump in jumps]
    return [range(min(each), max(each) + 1) for each in within if each]


def _codes_around(frame: FrameType) -> Iterator[CodeType]:
    """The code of a running function and of the functions defined in it, then of its caller, and so on."""
    at: FrameType | None = frame
    seen: set[int] = set()
    while at is not None:
        pending = [at.f_code]
        while pending:
            code = pending.pop()
            if id(code) not in seen:
                seen.add(id(code))
                pending += [each for each in code.co_consts if isinstance(each, CodeType)]
                yield code
        at = at.f_back


def _line_at(code: CodeType, offset: int) -> int:
    """The line of the instruction at an offset; 0 if it has none."""
    return next((line or 0 for start, end, line in code.co_lines() if start <= offset < end), 0)


class AttributeLines:
    """Finds where the `__init__` of a class assigns an attribute; the code of each class is read once."""

    def __init__(self) -> None:
        # The key is an id because hashing a code object reads all its instructions. The codes are kept so that ids
        # stay unique.
        self._known: dict[int, tuple[CodeType, dict[str, int]]] = {}

    def find(self, owner: type, name: str) -> AssignedLine | None:
        """The line where the `__init__` of a class or of a base class assigns the attribute `name`."""
        for each in owner.__mro__:
            function = vars(each).get("__init__")
            if not isinstance(function, FunctionType) or each.__module__.startswith("torch."):
                continue
            code = function.__code__
            if id(code) not in self._known:
                lines: dict[str, int] = {}
                for instruction in named_instructions(code):
                    if instruction.is_store:
                        lines.setdefault(instruction.name, instruction.line)
                self._known[id(code)] = code, lines
            line = self._known[id(code)][1].get(f".{name}")
            if line is not None:
                return AssignedLine(code, line)
        return None


def named_instructions(code: CodeType) -> list[NamedInstruction]:
    """The instructions that read or write names, in order. The name of an attribute begins with a dot."""
    if len(code.co_code) > MOST_BYTES:
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
            NamedInstruction(instruction.offset, line, is_store, f"{dot}{name}")
            for name, is_store in zip(names, kinds, strict=True)
            if isinstance(name, str)
        ]
    return found


def _kinds(opname: str, count: int) -> list[bool]:
    """For each name of an instruction, whether it is written; `STORE_FAST_LOAD_FAST` has two names."""
    stores = [part == "STORE" for part in opname.split("_") if part in ("LOAD", "STORE")]
    return stores if len(stores) == count else [opname in _STORES] * count
