"""A profile: the cost of a run by module and by call, in one convention."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from proxy_views.profile.costs import is_function, operation_name
from proxy_views.profile.errors import ConventionError, UnknownRowError
from proxy_views.profile.flop_totals import FlopTotals
from proxy_views.profile.flops import CONVENTIONS
from proxy_views.profile.memory import Memory
from proxy_views.profile.row_builder import RowBuilder
from proxy_views.profile.table import profile_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy_views.profile.calls import BackwardCall, Call, Scope
    from proxy_views.profile.device import Device
    from proxy_views.profile.flops import Convention
    from proxy_views.profile.rows import ProfileRow
    from proxy_views.profile.state_sizes import StateSizes


class Profile:
    """The measurements of a run.

    Attributes:
        rows: the modules and calls; each module precedes the calls in it.
        by_operation: the forward and backward FLOPs of each operation with a formula.
        without_formula: the operations without a formula, which no sum includes.
        saved_bytes: the bytes saved for the backward pass. Each address counts once; parameters, buffers and tensors
            saved during recomputation by checkpoints do not count.
        device: the device whose times were computed.
    """

    def __init__(
        self,
        rows: tuple[ProfileRow, ...],
        total: FlopTotals,
        by_operation: dict[str, FlopTotals],
        without_formula: tuple[str, ...],
        saved_bytes: int,
        device: Device | None,
    ) -> None:
        """Store the results of `Profile.of`."""
        self.rows = rows
        self.by_operation, self.without_formula, self.saved_bytes = by_operation, without_formula, saved_bytes
        self.device = device
        self._total = total
        self._by_name = {row.name: row for row in reversed(rows)}

    @classmethod
    def of(
        cls,
        calls: Sequence[Call],
        scopes: Sequence[Scope],
        types: dict[str, str],
        sizes: StateSizes,
        convention: Convention,
        device: Device | None,
    ) -> Profile:
        """The profile of these calls.

        Raises:
            ConventionError: if `convention` is unknown.
        """
        if convention not in CONVENTIONS:
            raise ConventionError(convention)
        memory = Memory(calls, sizes.parameters | sizes.buffers)
        builder = RowBuilder(calls, scopes, types, sizes, memory, convention, device)
        by_operation, without = _by_operation(calls, convention)
        total = FlopTotals(
            sum(cost.flops or 0 for cost in builder.forward), sum(cost.flops or 0 for cost in builder.backward)
        )
        return cls(tuple(builder.rows()), total, by_operation, without, memory.total, device)

    @property
    def forward_flops(self) -> int:
        """The forward FLOPs of the whole block, including recomputation by checkpoints."""
        return self._total.forward

    @property
    def backward_flops(self) -> int:
        """The backward FLOPs of the whole block."""
        return self._total.backward

    @property
    def total_flops(self) -> int:
        """The FLOPs of the whole block, in both passes."""
        return self._total.forward + self._total.backward

    def __getitem__(self, name: str) -> ProfileRow:
        """The row with that name.

        Raises:
            UnknownRowError: if there is none.
        """
        row = self._by_name.get(name)
        if row is None:
            raise UnknownRowError(name, self._by_name)
        return row

    def table(self, *, operations: bool = True) -> str:
        """The rows as a table, with siu's columns, and columns of times.

        Args:
            operations: whether calls have rows, or only modules.
        """
        return profile_table(
            [row for row in self.rows if operations or row.kind == "module"],
            self._total,
            self.saved_bytes,
            self.without_formula,
            has_device=self.device is not None,
        )

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return (
            f"<Profile of {len(self.rows)} rows: {self.forward_flops:,} + {self.backward_flops:,} FLOPs, "
            f"{self.saved_bytes:,} bytes saved>"
        )


def _by_operation(calls: Sequence[Call], convention: Convention) -> tuple[dict[str, FlopTotals], tuple[str, ...]]:
    """The FLOPs of each operation, and the operations without a formula."""
    found: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    without: set[str] = set()

    def add(name: str, flops: int | None, place: int) -> None:
        if flops is None:
            without.add(name)
        else:
            found[name][place] += flops

    def add_all(each: Sequence[BackwardCall], place: int) -> None:
        for one in each:
            add(operation_name(one.operation), one.flops.by(convention), place)

    for call in calls:
        if call.stated is not None:
            add(call.operation.__qualname__, call.stated[0], 0)
            if call.backward:
                add(call.operation.__qualname__, call.stated[1], 1)
            continue
        if call.operation is not None and not is_function(call):
            add(operation_name(call.operation), call.flops.by(convention), 0)
        add_all(call.inner, 0)
        add_all(call.backward, 1)
    return {name: FlopTotals(*both) for name, both in found.items()}, tuple(sorted(without))
