"""`%%trace` at the top of a notebook cell: while the cell runs, its models are traced, as a run of its own.

    %load_ext proxy_wrapper

    %%trace --log-level DEBUG
    train(model, loader)

Models that have names in the notebook are proxied while the cell runs. Models created by the cell are proxied at once:
the rewriter, in a separate process, inserts lines into the cell's syntax tree, which keeps the original positions. The
magic becomes a comment, and the statement that starts the tracing exists only in the tree. What the cell shows,
including tracebacks, is therefore the same as without the magic.
"""

from __future__ import annotations

import argparse
import ast
import os
import pickle
import shlex
import subprocess
import sys
import time
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final, NoReturn

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.process.launch import Launch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import nn

_MAGIC: Final = "%%trace"
_REWRITER: Final = "instrumentor.running.cell"
_LONGEST_S: Final = 60.0


class UnknownOptionError(Exception):
    """An option of `%%trace` does not exist, or has an invalid value."""


def install(ipython: Any) -> None:
    """Enable `%%trace`."""
    remove(ipython)
    cells = TracedCells(ipython)
    ipython.input_transformers_cleanup.append(cells.replace_magic)
    ipython.input_transformers_post.append(cells.note_text)
    ipython.ast_transformers.append(cells)


def remove(ipython: Any) -> None:
    """Disable `%%trace`."""
    for each in (ipython.input_transformers_cleanup, ipython.input_transformers_post, ipython.ast_transformers):
        each[:] = [known for known in each if not isinstance(getattr(known, "__self__", known), TracedCells)]


class TracedCells:
    """Recognizes cells to trace, and inserts lines where they create models."""

    def __init__(self, ipython: Any) -> None:
        """Work for the shell `ipython`."""
        self._ipython = ipython
        self._text = ""
        self._options: str | None = None  # Of the cell read last; None if it is not traced.

    def replace_magic(self, lines: list[str]) -> list[str]:
        """The lines of a cell with the magic as a comment. Tracebacks show it so."""
        self._options = None
        if not lines or lines[0].split(maxsplit=1)[:1] != [_MAGIC]:
            return lines
        self._options = "".join(lines[0].split(maxsplit=1)[1:]).strip()
        return [f"# {lines[0]}", *lines[1:]]

    def note_text(self, lines: list[str]) -> list[str]:
        """Store the text of the cell whose tree comes next; returns `lines`."""
        self._text = "".join(lines)
        return lines

    def visit(self, tree: ast.Module) -> ast.Module:
        """The tree of a cell, with lines inserted if it is to be traced."""
        options = self._options  # `_instrumented` changes it.
        if options is None:
            return tree
        try:
            return _beginning(self._instrumented() or tree, options, self._ipython.user_ns)
        except (OSError, subprocess.SubprocessError, pickle.UnpicklingError, EOFError) as error:
            words = (getattr(error, "stderr", b"") or b"").decode(errors="replace").strip().splitlines()
            reason = words[-1] if words else str(error)
            sys.stderr.write(f"proxy_wrapper: only models that have names already are traced ({reason})\n")
            return _beginning(tree, options, self._ipython.user_ns)

    def _instrumented(self) -> ast.Module | None:
        """The tree of the cell with lines inserted; None if there is nothing to insert.

        Raises:
            OSError, subprocess.SubprocessError: if the rewriter cannot be run.
        """
        cell = self._text  # The next line changes it.
        before = [self._ipython.transform_cell(each) for each in self._ipython.user_ns["In"][1:-1]]
        request = pickle.dumps({"before": before, "cell": cell})
        command = [sys.executable, "-m", _REWRITER]
        done = subprocess.run(command, input=request, capture_output=True, check=True, timeout=_LONGEST_S)
        found: ast.Module | None = pickle.loads(done.stdout)
        return found


def _beginning(tree: ast.Module, options: str, names: Mapping[str, Any]) -> ast.Module:
    """The tree of a cell with the statement that starts the tracing. It names the models that the cell may use.

    Names that the cell assigns a new model, and names that it does not refer to, are left out.
    """
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    wraps = [node for node in calls if ast.unparse(node.func).startswith(f"__import__({__name__!r}")]
    made = [keyword.value for node in wraps for keyword in node.keywords if keyword.arg == "name"]
    used = _mentioned({node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}, names)
    arguments = [options, *sorted(used - {each.value for each in made if isinstance(each, ast.Constant)})]
    begin = f"__import__({__name__!r}, fromlist=('begin',)).begin(get_ipython(), {', '.join(map(repr, arguments))})"
    place = 0
    while place < len(tree.body) and _is_future_import(tree.body[place]):
        place += 1
    tree.body[place:place] = ast.parse(begin).body  # On the line of the magic.
    return tree


def _is_future_import(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__" and not statement.level


def _mentioned(found: set[str], names: Mapping[str, Any]) -> set[str]:
    """The given names, the names used by their functions, the names of what their objects hold, and so on."""
    mentioned: set[str] = set()
    while new := found - mentioned:
        mentioned |= new
        codes = [code for name in new for code in _codes_of(names.get(name))]
        found = {name for code in codes for name in code.co_names}
        held = {id(each) for name in new for each in _attributes_of(names.get(name))}
        found |= {name for name, value in names.items() if id(value) in held}
    return mentioned


def _attributes_of(value: Any) -> list[Any]:
    """The attributes of an object itself, such as the model that a trainer keeps."""
    if isinstance(value, (type, ModuleType, FunctionType)):
        return []
    try:
        kept = object.__getattribute__(value, "__dict__")  # no code of the object's class runs
    except AttributeError:
        return []
    return [*kept.values()] if type(kept) is dict else []


def _codes_of(value: Any) -> list[CodeType]:
    """The code of a function, or of the methods of a class, and all code nested in it."""
    functions = [*vars(value).values()] if isinstance(value, type) else [value]
    codes = [code for each in functions if isinstance(code := getattr(each, "__code__", None), CodeType)]
    for code in codes:
        codes += [each for each in code.co_consts if isinstance(each, CodeType)]
    return codes


def begin(ipython: Any, options: str, *used: str) -> None:
    """Trace until the running cell ends.

    Args:
        ipython: the shell.
        options: the options of the magic.
        used: names. Those of models are traced.

    Raises:
        UnknownOptionError: if `options` has an unknown option or an invalid value.
    """
    traced = _TracedCell(ipython, _parse(options), used)
    ipython.events.register("post_run_cell", traced.finish)


def wrap(obj: Any, name: str) -> Any:
    """Proxy `obj`, which a traced cell created, with the settings of the cell; returns `obj` itself."""
    return Proxy.Proxy(obj, recurse=True, name=name, **_settings_of_running_cell())


class _TracedCell:
    """A running cell, and the settings of its trace."""

    def __init__(self, ipython: Any, settings: Mapping[str, Any], used: Sequence[str]) -> None:
        self._ipython = ipython
        self.settings = dict(settings)
        self._began_s = time.time()
        self._before = {id(module) for module in _proxied()}
        for name, module in _named_models(ipython.user_ns).items():
            if name in used:
                Proxy.Proxy(module, recurse=True, name=name, **self.settings)

    def finish(self, result: object = None) -> None:  # noqa: ARG002  The protocol's.
        """End the trace, and print what was found."""
        self._ipython.events.unregister("post_run_cell", self.finish)
        run = Launch.of_this_process().run
        new = [module for module in _proxied() if id(module) not in self._before]
        Proxy.flush()
        for module in new:
            Proxy.unproxy(module)
        told = {
            "logdir": os.path.abspath(self.settings["logdir"]),  # noqa: PTH100
            "shown": self.settings["logdir"],
            "hint": "this cell neither uses a model that has a name in the notebook nor makes one",
            "started_s": self._began_s,
            "pid": os.getpid() if new else 0,
            "run": run,
            "waits": False,
        }
        reader = f"from proxy_trace.summary.last_line import main; main({told!r})"
        done = subprocess.run([sys.executable, "-c", reader], capture_output=True, text=True, check=False)
        sys.stderr.write(done.stdout)


def _settings_of_running_cell() -> dict[str, Any]:
    from IPython import get_ipython

    callbacks = get_ipython().events.callbacks["post_run_cell"]
    cells = [getattr(each, "__self__", None) for each in callbacks]
    return next((each.settings for each in reversed(cells) if isinstance(each, _TracedCell)), {"logdir": "proxy_trace"})


def _proxied() -> list[nn.Module]:
    """The topmost modules that are proxied now."""
    tracer = Proxy._installed.tracer
    if tracer is None:
        return []
    found = (entry.module() for entry in tracer.registry if entry.parent is None)
    return [module for module in found if module is not None]


def _named_models(names: Mapping[str, Any]) -> dict[str, nn.Module]:
    """The models that have names, except those that are part of another one."""
    torch = sys.modules.get("torch.nn")
    if torch is None:
        return {}
    found = {
        name: value
        for name, value in names.items()
        if not name.startswith("_") and isinstance(value, torch.Module) and any(True for _ in value.parameters())
    }
    inside = {id(below) for module in found.values() for below in module.modules() if below is not module}
    return {name: module for name, module in found.items() if id(module) not in inside}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UnknownOptionError(f"%%trace: {message}")


def _parse(options: str) -> dict[str, Any]:
    parser = _Parser(prog=_MAGIC, add_help=False)
    parser.add_argument("--logdir", default="proxy_trace")
    parser.add_argument("--log-level", type=str.upper, choices=["WARNING", "INFO", "DEBUG"])
    parser.add_argument("--statistics-of", dest="statistics", choices=["state", "outputs", "all"])
    parser.add_argument("--first", type=int)
    parser.add_argument("--every", type=int)
    parser.add_argument("--max-size")
    return vars(parser.parse_args(shlex.split(options)))
