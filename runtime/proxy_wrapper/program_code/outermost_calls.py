"""Finds the outermost call of a statement, whose arguments contain its other calls, and the called function.

For `loss = self.criterion(self.model(x), y)` it is `self.criterion`, which computes the value; the others compute its
arguments. The bytecode tells, by what each instruction leaves on the stack. Nothing is run: attributes are looked up
statically.
"""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from torch import nn

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

    from proxy_wrapper.program_code.called_functions import Body

UNKNOWN: Final = object()
"""Stands for an unknown value."""

_MOST_BYTES: Final = 1 << 16
_VARIABLES: Final = frozenset(
    {"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF"}
)
_ATTRIBUTES: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_CALLS: Final = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION", "CALL_FUNCTION_KW", "CALL_FUNCTION_EX", "CALL_METHOD"})
_SILENT: Final = frozenset({"PUSH_NULL", "PRECALL", "KW_NAMES", "EXTENDED_ARG", "CACHE", "NOP", "RESUME"})
_ENDS: Final = frozenset({"RETURN_VALUE", "STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF"})
_SUBSCRIPTS: Final = frozenset({"BINARY_SUBSCR", "BINARY_OP_SUBSCR"})
_PARTS: Final = _SILENT | _ATTRIBUTES | _SUBSCRIPTS


def outermost_callee(code: CodeType, line: int, name: str = "") -> tuple[str, ...]:
    """The path of the function whose result a line assigns to `name`.

    If `name` is "", the result that the line assigns, returns, or calls `backward` on. Attributes begin with a dot:
    ("self", ".criterion"). () if the value does not come from a call. An item or attribute taken from the result, or a
    scaling of it, does not matter.
    """
    if len(code.co_code) > _MOST_BYTES:
        return ()
    instructions = list(dis.get_instructions(code))
    lines = lines_of(code, instructions)
    ends = [
        index
        for index, each in enumerate(instructions)
        if lines[index] == line
        and (
            (each.opname.startswith("STORE") and each.argval == name)
            if name
            else each.opname in _ENDS or (each.opname in _ATTRIBUTES and each.argval == "backward")
        )
    ]
    return _callee_before(instructions, ends[-1]) if ends else ()


def callee_of_receiver(code: CodeType, offset: int) -> tuple[str, ...]:
    """The path of the function on whose result the method at an offset is called.

    For `criterion(model(x), y).backward()` it is `criterion`; () if the receiver is not the result of a call.
    """
    if len(code.co_code) > _MOST_BYTES:
        return ()
    instructions = list(dis.get_instructions(code))
    # Since Python 3.11, the offset may lie in an instruction's inline cache.
    at = sum(each.offset <= offset for each in instructions) - 1
    while at > 0 and instructions[at].opname in _CALLS | _SILENT:
        at -= 1
    is_method = at > 0 and instructions[at].opname in _ATTRIBUTES
    return _callee_before(instructions, at) if is_method else ()


def makes_other_class(body: Body, line: int, name: str, kind: type) -> bool:
    """Whether a line assigns to the attribute `name` a module of a class that `kind` is not."""
    code = body.code
    if len(code.co_code) > _MOST_BYTES:
        return False
    instructions = list(dis.get_instructions(code))
    lines = lines_of(code, instructions)
    stores = (
        index
        for index, each in enumerate(instructions)
        if each.opname == "STORE_ATTR" and each.argval == name and lines[index] == line
    )
    last = next(stores, 0) - 1
    while last > 0 and instructions[last].opname in _VARIABLES:  # The object that gets the attribute.
        last -= 1
    path = callee_at(instructions, last)
    value = value_of(path, body) if path else UNKNOWN
    return isinstance(value, type) and issubclass(value, nn.Module) and not issubclass(kind, value)


def is_discarded(frame: FrameType) -> bool:
    """Whether the statement at which a frame is, a call, drops the result: `model(x)` alone on its line."""
    code = frame.f_code
    if len(code.co_code) > _MOST_BYTES:
        return False
    following = (each.opname for each in dis.get_instructions(code) if each.offset > frame.f_lasti)
    return next((name for name in following if name not in _SILENT), "") == "POP_TOP"


class DiscardedCallee(NamedTuple):
    """A call whose result is dropped: its line, the path of the callee, and the constants and keywords passed."""

    line: int
    names: tuple[str, ...]
    constants: frozenset[Any]


def discarded_callees(code: CodeType) -> Iterator[DiscardedCallee]:
    """The calls of a function whose results are dropped."""
    if len(code.co_code) > _MOST_BYTES:
        return
    instructions = list(dis.get_instructions(code))
    lines = lines_of(code, instructions)
    for index, each in enumerate(instructions):
        if each.opname != "POP_TOP" or index < 1 or instructions[index - 1].opname not in _CALLS:
            continue
        names = callee_at(instructions, index - 1)
        if names:
            start, _ = _start_of(instructions, index - 1)
            yield DiscardedCallee(lines[start], names, _constants_in(instructions[start:index], code))


def looped_lines(code: CodeType) -> frozenset[int]:
    """The lines of a function that are in a loop."""
    instructions = list(dis.get_instructions(code))
    lines = lines_of(code, instructions)
    jumps = {*dis.hasjrel, *dis.hasjabs}
    loops = [(each.argval, each.offset) for each in instructions if each.opcode in jumps and each.argval < each.offset]
    return frozenset(
        line
        for each, line in zip(instructions, lines, strict=True)
        if any(start <= each.offset <= end for start, end in loops)
    )


def _constants_in(instructions: list[dis.Instruction], code: CodeType) -> frozenset[Any]:
    """The strings and booleans that instructions load, and the keywords that they pass."""
    found: set[Any] = set()
    for each in instructions:
        value = code.co_consts[each.arg or 0] if each.opname == "KW_NAMES" else each.argval
        if each.opname in ("KW_NAMES", "LOAD_CONST"):
            values = value if isinstance(value, tuple) else (value,)
            found.update(one for one in values if isinstance(one, (str, bool)))
    return frozenset(found)


def value_of(path: tuple[str, ...], body: Body) -> Any:
    """The value of a path, as from `outermost_callee`, in a function; `UNKNOWN` if it cannot be determined."""
    first, *attributes = path
    is_local = first in body.code.co_varnames or first in body.code.co_freevars
    value: Any = body.values.get(first, UNKNOWN)
    if value is UNKNOWN and not is_local:
        value = body.names.get(first, vars(builtins).get(first, UNKNOWN))
    for attribute in attributes:
        if value is UNKNOWN:
            break
        value = _attribute(value, attribute[1:])
    return value


def value_of_name(expression: ast.expr, body: Body) -> Any:
    """The value of a name or of an attribute of one; `UNKNOWN` for other expressions, and if it is not known."""
    attributes: list[str] = []
    while isinstance(expression, ast.Attribute):
        attributes.insert(0, f".{expression.attr}")
        expression = expression.value
    return value_of((expression.id, *attributes), body) if isinstance(expression, ast.Name) else UNKNOWN


def _attribute(value: Any, name: str) -> Any:
    found = inspect.getattr_static(value, name, UNKNOWN)
    if found is UNKNOWN and issubclass(type(value), nn.Module):
        found = (vars(value).get("_modules") or {}).get(name, UNKNOWN)
    return found.__func__ if type(found) in (staticmethod, classmethod) else found


def _callee_before(instructions: list[dis.Instruction], end: int) -> tuple[str, ...]:
    """The path of the last call before an instruction that uses its result."""
    last = _skip_parts(instructions, end - 1)
    return callee_at(instructions, last)


def callee_at(instructions: list[dis.Instruction], last: int) -> tuple[str, ...]:
    """The path of the callee of the instruction at `last`; () if that is no call, or its callee has no name."""
    if last < 0 or instructions[last].opname not in _CALLS:
        return ()
    start, depths = _start_of(instructions, last)
    return _names_at(instructions, depths, start, last) if start >= 0 else ()


def _start_of(instructions: list[dis.Instruction], last: int) -> tuple[int, dict[int, int]]:
    """The first instruction of the expression that ends at `last`, and the stack depth after each.

    The first is -1 if the expression has branches.
    """
    depths: dict[int, int] = {}
    depth, start = 1, last
    for index in range(last, -1, -1):
        each = instructions[index]
        if each.opcode in dis.hasjrel or each.opcode in dis.hasjabs:
            return -1, depths
        depths[index] = depth
        depth -= stack_effect(each)
        if depth <= 0:
            start = index
            break
    else:
        return -1, depths
    return start, depths


def _skip_parts(instructions: list[dis.Instruction], last: int) -> int:
    """The instruction whose result later ones, up to `last`, index, scale or reduce."""
    while last > 0:
        each, before = instructions[last], instructions[last - 1]
        is_item = each.opname == "LOAD_CONST" and instructions[last + 1].opname in _SUBSCRIPTS
        if each.opname in _PARTS or each.opname.startswith(("STORE", "UNPACK")) or is_item:
            last -= 1
        elif each.opname.startswith("BINARY") and before.opname in _VARIABLES | {"LOAD_CONST"}:
            last -= 2  # For example, a division by the number of batches.
        elif each.opname in _CALLS and not each.arg and _method_on_result(instructions, last):
            last = _method_on_result(instructions, last) - 1
        else:
            break
    return last


def _method_on_result(instructions: list[dis.Instruction], call: int) -> int:
    """The instruction that loads a method of another call's result, if it is called without arguments; else 0."""
    index = call - 1
    while index > 0 and instructions[index].opname in _SILENT:
        index -= 1
    is_method = index > 0 and instructions[index].opname in _ATTRIBUTES
    return index if is_method and instructions[index - 1].opname in _CALLS else 0


def _names_at(instructions: list[dis.Instruction], depths: dict[int, int], start: int, last: int) -> tuple[str, ...]:
    """The path that begins at an instruction, if the call at `last` calls it; else ()."""
    index = start
    while index < last and instructions[index].opname in _SILENT:
        index += 1
    if instructions[index].opname not in _VARIABLES or not isinstance(instructions[index].argval, str):
        return ()
    names = [instructions[index].argval]
    while instructions[index + 1].opname in _ATTRIBUTES and index + 1 < last:
        index += 1
        names.append(f".{instructions[index].argval}")
    if instructions[index + 1].opname == "PUSH_NULL" and depths[index] == 1:  # As since Python 3.13.
        index += 1
    callee = depths[index]
    between = (each for each in range(index + 1, last) if instructions[each].opname not in _SILENT)
    return tuple(names) if all(depths[each] > callee for each in between) else ()


def stack_effect(instruction: dis.Instruction) -> int:
    """The change of stack depth by an instruction that does not jump."""
    has_argument = instruction.opcode >= dis.HAVE_ARGUMENT
    return dis.stack_effect(instruction.opcode, instruction.arg if has_argument else None, jump=False)


def lines_of(code: CodeType, instructions: list[dis.Instruction]) -> list[int]:
    """The line of each instruction."""
    ranges = list(code.co_lines())
    found, place = [], 0
    for each in instructions:
        while place + 1 < len(ranges) and each.offset >= ranges[place][1]:
            place += 1
        found.append(ranges[place][2] or 0 if ranges else 0)
    return found
