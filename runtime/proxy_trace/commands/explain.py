"""`proxy-trace explain`: what a finding means, and what to do about it."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from proxy_trace.commands.options import print_lines

EXPLAIN_HELP: Final = """
Explain a finding: what it means, when it is reported, and what to do about it.

Without CODE, list all codes.

[bold]Examples[/bold]

  [cyan]proxy-trace explain[/cyan]
  [cyan]proxy-trace explain never-updated[/cyan]
"""


def explain(
    code: Annotated[
        str | None, typer.Argument(metavar="CODE", help="The code of a finding.", show_default=False)
    ] = None,
) -> None:
    """Explain a code; the text of `--help` is `EXPLAIN_HELP`."""
    from proxy_trace.checks.all_checks import all_rules
    from proxy_trace.checks.reference import rule_lines
    from proxy_trace.errors import UnknownCodeError
    from proxy_trace.terminal.table import format_table

    rules = all_rules()
    if code is None:
        rows = [[rule.code, rule.severity, rule.title] for rule in rules.values()]
        print_lines(format_table(["code", "severity", "what it is"], rows, "lll"))
        return
    if code not in rules:
        raise UnknownCodeError(code, rules)
    print_lines([code, "", *rule_lines(rules[code], 78)])
