"""Finds lists that contain one new object several times: `self.blocks = nn.ModuleList([Block()] * 4)`.

Such a list has the same object at each position, not four objects. The function's bytecode shows it.
"""

from __future__ import annotations

import dis
from typing import TYPE_CHECKING

from proxy_wrapper.places.outermost_calls import stack_effect

if TYPE_CHECKING:
    from types import CodeType

_ENDS = ("STORE_", "POP_TOP", "RETURN_")
"""Name prefixes of the instructions that end a statement, or a part of one."""


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
        is_new = name.startswith("CALL")
    return False


def _multiplies(instruction: dis.Instruction) -> bool:
    is_any = instruction.opname == "BINARY_OP" and instruction.argrepr == "*"
    return is_any or instruction.opname == "BINARY_MULTIPLY"  # Python 3.10
