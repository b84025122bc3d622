"""Measures the cost of large generated files: peak memory, and CPU time as a multiple of parsing.

    python benchmarks/rewrite_growth.py [--rounds N] [SHAPE ...]

Each shape is one cause for which an analysis may take more than the text is long: many statements in one scope, entries
of a dictionary, functions that call one another, classes of which each is below the next, and others. All have a model,
so that nothing is passed over. A shape is measured in a process of its own that has the rewriter loaded. The ratio is
the CPU time of `instrument_source` over that of `ast.parse` of the same text, in turns; shown is the median. Memory is
the most that the process ever had, with the interpreter and its libraries (some 35 MB). The cyclic collector is off, as
it is in `instrument`. The last column is the ratio for half the size: where both are alike, time grows with the text.
"""

from __future__ import annotations

import argparse
import ast
import gc
import json
import resource
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from instrumentor.instrument import instrument_source
from instrumentor.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_MEMORY_MB = 300
MAX_RATIO = 20
HEAD = "import torch\nfrom torch import nn\n"
MODEL = "model = nn.Linear(4, 4)\nmodel(torch.ones(1, 4))\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"


class Shape(NamedTuple):
    """A kind of file.

    Attributes:
        size: how large it is.
        write: returns its text for a size.
        is_promised: whether the bounds are guaranteed for it.
    """

    size: int
    write: Callable[[int], str]
    is_promised: bool = False


def _statements(size: int, indent: str = "") -> str:
    return "".join(f"{indent}x{i} = {i} + len(str({i}))\n" for i in range(size))


def _entries(size: int) -> str:
    return "".join(f"    'k{i}': [{i}, 'v{i}', {{'a': {i}}}],\n" for i in range(size))


def _functions(size: int) -> str:
    head, calls = "def f{}(x):\n", "    y = f{}(x)\n    return y + f{}(y)\n"
    texts = (head.format(i) + calls.format((i + 1) % size, (7 * i + 3) % size) for i in range(size))
    return HEAD + "".join(texts) + "model = nn.Linear(4, 4)\nf0(model)\n"


def _functions_in_a_row(size: int) -> str:
    texts = "".join(f"def f{i}(x):\n    return f{i + 1}(x)\n" for i in range(size))
    return f"{HEAD}{texts}def f{size}(x):\n    return nn.Linear(x, 4)\nmodel = f0(4)\nmodel.train()\n"


def _classes(size: int) -> str:
    body = "    def __init__(self):\n        super().__init__()\n        self.layer{} = nn.Linear(2, 2)\n"
    texts = "".join(f"class C{i + 1}(C{i}):\n{body.format(i + 1)}" for i in range(size))
    return f"{HEAD}class C0(nn.Module):\n{body.format(0)}{texts}model = C{size}()\n"


def _models(size: int) -> str:
    texts = (
        f"x{i} = {i} + len(str({i}))\n" + (f"m{i} = nn.Linear({i}, 4)\nm{i}(x{i})\n" if i % 40 == 0 else "")
        for i in range(size)
    )
    return HEAD + "".join(texts)


def _attributes(size: int) -> str:
    stores = "".join(f"a.x{i} = {i}\n" for i in range(size))
    return f"{HEAD}class A:\n    pass\na = A()\n{stores}{MODEL}"


SHAPES = {
    "statements": Shape(20_000, lambda size: HEAD + _statements(size) + MODEL, is_promised=True),
    "dictionary": Shape(20_000, lambda size: f"{HEAD}table = {{\n{_entries(size)}}}\n{MODEL}", is_promised=True),
    "functions": Shape(2_000, _functions, is_promised=True),
    "classes": Shape(600, _classes, is_promised=True),
    "functions-in-a-row": Shape(2_000, _functions_in_a_row),
    "models-between": Shape(20_000, _models),
    "in-a-try": Shape(
        20_000, lambda size: f"{HEAD}try:\n{_statements(size, '    ')}except ValueError:\n    pass\n{MODEL}"
    ),
    "in-a-loop": Shape(20_000, lambda size: f"{HEAD}for k in range(3):\n{_statements(size, '    ')}{MODEL}"),
    "in-a-function": Shape(
        20_000, lambda size: f"{HEAD}def f():\n{_statements(size, '    ')}    return nn.Linear(2, 2)\nf().train()\n"
    ),
    "in-a-class": Shape(20_000, lambda size: f"{HEAD}class A:\n{_statements(size, '    ')}{MODEL}"),
    "attributes": Shape(20_000, _attributes),
    "branches": Shape(
        10_000,
        lambda size: f"{HEAD}{''.join(f'if x == {i}:{chr(10)}    y{i} = {i}{chr(10)}' for i in range(size))}{MODEL}",
    ),
    "calls-in-a-list": Shape(20_000, lambda size: f"{HEAD}xs = [{', '.join(f'f({i})' for i in range(size))}]\n{MODEL}"),
}


class Measured(NamedTuple):
    """The measurements of one shape.

    Attributes:
        ratio: CPU time over that of parsing; the median.
        seconds: CPU seconds; the median.
        memory_mb: the peak memory of the process.
    """

    ratio: float
    seconds: float
    memory_mb: float


def measure(shape: Shape, size: int, rounds: int) -> Measured:
    """Measure a shape in this process."""
    source = shape.write(size).encode()
    instrument_source((HEAD + MODEL).encode(), Settings(), source_name="x.py")  # triggers late imports
    gc.disable()
    ratios, seconds = [], []
    for _ in range(rounds):
        parsing = _cpu_time(lambda: ast.parse(source))
        seconds.append(_cpu_time(lambda: instrument_source(source, Settings(), source_name="x.py")))
        ratios.append(seconds[-1] / parsing)
    unit = 1 if sys.platform == "darwin" else 1024
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
    return Measured(statistics.median(ratios), statistics.median(seconds), memory)


def _cpu_time(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> int:
    """Measure and print.

    Returns:
        1 if a shape with guaranteed bounds exceeds them.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", choices=[[], *SHAPES], metavar="SHAPE")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--here", type=int, metavar="SIZE", help="measure in this process, and print JSON")
    options = parser.parse_args()
    if options.here is not None:
        print(json.dumps(measure(SHAPES[options.shapes[0]], options.here, options.rounds)))
        return 0
    print(f"{'shape':20} {'size':>6} {'kB':>6} {'CPU s':>6} {'peak MB':>8} {'ratio':>6} {'half the size':>14}")
    is_kept = True
    for name in options.shapes or SHAPES:
        shape = SHAPES[name]
        half, whole = (_measured_apart(name, size, options.rounds) for size in (shape.size // 2, shape.size))
        kilobytes = len(shape.write(shape.size)) / 1000
        is_kept &= not shape.is_promised or (whole.ratio <= MAX_RATIO and whole.memory_mb <= MAX_MEMORY_MB)
        print(
            f"{name:20} {shape.size:6,} {kilobytes:6,.0f} {whole.seconds:6.2f} {whole.memory_mb:8.0f}"
            f" {whole.ratio:6.1f} {half.ratio:14.1f}",
            flush=True,
        )
    promised = ", ".join(name for name, shape in SHAPES.items() if shape.is_promised)
    print(
        f"at most {MAX_MEMORY_MB} MB and {MAX_RATIO} times ast.parse: {promised}: {'kept' if is_kept else 'NOT kept'}"
    )
    return int(not is_kept)


def _measured_apart(name: str, size: int, rounds: int) -> Measured:
    command = [sys.executable, __file__, name, "--here", str(size), "--rounds", str(rounds)]
    return Measured(*json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


if __name__ == "__main__":
    sys.exit(main())
