"""The lines that compute a softmax over the first dimension are read from the syntax."""

from __future__ import annotations

import ast

import pytest

from proxy_wrapper.code_lines.softmax_lines import softmax_lines, softmax_of_call


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("F.softmax(scores, dim=0)", [2]),
        ("torch.softmax(scores, 0)", [2]),
        ("scores.softmax(0)", [2]),
        ("nn.Softmax(dim=0)(scores)", [2]),
        ("scores.log_softmax(dim=0)", [2]),
        ("scores.softmax(-1)", []),
        ("F.softmax(scores, dim=1)", []),
        ("scores.sum(0)", []),
    ],
)
def test_lines_with_a_softmax_over_the_first_dimension(code: str, lines: list[int]) -> None:
    (function,) = ast.parse(f"def forward(scores):\n    return {code}").body
    assert isinstance(function, ast.FunctionDef)
    assert list(softmax_lines(function)) == lines


@pytest.mark.parametrize(
    ("code", "line"),
    [
        pytest.param("out = model(x)\np = F.softmax(out, dim=0)", 2, id="a variable"),
        pytest.param("out = model(x).detach().cpu()\np = out.float().softmax(0)", 2, id="a copy"),
        pytest.param("p = torch.softmax(model(x), dim=0)", 1, id="the output itself"),
        pytest.param("out = model(x)\n\np = nn.Softmax(dim=0)(out)", 3, id="a layer"),
        pytest.param("out = model(x)\np = F.softmax(out, dim=1)", 0, id="over the classes"),
        pytest.param("out = model(x)\np = F.softmax(out.T, dim=0)", 0, id="of the transposed output"),
        pytest.param("out = model(x).squeeze(0)\np = F.softmax(out, dim=0)", 0, id="of one sample"),
        pytest.param("out = model(x)\np = F.softmax(out[0], dim=0)", 0, id="of one row"),
        pytest.param("out = model(x)\nfor each in out:\n    p = F.softmax(each, dim=0)", 0, id="of each row"),
        pytest.param("out = model(x)\nout = out.T\np = F.softmax(out, dim=0)", 0, id="of a variable set twice"),
        pytest.param("out = other(x)\np = F.softmax(out, dim=0)", 0, id="of another model"),
    ],
)
def test_a_softmax_over_the_samples_of_an_output(code: str, line: int) -> None:
    assert softmax_of_call(ast.parse(code), 1, lambda each: ast.unparse(each) == "model") == line
