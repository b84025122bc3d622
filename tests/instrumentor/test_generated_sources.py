"""Any text that Python's grammar allows: left as it is, or changed in a way that parses and can be undone to the byte.

`make fuzz` takes 2,000 sources for each test; otherwise INSTRUMENT_EXAMPLES says how many.
"""

from __future__ import annotations

import ast
import os
import warnings

import hypothesmith
from hypothesis import HealthCheck, event, given, settings, strategies

from instrumentor.errors import SourceDecodeError, SourceSyntaxError
from instrumentor.instrument import Result, instrument_source
from instrumentor.settings import Settings
from instrumentor.source.undo import undo

EXAMPLES = int(os.environ.get("INSTRUMENT_EXAMPLES", "60"))
generated = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="INSTRUMENT_EXAMPLES" not in os.environ,
    suppress_health_check=list(HealthCheck),
)

any_source = strategies.deferred(hypothesmith.from_grammar)  # Building the grammar's parser takes seconds.


def instrument(source: bytes) -> Result | None:
    """The result; None for what this interpreter or the encoding refuses, which is an error of its own."""
    try:
        return instrument_source(source, Settings(), source_name="x.py")
    except (SourceSyntaxError, SourceDecodeError):
        event("refused")
        return None


@given(any_source)
@generated
def test_generated_sources_without_models_come_back(text: str) -> None:
    source = text.encode("utf-8", errors="surrogatepass")
    result = instrument(source)
    if result is not None:
        assert result.instrumented == source
        assert not [each for each in result.decisions if each.verdict == "wrap"]


@given(any_source)
@generated
def test_generated_sources_with_a_model_can_be_reverted(text: str) -> None:
    source = b"from torch import nn\nmodel = nn.Linear(1, 1)\n" + text.encode("utf-8", errors="surrogatepass")
    result = instrument(source)
    if result is None:
        return
    if b"skip" not in source:
        assert result.changed
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what the generated text does
        ast.parse(result.instrumented)
    again = instrument_source(result.instrumented, Settings(), source_name="x.py")
    assert again.already_instrumented is result.changed
    assert again.instrumented == result.instrumented
    if result.changed:
        assert undo(result.instrumented, source_name="x.py").original == source
