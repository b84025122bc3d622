"""`instrument_source` and `undo`: what holds for every script, whatever its bytes."""

from __future__ import annotations

import ast
import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from instrumentor.errors import EditedSinceError, NotInstrumentedError, SourceDecodeError, SourceSyntaxError
from instrumentor.instrument import Result, instrument_source
from instrumentor.settings import Settings
from instrumentor.source.undo import undo

SCRIPT = b"from torch import nn\nmodel = nn.Linear(2, 2)\n"


def instrument(source: bytes) -> Result:
    return instrument_source(source, Settings(), source_name="script.py")


ODD_BYTES = {
    "crlf": b"from torch import nn\r\nmodel = nn.Linear(2, 2)\r\nx = 1\r\n",
    "lone carriage returns": b"from torch import nn\rmodel = nn.Linear(2, 2)\rx = 1\r",
    "mixed line ends": b"from torch import nn\r\nmodel = nn.Linear(\r2,\n2)\rx = 1\n",
    "byte order mark": b"\xef\xbb\xbffrom torch import nn\nmodel = nn.Linear(2, 2)\n",
    "byte order mark before a wrap on line 1": b"\xef\xbb\xbffrom torch import nn; model = nn.Linear(2, 2)\n",
    "latin-1 cookie": "# -*- coding: latin-1 -*-\nfrom torch import nn\né = 'ü'; modèle = nn.Linear(2, 2)\n".encode(
        "latin-1"
    ),
    "cookie before a lone CR": "# coding: latin-1\rfrom torch import nn\rmodèle = nn.Linear(2, 2)\r".encode("latin-1"),
    "shift-jis cookie": "# coding: shift_jis\nfrom torch import nn\n模型 = nn.Linear(2, 2)  # 説明\n".encode(
        "shift_jis"
    ),
    "cp1252 with a quote": "# coding: cp1252\nfrom torch import nn\nx = '“'\nm = nn.Linear(2, 2)\n".encode("cp1252"),
    "no final newline": b"from torch import nn\nmodel = nn.Linear(2, 2)",
    "no final newline after a comment": b"from torch import nn\nmodel = nn.Linear(2, 2)\n# the end",
    "no final newline but blanks": b"from torch import nn\nmodel = nn.Linear(2, 2)\n   ",
    "crlf and no final newline": b"from torch import nn\r\nmodel = nn.Linear(2, 2)",
    "trailing blank lines": b"from torch import nn\nmodel = nn.Linear(2, 2)\n\n\n",
    "form feed before a statement": b"from torch import nn\n\x0cmodel = nn.Linear(2, 2)\n",
    "form feed in the indentation": b"from torch import nn\nif nn:\n  \x0c  model = nn.Linear(2, 2)\n",
    "form feed line": b"from torch import nn\n\x0c\nmodel = nn.Linear(2, 2)\n",
    "tabs": b"from torch import nn\nif nn:\n\tmodel = nn.Linear(2, 2)\n",
    "trailing blanks": b"from torch import nn   \nmodel = nn.Linear(2, 2) \t \n",
    "line separator": "from torch import nn\nx = '\u2028\x85'; model = nn.Linear(2, 2)\ny = '\u2029'\n".encode(),
    "control characters in a comment": b"from torch import nn  # \x1c \x1d \x0b\nmodel = nn.Linear(2, 2)\n",
    "names before a wrap": "from torch import nn\nß = '𐍈'; nets = [nn.Linear(2, len('é𐍈'))]\n".encode(),
    "backslash continuation": b"from torch import nn\nmodel = \\\n    nn.Linear(2, 2)\nx = \\\n  1\n",
    "backslash before a statement": b"from torch import nn\nif nn: \\\n    model = nn.Linear(2, 2)\n",
    "backslash behind an import": b"import torch \\\n\nfrom torch import nn \\\n\\\n\nmodel = nn.Linear(1, 1)\n",
    "backslash behind a comment": b"from torch import nn # \\\nmodel = nn.Linear(1, 1)\n",
    "backslash before a semicolon": b"from torch import nn \\\n; model = nn.Linear(1, 1)\n",
    "backslash behind a semicolon": b"from torch import nn \\\r\n; \\\r\n  model = nn.Linear(1, 1)\r\n",
    "backslash behind a docstring": b"'doc' \\\n\nmodel = __import__('torch').nn.Linear(1, 1)\n",
    "backslash behind a wrap": b"from torch import nn\nmodel = nn.Linear(1, 1) \\\n\n",
    "triple quotes after the wrap": b"from torch import nn\nmodel = nn.Linear(2, 2); text = '''\n  a\n'''\n",
    "invalid escape": b"from torch import nn\nx = '\\d'\nmodel = nn.Linear(2, 2)\n",
    "shebang and comments only before": (
        b"#!/usr/bin/env python\n# about\n\nfrom torch import nn\nmodel = nn.Linear(2, 2)\n"
    ),
    "future and docstring on one line": (
        b"'doc'; from __future__ import annotations; from torch import nn; m = nn.Linear(1, 1)\n"
    ),
    "decorated first statement": (
        b"@print\ndef f():\n    import torch\n    m = torch.nn.Linear(1, 1)\n    return m(1)\n"
    ),
    "decorator over lines": (
        b"@(  # @here\n  # @\n  print\n  )\ndef f():\n"
        b"    import torch\n    m = torch.nn.Linear(1, 1)\n    return m(1)\n"
    ),
    "decorator over lines in a loop": (
        b"import torch\nfor net in torch.load('x'):\n    @(\n        print\n    )\n    def f():\n"
        b"        return net(1)\n    net.train()\n    net.state_dict()\n"
    ),
}


@pytest.mark.parametrize("source", ODD_BYTES.values(), ids=ODD_BYTES.keys())
@pytest.mark.filterwarnings("ignore:.*invalid escape")
def test_bytes_survive(source: bytes) -> None:
    result = instrument(source)
    assert result.changed
    assert b"Proxy.Proxy(" in result.instrumented
    assert undo(result.instrumented, source_name="x.py").original == source
    assert ast.dump(ast.parse(result.instrumented))
    kept = [line for line in source.splitlines() if b"Linear" not in line and line.strip()]
    assert [line for line in kept if line.rstrip() not in result.instrumented] == []


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
def test_added_lines_end_as_the_script_does(newline: bytes) -> None:
    instrumented = instrument(SCRIPT.replace(b"\n", newline)).instrumented
    assert instrumented.replace(newline, b"").count(b"\n") == 0
    assert instrumented.endswith(newline)
    assert instrumented.count(newline) == 5


def test_a_name_that_the_encoding_lacks_is_escaped() -> None:
    source = b"# coding: latin-1\nfrom torch import nn\nmodel = nn.Linear(2, 2)\n"
    result = instrument_source(source, Settings(logdir="träce/軌跡"), source_name="x.py")
    assert 'logdir="träce/\\u8ecc\\u8de1"'.encode("latin-1") in result.instrumented


def test_the_original_is_recorded() -> None:
    last = instrument_source(SCRIPT, Settings(), source_name='dir/"é".py').instrumented.splitlines()[-1]
    assert last.startswith(b'# instrument: format=1 source="dir/\\"\\u00e9\\".py" sha256=')
    assert last.endswith(b" added=+2,+4")
    assert b"eof=none" in instrument(SCRIPT[:-1]).instrumented.splitlines()[-1]


def test_a_second_run_changes_nothing() -> None:
    once = instrument(SCRIPT).instrumented
    twice = instrument(once)
    assert (twice.instrumented, twice.already_instrumented, twice.changed) == (once, True, False)


def test_a_script_without_a_model_comes_back_unchanged() -> None:
    result = instrument(b"x = 1")
    assert (result.instrumented, result.decisions, result.already_instrumented) == (b"x = 1", (), False)


@pytest.mark.parametrize("source", [b"", b"\n", b"\xef\xbb\xbf", b"# only a comment"])
def test_scripts_with_nothing_in_them_come_back(source: bytes) -> None:
    assert instrument(source).instrumented == source


def test_decisions_come_in_the_order_of_the_text() -> None:
    source = b"from torch import nn\na, b = nn.Linear(1, 1), nn.Linear(2, 2)\nc = a\nloss = nn.MSELoss()\n"
    decisions = instrument(source).decisions
    assert [(each.line, each.target, each.verdict) for each in decisions] == [
        (2, "a", "wrap"),
        (2, "b", "wrap"),
        (3, "c", "merged"),
        (4, "loss", "not wrapped"),
    ]
    assert decisions[0].aliases == (("c", 3),)
    assert (decisions[0].column, decisions[1].column) == (7, 24)


@pytest.mark.parametrize(
    ("source", "line", "column"),
    [
        pytest.param(b"x = (\n", 1, 5, id="not closed"),
        pytest.param(b"x = 1\ny = = 2\n", 2, 5, id="bad operator"),
        pytest.param(b"print 'old'\n", 1, 1, id="Python 2"),
    ],
)
def test_what_is_no_python_is_said_with_its_place(source: bytes, line: int, column: int) -> None:
    with pytest.raises(SourceSyntaxError) as caught:
        instrument_source(source, Settings(), source_name="bad.py")
    assert (caught.value.path, caught.value.line, caught.value.column) == ("bad.py", line, column)
    assert str(caught.value).startswith(f"bad.py:{line}:{column}: not Python that this interpreter can parse (")


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(b"x = 1\0\n", id="null byte"),
        pytest.param(b"x = " + b"(" * 5000 + b")" * 5000, id="too many parentheses"),
        pytest.param(b"x = " + b"+".join([b"1"] * 20000), id="too long a sum"),
        pytest.param(b"x = 1" + b".real" * 20000, id="too long a chain"),
    ],
)
def test_what_the_parser_cannot_take_is_an_error_of_ours(source: bytes) -> None:
    with pytest.raises(SourceSyntaxError):
        instrument(source)


def test_bytes_that_do_not_decode_are_said_with_their_line() -> None:
    with pytest.raises(SourceDecodeError) as caught:
        instrument_source(b"x = 1\ny = '\xff'\n", Settings(), source_name="bad.py")
    assert str(caught.value) == (
        "bad.py:2: byte 0xff is not utf-8; declare the file's encoding in its first two lines"
        " (`# -*- coding: ... -*-`) or save it as UTF-8"
    )


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(b"# coding: no-such-codec\n", id="unknown codec"),
        pytest.param(b"\xef\xbb\xbf# coding: latin-1\n", id="mark and cookie disagree"),
        pytest.param(b"# coding: utf-7\nx = '+AOk-'\n", id="a codec that spells things in many ways"),
    ],
)
def test_encodings_that_cannot_be_kept_are_refused(source: bytes) -> None:
    with pytest.raises(SourceDecodeError, match="save the file as UTF-8"):
        instrument(source)


def test_what_was_not_instrumented_cannot_be_reverted() -> None:
    for source in (SCRIPT, b"", b"\xff\n", b"# instrument: format=1 source=x sha256=1 added=\n"):
        with pytest.raises(NotInstrumentedError, match="nothing to revert"):
            undo(source, source_name="x.py")


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(lambda text: text.replace(b"2, 2", b"2, 3"), id="a value"),
        pytest.param(lambda text: b"\n" + text, id="a line above"),
        pytest.param(lambda text: text.replace(b"added=+2,+4", b"added=+2"), id="the comment"),
        pytest.param(lambda text: text.replace(b"added=+2,+4", b"added=+2,99:1-2,+400"), id="lines that are not there"),
    ],
)
def test_edits_after_instrumenting_are_noticed(edit: object) -> None:
    assert callable(edit)
    edited = edit(instrument(SCRIPT).instrumented)
    with pytest.raises(EditedSinceError) as caught:
        undo(edited, source_name="x.py")
    assert "edited since it was instrumented" in str(caught.value)
    with pytest.raises(EditedSinceError):
        instrument(edited)


def test_nothing_is_loaded_that_is_not_needed() -> None:
    program = (
        "import sys\n"
        "from instrumentor.instrument import instrument_source\n"
        "from instrumentor.settings import Settings\n"
        "instrument_source(b'x = 1', Settings(), source_name='x.py')\n"
        "print('libcst' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=".")
    assert done.stdout == "False\n"


def test_every_run_writes_the_same() -> None:
    """Sets of names have another order in every process."""
    choices = "".join(f"    if kind == {number}:\n        cls = Net{number}\n" for number in range(9))
    classes = "".join(f"class Net{number}(nn.Linear):\n    pass\n" for number in range(9))
    script = f"from torch import nn\n{classes}def make(kind):\n    cls = nn.Conv2d\n{choices}    train(cls(2, 2))\n"
    program = (
        "import sys\n"
        "from instrumentor.instrument import instrument_source\n"
        "from instrumentor.settings import Settings\n"
        "result = instrument_source(sys.argv[1].encode(), Settings(), source_name='x.py')\n"
        "assert result.changed\n"
        "print(result.decisions, result.instrumented)"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program, script],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        ).stdout
        for seed in (1, 2, 3)
    }
    assert len(found) == 1


@pytest.mark.skipif(sys.version_info < (3, 11), reason="calls of Python functions nest on the stack of C there")
def test_a_sum_of_a_thousand_terms_is_analysed() -> None:
    before = sys.getrecursionlimit()
    result = instrument(SCRIPT + b"total = " + b" + ".join([b"model(1)"] * 1_000) + b"\nsame = model\n")
    assert [(each.target, each.verdict) for each in result.decisions] == [("model", "wrap"), ("same", "merged")]
    assert sys.getrecursionlimit() == before


def test_what_an_analysis_made_is_freed_without_the_collector() -> None:
    source = Path(__file__).parents[2].joinpath("examples/dcgan.py").read_bytes()
    instrument(source)
    gc.collect()
    gc.disable()
    try:
        assert instrument(source).changed
        assert gc.collect() < 100
    finally:
        gc.enable()
