"""Usage errors in one line, as `proxy-trace` reports them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, cast

import typer
from typer.core import TyperCommand

from instrumentor.report.terminal import uses_color

if TYPE_CHECKING:
    from collections.abc import Sequence

# typer does not export it, and whether it is click's or typer's copy depends on the version of typer.
_USAGE_ERROR = cast("type[Exception]", typer.BadParameter.__base__)
_HELP_INSTEAD = "NoArgsIsHelpError"


class OneLineErrors(TyperCommand):
    """A command whose usage errors are one line on standard error that points to the help; the exit code is 2."""

    def main(  # type: ignore[override]  # The signature depends on typer's version, too.
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **more: Any,
    ) -> Any:
        """Run the command and end the process; without `standalone_mode`, return what typer returns."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **more)
        try:
            code = super().main(args, prog_name, complete_var, standalone_mode=False, **more)
        except _USAGE_ERROR as error:
            if type(error).__name__ == _HELP_INSTEAD:
                return super().main(args, prog_name, complete_var, **more)  # typer shows it and exits with 2.
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
