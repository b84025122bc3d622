"""Layers in a container that is written over several lines are found at their own."""

from __future__ import annotations

import threading

import pytest
from torch import nn

from proxy_wrapper.code_lines.item_lines import ItemLines
from proxy_wrapper.program_code.assigned_lines import AttributeLines
from proxy_wrapper.program_code.parsed_functions import ParsedFunctions


def block(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, width), nn.ReLU())


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(2, 2),
            nn.Sequential(
                nn.ReLU(),
                block(2),
            ),
            nn.Softmax(dim=1),
        )
        self.listed = nn.ModuleList(
            [
                nn.Linear(2, 2),
                nn.Linear(2, 3),
            ]
        )
        self.built = nn.Sequential(
            *[nn.Linear(2, 2) for _ in range(3)],
            nn.ReLU(),
        )
        self.single = nn.Linear(2, 2)


@pytest.mark.parametrize(
    ("attribute", "path", "line"),
    [
        pytest.param("layers", ["0"], 3, id="the first"),
        pytest.param("layers", ["2"], 8, id="the last"),
        pytest.param("layers", ["1", "0"], 5, id="in a container within"),
        pytest.param("layers", ["1", "1", "0"], 6, id="made by a function"),
        pytest.param("listed", ["1"], 13, id="in a list"),
        pytest.param("built", ["3"], None, id="behind others whose number is unknown"),
        pytest.param("single", [], None, id="no container"),
        pytest.param("layers", ["name"], None, id="by a name"),
    ],
)
def test_the_line_of_an_item(attribute: str, path: list[str], line: int | None) -> None:
    assigned = AttributeLines().find(Net, attribute)
    assert assigned is not None
    found = ItemLines(ParsedFunctions(threading.RLock())).find(assigned, path)
    assert (None if found is None else found.line - found.code.co_firstlineno) == line
