"""Documentation of the checks: their page, and the text of `proxy-trace explain`."""

from __future__ import annotations

import textwrap
from inspect import getmodule
from typing import TYPE_CHECKING, Final

from proxy_trace.checks.all_checks import CHECKS, all_rules
from proxy_trace.checks.kinds_of_bugs import KINDS_OF_BUGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from proxy_trace.checks.check import Check
    from proxy_trace.checks.rule import Rule

_HEAD: Final = """\
# Checks

<!-- Written by `make checks`: change the checks, not this file. -->

`proxy-trace summary` runs every check over a trace in one pass. A check reports that it passed, what it found, or why
it could not look. Each finding has a code; `proxy-trace explain CODE` prints its section of this page.

- **error**: this is wrong, by exact values;
- **warning**: this looks wrong;
- **note**: this is worth knowing. A note never makes `--fail-on` fail.

`[tool.proxy-trace]` in a `pyproject.toml` selects which findings are reported, for everyone who works on a project:

```toml
[tool.proxy-trace]
select = ["*"]                       # codes or globs; all by default
ignore = ["frozen", "untrained"]
baseline = "known-findings.json"     # made by `proxy-trace summary --write-baseline known-findings.json`
```

A package can add checks through the entry point `proxy_trace.checks`, like plugins of flake8:

```toml
[project.entry-points."proxy_trace.checks"]
my-check = "my_package.my_check:CHECK"      # a proxy_trace.checks.check.Check
```
"""
_KINDS: Final = """\
## Kinds of bugs that people report

Bugs that raise no error but train wrongly, according to public reports: issues, pull requests, threads and papers. For
most of them, `fixtures/bugs` has a pair of scripts modelled on these reports. Bugs that no check covers may still be
found by `proxy-trace summary RUN --against GOOD_RUN`. Bugs that lie only in the data, such as a validation set that is
part of the training set, cannot be found in a trace, because a trace contains no data.
"""
_WIDTH: Final = 110


def reference() -> str:
    """The page of the documentation about the checks: Markdown, every check with its rules."""
    sections = (line for check in CHECKS for line in _section(check))
    return "\n".join([_HEAD, *_table(), *sections, *_kinds_of_bugs()]) + "\n"


def _table() -> Iterator[str]:
    yield "| code | severity | what it is | check |"
    yield "| --- | --- | --- | --- |"
    for code, rule in all_rules(CHECKS).items():
        checks = ", ".join(check.name for check in CHECKS if rule in check.rules)
        yield f"| [{code}](#{code}) | {rule.severity} | {rule.title} | {checks} |"
    yield ""


def _kinds_of_bugs() -> Iterator[str]:
    """The table of reported bugs, and the rules that find them."""
    rules = all_rules(CHECKS)
    yield _KINDS
    yield "| area | what is wrong | code | reported in |"
    yield "| --- | --- | --- | --- |"
    for kind in KINDS_OF_BUGS:
        code = f"[{kind.code}](#{kind.code})" if kind.code in rules else "no check"
        sources = ", ".join(
            f"[{number}]({source})" if source.startswith("https://") else source
            for number, source in enumerate(kind.sources, 1)
        )
        yield f"| {kind.area} | {kind.meaning} | {code} | {sources} |"


def _section(check: Check) -> Iterator[str]:
    """A check: when it passes, the description of its module, and the rules that no earlier check has."""
    first = [rule for rule in check.rules if _first_check(rule) is check]
    yield f"## The check `{check.name}`"
    yield ""
    yield f"It passes if {check.meaning}."
    yield ""
    _, _, more = (getattr(getmodule(check.look), "__doc__", "") or "").strip().partition("\n")
    if more.strip():
        yield more.strip()
        yield ""
    for rule in first:
        yield f"### {rule.code}"
        yield ""
        yield from rule_lines(rule)
        yield ""
    for rule in check.rules:
        if rule not in first:
            yield f"It may find [{rule.code}](#{rule.code})."
            yield ""


def _first_check(rule: Rule) -> Check:
    return next(check for check in CHECKS if rule in check.rules)


def rule_lines(rule: Rule, width: int = _WIDTH) -> Iterator[str]:
    """The description of a rule, in Markdown that also reads well as plain text."""
    yield f"**{rule.severity}**: {rule.title}."
    yield ""
    yield from _wrapped(rule.meaning, width)
    if rule.remedy:
        yield ""
        yield from _wrapped(f"What to do: {rule.remedy}", width)
    if rule.more:
        yield ""
        yield f"To see more: `proxy-trace {rule.more.format(run='RUN', name='NAME')}`"
    if rule.explains:
        yield ""
        codes = ", ".join(f"`{code}`" for code in rule.explains)
        yield from _wrapped(f"Its consequences are listed as its evidence: {codes}.", width)
    if rule.sources:
        yield ""
        yield "Reported in:"
        yield ""
        for source in rule.sources:
            yield from _wrapped(f"- {source}", width, "  ")


def _wrapped(words: str, width: int, indent: str = "") -> Iterable[str]:
    return textwrap.wrap(words, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
