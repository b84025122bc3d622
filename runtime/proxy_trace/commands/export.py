"""The command `proxy-trace export`."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from proxy_trace.commands.options import JobsOption, RankOption, RunArgument, open_run, print_lines, print_note

if TYPE_CHECKING:
    from proxy_trace.export.result import Exported
    from proxy_trace.reading.trace import Trace
    from proxy_trace.reading.workers import Workers

EXPORT_HELP: Final = """
Write a run in the format of another tool.

[bold]Formats[/bold]

  [cyan]parquet[/cyan]      partitioned by run and rank, for DuckDB, Polars or Spark
  [cyan]chrome[/cyan]       a timeline for https://ui.perfetto.dev or chrome://tracing
  [cyan]csv[/cyan]          one table
  [cyan]tensorboard[/cyan]  losses, rates and norms as scalars, findings as text

Parquet needs the extra: pip install 'instrumentor\\[export]', TensorBoard's format 'instrumentor\\[tensorboard]'. \
You can export several runs into one dataset or logdir. docs/trace_format.md describes the columns and the tags.

An export appears only once it is complete, and nothing is replaced without --force. An interrupted export to Parquet \
is resumed: finished tables are not written again, unless their files have changed since.

[bold]Examples[/bold]

  [cyan]proxy-trace export[/cyan]                       the newest run, as Parquet
  [cyan]proxy-trace export RUN -o steps.json.gz[/cyan]  the name determines the format
  [cyan]proxy-trace export RUN -f csv --rank 0[/cyan]   only one process
  [cyan]duckdb -c "FROM 'proxy_trace.parquet/**/*.parquet' SELECT kind, step"[/cyan]
"""


class ExportFormat(str, Enum):
    """The values of `--format`."""

    PARQUET = "parquet"
    CHROME = "chrome"
    CSV = "csv"
    TENSORBOARD = "tensorboard"


_SUFFIXES: Final = {
    ".parquet": ExportFormat.PARQUET,
    ".json": ExportFormat.CHROME,
    ".json.gz": ExportFormat.CHROME,
    ".csv": ExportFormat.CSV,
}


def export(
    run: RunArgument = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="The directory or file. Default: ./proxy_trace.parquet, .tensorboard, or ./RUN_ID.json.gz, .csv.",
            show_default=False,
        ),
    ] = None,
    output_format: Annotated[
        ExportFormat | None,
        typer.Option(
            "--format",
            "-f",
            metavar="FORMAT",
            help="One of the above. Default: by the name of the output, else parquet.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", metavar="", help="Replace an existing export.")] = False,
    rank: RankOption = None,
    jobs: JobsOption = None,
) -> None:
    """Export a run; the text of `--help` is `EXPORT_HELP`."""
    from proxy_trace.reading.workers import Workers, count_jobs
    from proxy_trace.terminal.progress import progress_bar
    from proxy_trace.terminal.units import format_count, format_size

    chosen = output_format or _format_of(output)
    trace = open_run(run, rank)
    target = output or _default_output(chosen, trace.files[0].run.run)
    size = sum(file.size_bytes() for file in trace.files)
    with progress_bar(size, "exporting") as on_progress, Workers(count_jobs(jobs, size), on_progress) as workers:
        done = _write(chosen, trace, target, workers, force=force)
    each = f", {done.size_bytes / done.records:.1f} bytes each" if done.records else ""
    print_lines([f"{done.path}: {format_count(done.records, 'record')}, {format_size(done.size_bytes)}{each}"])
    if done.files_before:
        print_note(f"resumed an interrupted export: {format_count(done.files_before, 'file')} had been written")
    for damaged in trace.damaged:
        print_note(f"{damaged.path} is left out: {damaged.reason}")
    if done.left_out:
        print_note(f"{format_count(done.left_out, 'line')} left out: not records that this version can read")


def _format_of(output: Path | None) -> ExportFormat:
    """The format that the name of the output implies.

    Raises:
        typer.BadParameter: if the suffix is not known.
    """
    if output is None or not output.suffix or output.is_dir():
        return ExportFormat.PARQUET
    for suffix, found in _SUFFIXES.items():
        if output.name.lower().endswith(suffix):
            return found
    raise typer.BadParameter(
        f"'{output}' does not determine the format: give a name in {', '.join(_SUFFIXES)}, or --format.",
        param_hint="'--output'",
    )


def _default_output(chosen: ExportFormat, run: str) -> Path:
    """The default output, in the working directory.

    Raises:
        OutputIsLinkError: if it is a link that leads elsewhere.
    """
    from proxy_trace.errors import OutputIsLinkError

    if chosen in (ExportFormat.PARQUET, ExportFormat.TENSORBOARD):
        folder = Path(f"proxy_trace.{chosen.value}")
        if folder.is_symlink():
            raise OutputIsLinkError(folder)
        return folder
    return Path(f"{run}.json.gz" if chosen is ExportFormat.CHROME else f"{run}.csv")


def _write(chosen: ExportFormat, trace: Trace, target: Path, workers: Workers, *, force: bool) -> Exported:
    """Export the trace. The exporter is imported only now. Single files are written by one process."""
    if chosen is ExportFormat.PARQUET:
        from proxy_trace.export.parquet import export_parquet

        return export_parquet(trace, target, force=force, workers=workers)
    if chosen is ExportFormat.CHROME:
        from proxy_trace.export.chrome import export_chrome

        return export_chrome(trace, target, force=force, report=workers.report)
    if chosen is ExportFormat.TENSORBOARD:
        from proxy_trace.export.tensorboard import export_tensorboard

        return export_tensorboard(trace, target, workers, force=force)
    from proxy_trace.export.csv_file import export_csv

    return export_csv(trace, target, force=force, report=workers.report)
