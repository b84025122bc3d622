"""Text in, text out: the stages of instrumenting one script, in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from instrumentor.decide import Decision
from instrumentor.settings import Settings


@dataclass(frozen=True)
class Result:
    """What instrumenting one script gave.

    Attributes:
        original: the script's bytes as they came in.
        instrumented: the bytes to write instead; equal to `original` where there is nothing to do.
        decisions: every site with its verdict and reason, ordered by position.
        already_instrumented: the script carried a valid source comment and was left as it is.
    """

    original: bytes
    instrumented: bytes
    decisions: tuple[Decision, ...]
    already_instrumented: bool

    @property
    def changed(self) -> bool:
        """Whether there is anything to write."""
        return self.original != self.instrumented


@dataclass(frozen=True)
class Reverted:
    """What undoing the instrumentation gave.

    Attributes:
        original: the bytes as they were before.
        recorded_source: the path of the original as the source comment records it.
    """

    original: bytes
    recorded_source: str


def instrument_source(
    source: bytes,
    settings: Settings,
    *,
    source_name: str,
    read_sibling: Callable[[str], bytes | None] | None = None,
) -> Result:
    """Put the models of one script under proxies.

    Args:
        source: the script's bytes, in whatever encoding and with whatever newlines it has.
        settings: what the user asked for.
        source_name: the path of the script as the user gave it, "<stdin>" for standard input.
        read_sibling: reads a file by its path relative to the script's directory (`net.py`, `models/resnet.py`),
            None where there is no such file; how classes imported from the project are looked up.
            Without it such classes are judged by their use.

    Returns:
        The new bytes with the reason for every site.

    Raises:
        SourceSyntaxError: `source` is not Python.
        SourceDecodeError: `source` does not fit its declared encoding.
    """
    raise NotImplementedError


def revert_source(source: bytes, *, source_name: str) -> Reverted:
    """Give back the bytes that `instrument_source` was called with.

    Args:
        source: the bytes of an instrumented script.
        source_name: its path, for messages.

    Raises:
        NotInstrumentedError: `source` ends with no source comment.
        EditedSinceError: `source` was edited after it was instrumented.
    """
    raise NotImplementedError
