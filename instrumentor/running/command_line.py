"""The command line of `instrument run`."""

# Annotations are evaluated where they stand: typer would compile each of them again from its text.
from typing import Annotated

import typer

from instrumentor.one_line_errors import OneLineErrors
from instrumentor.options import (
    FILES,
    MESSAGES,
    CacheOptions,
    ConfigurationOptions,
    TraceOptions,
    option,
    with_options,
)

_HELP = """
Run a PyTorch program with its models traced, and write nothing but the trace.

The program runs exactly as with `python SCRIPT ARGS...`: the same results, output, exit code and tracebacks. \
At the end, one line on standard error gives the number of findings, the place of the trace, and the next command.

[bold]Examples[/bold]

  [cyan]$ instrument run train.py --epochs 1[/cyan]
  [cyan]$ instrument run --log-level DEBUG --first 10 train.py --epochs 1[/cyan]
  Also trace models that other files of the project create:
    [cyan]$ instrument run --entry train.py[/cyan]
  A module, as `python -m` does:
    [cyan]$ instrument run -m package.train --epochs 1[/cyan]
  Under a launcher:
    [cyan]$ torchrun --no-python --nproc-per-node 2 instrument run train.py[/cyan]
    [cyan]$ accelerate launch --no_python instrument run train.py[/cyan]

Arguments after the script are passed to the script. To instrument a path that is named run, write ./run.
"""


run_app = typer.Typer(
    name="instrument run",
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
    # Arguments after the script belong to the script.
    context_settings={"help_option_names": ["-h", "--help"], "allow_interspersed_args": False},
)


@run_app.command(help=_HELP, no_args_is_help=True, cls=OneLineErrors)
@with_options
def run(
    *,
    script: Annotated[
        str,
        typer.Argument(metavar="SCRIPT", help="A script, or a directory with a __main__.py.", show_default=False),
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="ARGS", help="The arguments of the script.", show_default=False),
    ] = None,
    is_module: Annotated[
        bool,
        option("-m", FILES, "SCRIPT is a module or package, as for [bold]python -m[/bold]."),
    ] = False,
    entry: Annotated[
        bool,
        option("--entry", FILES, "Also trace models that other files of the project create."),
    ] = False,
    configuration: ConfigurationOptions,
    tracing: TraceOptions,
    cache: CacheOptions,
    quiet: Annotated[bool, option("--quiet -q", MESSAGES, "Print nothing at the end.")] = False,
) -> None:
    """Run a program; the text of `--help` is `_HELP`."""
    from instrumentor.running.execution import run as run_program
    from instrumentor.running.program import Choices, find_module, find_script
    from instrumentor.usage import make_overrides, refuse_nonsense_of_run

    overrides = make_overrides(tracing)
    python_path = tuple(configuration.python_path or ())
    is_both = configuration.isolated and configuration.config is not None
    refuse_nonsense_of_run(overrides, script, python_path, is_both=is_both)
    choices = Choices(
        overrides, configuration.config, configuration.isolated, entry, python_path, cache.cache, cache.cache_dir
    )
    target = find_module(script) if is_module else find_script(script)
    run_program(target, arguments or [], choices, is_quiet=quiet)
