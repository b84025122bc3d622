"""Reads ahead what has to be known of a trace file before its records can be compared with those of another."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from proxy_trace.bounded_lines import BoundedLines, open_regular
from proxy_trace.errors import UnreadableFileError
from proxy_trace.names import Names
from proxy_wrapper.events import AnyEvent

if TYPE_CHECKING:
    from proxy_trace.trace import TraceFile

_THREAD: Final = re.compile(rb'"thread":(\d{1,16})[,}]')
_NO_RECORD: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

MAIN_THREAD: Final = 0
_MOST_THREADS: Final = 64


class Scan(NamedTuple):
    """What was read ahead.

    Attributes:
        names: all definitions, the last one of each id.
        threads: the threads that recorded something besides the main one, in the order in which they first did; of very
            many, the first.
    """

    names: Names
    threads: list[int]


def scan(file: TraceFile) -> Scan:
    """Read a file once, without decoding what defines nothing: a fraction of a full pass.

    Raises:
        UnreadableFileError: if the file system refuses.
    """
    names = Names()
    threads: dict[int, None] = {}
    decode = msgspec.json.Decoder(AnyEvent).decode
    try:
        with open_regular(file.path) as opened:
            for line in BoundedLines(opened):
                if b'"id"' in line:
                    try:
                        names.learn(decode(line), len(line))
                    except _NO_RECORD:
                        continue
                if b'"thread"' in line and len(threads) < _MOST_THREADS:
                    found = _THREAD.search(line)
                    if found is not None and int(found[1]) != MAIN_THREAD:
                        threads[int(found[1])] = None
    except OSError as error:
        raise UnreadableFileError(file.path, error) from error
    return Scan(names, list(threads))
