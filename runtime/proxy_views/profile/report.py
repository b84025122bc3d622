"""A profile: what a run took, by module and by call, in one way of counting."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proxy_views.profile.costs import NOTHING, backward_cost, forward_cost, is_function, operation_name
from proxy_views.profile.errors import ConventionError, UnknownRowError
from proxy_views.profile.flop_totals import FlopTotals
from proxy_views.profile.flops import CONVENTIONS
from proxy_views.profile.memory import Memory, is_alias, size_in
from proxy_views.profile.rows import ProfileRow
from proxy_views.profile.table import profile_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy_views.profile.calls import BackwardCall, Call, Scope
    from proxy_views.profile.costs import Cost
    from proxy_views.profile.device import Device
    from proxy_views.profile.flops import Convention
    from proxy_views.profile.state_sizes import StateSizes

_REST: Final = "(other)"
"""The type of the row for what belongs to a module and to none of its calls."""


class Profile:
    """What was measured.

    Attributes:
        rows: the modules and calls, each module before what is called in it.
        by_operation: the FLOPs of each operation that there is a formula for, in the forward and in the backward pass.
        without_formula: the operations of which FLOPs are not known, so that no sum has them.
        saved_bytes: what was kept for the backward pass in all, data counted once by address, parameters and buffers
            left out, and what checkpoints have kept while they computed again.
        device: whose times were computed.
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
        """Take over what `Profile.of` has worked out."""
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
        """The profile of what was called.

        Raises:
            ConventionError: if FLOPs are not counted in this way.
        """
        if convention not in CONVENTIONS:
            raise ConventionError(convention)
        memory = Memory(calls, sizes.parameters | sizes.buffers)
        builder = _Rows(calls, scopes, types, sizes, memory, convention, device)
        by_operation, without = _by_operation(calls, convention)
        total = FlopTotals(
            sum(cost.flops or 0 for cost in builder.forward), sum(cost.flops or 0 for cost in builder.backward)
        )
        return cls(tuple(builder.rows()), total, by_operation, without, memory.total, device)

    @property
    def forward_flops(self) -> int:
        """Of the whole block, in the forward pass, with what checkpoints have computed again."""
        return self._total.forward

    @property
    def backward_flops(self) -> int:
        """Of the whole block, in backward passes."""
        return self._total.backward

    @property
    def total_flops(self) -> int:
        """Of the whole block, in both passes."""
        return self._total.forward + self._total.backward

    def __getitem__(self, name: str) -> ProfileRow:
        """The row of that name.

        Raises:
            UnknownRowError: if there is none.
        """
        row = self._by_name.get(name)
        if row is None:
            raise UnknownRowError(name, self._by_name)
        return row

    def table(self, *, operations: bool = True) -> str:
        """The rows as a table, with siu's columns, and one for each time.

        Args:
            operations: whether calls have rows, or modules alone.
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


class _Sum:
    """What belongs to a module: the numbers of its calls, and the scopes that it was called in."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.scopes: list[Scope] = []


class _Shared(NamedTuple):
    """The columns that modules and calls fill in the same way."""

    forward: Cost
    backward: Cost
    saved: int
    accumulated: int


class _Rows:
    """Makes the rows of a profile."""

    def __init__(
        self,
        calls: Sequence[Call],
        scopes: Sequence[Scope],
        types: dict[str, str],
        sizes: StateSizes,
        memory: Memory,
        convention: Convention,
        device: Device | None,
    ) -> None:
        self._calls, self._scopes, self._types, self._sizes = calls, scopes, types, sizes
        self._memory, self._device = memory, device
        self.forward = [forward_cost(call, convention) for call in calls]
        self.backward = [backward_cost(call, convention) for call in calls]
        self._taken: defaultdict[str, int] = defaultdict(int)

    def rows(self) -> Iterator[ProfileRow]:
        """All rows, in the order in which they were first called."""
        sums = self._sums()
        firsts = sorted((sums[name].scopes[0].number, order, name) for order, name in enumerate(sums))
        waiting = iter(firsts)
        following = next(waiting, None)
        for number, call in enumerate(self._calls):
            while following is not None and following[0] <= number:
                yield self._of_module(following[2], sums[following[2]])
                following = next(waiting, None)
            if call.operation is not None or self._is_worth_a_row(number):
                yield self._of_call(number, call)
        while following is not None:
            yield self._of_module(following[2], sums[following[2]])
            following = next(waiting, None)

    def _is_worth_a_row(self, number: int) -> bool:
        return bool(self._calls[number].backward) or self._memory.saved[number] > 0

    def _sums(self) -> dict[str, _Sum]:
        sums: dict[str, _Sum] = {}
        for scope in self._scopes:
            if scope.name is not None:
                sums.setdefault(scope.name, _Sum()).scopes.append(scope)
        for number, call in enumerate(self._calls):
            for name in _names_around(call.scope):
                sums[name].calls.append(number)
        return sums

    def _of_call(self, number: int, call: Call) -> ProfileRow:
        memory = self._memory
        kind = operation_name(call.operation) if not is_function(call) else call.operation.__qualname__
        kept, temporary = memory.outputs(call.outputs)
        shared = _Shared(self.forward[number], self.backward[number], memory.saved[number], memory.accumulated[number])
        return self._row(
            shared,
            kind="function" if is_function(call) else "operation",
            name=self._name_of(call, kind),
            type=kind if call.operation is not None else _REST,
            module=call.scope.name,
            calls=1,
            recomputed_calls=int(call.is_recomputed),
            output_bytes=kept,
            temporary_bytes=temporary,
            parameter_bytes=size_in(call.inputs, self._sizes.parameters),
            buffer_bytes=size_in(call.inputs, self._sizes.buffers),
            input_gradient_bytes=sum(memory.sizes(call.inputs).values()),
            is_alias=is_alias(call.inputs, call.outputs),
        )

    def _of_module(self, name: str, found: _Sum) -> ProfileRow:
        memory = self._memory
        scopes = found.scopes
        outputs = [memory.outputs(each) for scope in scopes for each in scope.outputs]
        pairs = [pair for scope in scopes for pair in zip(scope.inputs, scope.outputs, strict=False)]
        shared = _Shared(
            sum((self.forward[number] for number in found.calls), NOTHING),
            sum((self.backward[number] for number in found.calls), NOTHING),
            sum(memory.saved[number] for number in found.calls),
            memory.accumulated[found.calls[-1]] if found.calls else 0,
        )
        return self._row(
            shared,
            kind="module",
            name=name,
            type=self._types.get(name, ""),
            module=name,
            calls=sum(scope.calls for scope in scopes),
            recomputed_calls=sum(scope.recomputed for scope in scopes),
            output_bytes=sum(kept for kept, _ in outputs),
            temporary_bytes=sum(temporary for _, temporary in outputs),
            parameter_bytes=self._sizes.of_parameters(name),
            buffer_bytes=self._sizes.of_buffers(name),
            input_gradient_bytes=sum(sum(memory.sizes(each).values()) for scope in scopes for each in scope.inputs),
            is_alias=bool(pairs) and all(is_alias(given, back) for given, back in pairs),
        )

    def _row(self, shared: _Shared, **columns: Any) -> ProfileRow:
        forward, backward = shared.forward, shared.backward
        return ProfileRow(
            **columns,
            forward_flops=forward.flops,
            backward_flops=backward.flops,
            saved_bytes=shared.saved,
            accumulated_bytes=shared.accumulated,
            forward_s=forward.duration_ns / 1e9,
            backward_s=backward.duration_ns / 1e9,
            communicated_bytes=forward.communicated + backward.communicated,
            device_forward_s=self._seconds(forward),
            device_backward_s=self._seconds(backward),
        )

    def _seconds(self, cost: Cost) -> float | None:
        if self._device is None or (cost.flops is None and not cost.communicated):
            return None
        return self._device.seconds(cost.flops or 0, cost.communicated)

    def _name_of(self, call: Call, kind: str) -> str:
        short = kind.rpartition(".")[2] if call.operation is not None else _REST
        name = f"{call.scope.name}.{short}" if call.scope.name else short
        count = self._taken[name]
        self._taken[name] += 1
        return f"{name}_{count}" if count else name


def _names_around(scope: Scope) -> set[str]:
    """The modules that a scope is in, each once."""
    names = set()
    current: Scope | None = scope
    while current is not None and current.name is not None:
        names.add(current.name)
        current = current.parent
    return names


def _by_operation(calls: Sequence[Call], convention: Convention) -> tuple[dict[str, FlopTotals], tuple[str, ...]]:
    """The FLOPs of each operation, and those of which none are known."""
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
