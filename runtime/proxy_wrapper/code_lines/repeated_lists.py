"""Finds lists that contain one new object several times: `self.blocks = nn.ModuleList([Block()] * 4)`.

Such a list has the same object at each position, not four objects. The function's bytecode shows it.
"""

from __future__ import annotations

import dis
from types import CodeType
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.assigned_lines import MOST_BYTES, AssignedLine
from proxy_wrapper.program_code.outermost_calls import callee_at, lines_of, stack_effect

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_ENDS = ("STORE_", "POP_TOP", "RETURN_")
"""Name prefixes of the instructions that end a statement, or a part of one."""
_CALL: Final = "CALL"
_VARIABLES: Final = ("LOAD_FAST", "LOAD_NAME", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_ATTR")


def repeats_new_object(code: CodeType, attribute: str) -> bool:
    """Whether a function assigns to an attribute a value made from a multiplied list with a call's result.

    The list may have been assigned to a variable first. If an expression has branches, the computed stack depth may be
    wrong, and so may the answer.
    """
    depth, lists = 0, set[int]()  # The places of such lists on the stack.
    is_new = is_repeated = False  # The last instruction was a call; the statement has multiplied a list.
    variables: dict[str, bool] = {}
    for each in dis.get_instructions(code):
        name = each.opname
        if name == "STORE_ATTR" and each.argval == attribute and is_repeated:
            return True
        if name.startswith("STORE_FAST") and isinstance(each.argval, str):
            variables[each.argval] = is_repeated
        if name.startswith("LOAD_FAST") and isinstance(each.argval, str):
            is_repeated |= variables.get(each.argval, False)
        if _multiplies(each) and not lists.isdisjoint((depth - 1, depth)):
            is_repeated = True
        if name.startswith(_ENDS):
            is_repeated = False
        depth += stack_effect(each)
        lists = {place for place in lists if place < depth}
        if name == "BUILD_LIST" and is_new:
            lists.add(depth)
        is_new = name.startswith(_CALL)
    return False


def repeated_line(codes: Iterable[CodeType], name: str) -> AssignedLine | None:
    """The first line in several functions that multiplies a list with a new object of a class with some name.

    Args:
        codes: the functions, searched with those that are defined in them. One that also multiplies a list with an
            object that was there before is left out: it may have made the container in question from that list.
        name: the class.
    """
    pending = list(codes)
    for code in pending:
        pending += [each for each in code.co_consts if isinstance(each, CodeType)]
        lists = list(_multiplied_lists(code))
        found = next((each for each in lists if each.name == name), None)
        if found is not None and all(each.name for each in lists):
            return found
    return None


def _multiplied_lists(code: CodeType) -> Iterator[AssignedLine]:
    """The lines that multiply a list, each with the name of the function that made its last item; "" for a variable.

    Lists whose last item is something else, such as a number, are left out.
    """
    if len(code.co_code) > MOST_BYTES or not any(map(_multiplies, dis.get_instructions(code))):
        return
    instructions = list(dis.get_instructions(code))
    lines = lines_of(code, instructions)
    depth, lists = 0, dict[int, str]()  # The places of such lists on the stack, with what made the last item.
    for index, each in enumerate(instructions):
        if _multiplies(each):
            name = lists.get(depth - 1, lists.get(depth))
            if name is not None:
                yield AssignedLine(code, lines[index], name)
        depth += stack_effect(each)
        lists = {place: name for place, name in lists.items() if place < depth}
        before = instructions[index - 1] if index else each
        if each.opname == "BUILD_LIST" and before.opname.startswith(_CALL):
            callee = callee_at(instructions, index - 1)
            if callee:
                lists[depth] = callee[-1].lstrip(".")
        elif each.opname == "BUILD_LIST" and before.opname.startswith(_VARIABLES):
            lists[depth] = ""


def _multiplies(instruction: dis.Instruction) -> bool:
    is_any = instruction.opname == "BINARY_OP" and instruction.argrepr == "*"
    return is_any or instruction.opname == "BINARY_MULTIPLY"  # Python 3.10
