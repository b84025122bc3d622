"""Finds lists that hold one new object several times: `self.blocks = nn.ModuleList([Block()] * 4)`.

Such a list has the object that the call gives at each position, not four of them. Told by the bytecode of the function.
"""

from __future__ import annotations

import dis
from typing import TYPE_CHECKING

from proxy_wrapper.places.outermost_calls import stack_effect

if TYPE_CHECKING:
    from types import CodeType

_ENDS = ("STORE_", "POP_TOP", "RETURN_")
"""How the names of the instructions begin that end a statement, or a part of one."""


def repeats_new_object(code: CodeType, attribute: str) -> bool:
    """Whether a function assigns an attribute something made from a list that multiplies what a call gives.

    The list may have been assigned to a variable before. Where code branches within an expression, the depth of the
    stack may be off, and so may the answer.
    """
    depth, lists = 0, set[int]()  # The places of such lists on the stack.
    is_new = is_repeated = False  # The last instruction has called something; the statement has multiplied a list.
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
    return is_any or instruction.opname == "BINARY_MULTIPLY"  # as Python 3.10 has it
