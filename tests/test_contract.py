"""What joins the halves: the text that `instrumentor.emit` writes is what the runtime offers and reads."""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
from typing import TYPE_CHECKING

import pytest
from torch import nn

from instrumentor import emit
from instrumentor.settings import Settings
from proxy_wrapper import proxy
from proxy_wrapper.kept_statistics import STATISTICS
from proxy_wrapper.places.source_map import parse_source_comment, read_source_map

if TYPE_CHECKING:
    from pathlib import Path

    from instrumentor.settings import LogLevel, StatisticsOf

DIGEST = hashlib.sha256(b"").hexdigest()


def write_call(level: LogLevel = "INFO", alias: str = "Proxy") -> str:
    """The proxy call as it is written into a script, around the name `model`."""
    settings = Settings(log_level=level)
    wrapping = emit.render_wrapping(alias, "model", settings, can_encode=lambda text: True)
    return f"{wrapping.before}model{wrapping.after}"


def test_the_module_that_is_imported_is_the_proxy() -> None:
    assert proxy.__name__ == emit.RUNTIME_MODULE
    (statement,) = ast.parse(emit.render_import("Proxy")).body
    assert isinstance(statement, ast.Import)
    assert [(name.name, name.asname) for name in statement.names] == [("proxy_wrapper.proxy", "Proxy")]


@pytest.mark.parametrize("level", emit.LOG_LEVELS)
def test_every_name_that_is_written_exists(level: LogLevel) -> None:
    written = [
        node.attr
        for node in ast.walk(ast.parse(write_call(level)))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Proxy"
    ]
    assert set(written) == {"Proxy", level}
    assert [name for name in written if not hasattr(proxy, name)] == []
    assert set(written) <= set(proxy.__all__)


def test_every_keyword_that_is_written_is_a_parameter() -> None:
    call = ast.parse(write_call(), mode="eval").body
    assert isinstance(call, ast.Call)
    keywords = [keyword.arg for keyword in call.keywords]
    assert keywords == list(emit.KEYWORDS)
    parameters = inspect.signature(type(proxy.Proxy).__call__).parameters
    assert [keyword for keyword in (*keywords, *emit.OPTIONAL_KEYWORDS) if keyword not in parameters] == []


def test_the_statistics_that_can_be_asked_for_are_those_of_the_runtime() -> None:
    assert emit.STATISTICS == STATISTICS


@pytest.mark.parametrize("of", emit.STATISTICS)
def test_the_statistics_that_are_written_are_what_the_model_is_proxied_with(of: StatisticsOf, tmp_path: Path) -> None:
    settings = Settings(logdir=str(tmp_path / "trace"), statistics_of=of)
    wrapping = emit.render_wrapping("Proxy", "model", settings, can_encode=str.isascii)
    model = eval(f"{wrapping.before}nn.Linear(2, 2){wrapping.after}", {"Proxy": proxy, "nn": nn})
    tracer = proxy._installed.get()
    try:
        entry = tracer.registry.module_entry(model)
        assert entry is not None
        assert entry.watch.statistics == of
    finally:
        proxy.unproxy(model)


@pytest.mark.parametrize("level", emit.LOG_LEVELS)
def test_the_call_that_is_written_runs_and_gives_the_model_back(level: LogLevel, tmp_path: Path) -> None:
    settings = Settings(logdir=str(tmp_path / "trace"), log_level=level)
    wrapping = emit.render_wrapping("Proxy", "model", settings, can_encode=str.isascii)
    model = nn.Linear(2, 2)
    try:
        assert eval(f"{wrapping.before}model{wrapping.after}", {"Proxy": proxy, "model": model}) is model
        assert isinstance(model, proxy.Proxy)
    finally:
        proxy.unproxy(model)


@pytest.mark.parametrize("source", ["mnist.py", "a dir/été.py", 'quote".py', "<stdin>", "back\\slash.py"])
@pytest.mark.parametrize("had_final_newline", [True, False])
@pytest.mark.parametrize(
    ("added", "lines"),
    [
        pytest.param(["+3", "+127"], (3, 127), id="lines"),
        pytest.param(["+1", "40:12-24", "40:31-98"], (1,), id="a line and spans"),
        pytest.param([], (), id="nothing"),
    ],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_the_runtime_reads_the_source_comment(
    source: str, had_final_newline: bool, added: list[str], lines: tuple[int, ...], line_end: str, tmp_path: Path
) -> None:
    comment = emit.render_source_comment(source, DIGEST, added, had_final_newline=had_final_newline)
    script = tmp_path / "script.py"
    script.write_bytes(f"import torch{line_end}{comment}{line_end}".encode())
    found = read_source_map(str(script))
    assert found is not None
    assert found.source == source
    assert found.added_lines == lines


def test_the_runtime_reads_what_the_rewriter_recognizes() -> None:
    comment = emit.render_source_comment("mnist.py", DIGEST, ["+3"], had_final_newline=True)
    found = emit.SOURCE_COMMENT.fullmatch(comment)
    assert found is not None
    assert json.loads(found["source"]) == "mnist.py"
    assert (found["sha256"], found["added"]) == (DIGEST, "+3")


@pytest.mark.parametrize(
    "last_line",
    [
        pytest.param("# instrument: skip-file", id="another of our comments"),
        pytest.param('# instrument: format=2 source="a.py" sha256=' + DIGEST + " added=+1", id="a later format"),
        pytest.param("x = 1", id="code"),
        pytest.param("", id="empty file"),
    ],
)
def test_a_file_without_the_comment_has_no_map(last_line: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"{last_line}\n" if last_line else "")
    assert read_source_map(str(script)) is None


def test_lines_below_an_added_line_are_reported_as_the_originals() -> None:
    comment = emit.render_source_comment("mnist.py", DIGEST, ["+3", "+10"], had_final_newline=True)
    found = parse_source_comment(comment.encode())
    assert found is not None
    assert [found.original_line(line) for line in (1, 2, 3, 4, 9, 10, 11)] == [1, 2, 2, 3, 8, 8, 9]
