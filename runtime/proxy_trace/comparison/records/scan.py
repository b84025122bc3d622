"""Reads ahead in a trace file what is needed before its records can be compared."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from proxy_trace.errors import UnreadableFileError
from proxy_trace.reading.bounded_lines import BoundedLines, open_regular
from proxy_trace.reading.names import Names
from proxy_trace.reading.trace import NO_RECORD
from proxy_wrapper.events import AnyEvent

if TYPE_CHECKING:
    from proxy_trace.reading.trace import TraceFile

_ID: Final = b'"id"'
_THREAD: Final = b'"thread"'
_THREAD_NUMBER: Final = re.compile(rb'"thread":(\d{1,16})[,}]')
_DECODER: Final = msgspec.json.Decoder(AnyEvent)

MAIN_THREAD: Final = 0
_MOST_THREADS: Final = 64


class Scan(NamedTuple):
    """The result of reading ahead.

    Attributes:
        names: all definitions; the last one of each id.
        threads: the threads other than the main one, in the order of their first records; only the first of very many.
    """

    names: Names
    threads: list[int]


def scan(file: TraceFile) -> Scan:
    """Read a file once, decoding only definitions. Takes a fraction of a full pass.

    Raises:
        UnreadableFileError: if the file cannot be read.
    """
    names = Names()
    threads: dict[int, None] = {}
    try:
        with open_regular(file.path) as opened:
            for block in BoundedLines(opened).blocks():
                together = b"\n".join(block)  # Most blocks have neither, so their lines are skipped.
                if _ID in together:
                    _learn(block, names)
                if _THREAD in together and len(threads) < _MOST_THREADS:
                    found = map(int, _THREAD_NUMBER.findall(together))
                    threads.update(dict.fromkeys(number for number in found if number != MAIN_THREAD))
    except OSError as error:
        raise UnreadableFileError(file.path, error) from error
    return Scan(names, list(threads))


def _learn(block: list[bytes], names: Names) -> None:
    for line in block:
        if _ID in line:
            try:
                names.learn(_DECODER.decode(line), len(line))
            except NO_RECORD:
                continue
