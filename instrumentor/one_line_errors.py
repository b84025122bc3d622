"""Wrong usage told in one line, as `proxy-trace` tells it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, cast

import typer
from typer.core import TyperCommand

from instrumentor.report.terminal import uses_color

if TYPE_CHECKING:
    from collections.abc import Sequence

# Neither is among typer's own names, and whose it is (click's or typer's copy) depends on its version.
_USAGE_ERROR = cast("type[Exception]", typer.BadParameter.__base__)
_HELP_INSTEAD = "NoArgsIsHelpError"


class OneLineErrors(TyperCommand):
    """A command whose errors of usage are one line on standard error, with where to read on; the exit code is 2."""

    def main(  # type: ignore[override]  # Whose signature it is depends on typer's version, too.
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **more: Any,
    ) -> Any:
        """Run the command and end the process; without `standalone_mode` give back what typer does."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **more)
        try:
            code = super().main(args, prog_name, complete_var, standalone_mode=False, **more)
        except _USAGE_ERROR as error:
            if type(error).__name__ == _HELP_INSTEAD:
                return super().main(args, prog_name, complete_var, **more)  # typer shows it, and ends with 2.
            said = getattr(error, "format_message", error.__str__)()
            program = getattr(getattr(error, "ctx", None), "command_path", None) or prog_name or self.name
            word = typer.style("error:", fg="red") if uses_color(sys.stderr) else "error:"
            end = "" if said.endswith("?") else "."
            typer.echo(f"instrument: {word} {said.removesuffix('.')}{end} Try '{program} --help'.", err=True)
            sys.exit(2)
        except typer.Abort:
            typer.echo("interrupted", err=True)
            sys.exit(130)
        sys.exit(code if isinstance(code, int) else 0)
