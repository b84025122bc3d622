"""Compares two runs of a script record by record, and finds where they first differ."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from proxy_trace.comparison.compare_calls import ENDS_IN_ORDER
from proxy_trace.comparison.configuration import SettingsComparer
from proxy_trace.comparison.ranks import file_of_each_rank
from proxy_trace.comparison.records.alignment import LOOK_AHEAD, Aligner, Apart
from proxy_trace.comparison.records.correspondence import find_correspondence
from proxy_trace.comparison.records.distances import (
    BUFFER,
    GRADIENT,
    MOST_SERIES,
    OUTPUT,
    PARAMETER,
    Distances,
    Series,
    distance_of,
)
from proxy_trace.comparison.records.pair_difference import VALUE, PairComparer
from proxy_trace.comparison.records.parting import CALL, CONFIGURATION, MORE, ORDER, Parting, name_of, see
from proxy_trace.comparison.records.recorded import Recorded
from proxy_trace.comparison.records.scan import MAIN_THREAD, scan
from proxy_trace.comparison.records.side import Side, step_of
from proxy_trace.comparison.runs import ComparedRun, describe_run
from proxy_trace.errors import NothingAlikeError, SameRunError
from proxy_trace.reading.selection import names_in
from proxy_trace.reading.workers import Workers
from proxy_trace.tensors.same_values import has_bits
from proxy_trace.terminal.units import format_count, format_ranks
from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy_trace.comparison.records.correspondence import Correspondence
    from proxy_trace.comparison.records.pair_difference import PairDifference
    from proxy_trace.comparison.records.side import Key, Record
    from proxy_trace.reading.names import Names
    from proxy_trace.reading.report import Report
    from proxy_trace.reading.selection import StepRange
    from proxy_trace.reading.trace import Trace, TraceFile

_PROGRESS_INTERVAL: Final = 1 << 14


class RecordComparison(msgspec.Struct):
    """The result of comparing two runs record by record.

    Attributes:
        runs: the two runs.
        ranks: the ranks that both runs have.
        records: the number of pairs of records compared.
        partings: the places where the runs part: torch settings, then the first parting of each kind, in order. Start
            with the first.
        counts: the number of partings of each kind.
        series: how far the outputs, gradients, parameters and buffers of each module diverge.
        by_statistics: the number of parameters and buffers without fingerprints in one of the traces, whose minimum,
            maximum and norm were compared.
        renamed: modules matched under different names: in the first run, in the second.
        only_in: for each run, the topmost modules that the other lacks.
        limits: what was not compared, in a few words each.
    """

    runs: list[ComparedRun]
    ranks: list[int]
    records: int
    partings: list[Parting]
    counts: dict[str, int]
    series: list[Series]
    by_statistics: int
    renamed: list[tuple[str, str]]
    only_in: list[list[str]]
    limits: list[str]

    @property
    def agrees(self) -> bool:
        """Whether no parting was found."""
        return not self.partings


class PartialComparison(msgspec.Struct):
    """The result of comparing one file of each run. Fields as in `RecordComparison`; `ends`, `last_steps` of both."""

    records: int
    partings: list[Parting]
    counts: dict[str, int]
    series: list[Series]
    by_statistics: int
    renamed: list[tuple[str, str]]
    only_in: list[list[str]]
    limits: list[str]
    ends: list[str]
    last_steps: list[int]


def compare_records(
    first: Trace,
    second: Trace,
    steps: StepRange | None = None,
    is_chosen: Callable[[str], bool] | None = None,
    workers: Workers | None = None,
) -> RecordComparison:
    """Read two runs side by side, record by record and rank by rank.

    Memory grows with the model, not with the length of the runs.

    Args:
        first: the first run.
        second: the second run.
        steps: compare only records of these steps; None for all, and for what precedes the first call.
        is_chosen: compare only records with a name for which this is true; None for all.
        workers: reads the files; if None, this process does.

    Raises:
        SameRunError: if both are the same run.
        NothingAlikeError: if no record of one matches a record of the other.
        TraceError: if a file cannot be read.
    """
    if {file.path.absolute() for file in first.files} & {file.path.absolute() for file in second.files}:
        raise SameRunError(first.path, second.path, first.files[0].run.run)
    chosen = [file_of_each_rank(trace) for trace in (first, second)]
    of_ranks = [{file.run.rank: file for file in files} for files, _ in chosen]
    ranks = sorted(of_ranks[0].keys() & of_ranks[1].keys())
    pairs = [FilePair((of_ranks[0][rank], of_ranks[1][rank]), steps, is_chosen) for rank in ranks]
    found = list((workers or Workers()).map(compare_files, pairs))
    if not any(each.records or each.partings for each in found):
        raise NothingAlikeError(first.path, second.path)
    return _merged((first, second), ranks, found, [left_out for _, left_out in chosen])


class FilePair(NamedTuple):
    """One process of each run, and what to compare, as in `compare_records`."""

    files: tuple[TraceFile, TraceFile]
    steps: StepRange | None = None
    is_chosen: Callable[[str], bool] | None = None


def compare_files(pair: FilePair, report: Report) -> PartialComparison:
    """Compare one process of each run. `report` is called repeatedly with the bytes read since the previous call."""
    files, steps, is_chosen = pair
    scans = [scan(file) for file in files]
    names = [each.names for each in scans]
    correspondence = find_correspondence(*names)
    recorded = Recorded(names, correspondence)
    limits = recorded.limits()
    threads = [(MAIN_THREAD, MAIN_THREAD)]
    others = [each.threads for each in scans]
    if len(others[0]) == len(others[1]) == 1:
        threads.append((others[0][0], others[1][0]))
    elif any(others):
        limits.append("records of threads other than the main one: these threads cannot be matched")
    comparer = _FileComparer(correspondence, names, files[0].run.rank, has_gaps=recorded.has_gaps)
    for of_first, of_second in threads:
        sides = [
            Side(
                file,
                of_file,
                correspondence.modules[number],
                correspondence.tensors[number],
                thread=thread,
                is_wanted=_wanted(recorded.filter_of(number), of_file, steps, is_chosen),
            )
            for number, (file, of_file, thread) in enumerate(zip(files, names, (of_first, of_second), strict=True))
        ]
        comparer.compare(sides, report)
    return comparer.result(limits)


def _wanted(
    is_in_both: Callable[[Any], bool] | None,
    names: Names,
    steps: StepRange | None,
    is_chosen: Callable[[str], bool] | None,
) -> Callable[[Any], bool] | None:
    """A test of whether to compare a record; None if all are compared."""
    if is_in_both is None and steps is None and is_chosen is None:
        return None

    def is_wanted(event: Any) -> bool:
        if type(event) is events.Configuration:
            return True
        if steps is not None and not (isinstance(event, events.Happening) and steps.has(event.step)):
            return False
        if is_chosen is not None and not any(map(is_chosen, names_in(event, names))):
            return False
        return is_in_both is None or is_in_both(event)

    return is_wanted


_KINDS: Final[dict[type, str]] = {
    events.ReturnModule: OUTPUT,
    events.Gradient: GRADIENT,
    events.Update: PARAMETER,
    events.Parameter: PARAMETER,
    events.Buffer: BUFFER,
}


_WITH_VALUES: Final = frozenset({events.ReturnModule, events.CallFunction, events.CallMethod, events.GetAttr})
"""Records that have statistics only if requested."""


class _FileComparer:
    """Collects the differences between two files."""

    def __init__(self, correspondence: Correspondence, names: Sequence[Names], rank: int, *, has_gaps: bool) -> None:
        self._correspondence = correspondence
        self._names = names
        self._rank = rank
        self._has_gaps = has_gaps
        self._pairs = PairComparer(correspondence.first_names)
        self._settings = SettingsComparer()
        self._distances = Distances()
        self._partings: list[Parting] = []
        self._kinds: set[str] = set()
        self._counts: Counter[str] = Counter()
        self._records = 0
        self._ends: list[str] = []
        self._last_steps: list[int] = []
        self._limits: list[str] = []
        self._sides: list[Side] = []
        self._open: _Lacking | None = None
        self._lacks_values = False

    def compare(self, sides: list[Side], report: Report) -> None:
        """Read the records of one thread of each file."""
        self._sides = sides
        self._open = None
        aligner = Aligner(sides[0].records(), sides[1].records())
        are_same = self._pairs.are_same
        reported = 0
        for number, each in enumerate(aligner):
            if isinstance(each, Apart):
                self._apart(each)
                continue
            one, other = each
            self._records += 1
            if self._open is not None:
                self._go_on((one, other))
            if not are_same(one[1], other[1]):
                self._pair(one, other)
            if number % _PROGRESS_INTERVAL == 0:
                bytes_read = sum(side.reading.bytes_read for side in sides)
                report(bytes_read - reported)
                reported = bytes_read
        self._tail(aligner)
        if not self._ends:
            self._limits += [
                f"{format_count(side.reading.left_out, 'line')} of the {name} run that are not records of this version"
                for name, side in zip(("first", "second"), sides, strict=True)
                if side.reading.left_out
            ]
        self._ends = self._ends or [side.end for side in sides]
        self._last_steps = self._last_steps or [side.last_step for side in sides]

    def result(self, limits: list[str]) -> PartialComparison:
        """The result."""
        modules = self._correspondence.modules
        names = {
            numbers[id_]: module.name
            for numbers, of_file in zip(reversed(modules), reversed(self._names), strict=True)
            for id_, module in of_file.modules.items()
        }
        if self._lacks_values:
            limits = [*limits, "values of outputs, calls and attributes that only one run recorded (statistics=)"]
        if self._distances.left_out:
            limits = [*limits, f"how far values went apart in more than {MOST_SERIES:,} places"]
        return PartialComparison(
            records=self._records,
            partings=self._partings,
            counts={kind: count for kind, count in self._counts.items() if count},
            series=self._distances.series(self._rank, names),
            by_statistics=self._count_without_bits(),
            renamed=self._correspondence.renamed,
            only_in=list(self._correspondence.only_in),
            limits=[*limits, *self._limits],
            ends=self._ends,
            last_steps=self._last_steps,
        )

    # Matching records

    def _pair(self, one: Record, other: Record) -> None:
        """Compare two matching records that are not identical."""
        if _is_configuration(one):
            self._configure(([one], [other]))
            return
        first, second = one[1], other[1]
        if type(first) in _WITH_VALUES and (first.statistics is None) != (second.statistics is None):
            self._lacks_values = True
        found = list(self._pairs.differences(first, second))
        if not found:
            return
        kind = found[0].kind
        self._counts[kind] += 1
        self._measure(one, found)
        if kind not in self._kinds:
            self._tell_first(kind, (one, other), found[0].what, found[0].in_words())

    def _measure(self, record: Record, found: Sequence[PairDifference]) -> None:
        """Record how far the values are apart. `record` is that of the first run."""
        event = record[1]
        kind = _KINDS.get(type(event))
        if kind is None:
            return
        if kind == PARAMETER and isinstance(event, events.Update):
            tensor = self._names[0].tensors.get(event.tensor)
            if not isinstance(tensor, events.Parameter):
                if not isinstance(tensor, events.Buffer):
                    return
                kind = BUFFER
        module = self._correspondence.modules[0][event.module]
        for each in found:
            if each.kind == VALUE and each.what.startswith("statistics"):
                self._distances.note(kind, module, step_of(record), distance_of(each.first, each.second))

    def _configure(self, records: Sequence[Sequence[Record]]) -> None:
        """Compare torch settings that the runs have, or have changed to."""
        for number, of_run in enumerate(records):
            for record in of_run:
                self._settings.note(number, record[1])
        latest = [of_run[-1] if of_run else None for of_run in records]
        for found in self._settings.differences(max(step_of(each) for each in latest if each is not None)):
            self._counts[CONFIGURATION] += 1
            self._tell(CONFIGURATION, latest, found.name, found.values)

    # Records without a match

    def _apart(self, apart: Apart) -> None:
        settings = [[each for each in of_run if _is_configuration(each)] for of_run in apart]
        if any(settings):
            self._configure(settings)
        if self._has_gaps:
            return
        rest = [[each for each in of_run if not _is_configuration(each)] for of_run in apart]
        keys = [Counter(each[0] for each in of_run) for of_run in rest]
        if all(rest):
            kind = ORDER if keys[0] == keys[1] else CALL
            self._counts[kind] += max(map(len, rest))
            one, other = rest[0][0], rest[1][0]
            if kind == ORDER:  # Both runs make the same call.
                other = next(each for each in rest[1] if each[0] == one[0])
            self._tell_first(kind, (one, other))
            self._open = None
        elif any(rest):
            number = 0 if rest[0] else 1
            self._one_has_more(number, rest[number][0], keys[number])

    def _one_has_more(self, number: int, record: Record, keys: Counter[Key]) -> None:
        """Record what only one run has. If the other had exactly that shortly before, only the order differs."""
        lacking, size = self._open, sum(keys.values())
        if lacking is not None and lacking.number != number and lacking.keys == keys:
            self._counts[MORE] -= size
            self._counts[ORDER] += size
            self._open = None
            if lacking.parting is not None and ORDER not in self._kinds:
                self._kinds ^= {MORE, ORDER}
                lacking.parting.kind, lacking.parting.only_in = ORDER, None
                lacking.parting.records[number] = see(record, self._sides[number])
            return
        self._counts[MORE] += size
        parting = self._tell_first(MORE, (record, None) if number == 0 else (None, record))
        if parting is not None:
            parting.only_in = number
        self._open = _Lacking(parting, number, keys, step_of(record))

    def _go_on(self, records: tuple[Record, Record]) -> None:
        """The runs continue together. The next record of the one that lacked something completes the parting."""
        assert self._open is not None
        parting, other = self._open.parting, 1 - self._open.number
        if parting is not None and parting.records[other] is None:
            parting.records[other] = see(records[other], self._sides[other])
        if step_of(records[other]) != self._open.step:
            self._open = None

    def _tail(self, aligner: Aligner) -> None:
        """Record what one run still has after the other has ended.

        It is a difference if the other ended normally, after as many steps.
        """
        for number, side in enumerate(self._sides):
            ended = self._sides[1 - number]
            keys: Counter[Key] = Counter()
            first: Record | None = None
            for record in aligner.rest(number):
                first = first or record
                keys[record[0] if len(keys) < LOOK_AHEAD else ()] += 1
            if first is None:
                continue
            if ended.end in ENDS_IN_ORDER and side.last_step <= ended.last_step and not self._has_gaps:
                self._one_has_more(number, first, keys)
                continue
            names = ("first", "second")
            how = ended.end or "killed, or still running"
            self._limits.append(
                f"{format_count(sum(keys.values()), 'record')} of the {names[number]} run, "
                f"from step {step_of(first):,}: the {names[1 - number]} run ended there ({how})"
            )

    # Partings

    def _tell_first(
        self, kind: str, records: Sequence[Record | None], what: str = "", values: Sequence[str] = ()
    ) -> Parting | None:
        """Record a parting if it is the first of its kind."""
        if kind in self._kinds:
            return None
        self._kinds.add(kind)
        return self._tell(kind, records, what, values)

    def _tell(self, kind: str, records: Sequence[Record | None], what: str, values: Sequence[str]) -> Parting:
        number = 0 if records[0] is not None else 1
        shown = records[number]
        assert shown is not None
        event = shown[1]
        names, first_names = self._names[number], self._correspondence.first_names if number else {}
        module, name = names.module_name(getattr(event, "module", 0)), name_of(event, names)
        seen = [see(each, side) if each is not None else None for each, side in zip(records, self._sides, strict=True)]
        parting = Parting(
            kind=kind,
            rank=self._rank,
            step=min(step_of(record) for record in records if record is not None),
            stage=getattr(event, "stage", ""),
            module=first_names.get(module, module),
            name=first_names.get(name, name),
            what=what,
            values=list(values),
            records=seen,
        )
        self._partings.append(parting)
        return parting

    def _count_without_bits(self) -> int:
        """The number of parameters and buffers in both runs without fingerprints in one of them."""
        known: list[dict[int, bool]] = [
            {numbers[id_]: has_bits(tensor.statistics) for id_, tensor in of_file.tensors.items() if tensor.statistics}
            for numbers, of_file in zip(self._correspondence.tensors, self._names, strict=True)
        ]
        return sum(not (known[0][number] and known[1][number]) for number in known[0].keys() & known[1].keys())


class _Lacking(NamedTuple):
    """What run `number` (0 or 1) has from `step` on and the other lacks; `parting` if it was recorded."""

    parting: Parting | None
    number: int
    keys: Counter[Key]
    step: int


def _is_configuration(record: Record) -> bool:
    return type(record[1]) is events.Configuration


def _merged(
    traces: Sequence[Trace],
    ranks: list[int],
    parts: Sequence[PartialComparison],
    left_out: Sequence[Sequence[TraceFile]],
) -> RecordComparison:
    """Merge the results of all ranks."""
    partings: list[Parting] = []
    seen: set[tuple[str, str]] = set()
    every = sorted((each for part in parts for each in part.partings), key=lambda each: (each.step, each.rank))
    for each in sorted(every, key=lambda each: each.kind != CONFIGURATION):
        key = (each.kind, each.what if each.kind == CONFIGURATION else "")
        if key not in seen:
            seen.add(key)
            partings.append(each)
    limits = list(dict.fromkeys(limit for part in parts for limit in part.limits))
    for name, trace, other in zip(("first", "second"), traces, reversed(traces), strict=True):
        if alone := sorted(set(trace.ranks()) - set(other.ranks())):
            limits.append(f"{format_ranks(alone)}: only the {name} run has {'them' if len(alone) > 1 else 'it'}")
    for name, files in zip(("first", "second"), left_out, strict=True):
        if files:
            limits.append(f"{format_count(len(files), 'file')} of further processes of a rank, in the {name} run")
    counts: Counter[str] = Counter()
    for part in parts:
        counts.update(part.counts)
    return RecordComparison(
        runs=[
            describe_run(trace, max(part.last_steps[number] for part in parts), parts[0].ends[number])
            for number, trace in enumerate(traces)
        ],
        ranks=ranks,
        records=sum(part.records for part in parts),
        partings=partings,
        counts=dict(counts),
        series=[series for part in parts for series in part.series],
        by_statistics=sum(part.by_statistics for part in parts),
        renamed=list(dict.fromkeys(pair for part in parts for pair in part.renamed)),
        only_in=[sorted({name for part in parts for name in part.only_in[number]}) for number in (0, 1)],
        limits=limits,
    )
