"""What the command says about files, in words."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from typing import TYPE_CHECKING

from instrumentor.notebooks.cells import describe_line, describe_lines_in, place_in_cells
from instrumentor.plain_text import count, escape_unprintable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from instrumentor.decision import Decision
    from instrumentor.engine.outcome import Outcome

_NAMED_MODELS = 5
# Reasons why a model has no proxy.
_LEFT_OUT = {
    "deselected": "left out by --select or --skip",
    "suppressed": "suppressed by a comment",
    "unsure": "below --min-confidence",
    "out-of-sight": "created where no proxy can be added",
}
_NAMED_FILES = 3


def say(message: str) -> None:
    """Print one line on standard error; characters of a path or script that would break it up are escaped."""
    print(escape_unprintable(message), file=sys.stderr)


def describe_models(outcome: Outcome) -> str:
    """Count and name the wrapped models: `2 models (netD, line 40; netG, line 60)`."""
    wrapped = [decision for decision in outcome.decisions if decision.verdict == "wrap"]
    if not wrapped:
        return "creates no model; one line was added so that it imports the instrumented files"
    named = [
        f"{decision.target}, {describe_line(decision.line, outcome.cells)}" for decision in wrapped[:_NAMED_MODELS]
    ]
    if len(wrapped) > _NAMED_MODELS:
        named.append(f"and {len(wrapped) - _NAMED_MODELS} more")
    return f"{count(len(wrapped), 'model')} ({'; '.join(named)})"


def describe_nothing(outcome: Outcome) -> str:
    """Say why nothing is wrapped, phrased so that ` in <file>` can follow."""
    if outcome.status == "already instrumented":
        return "already instrumented"
    counts = Counter(decision.reason_code for decision in outcome.decisions)
    chosen = [f"{counts[code]} {words}" for code, words in _LEFT_OUT.items() if counts[code]]
    return f"no model to wrap ({', '.join(chosen)})" if chosen else "no model found"


def has_model(outcome: Outcome) -> bool:
    """Whether a script has anything recognized as a model, wrapped or not."""
    return any(each.verdict != "not wrapped" or each.reason_code in _LEFT_OUT for each in outcome.decisions)


def describe_elsewhere(shown: str, files: Sequence[str]) -> str:
    """Point to the models that only `--entry` reaches."""
    named = ", ".join(files[:_NAMED_FILES]) + (", ..." if len(files) > _NAMED_FILES else "")
    create = "creates" if len(files) == 1 else "create"
    others = count(len(files), "other file")
    return f"{shown}: {others} of its project {create} models ({named}); add --entry to include them"


def describe_run(path: str) -> str:
    """Say how to run an instrumented script."""
    return f"run it with: python {shlex.quote(path)}"


def describe_ways_on(shown: str) -> str:
    """Say what to do about a script in which no model was recognized."""
    return (
        f"{shown}: --explain --verbose shows how its objects were classified; if one is a model, list the function "
        "that creates it under factories = [...] in [tool.instrumentor] of pyproject.toml"
    )


def describe_decision(shown: str, decision: Decision, outcome: Outcome) -> str:
    """One decision in the format of compilers: `path:line:column: verdict: ...`."""
    cell, line = place_in_cells(decision.line, outcome.cells)
    place = shown if cell is None else f"{shown}:cell {cell}"
    return (
        f"{place}:{line}:{decision.column + 1}: {decision.verdict}:"
        f" {decision.target} ({decision.object}): {describe_lines_in(decision.reason, outcome.cells)}"
    )
