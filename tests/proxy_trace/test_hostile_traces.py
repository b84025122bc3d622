"""Any trace that somebody may hand over: every command ends with a result or one line, and writes nowhere else.

`make fuzz` takes 2,000 traces; otherwise TRACE_EXAMPLES says how many.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import os
import re
import signal
import sys
import tempfile
from base64 import b64encode
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from proxy_trace.cli import run_command
from proxy_wrapper import events
from tests.proxy_trace.conftest import make_run
from tests.proxy_trace.generated_records import records
from tests.proxy_trace.mutations import HOSTILE_TEXTS, STEERING, mutated
from tests.python_process.run_python import run_python

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ROOT = Path(__file__).parents[2]
EXAMPLES = int(os.environ.get("TRACE_EXAMPLES", "40"))
SECONDS = 30
"""How long all commands may take with one small trace."""

RUN = "20261121T080911-3f2a9c"
COMMANDS = [
    ["summary", "RUN"],
    ["summary", "RUN", "--format", "json"],
    ["summary", "RUN", "--step", "1-", "--stage", "train"],
    ["show", "RUN"],
    ["show", "RUN", "--format", "json"],
    ["show", "RUN", "--kind", "update,gradient,module", "--name", "*w*", "--module", "*"],
    ["log", "RUN"],
    ["log", "RUN", "--module", "model*"],
    ["history", "RUN", "*"],
    ["history", "RUN", "train.py:20"],
    ["history", "RUN", "model.fc.weight", "--format", "json"],
    ["history", "RUN", "modle.fc"],
    ["flow", "RUN"],
    ["flow", "RUN", "--format", "json", "--module", "*", "--step", "0-"],
    ["flow", "RUN", "other"],
    ["flow", "other", "RUN", "--format", "json"],
    ["order", "RUN"],
    ["order", "RUN", "--format", "json", "--every-call"],
    ["order", "RUN", "--module", "*", "--step", "1-"],
    ["ranks", "RUN"],
    ["ranks", "RUN", "--format", "json"],
    ["compare", "RUN", "other"],
    ["compare", "other", "RUN", "--format", "json"],
    ["compare", "RUN", "other", "--records"],
    ["compare", "other", "RUN", "--records", "--format", "json"],
    ["compare", "RUN", "other", "--records", "--name", "*fc*", "--step", "1-"],
    ["compare", "RUN", "--baseline", *(f"seed{number}" for number in range(5))],
    ["compare", "other", "--baseline", "RUN", *(f"seed{number}" for number in range(4)), "--format", "json"],
    ["report", "RUN", "-o", "out/run.html"],
    ["report", "RUN", "other", "-o", "out/report.html"],
    ["report", "other", "RUN", "-o", "out/report.html", "--force"],
    ["export", "RUN", "-o", "out/data", "-f", "parquet"],
    ["export", "RUN", "-o", "out/trace.json"],
    ["export", "RUN", "-o", "out/trace.csv"],
    ["export", "RUN", "-o", "out/logs", "-f", "tensorboard"],
    ["export", "RUN", "-f", "chrome"],
    ["export", "RUN"],
]
PROGRAM = """
import torch
import proxy_wrapper.proxy as Proxy

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
model = Proxy.Proxy(model, recurse=True, name="model", logdir="proxy_trace", log_level=Proxy.DEBUG)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    optimizer.zero_grad()
    loss = model(torch.ones(4, 2)).log().sum()
    loss.backward()
    optimizer.step()
"""


def small_trace(**run: Any) -> bytes:
    """Three modules, two of them in the third; calls, gradients and updates in two steps."""
    before = events.Statistics(-0.5, 0.5, 1.0)
    records: list[events.Event] = [
        make_run(**run),
        events.Location(1, "train.py", 10, "main"),
        events.Location(2, "train.py", 20, "Net.forward", 1),
        events.Module(1, "model", "Net", 1, 0, "DEBUG", 24, 1),
        events.Module(2, "model.fc", "Linear", 1, 1, "DEBUG", 12, 1),
        events.Module(3, "model.spare", "Linear", 1, 1, "DEBUG", 12, 1),
        events.Parameter(1, "model.fc.weight", 2, "float32[3, 3]", "cpu", True, statistics=before),
        events.Buffer(2, "model.fc.mean", 2, "float32[3]", "cpu", statistics=before),
    ]
    for step in range(2):
        t = 1000 * (step + 1)
        common: dict[str, Any] = {"step": step, "location": 2}
        records += [
            events.CallModule(t, module=1, inputs=["float32[2, 3]"], input_ids=[1], training=True, **common),
            events.CallFunction(
                t + 5,
                module=1,
                target="torch.log",
                inputs=["float32[2]"],
                input_ids=[1],
                outputs=["float32[2]"],
                output_ids=[2 + step],
                **common,
            ),
            events.ReadValue(t + 6, module=1, target="item", inputs=["float32[]"], value=0.5, input_ids=[2], **common),
            events.GetAttr(t + 7, target="grad", owner="model.fc.weight", value="float32[2]", value_id=3, **common),
            events.CallModule(t + 10, module=2, inputs=["float32[2, 3]"], input_ids=[2], **common),
            events.ReturnModule(t + 50, module=2, outputs=["float32[2]"], output_ids=[9], duration_us=40, **common),
            events.NonFinite(t + 51, module=2, count=3, type="float32[3]", **common),
            events.ReturnModule(t + 100, module=1, outputs=["float32[2, 3]"], duration_us=100, **common),
            events.Backward(t + 200, inputs=["float32[]"], input_ids=[9], **common),
            events.BackwardEnd(t + 300, duration_us=100, **common),
            events.OptimizerStep(t + 400, optimizer="SGD", tensors=2, **common),
            events.Gradient(t + 410, module=2, tensor=1, statistics=events.Statistics(-1.0, "inf", 1.5, 1), **common),
            events.Update(t + 420, module=2, tensor=1, statistics=events.Statistics(-1.0, 0.5, 1.5), **common),
            events.OptimizerStepEnd(t + 430, optimizer="SGD", duration_us=30, **common),
            events.Problem(t + 440, message="something was not seen", **common),
        ]
    records.append(events.RunEnd(3000, 2, reason="exception", error="ValueError"))
    return msgspec.json.Encoder().encode_lines(records)


@pytest.fixture(scope="session")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """A trace by the runtime, and a smaller one that has what that one lacks."""
    folder = tmp_path_factory.mktemp("traced")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "runtime")}
    run_python(["-c", PROGRAM], cwd=folder, env=environment).check_returncode()
    (traced,) = folder.glob("proxy_trace/*/*.jsonl")
    return [small_trace(), traced.read_bytes()]


@contextlib.contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Break off what does not come to an end."""

    def stop(*_: object) -> None:
        raise AssertionError(f"takes longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def folder_with(trace: bytes) -> Iterator[Path]:
    """A folder, the current one meanwhile, with a run of two ranks, of which rank 1 is `trace`, and another run."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as outside:
        inside = Path(outside, "a", "b")
        for path, content in (
            (Path("run", "rank0-1.jsonl"), small_trace(world_size=2)),
            (Path("run", "rank1-2.jsonl"), trace),
            (Path("single", "rank0-1.jsonl"), trace),
            (Path("other", "rank0-1.jsonl"), small_trace()),
            *(
                (Path(f"seed{number}", "rank0-1.jsonl"), small_trace().replace(b'"norm":1.5', b'"norm":1.%d' % number))
                for number in range(5)
            ),
        ):
            (inside / path).parent.mkdir(parents=True, exist_ok=True)
            (inside / path).write_bytes(content)
        os.chdir(inside)
        try:
            yield Path(outside)
        finally:
            os.chdir(here)


def paths_in(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


def run_quietly(arguments: Sequence[str]) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run_command(list(arguments))
    return code, out.getvalue(), err.getvalue()


def check_texts(arguments: Sequence[str], code: int, out: str, err: str) -> None:
    """A documented exit code; one line says what is wrong; nothing in what is printed steers a terminal."""
    assert code in ((0, 1, 2) if arguments[0] in ("ranks", "compare", "flow") else (0, 2)), arguments
    for text in (out, err):
        assert all(line.replace("\t", "").isprintable() for line in text.split("\n")), arguments
    if code == 2:
        assert len(err.splitlines()) == 1, (arguments, err)
        assert err.startswith("proxy-trace: error: ")
        assert not out.strip() or arguments[0] in ("show", "log", "history", "flow")
    if "json" in arguments and out:
        is_lines = arguments[0] in ("show", "history") or (arguments[0] == "flow" and "other" not in arguments)
        documents = out.splitlines() if is_lines else [out]
        assert all(json.loads(document) is not None for document in documents)


def check_all_commands(trace: bytes) -> None:
    with folder_with(trace) as outside, at_most(SECONDS):
        before = paths_in(outside)
        for command in COMMANDS:
            for run in ("run", "single") if command[0] in ("ranks", "compare", "report") else ("single",):
                arguments = [run if each == "RUN" else each for each in command]
                check_texts(arguments, *run_quietly(arguments))
        written = paths_in(outside) - before
        inside = {Path.cwd().resolve()} | {Path.cwd()}
        names = {path.relative_to(at).parts[0] for path in written for at in inside if path.is_relative_to(at)}
        assert len([path for path in written if not any(path.is_relative_to(at) for at in inside)]) == 0
        assert names <= {"out", "proxy_trace.parquet", *(name for name in names if name.endswith(".json.gz"))}
        check_exports()


def check_exports() -> None:
    """What was exported can be read back, and a report is a page of ours alone."""
    for page in Path("out").glob("*.html"):
        check_page(page.read_text("utf-8"))
    if Path("out/trace.json").exists():
        json.loads(Path("out/trace.json").read_bytes())
    if Path("out/trace.csv").exists():
        csv.field_size_limit(1 << 24)
        with Path("out/trace.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(line.replace("\0", "") for line in file))
        assert {len(row) for row in rows} == {len(rows[0])}


class Tags(HTMLParser):
    """Collects the tags and attributes of a page, and the scripts and styles in it."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: dict[str, set[str]] = {}
        self.raw: dict[str, list[str]] = {"script": [], "style": []}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            self.attributes.setdefault(name, set()).add(value or "")

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] in self.raw and data.strip():
            self.raw[self.tags[-1]].append(data)


def check_page(page: str) -> None:
    """Nothing in a page runs but its own script, and nothing is loaded or linked to, whatever a trace holds."""
    tags = Tags()
    tags.feed(page)
    assert not {*tags.tags} & {"img", "iframe", "object", "embed", "base", "foreignobject"}
    assert (tags.tags.count("script"), tags.tags.count("style"), tags.tags.count("link")) == (3, 1, 1)
    assert not any(name.startswith("on") or name in ("src", "style") for name in tags.attributes)
    assert all(value == "data:," or value.startswith("#") for value in tags.attributes["href"])
    assert tags.attributes["http-equiv"] == {"Content-Security-Policy"}
    digest = b64encode(hashlib.sha256(tags.raw["script"][2].encode()).digest()).decode()
    assert any(f"script-src 'sha256-{digest}'" in value for value in tags.attributes["content"])
    *packed, _ = tags.raw["script"]
    assert all(re.fullmatch(r"[A-Za-z0-9+/=]+", data) for data in packed)
    assert all(line.replace("\t", "").isprintable() for line in page.split("\n"))


hostile = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="TRACE_EXAMPLES" not in os.environ,
    suppress_health_check=list(HealthCheck),
)
wild = settings(hostile, max_examples=max(10, EXAMPLES // 4))
"""What is no trace at all is soon refused, and needs fewer examples."""


@given(st.data())
@hostile
def test_any_change_to_a_trace_is_survived(seeds: list[bytes], data: st.DataObject) -> None:
    check_all_commands(data.draw(mutated(st.sampled_from(seeds))))


@given(st.lists(records(events.Run), max_size=12))
@wild
def test_any_records_are_survived(drawn: list[events.Event]) -> None:
    check_all_commands(small_trace() + msgspec.json.Encoder().encode_lines(drawn))


@given(st.binary(max_size=200))
@example(b"[" * 100_000)
@example(b'{"kind":"run","x":' + b"[" * 100_000)
@example(b"\x7fELF\x02\x01\x01\0\0")
@example(b"\n" * 50)
@wild
def test_any_bytes_are_survived(trace: bytes) -> None:
    check_all_commands(trace)
    check_all_commands(small_trace() + trace)


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
@pytest.mark.parametrize("color", ["", "1"])
def test_names_reach_a_terminal_as_text(text: str, color: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace in which everything that is a text is the same: with colours, only ours steer the terminal."""
    monkeypatch.setenv("FORCE_COLOR", color)
    kept = {"kind", "run", "level", "started", "cause", "minimum", "maximum", "norm"}
    lines = []
    for line in small_trace().splitlines():
        record = json.loads(line)
        changed = {key: text if isinstance(value, str) and key not in kept else value for key, value in record.items()}
        changed.update({key: [text for _ in value] for key, value in record.items() if key in ("inputs", "outputs")})
        lines.append(json.dumps(changed).encode())
    with folder_with(b"\n".join(lines) + b"\n"), at_most(SECONDS):
        for command in COMMANDS:
            arguments = ["single" if each == "RUN" else each for each in command]
            code, out, err = run_quietly(arguments)
            assert code in (0, 1, 2)
            for ours in ("\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m") * bool(color):
                out, err = out.replace(ours, ""), err.replace(ours, "")
            check_texts(arguments, code, out, err)
            assert text != STEERING or STEERING not in out + err
        check_page(Path("out/report.html").read_text("utf-8"))
        check_page(Path("out/run.html").read_text("utf-8"))


@pytest.mark.parametrize(
    "run", ["../../outside", "/outside", "..", ".", "", "a/b", "a\\b", "x" * 300, "a\0b", "a\nb", STEERING]
)
@pytest.mark.parametrize("output_format", ["parquet", "chrome", "csv"])
def test_a_run_id_is_no_path(run: str, output_format: str) -> None:
    with folder_with(small_trace(run=run)) as outside:
        before = paths_in(outside)
        code, out, err = run_quietly(["export", "single", "-f", output_format])
        assert (code, out) == (2, "")
        assert err.startswith(
            "proxy-trace: error: single/rank0-1.jsonl: is not a trace: its run id is not a valid name."
        )
        assert len(err.splitlines()) == 1
        assert paths_in(outside) == before


@pytest.mark.parametrize("rank", [-1, 2**40, 2**70, "0/../../outside", None, 1.5])
def test_a_rank_is_a_number_within_reason(rank: Any) -> None:
    header, rest = small_trace(rank=3).split(b"\n", 1)
    with folder_with(json.dumps({**json.loads(header), "rank": rank}).encode() + b"\n" + rest) as outside:
        before = paths_in(outside)
        assert run_quietly(["export", "single"])[0] == 2
        assert paths_in(outside) == before


def test_modules_that_are_parts_of_each_other_come_to_an_end() -> None:
    circle = [
        events.Module(1, "m", "L", 1, 2),
        events.Module(2, "m.x", "L", 1, 1),
        events.Module(3, "m.y", "L", 1, 3),
        events.Module(4, "m.z", "L", 1, 2),
        events.Location(1, "f.py", 3, "a", 2),
        events.Location(2, "f.py", 4, "b", 1),
    ]
    trace = small_trace() + msgspec.json.Encoder().encode_lines(circle)
    check_all_commands(trace)
    with folder_with(trace):
        _, out, _ = run_quietly(["summary", "single"])
    assert all(name in out for name in ("m.x", "m.y", "m.z") if f" {name.removeprefix('m.')} " not in out)


def test_a_line_of_any_length_is_one_malformed_line() -> None:
    long = b'{"kind":"problem","time_us":1,"message":"' + b"x" * 50_000_000 + b'"}\n'
    with folder_with(small_trace() + long + small_trace()):
        _, out, _ = run_quietly(["summary", "single"])
    assert "1 malformed line left out" in out


def test_a_default_dataset_is_not_written_through_a_link() -> None:
    with folder_with(small_trace()) as outside:
        (outside / "elsewhere").mkdir()
        Path("proxy_trace.parquet").symlink_to(outside / "elsewhere")
        code, _, err = run_quietly(["export", "single"])
        assert code == 2
        assert "proxy_trace.parquet: is a link" in err
        assert not list((outside / "elsewhere").iterdir())
        assert run_quietly(["export", "single", "-o", "proxy_trace.parquet"])[0] == 0  # Named, it is meant.


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere paths are text")
def test_a_path_may_be_any_bytes() -> None:
    with folder_with(small_trace()):
        name = os.fsdecode(b"\xffx.jsonl")
        Path(name).write_bytes(small_trace())
        for command in COMMANDS[:3]:
            arguments = [name if each == "RUN" else each for each in command]
            code, out, err = run_quietly(arguments)
            assert code == 0
            check_texts(arguments, code, out, err)
        assert json.loads(run_quietly(["summary", name, "--format", "json"])[1])["path"] == r"\udcffx.jsonl"
        assert run_quietly(["export", name, "-o", "data", "-f", "parquet"])[0] == 0


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda trace: trace[:-40], id="cut off"),
        pytest.param(lambda trace: trace.replace(b'"kind":"update"', b'"kind":"upd\xff', 1), id="no text"),
        pytest.param(lambda trace: b"", id="empty"),
        pytest.param(lambda trace: trace.replace(b'"step":1', b'"step":9007199254740992'), id="a step far away"),
    ],
)
def test_other_processes_say_the_same_of_damaged_files(damage: Callable[[bytes], bytes]) -> None:
    with folder_with(damage(small_trace(rank=1, world_size=2))), at_most(2 * SECONDS):
        for command in (["summary", "run"], ["ranks", "run"], ["compare", "run", "other"]):
            alone = run_quietly(command)
            check_texts(command, *alone)
            assert run_quietly([*command, "--jobs", "2"]) == alone
