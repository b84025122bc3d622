"""Builds the rows of a profile from the observations of a run."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proxy_views.profile.costs import NOTHING, backward_cost, forward_cost, is_function, operation_name
from proxy_views.profile.memory import is_alias, size_in
from proxy_views.profile.rows import ProfileRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy_views.profile.calls import Call, Scope
    from proxy_views.profile.costs import Cost
    from proxy_views.profile.device import Device
    from proxy_views.profile.flops import Convention
    from proxy_views.profile.memory import Memory
    from proxy_views.profile.state_sizes import StateSizes

_REST: Final = "(other)"
"""The row type for what belongs to a module but to none of its calls."""


class _Sum:
    """The parts of a module: the numbers of its calls, and the scopes in which it was called."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.scopes: list[Scope] = []


class _Shared(NamedTuple):
    """The columns that modules and calls fill in alike."""

    forward: Cost
    backward: Cost
    saved: int
    accumulated: int


class RowBuilder:
    """Builds the rows of a profile."""

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
        """All rows, in the order of first calls."""
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

    def of_node(self, name: str, type_: str, module: str | None, numbers: Sequence[int]) -> ProfileRow:
        """The row of a graph node that stands for the calls with these numbers."""
        memory, calls = self._memory, [self._calls[number] for number in numbers]
        made = {data.storage for call in calls for data in call.outputs} - {
            data.storage for call in calls[:1] for data in call.inputs
        }
        inputs = tuple(data for call in calls for data in call.inputs if data.storage not in made)
        kept, temporary = memory.outputs(data for call in calls for data in call.outputs)
        shared = _Shared(
            sum((self.forward[number] for number in numbers), NOTHING),
            sum((self.backward[number] for number in numbers), NOTHING),
            sum(memory.saved[number] for number in numbers),
            memory.accumulated[numbers[-1]] if numbers else 0,
        )
        return self._row(
            shared,
            kind="node",
            name=name,
            type=type_,
            module=module,
            calls=1,
            recomputed_calls=0,
            output_bytes=kept,
            temporary_bytes=temporary,
            parameter_bytes=size_in(inputs, self._sizes.parameters),
            buffer_bytes=size_in(inputs, self._sizes.buffers),
            input_gradient_bytes=sum(memory.sizes(inputs).values()),
            is_alias=bool(calls) and is_alias(inputs, calls[-1].outputs),
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
    """The modules around a scope, without duplicates."""
    names = set()
    current: Scope | None = scope
    while current is not None and current.name is not None:
        names.add(current.name)
        current = current.parent
    return names
