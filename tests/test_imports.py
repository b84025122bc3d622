"""The halves stay apart: what an import loads, seen in fresh interpreters."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

READER = Path(__file__).parents[1] / "runtime" / "proxy_trace"

ROOMS = {
    "proxy_trace": [
        {"commands"},
        {"report", "watch", "export"},
        {"summary"},
        {"checks"},
        {"comparison"},
        {"history", "flow", "order"},
        {"process", "states"},
        {"events"},
        {"tensors"},
        {"reading", "terminal"},
    ],
    "proxy_wrapper.intercept": [{"compiled"}, {"calls", "acts"}, {"state", "loss"}, {"attaching"}],
}
"""The rooms of packages from the top down: a room imports what stands below it, and nothing else."""


def folder_of(package: str) -> Path:
    return READER.parent.joinpath(*package.split("."))


def rooms_imported_by(package: str, room: str) -> set[str]:
    """The other rooms of a package that the modules of one import."""
    found = set()
    for file in (folder_of(package) / room).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{package}."):
                found.add(str(node.module).removeprefix(f"{package}.").split(".")[0])
    return found - {room, "errors"}


@pytest.mark.parametrize("package", ROOMS)
def test_every_room_has_its_floor(package: str) -> None:
    rooms = {file.parent.name for file in folder_of(package).glob("*/__init__.py")}
    assert set.union(*ROOMS[package]) == rooms
    assert sum(map(len, ROOMS[package])) == len(rooms)


@pytest.mark.parametrize(
    ("package", "floor"), [(package, floor) for package, floors in ROOMS.items() for floor in range(len(floors))]
)
def test_rooms_import_only_those_below(package: str, floor: int) -> None:
    below = set[str]().union(*ROOMS[package][floor + 1 :])
    for room in ROOMS[package][floor]:
        assert rooms_imported_by(package, room) <= below, room


def imports_within(package: Path) -> dict[str, set[str]]:
    """Which modules of a package each of its modules imports, those for type checkers alone included."""
    files = {".".join(file.relative_to(package.parent).with_suffix("").parts): file for file in package.rglob("*.py")}
    imported: dict[str, set[str]] = {}
    for name, file in files.items():
        nodes = [*ast.walk(ast.parse(file.read_text(encoding="utf-8")))]
        found = {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
        found |= {
            f"{node.module}.{each.name}" for node in nodes if isinstance(node, ast.ImportFrom) for each in node.names
        }
        found |= {each.name for node in nodes if isinstance(node, ast.Import) for each in node.names}
        imported[name] = (found & files.keys()) - {name}
    return imported


@pytest.mark.parametrize("package", ["instrumentor", "proxy_wrapper", "proxy_trace", "proxy_views", "proxy_callbacks"])
def test_no_module_imports_itself_by_way_of_others(package: str) -> None:
    runtime = READER.parent
    imported = imports_within((runtime.parent if package == "instrumentor" else runtime) / package)
    assert any(imported.values())
    TopologicalSorter(imported).prepare()  # Raises CycleError, which names the modules.


def loaded_by(statement: str) -> set[str]:
    """Name the top-level packages that a fresh interpreter has loaded after `statement`."""
    return {name.partition(".")[0] for name in modules_loaded_by(statement)}


def modules_loaded_by(statement: str) -> set[str]:
    """Name the modules that a fresh interpreter has loaded after `statement`."""
    program = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        pytest.param(
            "import instrumentor.cli",
            {"torch", "numpy", "libcst", "rich", "proxy_wrapper", "proxy_trace"},
            id="the command is there before libcst and rich are, and never needs torch",
        ),
        pytest.param(
            "import instrumentor.command, instrumentor.report.explain, instrumentor.report.diff",
            {"torch", "numpy", "proxy_wrapper", "proxy_trace"},
            id="the whole rewriter never needs torch",
        ),
        pytest.param(
            "import proxy_wrapper.proxy",
            {"torch", "numpy", "msgspec", "libcst", "typer", "rich", "polars", "instrumentor", "proxy_trace"},
            id="what scripts import loads no tool, and leaves it to them when torch is loaded",
        ),
        pytest.param(
            "import proxy_wrapper.proxy as Proxy; Proxy.Proxy(1); Proxy.unproxy(1); Proxy.is_proxied(1); Proxy.flush()",
            {"torch", "numpy", "msgspec"},
            id="before torch is loaded there is nothing to proxy",
        ),
        pytest.param(
            "import proxy_wrapper.proxy as Proxy, torch; Proxy.Proxy(torch.nn.Linear(1, 1))",
            {"libcst", "typer", "rich", "polars", "instrumentor", "proxy_trace"},
            id="tracing loads no tool",
        ),
        pytest.param(
            "import proxy_trace.cli",
            {"torch", "numpy", "libcst", "polars", "instrumentor"},
            id="the reader of traces needs no torch",
        ),
        pytest.param(
            "import proxy_trace.order.execution_order, proxy_trace.order.run_order, proxy_trace.order.order_text",
            {"torch", "numpy", "typer", "instrumentor", "proxy_views"},
            id="nor does the order of execution, live or stored",
        ),
    ],
)
def test_an_import_does_not_load(statement: str, absent: set[str]) -> None:
    assert not loaded_by(statement) & absent


def test_the_command_runs_without_torch_and_help_without_libcst() -> None:
    blocked = "import sys; sys.modules['torch'] = sys.modules['libcst'] = None; sys.argv = ['instrument', '-h'];"
    program = f"{blocked} from instrumentor.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage: instrument" in done.stdout


def test_a_run_that_finds_all_results_in_its_cache_loads_no_analysis(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    for name, text in (("a.py", "print(1)\n"), ("b.py", "import torch.nn as nn\n\nmodel = nn.Linear(2, 2)\n")):
        (tree / name).write_text(text)
        os.utime(tree / name, (1e9, 1e9))
    statement = (
        f"import sys; sys.argv = ['instrument', {str(tree)!r}, '--cache-dir', {str(tmp_path / 'cache')!r}, '-j1']\n"
        "from instrumentor.cli import main\ntry:\n    main()\nexcept SystemExit as end:\n    assert end.code == 0"
    )
    heavy = {"instrumentor.analysis", "instrumentor.decide", "instrumentor.rewrite", "libcst", "concurrent", "rich"}
    assert modules_loaded_by(statement) >= heavy - {"rich"}
    loaded = modules_loaded_by(statement)
    assert loaded & (heavy | {"instrumentor.engine.work", "pathspec", "multiprocessing"}) == set()
