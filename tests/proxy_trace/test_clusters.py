"""The queries of docs/clusters.md, in each engine, say what `proxy-trace` says of the same runs."""

from __future__ import annotations

import os
import random
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import pytest

from proxy_trace.comparison.ranks import compare_ranks
from proxy_trace.export.parquet import export_parquet
from proxy_trace.reading.trace import Trace
from proxy_trace.summary.run_summary import summarize
from proxy_wrapper import events
from proxy_wrapper.events import Statistics
from tests.proxy_trace.conftest import make_run

if TYPE_CHECKING:
    from collections.abc import Iterator

    Rows = list[tuple[Any, ...]]

DOCUMENT = Path(__file__).parents[2] / "docs" / "clusters.md"
OPEN = "Open a dataset"
PART = "The first step at which ranks diverge"
NEVER = "Parameters that never change"
NON_FINITE = "The first non-finite value"


def block(heading: str, language: str, number: int = 0) -> str:
    """The code of a section of the document."""
    _, _, section = DOCUMENT.read_text().partition(f"\n## {heading}\n")
    blocks: list[str] = re.findall(rf"```{language}\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)
    return blocks[number]


class Engine(Protocol):
    def __call__(self, dataset: Path, question: str) -> Rows: ...


def with_duckdb(dataset: Path, question: str) -> Rows:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed (the extra 'clusters')")
    with duckdb.connect() as connection:
        connection.execute(block(OPEN, "sql").replace("proxy_trace.parquet", str(dataset)))
        rows: Rows = connection.execute(block(question, "sql")).fetchall()
        return rows


def with_polars(dataset: Path, question: str) -> Rows:
    pl = pytest.importorskip("polars", reason="Polars is not installed (the extra 'clusters')")
    names: dict[str, Any] = {"pl": pl}
    exec(block(OPEN, "python", 1).replace("proxy_trace.parquet", str(dataset)), names)
    exec(block(question, "python"), names)
    rows: Rows = names["answer"].rows()
    return rows


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """A session on this machine."""
    sql = pytest.importorskip("pyspark.sql", reason="Spark is not installed (the extra 'clusters')")
    if not ("JAVA_HOME" in os.environ or shutil.which("java")):
        pytest.skip("there is no Java, which Spark needs")
    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.driver.host": "127.0.0.1"}
    builder = sql.SparkSession.builder.master("local[1]").appName("clusters")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def write_run(folder: Path, seed: int) -> Trace:
    """Ranks of which some part, some end early, some see a NaN; with parameters that are split or never change."""
    draw = random.Random(seed)
    folder.mkdir()
    ranks, steps = 4, 6
    parts_from = {(draw.randrange(ranks), draw.choice(["a", "b", "c"])): draw.randrange(steps) for _ in range(2)}
    ends_after = {draw.randrange(ranks): draw.randrange(2, steps)}
    never = draw.choice(["a", "b", "c"])
    starts_apart = draw.randrange(ranks)
    names = ("a", "b", "c", "split", "mean")
    for rank in range(ranks):
        held = dict.fromkeys(names, 1)
        held["c"] += 100 * (rank == starts_apart and seed % 2)

        def statistics(name: str, values: dict[str, int] = held) -> Statistics:
            return Statistics(-1.0, 1.0, 1.0, bits=f"{values[name]:016x}")

        started = f"2026-11-21T08:09:1{draw.randrange(10)}.500000+00:00"
        made: list[events.Event] = [
            make_run(rank=rank, world_size=ranks, pid=100 + rank, started=started),
            events.Location(1, "train.py", 10, "main"),
            events.Module(1, "net", "Net", 1),
        ]
        for id_, name in enumerate(names, 1):
            kind = events.Buffer if name == "mean" else events.Parameter
            placements = f"Shard(0)[{rank % 2}/2]" if name == "split" else ""
            defined = kind(id_, f"net.{name}", 1, "float32[2]", placements=placements, statistics=statistics(name))
            made.append(msgspec.structs.replace(defined, requires_grad=True))
        for step in range(ends_after.get(rank, steps)):
            time_us = 1000 * step
            if draw.random() < 0.2:
                where = {"module": 1} if draw.random() < 0.5 else {"where": "gradient", "tensor": 2}
                made.append(events.NonFinite(time_us + rank, step, location=1, count=1, **where))
            made.append(events.OptimizerStep(time_us + 10, step, optimizer="SGD"))
            for id_, name in enumerate(names, 1):
                if name in (never, "b") and step % 3:
                    continue  # What did not change is not recorded.
                if name != never:
                    held[name] = 10 * step + 2 + 1000 * (step >= parts_from.get((rank, name), steps))
                    held[name] += 5000 * (rank % 2) * (name == "split") + 7000 * rank * (name == "mean")
                version = 2 * step + 1
                made.append(
                    events.Update(time_us + 11, step, tensor=id_, statistics=Statistics(bits="f"), version=version)
                )
                made.append(
                    events.Update(time_us + 11, step, tensor=id_, statistics=statistics(name), version=version + 1)
                )
                if name == never:
                    del made[-2]
            made.append(events.OptimizerStepEnd(time_us + 20, step, optimizer="SGD"))
        path = folder / f"rank{rank}-{100 + rank}.jsonl"
        path.write_bytes(msgspec.json.Encoder().encode_lines(made))
    return Trace.open(folder)


def make_spark(session: Any) -> Engine:
    """The engine of a session."""

    def with_spark(dataset: Path, question: str) -> Rows:
        exec(block(OPEN, "python").replace("proxy_trace.parquet", str(dataset)), {"spark": session})
        return [tuple(row) for row in session.sql(block(question, "sql")).collect()]

    return with_spark


# Spark takes many seconds for each query, however little there is to do.
CASES = [(engine, seed) for engine in (with_duckdb, with_polars) for seed in range(6)] + [("spark", 1)]


@pytest.fixture(params=CASES, ids=[f"{getattr(engine, '__name__', engine)}-{seed}" for engine, seed in CASES])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Trace, Path, Engine]:
    """A run, the dataset that it was exported into, and an engine."""
    engine, seed = request.param
    ask = make_spark(request.getfixturevalue("spark")) if engine == "spark" else engine
    trace = write_run(tmp_path / "run", seed)
    export_parquet(trace, tmp_path / "dataset")
    return trace, tmp_path / "dataset", ask


def test_the_first_step_at_which_ranks_part(case: tuple[Trace, Path, Engine]) -> None:
    trace, dataset, ask = case
    compared = compare_ranks(trace)
    expected = sorted((each.first_step, each.name) for each in (*compared.drifted, *compared.never_agreed))
    assert expected
    assert ask(dataset, PART) == [(name, step) for step, name in expected]


def test_parameters_that_never_change(case: tuple[Trace, Path, Engine]) -> None:
    trace, dataset, ask = case
    expected = sorted(
        (process.rank, tensor.name)
        for process in summarize(trace).processes
        for tensor in process.tensors
        if not (tensor.is_buffer or tensor.has_changed)
    )
    assert expected
    assert ask(dataset, NEVER) == expected


def test_the_first_non_finite_value(case: tuple[Trace, Path, Engine]) -> None:
    trace, dataset, ask = case
    findings = [finding for finding in summarize(trace).findings if finding.code == "non-finite"]
    assert findings
    first = findings[0]
    where = "gradient" if first.name == "net.b" else "output"
    assert ask(dataset, NON_FINITE) == [(first.ranks[0], first.step, where, first.name, first.place)]
