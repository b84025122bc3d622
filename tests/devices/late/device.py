"""A device for the tests, named `late`: it computes what the CPU computes, but only when somebody waits for it.

To be registered, once in a process and before its first backward pass: `register()`. From then on `torch.late` is there
as `torch.cuda` is where there is one. Shapes and dtypes of results are known at once, from torch's meta kernels; values
are not. What needs values (`item`, `nonzero`, a copy that blocks) waits, and that is counted for the thread that does
it. An operation without a meta kernel waits, too, since only its result tells its shape.

A copy to the host that does not block (`non_blocking=True`) arrives with the work that is queued. Until then the host's
tensor holds NaN, or -1, and `peek` refuses to read it.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils import _pytree as pytree
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from tests.devices.late.memory import Allocator, Operand
from tests.devices.late.work import EarlyReadError, WorkQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

NAME: Final = "late"
_KEY: Final = "PrivateUse1"
_CPU_KERNEL: Final = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
_aten: Final = torch.ops.aten
_OF_NUMBERS: Final = (torch.float64, torch.int64, torch.bool, torch.complex128)
_HALVED: Final = ("linear", "conv2d", "matmul", "mm", "addmm", "bmm")
"""What autocast computes in the lower precision."""


class Stream:
    """The one stream of the device."""

    def __init__(self, device: LateDevice) -> None:
        self._device = device

    def synchronize(self) -> None:
        """Wait for all work."""
        self._device.synchronize()


class Event:
    """A mark between two works; `synchronize` waits for what is before it."""

    def __init__(self, device: LateDevice) -> None:
        self._queue = device.queue
        self._number = 0

    def record(self, stream: Stream | None = None) -> None:
        """Put the mark behind what has been asked for by now."""
        self._number = self._queue.asked

    def query(self) -> bool:
        """Whether everything before the mark has been done."""
        return self._queue.is_done(self._number)

    def synchronize(self) -> None:
        """Wait for everything before the mark."""
        self._queue.wait(self._number)


class LateDevice:
    """The device, and `torch.late`: what a backend's module has to have, and what the tests ask of it."""

    def __init__(self) -> None:
        self.queue = WorkQueue()
        self.memory = Allocator()
        self.has_float64 = True
        self.refused: Callable[[str, Any], Exception | None] = lambda name, args: None
        self._stream = Stream(self)
        self._draws = itertools.count()
        self._seed = 0
        self._in_flight: dict[int, int] = {}
        self._promises: dict[Any, Any] = {}
        self.libraries: list[torch.library.Library] = []

    # What torch asks of a backend's module.

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return True

    def _is_in_bad_fork(self) -> bool:
        return False

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def current_stream(self, device: Any = None) -> Stream:
        return self._stream

    def Event(self) -> Event:  # noqa: N802  As `torch.cuda` has it.
        return Event(self)

    def device(self, device: Any) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def synchronize(self, device: Any = None) -> None:
        """Wait for all work."""
        self.queue.wait()

    def manual_seed_all(self, seed: int) -> None:
        """Begin anew with random numbers, which are a matter of the order in which they are asked for."""
        self._seed = seed
        self._draws = itertools.count()

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]

    # What tests ask.

    def waits_of(self, *threads: int) -> int:
        """How often the given threads have waited for the device."""
        return sum(self.queue.waits[thread] for thread in threads)

    def waits_but_of(self, *threads: int) -> int:
        """How often all but the given threads have waited."""
        return sum(count for thread, count in self.queue.waits.items() if thread not in threads)

    def peek(self, tensor: torch.Tensor) -> torch.Tensor:
        """The values of `tensor`, of the device or of the host, on the host and without waiting.

        Raises:
            EarlyReadError: if there is work to be done, or the values are on their way.
        """
        is_here = tensor.device.type == NAME
        last = self.queue.asked if is_here else self._in_flight.get(tensor.untyped_storage().data_ptr(), 0)
        if not self.queue.is_done(last):
            raise EarlyReadError(f"{tuple(tensor.shape)} on {tensor.device}: work is queued, and nobody has waited.")
        return self.memory.operand(tensor).on_host().clone() if is_here else tensor.clone()

    def recover(self) -> None:
        """Begin anew, with all memory and nothing to do."""
        self.queue.recover()
        self.memory.limit = None
        self.memory.peak = self.memory.allocated
        self.has_float64 = True
        self.refused = lambda name, args: None
        self._in_flight.clear()

    # Tensors.

    def empty(self, size: Sequence[int], stride: Sequence[int] | None, dtype: torch.dtype) -> torch.Tensor:
        """A tensor with undefined values; contiguous if there is no `stride`."""
        if dtype is torch.float64 and not self.has_float64:
            raise TypeError(f"Cannot make a {NAME} tensor of float64: the device has none.")
        like = torch.empty(tuple(size), dtype=dtype, device="meta")
        if stride is not None:
            like = torch.empty_strided(tuple(size), tuple(stride), dtype=dtype, device="meta")
        tensor: torch.Tensor = torch._C._acc.create_empty_tensor((0,), dtype)
        return self._give_memory(tensor, like)

    def _give_memory(self, tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        storage = self.memory.allocate(like.untyped_storage().nbytes(), torch.device(NAME, 0))
        return _put(tensor, storage, 0, like.size(), like.stride())

    def restore(self, saved: Any, location: str) -> torch.UntypedStorage | None:
        """What `torch.load` asks for each storage: one of the device with what was saved, if that is where it was."""
        if torch.device(location).type != NAME:
            return None
        storage = self.memory.allocate(saved.nbytes(), torch.device(NAME, 0))
        piece: Any = storage
        piece.late_lease.memory.bytes.copy_(saved)
        return storage

    def _as_operand(self, tensor: torch.Tensor) -> Operand | torch.Tensor:
        """What work needs of an argument: of the host's tensors a copy, since the program may write to them."""
        if tensor.device.type == NAME:
            return self.memory.operand(tensor)
        # A number that stands beside a tensor comes as one without dimensions, and nobody else has that.
        return tensor if tensor.dim() == 0 and tensor.dtype in _OF_NUMBERS else tensor.clone()

    # Operations.

    def run(self, op: Any, *args: Any, **kwargs: Any) -> Any:
        """What torch calls for each operation that has no kernel of its own below."""
        with _alone():
            error = self.refused(op.name(), args)
            if error is not None:
                raise error
            returns = op._schema.returns
            if returns and returns[0].alias_info is not None and not returns[0].alias_info.is_write:
                return op.redispatch(_CPU_KERNEL, *args, **kwargs)  # A view: sizes and strides, no values.
            if op.name().startswith("aten::bitwise_"):  # Of the numbers that stand for tensors, torch refuses these.
                args = tuple(_as_integers(each, args) for each in args)
            draw = self._draw(op)
            promised = self._promised(op, args, kwargs)
            if promised is None:  # Only the values tell what comes out.
                self.queue.wait()
                return self._taken_up(op, args, kwargs, _compute(op, self._operands(args, kwargs), draw))
            results, outputs = self._results(op, args, kwargs, promised)
            operands = self._operands(args, kwargs)

            self.queue.add(lambda: _deliver(op, _compute(op, operands, draw), outputs))
            return results

    def _promised(self, op: Any, args: Any, kwargs: Any) -> Any:
        key = _key(op, args, kwargs)
        if key is None:
            return _promise(op, args, kwargs)
        if key not in self._promises:
            self._promises[key] = _promise(op, args, kwargs)
        return self._promises[key]

    def _operands(self, args: Any, kwargs: Any) -> Any:
        return _mapped((args, kwargs), lambda it: self._as_operand(it) if isinstance(it, torch.Tensor) else it)

    def _results(self, op: Any, args: Any, kwargs: Any, promised: Any) -> tuple[Any, list[Operand]]:
        """The tensors that are given back for those that torch's meta kernel has promised; and which ones are new."""
        given = _by_name(op, args, kwargs)
        results: list[Any] = []
        outputs: list[Operand] = []

        def make(like: torch.Tensor) -> torch.Tensor:
            tensor = self.empty(like.size(), like.stride(), like.dtype)
            outputs.append(self.memory.operand(tensor))
            return tensor

        for value, returned in zip(_as_list(op, promised), op._schema.returns, strict=True):
            if returned.alias_info is None:
                results.append(pytree.tree_map_only(torch.Tensor, make, value))
                continue
            target = given[_argument_behind(op, returned.alias_info)]
            if isinstance(value, torch.Tensor) and value.shape != target.shape:  # `out=` of another size.
                self._give_memory(target, value)
            results.append(target)
        return _as_returned(op, results), outputs

    def _taken_up(self, op: Any, args: Any, kwargs: Any, computed: Any) -> Any:
        """What has been computed on the host, as tensors of the device."""
        results, outputs = self._results(op, args, kwargs, computed)
        _deliver(op, computed, outputs)
        return results

    def _draw(self, op: Any) -> int | None:
        """A seed for an operation that draws random numbers: they are drawn late, and are those of its turn."""
        if not any(argument.name == "generator" for argument in op._schema.arguments):
            return None
        return hash((self._seed, next(self._draws))) & 0x7FFF_FFFF_FFFF_FFFF

    def copy(self, source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
        """`_copy_from`: between the device and the host, and on the device."""
        with _alone():
            error = self.refused("aten::_copy_from", (source, target))
            if error is not None:
                raise error
            read = self._as_operand(source)
            if target.device.type == NAME:
                written = self.memory.operand(target)
                self.queue.add(lambda: written.on_host().copy_(read.on_host() if isinstance(read, Operand) else read))
                if source.device.type != NAME and not non_blocking:
                    self.queue.wait()
                return target
            assert isinstance(read, Operand)
            if not non_blocking:
                self.queue.wait()
                return target.copy_(read.on_host())
            target.fill_(-1 if not target.is_floating_point() else torch.nan)
            number = self.queue.add(lambda: target.copy_(read.on_host()))
            self._in_flight[target.untyped_storage().data_ptr()] = number
            return target

    def read(self, tensor: torch.Tensor) -> Any:
        """`_local_scalar_dense`: the one value of `tensor`."""
        operand = self.memory.operand(tensor)
        self.queue.wait()
        with _alone():
            return operand.on_host().item()

    def drop(self, tensor: torch.Tensor, p: float, train: bool | None) -> tuple[torch.Tensor, torch.Tensor]:
        """`native_dropout`, which has no argument for a generator."""
        kept = 1 - p if train or train is None else 1.0
        mask = torch.empty_like(tensor).bernoulli_(kept)
        return tensor * mask * (1 / kept if kept else 0.0), mask.to(torch.bool)


def _put(
    tensor: torch.Tensor, storage: torch.UntypedStorage, offset: int, size: Sequence[int], stride: Sequence[int] = ()
) -> torch.Tensor:
    """Let `tensor` lie in `storage`. The kernel of the CPU looks at sizes alone; that for meta tensors makes room."""
    op: Any = _aten.set_.source_Storage_storage_offset
    return op.redispatch(_CPU_KERNEL, tensor, storage, offset, size, stride)  # type: ignore[no-any-return]


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Compute without autograd, autocast and whatever listens to torch calls."""
    with torch._C.DisableTorchFunction(), torch._C._DisableAutocast(), torch._C._AutoDispatchBelowAutograd():
        yield


def _promise(op: Any, args: Any, kwargs: Any) -> Any:
    """What comes out, as meta tensors; None if only the values tell."""

    def as_meta(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if value.dim() == 0 and value.device.type == "cpu":
                return value
            return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="meta")
        return torch.device("meta") if isinstance(value, torch.device) else value

    try:
        promised = op(*_mapped(args, as_meta), **_mapped(kwargs, as_meta))
    except NotImplementedError:
        return None
    leaves = pytree.tree_leaves(promised)
    return promised if all(leaf is None or isinstance(leaf, torch.Tensor) for leaf in leaves) else None


def _as_integers(value: Any, args: Any) -> Any:
    """A tensor for a number beside tensors of integers."""
    beside = next(each for each in args if isinstance(each, torch.Tensor))
    return torch.tensor(value, dtype=beside.dtype) if isinstance(value, int) else value


def _key(op: Any, args: Any, kwargs: Any) -> Any:
    """What tells alike calls, for which torch's meta kernels promise the same; None if nothing does for sure.

    Among tensors without dimensions one that stands for a number of Python's counts less for the dtype, and nothing
    tells which ones do.
    """
    dimensions = 0

    def as_words(value: Any) -> Any:
        nonlocal dimensions
        if isinstance(value, torch.Tensor):
            dimensions += value.dim()
            return (value.device.type, value.dtype, tuple(value.size()), value.stride())
        return (type(value), value)

    def as_tuple(value: Any) -> Any:
        return tuple(map(as_tuple, value)) if isinstance(value, list) else value

    key = (op, as_tuple(_mapped(args, as_words)), tuple((name, as_words(value)) for name, value in kwargs.items()))
    try:
        hash(key)
    except TypeError:  # An argument has no hash.
        return None
    return key if dimensions else None


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """The arguments of an operation, each leaf changed. (`pytree` can do the same, and takes most of the time then.)"""
    if isinstance(value, dict):
        return {key: _mapped(each, change) for key, each in value.items()}
    if isinstance(value, (list, tuple)) and not isinstance(value, (Operand, torch.Size)):
        return type(value)([_mapped(each, change) for each in value])
    return change(value)


def _compute(op: Any, operands: Any, draw: int | None) -> Any:
    """What comes out, on the host."""

    def as_host(value: Any) -> Any:
        if isinstance(value, Operand):
            return value.on_host()
        return torch.device("cpu") if isinstance(value, torch.device) else value

    args, kwargs = _mapped(operands, as_host)
    if draw is not None:
        kwargs = {**kwargs, "generator": torch.Generator().manual_seed(draw)}
    return op(*args, **kwargs)


def _by_name(op: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    names = [argument.name for argument in op._schema.arguments]
    return {**dict(zip(names, args, strict=False)), **kwargs}


def _argument_behind(op: Any, alias: Any) -> str:
    """The name of the argument that an operation writes to and gives back."""
    for argument in op._schema.arguments:
        if argument.alias_info is not None and argument.alias_info.before_set == alias.before_set:
            return str(argument.name)
    raise AssertionError(op)


def _as_list(op: Any, results: Any) -> list[Any]:
    count = len(op._schema.returns)
    return [] if count == 0 else [results] if count == 1 else list(results)


def _as_returned(op: Any, results: list[Any]) -> Any:
    count = len(op._schema.returns)
    return None if count == 0 else results[0] if count == 1 else tuple(results)


def _new(op: Any, results: Any) -> list[torch.Tensor]:
    """Of the results of an operation, those that are no arguments of it."""
    pairs = zip(_as_list(op, results), op._schema.returns, strict=True)
    leaves = pytree.tree_leaves([result for result, returned in pairs if returned.alias_info is None])
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _deliver(op: Any, computed: Any, outputs: list[Operand]) -> None:
    """Put what has been computed where it was promised; of what nobody uses the CPU makes nothing, as `batch_norm`."""
    for output, values in zip(outputs, _new(op, computed), strict=True):
        if values.numel():
            output.on_host().copy_(values)


def register() -> LateDevice:
    """Make the device known to torch, for good."""
    device = LateDevice()
    _setup_privateuseone_for_python_backend(NAME, device)
    everything = torch.library.Library("_", "IMPL")
    everything.fallback(device.run, _KEY)
    aten = torch.library.Library("aten", "IMPL")

    def empty(size: Any, *, dtype: Any = None, memory_format: Any = None, **rest: Any) -> torch.Tensor:
        like = torch.empty(size, dtype=dtype, device="meta", memory_format=memory_format or torch.contiguous_format)
        return device.empty(like.size(), like.stride(), like.dtype)

    def empty_strided(size: Any, stride: Any, *, dtype: Any = None, **rest: Any) -> torch.Tensor:
        return device.empty(size, stride, dtype or torch.get_default_dtype())

    def resize(tensor: torch.Tensor, size: Any, *, memory_format: Any = None) -> torch.Tensor:
        like = torch.empty(size, dtype=tensor.dtype, device="meta")
        if like.untyped_storage().nbytes() > tensor.untyped_storage().nbytes():
            return device._give_memory(tensor, like)
        return _put(tensor, tensor.untyped_storage(), int(tensor.storage_offset()), like.size(), like.stride())

    def set_tensor(tensor: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        return _put(tensor, source.untyped_storage(), int(source.storage_offset()), source.size(), source.stride())

    def set_storage(tensor: torch.Tensor, source: torch.UntypedStorage) -> torch.Tensor:
        return _put(tensor, source, 0, (source.nbytes() // tensor.dtype.itemsize,), (1,))

    kernels: dict[str, Callable[..., Any]] = {
        "empty.memory_format": empty,
        "empty_strided": empty_strided,
        "resize_": resize,
        "set_.source_Storage_storage_offset": _put,
        "set_.source_Storage": set_storage,
        "set_.source_Tensor": set_tensor,
        "_copy_from": device.copy,
        "_local_scalar_dense": device.read,
        "native_dropout": device.drop,
    }
    for name, kernel in kernels.items():
        aten.impl(name, kernel, _KEY)
    for op in _ops_of_the_cpu():
        if op.name().removeprefix("aten::") not in kernels:
            aten.impl(op, functools.partial(device.run, op), _KEY)
    everything.fallback(torch.library.fallthrough_kernel, f"Autocast{_KEY}")
    for name in _HALVED:
        aten.impl(name, _halved(getattr(_aten, name).default), f"Autocast{_KEY}")
    # torch's own way makes the storage by an allocator, which only a backend in C++ can have.
    torch.serialization.register_package(0, lambda storage: None, device.restore)
    device.libraries = [everything, aten]
    return device


def _ops_of_the_cpu() -> Iterator[Any]:
    """The operations for which the CPU has a kernel of its own, and other devices one that torch composes for them."""
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    for name in torch._C._dispatch_get_all_op_names():
        if name.startswith("aten::") and has_kernel(name, "CPU") and has_kernel(name, "CompositeExplicitAutograd"):
            packet, _, overload = name.removeprefix("aten::").partition(".")
            yield getattr(getattr(_aten, packet), overload or "default")
    yield from (_aten.convolution.default, _aten.convolution_backward.default)  # Which ask what device it is.


def _halved(op: Any) -> Callable[..., Any]:
    """The operation, in the dtype of autocast."""

    def call(*args: Any, **kwargs: Any) -> Any:
        dtype = torch.get_autocast_dtype(NAME)

        def halve(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.to(dtype) if tensor.device.type == NAME and tensor.is_floating_point() else tensor

        with torch.amp.autocast(NAME, enabled=False):
            return op(*pytree.tree_map_only(torch.Tensor, halve, args), **kwargs)

    return call
