"""Traces that somebody has changed to do harm, or that a broken disk has: what Hypothesis draws them from."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

STEERING = "\x1b]0;owned\x07\x1b[31mred\x1b[2J"

HOSTILE_TEXTS = [
    "",
    "../../outside",
    "/outside",
    "..",
    STEERING,
    "two\nlines\r\n",
    "\x00\x7f\x9b31m",
    "\u202eevil\u2066",
    "\u2028\u2029\ufeff",
    "nan",
    "1e400",
    "x" * 5000,
    "a." * 2000,
    "%s{0}$(x)`x`<b>&'\"",
    "=cmd|' /C calc'!A0",
    "'; --",
    "[bold]markup[/bold]",
]
_HOSTILE_VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    1,
    2,
    3,
    2**31,
    2**53,
    2**63,
    2**64,
    -(2**63) - 1,
    10**30,
    10**4200,
    0.5,
    -0.0,
    1e308,
    5e-324,
    [],
    {},
    [1, 1, 1],
    [0] * 1000,
    ["x", STEERING],
    {"key": "float32[2]"},
    {"minimum": "inf", "norm": 1e308},
    {"norm": "-inf", "nonfinite": 2**53},
]
_HOSTILE_BYTES = [b"", b"\x00", b"\xff\xfe", b"\n", b"\r", b"}", b"{", b'"', b"1e400", b"NaN", b"\\ud800", b"[" * 3000]

values = st.one_of(
    st.sampled_from(_HOSTILE_VALUES),
    st.sampled_from(HOSTILE_TEXTS),
    st.integers(-5, 60),
    st.text(max_size=6),
    st.integers(-(2**70), 2**70),
)


@st.composite
def mutated(draw: st.DrawFn, seeds: st.SearchStrategy[bytes]) -> bytes:
    """One of `seeds`, the bytes of a trace, changed in some places: in fields, in lines, in bytes."""
    lines = draw(seeds).splitlines(keepends=True)
    for _ in range(draw(st.integers(1, 8))):
        if not lines:
            break
        at = draw(st.integers(0, len(lines) - 1))
        how = draw(st.sampled_from(["field"] * 6 + ["drop", "repeat", "move", "bytes", "cut", "number"]))
        if how == "field":
            lines[at] = draw(_changed_field(lines[at]))
        elif how == "drop":
            del lines[at]
        elif how == "repeat":
            lines[at:at] = [lines[at]] * draw(st.integers(1, 30))
        elif how == "move":
            lines.insert(draw(st.integers(0, len(lines) - 1)), lines.pop(at))
        elif how == "bytes":
            place = draw(st.integers(0, len(lines[at])))
            end = place + draw(st.integers(0, 4))
            lines[at] = lines[at][:place] + draw(st.sampled_from(_HOSTILE_BYTES)) + lines[at][end:]
        elif how == "cut":
            lines[at] = lines[at][: draw(st.integers(0, len(lines[at])))]
        else:
            lines = draw(_one_number_for_another(lines))
    return b"".join(lines)


@st.composite
def _changed_field(draw: st.DrawFn, line: bytes) -> bytes:
    try:
        record = json.loads(line)
    except ValueError:
        return line
    if not isinstance(record, dict) or not record:
        return line
    key = draw(st.sampled_from(sorted(record)))
    record[key] = draw(values)
    return json.dumps(record).encode() + b"\n"


@st.composite
def _one_number_for_another(draw: st.DrawFn, lines: list[bytes]) -> list[bytes]:
    """Every reference to one id, a parent, a caller, a module, as one to another: circles come about so."""
    key = draw(st.sampled_from(["parent", "caller", "module", "tensor", "id", "root", "thread", "step"]))
    old, new = draw(st.integers(0, 4)), draw(st.integers(0, 4))
    return [line.replace(b'"%b":%d' % (key.encode(), old), b'"%b":%d' % (key.encode(), new)) for line in lines]
