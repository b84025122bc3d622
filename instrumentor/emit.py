"""The code written into scripts: the only module that spells the runtime's names."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Set

    import libcst as cst

    from instrumentor.settings import Settings

RUNTIME_MODULE = "proxy_wrapper.proxy"
RUNNING_MODULE = "proxy_wrapper.running.start"
NOTEBOOKS_MODULE = "proxy_wrapper.notebooks"
TYPED_NAME = "instrument"
PROXY = "Proxy"
LOG_LEVELS = ("WARNING", "INFO", "DEBUG")
STATISTICS = ("state", "outputs", "all")
KEYWORDS = ("recurse", "name", "logdir", "log_level")
OPTIONAL_KEYWORDS = ("statistics", "first", "every", "ranks", "max_size", "flow")
SOURCE_COMMENT = re.compile(
    r'# instrument: format=1 source=(?P<source>"(?:[^"\\]|\\.)*") sha256=(?P<sha256>[0-9a-f]{64})'
    r" added=(?P<added>\S*)(?P<no_newline> eof=none)?[ \t]*"
)

_HOLE = "_instrument_hole"


@dataclass(frozen=True)
class Wrapping:
    """The text to insert before and after an expression to put its value under a proxy."""

    before: str
    after: str


def unused_name(used: Set[str], *, hidden: bool) -> str:
    """A name for the runtime module that the script does not use.

    Args:
        used: every identifier of the script.
        hidden: only names that a later `from x import *` does not rebind: those with a leading underscore.
    """
    if PROXY not in used and not hidden:
        return PROXY
    name, number = f"_{PROXY}", 0
    while name in used:
        number += 1
        name = f"_{PROXY}{number}"
    return name


def render_import(alias: str) -> str:
    """The import statement, without a line end."""
    return f"import {RUNTIME_MODULE} as {alias}"


def render_begin(message: bytes) -> str:
    """The first statement of a script that runs in memory; it binds no name.

    Args:
        message: the message to the runtime, marshalled.
    """
    return f"__import__({RUNNING_MODULE!r}, fromlist=('begin',)).begin({message!r})"


def render_begin_module(message: bytes) -> str:
    """The only statement of an in-memory program that runs a module, as `python -m` does; it binds no name.

    Args:
        message: the message to the runtime, marshalled.
    """
    arguments = f"__import__({RUNNING_MODULE!r}, fromlist=('begin_module',)).begin_module({message!r})"
    return f"__import__('runpy')._run_code(*{arguments})"


def render_wrap_in_cell() -> str:
    """The function that replaces the proxy in a notebook cell; it is called with a value and its name."""
    return f"__import__({NOTEBOOKS_MODULE!r}, fromlist=('wrap',)).wrap"


def render_search_path(folder: str, *, can_encode: Callable[[str], bool]) -> str:
    """The statement that adds a folder to a script's module search path, right after its own; it binds no name.

    Args:
        folder: relative to the script's own folder, with `/`.
        can_encode: whether the script's encoding can represent a text.
    """
    path = f'__import__("os").path.abspath(__file__ + {quote("/../" + folder, can_encode=can_encode)})'
    return f'__import__("sys").path.insert(1, {path})'


def render_wrapping(
    alias: str, name: str, settings: Settings, *, can_encode: Callable[[str], bool], is_each: bool = False
) -> Wrapping:
    """The text around an expression that puts its value under a proxy; arguments are those of `make_proxy`."""
    import libcst as cst

    made = make_proxy(cst.Name(_HOLE), alias, name, settings, can_encode=can_encode, is_each=is_each)
    before, _, after = cst.Module([]).code_for_node(made).partition(_HOLE)
    return Wrapping(before, after)


def make_proxy(
    value: cst.BaseExpression,
    alias: str,
    name: str,
    settings: Settings,
    *,
    can_encode: Callable[[str], bool],
    is_each: bool = False,
) -> cst.Call | cst.GeneratorExp:
    """The expression that evaluates another one and puts its value under a proxy.

    Args:
        value: the other expression.
        alias: the name of the runtime module in the script.
        name: the name of the object in the trace.
        settings: the source of the other arguments.
        can_encode: whether the script's encoding can represent a text; other characters are written as escapes.
        is_each: whether the expression is an iterator whose elements each get a proxy when they are requested.
    """
    import libcst as cst

    logdir = quote(settings.logdir, can_encode=can_encode)
    template = _call_template(alias, settings.recurse, logdir, settings.log_level, _stated(settings)).deep_clone()
    held, recurse, named, *rest = template.args
    held = held.with_changes(value=cst.Name("each") if is_each else value)
    named = named.with_changes(value=cst.SimpleString(quote(name, can_encode=can_encode)))
    call = template.with_changes(args=[held, recurse, named, *rest])
    return cst.GeneratorExp(call, cst.CompFor(cst.Name("each"), value)) if is_each else call


def _stated(settings: Settings) -> tuple[tuple[str, str], ...]:
    """The optional arguments that differ from their defaults; the others are left out to keep lines short."""
    values: tuple[tuple[str, str | int, str | int], ...] = (
        ("statistics", settings.statistics_of, STATISTICS[0]),
        ("first", settings.first, 0),
        ("every", settings.every, 1),
        ("ranks", settings.ranks, ""),
        ("max_size", settings.max_size, ""),
        ("flow", settings.flow, False),
    )
    return tuple(
        (name, repr(value) if isinstance(value, bool) else json.dumps(value))
        for name, value, default in values
        if value != default
    )


@lru_cache(maxsize=256)
def _call_template(alias: str, recurse: bool, logdir: str, level: str, stated: tuple[tuple[str, str], ...]) -> cst.Call:
    """The call with placeholders for the value and its name, the only parts that differ between models."""
    # Importing libcst takes 0.15 s, which a script without models should not cost.
    import libcst as cst
    from libcst.helpers import parse_template_expression

    call = parse_template_expression(
        "{alias}.{proxy}({value}, recurse={recurse}, name={name}, logdir={logdir}, log_level={alias}.{level}"
        f"{''.join(f', {keyword}={value}' for keyword, value in stated)})",
        alias=cst.Name(alias),
        proxy=cst.Name(PROXY),
        value=cst.Name(_HOLE),
        recurse=cst.Name(str(recurse)),
        name=cst.Name(_HOLE),
        logdir=cst.SimpleString(logdir),
        level=cst.Name(level),
    )
    assert isinstance(call, cst.Call)
    return call


def quote(text: str, *, can_encode: Callable[[str], bool]) -> str:
    """A string literal in double quotes, with escapes for characters that cannot or should not appear in code."""
    return '"' + "".join(_escape(character, can_encode) for character in text) + '"'


def _escape(character: str, can_encode: Callable[[str], bool]) -> str:
    if character in '"\\':
        return "\\" + character
    if character.isprintable() and can_encode(character):
        return character
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def render_source_comment(source_name: str, sha256: str, added: list[str], *, had_final_newline: bool) -> str:
    """The comment that ends an instrumented file, without a line end.

    Args:
        source_name: the original's path as the user gave it.
        sha256: the digest of the original's bytes, in hex.
        added: the insertions, each as `+N` or `L:C1-C2`.
        had_final_newline: whether the original ended with a line end.
    """
    end = "" if had_final_newline else " eof=none"
    return f"# instrument: format=1 source={json.dumps(source_name)} sha256={sha256} added={','.join(added)}{end}"
