"""Initialisers that tie two weights, and then replace one of them, are found by the source."""

from __future__ import annotations

import pytest

from proxy_wrapper.source_patterns.replaced_ties import replaced_ties
from tests.proxy_wrapper.source_patterns.found import found_in_file

MODEL = """
class Net(nn.Module):
    def __init__(self, tie=True):
        super().__init__()
        {first}
        {second}
    def init_weights(self):
        {inside}
"""
TIE = "self.decoder.weight = self.embed.weight"
NEW = "self.{}.weight = nn.Parameter(torch.randn(9, 4))"


@pytest.mark.parametrize(
    ("second", "inside", "expected"),
    [
        ("self.init_weights()", NEW.format("embed"), (8, ("self.embed.weight", "self.decoder.weight"))),
        (NEW.format("decoder"), "pass", (6, ("self.decoder.weight", "self.embed.weight"))),
    ],
)
def test_a_tie_that_is_undone(second: str, inside: str, expected: tuple[int, tuple[str, ...]]) -> None:
    assert found_in_file(MODEL.format(first=TIE, second=second, inside=inside), replaced_ties) == [expected]


@pytest.mark.parametrize(
    ("first", "second", "inside"),
    [
        pytest.param("self.init_weights()", TIE, NEW.format("embed"), id="tied at the end"),
        pytest.param(TIE, "self.init_weights()", "nn.init.normal_(self.embed.weight)", id="filled in place"),
        pytest.param(TIE, "self.init_weights()", "pass", id="nothing"),
        pytest.param(TIE, "pass", NEW.format("embed"), id="a method that is not called"),
        pytest.param(f"if tie: {TIE}", "self.init_weights()", NEW.format("embed"), id="tied under a condition"),
        pytest.param(TIE, f"if not tie: {NEW.format('embed')}", "pass", id="replaced under a condition"),
        pytest.param(TIE, f"{NEW.format('embed')}; {TIE}", "pass", id="tied again"),
        pytest.param(TIE, "self.decoder.weight = nn.Parameter(self.embed.weight)", "pass", id="a parameter of the tie"),
        pytest.param(TIE, NEW.format("other"), "pass", id="another weight"),
    ],
)
def test_ties_that_last(first: str, second: str, inside: str) -> None:
    assert found_in_file(MODEL.format(first=first, second=second, inside=inside), replaced_ties) == []
