"""`Proxy`, and the few functions that a script calls.

    import proxy_wrapper.proxy as Proxy

    model = Proxy.Proxy(model, recurse=True, name="model", logdir="proxy_trace", log_level=Proxy.INFO)

`Proxy` returns the very object that it was given, so the program trains exactly as before, bit for bit. From then on,
PyTorch's own extension points report what the object does, and the events are written to `logdir`.

Importing this file does not load torch. Torch reads some environment variables when it is loaded, so the program
decides when that happens. Until then, no module exists that could be proxied.
"""

from __future__ import annotations

import atexit
import inspect
import os
import sys
import threading
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from proxy_wrapper.errors import SettingsNameError, SettingsTypeError, SettingsValueError
from proxy_wrapper.kept_statistics import parse_statistics
from proxy_wrapper.levels import DEBUG, INFO, WARNING, parse_level
from proxy_wrapper.limits import Ranks, parse_size
from proxy_wrapper.process.after_import import AfterImport
from proxy_wrapper.process.forks import hold_while_forking
from proxy_wrapper.process.launch import Launch

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from torch import nn
    from typing_extensions import Never, Self, TypeIs

    from proxy_views.live_trace import LiveTrace
    from proxy_wrapper.intercept.calls.blacklist import Blacklist
    from proxy_wrapper.intercept.processes import SentModule
    from proxy_wrapper.live import ChangingObserver
    from proxy_wrapper.live_change import LiveChange
    from proxy_wrapper.tracer import Tracer
    from proxy_wrapper.writing.channel import Observer

__all__ = [
    "DEBUG",
    "INFO",
    "WARNING",
    "Proxy",
    "blacklist",
    "flush",
    "is_proxied",
    "observe",
    "register_leaf_module",
    "stage",
    "trace",
    "unproxy",
]

T = TypeVar("T")
M = TypeVar("M", bound="nn.Module")


class _Installed:
    """Holds the tracer of this process: the one piece of state that the runtime keeps at module level.

    A single lock guards it and everything that the tracer changes, so there is no lock order to get wrong. Creating a
    tracer, proxying and ending a trace are therefore atomic to other threads.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        hold_while_forking(self.lock)
        self.tracer: Tracer | None = None
        self.leaf_modules: tuple[type[nn.Module], ...] = ()  # Types whose calls are single nodes in every graph.
        Launch.of_this_process().announce()  # Now, so processes started before the first `Proxy` join the same run.

    @cached_property
    def blacklist(self) -> Blacklist:
        """The module types whose calls are never traced inside."""
        from proxy_wrapper.intercept.calls.blacklist import Blacklist

        return Blacklist()

    def get(self) -> Tracer:
        """The tracer, created on first use."""
        tracer = self.tracer
        if tracer is not None:
            return tracer
        # Outside the lock: this import may wait for another thread's import, and that thread may wait for the lock.
        from proxy_wrapper.assembly import assemble

        with self.lock:
            if self.tracer is None:
                self.tracer = assemble(self.lock, self.blacklist, self.take_down_at_end, restore_proxied)
                atexit.register(self.take_down_at_end)
            return self.tracer

    def take_down(self, reason: str = "unproxied", error: str = "") -> None:
        """Stop tracing, write everything including the reason for the end, and forget all proxied objects."""
        with self.lock:
            tracer, self.tracer = self.tracer, None
            if tracer is not None:
                atexit.unregister(self.take_down_at_end)
                tracer.flush()
                tracer.close(reason, error)
                Launch.of_this_process().renewed().announce()

    def take_down_if_idle(self, tracer: Tracer) -> None:
        """Stop tracing if nothing is proxied any more, but not before the last block of `trace` ends."""
        if tracer.registry.modules:
            tracer.install_interceptors()
        elif tracer.is_observed_live:
            tracer.ends_with_blocks = True
        else:
            self.take_down()

    def take_down_at_end(self) -> None:
        """Stop tracing at the end of the process."""
        from proxy_wrapper.intercept.processes import reason_of_end

        self.take_down(*reason_of_end())


_installed = _Installed()


class ProxyType(type):
    """The type of `Proxy`: calling it proxies an object, and `isinstance` tests whether an object is proxied."""

    def __call__(
        cls,
        obj: T,
        recurse: bool | str | os.PathLike[str] = False,
        logdir: str | os.PathLike[str] | None = None,
        log_level: int | str | None = None,
        name: str | None = None,
        *,
        first: int | None = None,
        every: int | None = None,
        include: str | Iterable[str] | None = None,
        exclude: str | Iterable[str] | None = None,
        statistics: str | None = None,
        ranks: str | int | Iterable[int] | None = None,
        max_size: str | int | None = None,
        flow: bool | None = None,
        **misspelled: Never,
    ) -> T:
        """Proxy `obj`, and return `obj` itself.

        If the module is already proxied, only the settings given here change. An object that is not an `nn.Module` is
        returned untouched.

        Args:
            obj: a module.
            recurse: whether to proxy its submodules too, including those added later. A path here is taken as the
                `logdir`, and implies True: `Proxy(model, "model.log")`.
            logdir: the folder in which this run gets a subfolder. If it ends in ".log", the file to which the trace is
                written as text. Inherited from the parent module; "proxy_trace" for a root.
            log_level: WARNING, INFO or DEBUG, as number or name. Inherited from the parent module; INFO for a root.
            name: its name in the trace; the class's name if not given.
            first: the number of iterations at the start that are all recorded; 0 for a root.
            every: after those, every `every`-th iteration is recorded; 1 for a root. The last state of every parameter
                is always recorded, and so is the first non-finite output. An iteration ends with each step of the
                optimizer that steps most often.
            include: globs for the parameters and buffers whose updates and gradients are recorded ("encoder.*"). They
                match `state_dict` names, with or without the root's name in front. All for a root.
            exclude: globs for those that are not recorded.
            statistics: what to compute statistics of: "state" (parameters, buffers and gradients), "outputs" (also the
                outputs of modules) or "all" (also optimizer state and, at DEBUG, tensors that torch calls return or
                change). "state" for a root.
            ranks: which processes of a distributed run write a trace: "0,8-15", a number, or several; all if not given.
                The others trace nothing. Applies to the whole `logdir`.
            max_size: how large the trace of each process may grow, in bytes or as in "2G". Beyond that, only changes of
                state are recorded. No limit if not given. Applies to the whole `logdir`.
            flow: whether to record the outcome of each condition in its code and the number of iterations of each loop;
                False for a root. While it is on, functions run equivalent code objects compiled by the runtime.
            misspelled: none are accepted; the error suggests the nearest name.

        `first`, `every`, `include`, `exclude`, `statistics` and `flow` are inherited in the same way as the level.

        Raises:
            UnknownLevelError: if there is no such level.
            SettingsTypeError: if an argument is of the wrong type.
            SettingsValueError: if `first` or `every` is too small, `statistics` is none of the three, or
                `ranks` or `max_size` cannot be parsed.
            SettingsNameError: if there is no such argument.
        """
        for argument in misspelled:
            raise SettingsNameError(argument, *_nearest_setting(argument))
        if isinstance(recurse, (str, os.PathLike)) and logdir is None:
            logdir, recurse = recurse, True
        level = None if log_level is None else parse_level(log_level)
        folder = None if logdir is None else _path(logdir)
        if name is not None and not isinstance(name, str):
            raise SettingsTypeError("name", name, "a string")
        if not isinstance(recurse, (bool, int)):
            raise SettingsTypeError("recurse", recurse, "True or False")
        watch = _watch_settings(first, every, include, exclude, statistics)
        chosen = None if ranks is None else Ranks.parse(ranks)
        max_bytes = None if max_size is None else parse_size(max_size)
        if flow is not None:
            if not isinstance(flow, bool):
                raise SettingsTypeError("flow", flow, "True or False")
            watch["flow"] = flow
        if _is_module(obj):
            from torch._C import DisableTorchFunction

            _installed.get()
            with _installed.lock:
                tracer = _installed.get()  # Ask again: another thread may have taken the first one down.
                try:
                    with DisableTorchFunction():  # The program's function modes must not see our reads.
                        tracer.attach(
                            obj,
                            recurse=bool(recurse),
                            logdir=folder,
                            level=level,
                            name=name,
                            watch=watch,
                            ranks=chosen,
                            max_bytes=max_bytes,
                        )
                except Exception as error:  # noqa: BLE001  A mistake of ours must not reach the program.
                    tracer.fail(error)
        return obj

    def __instancecheck__(cls, instance: object) -> bool:
        """Whether `instance` is proxied."""
        return is_proxied(instance)


Proxy: ProxyType = ProxyType(
    "Proxy",
    (),
    {"__doc__": ProxyType.__call__.__doc__, "__module__": __name__, "__slots__": ()},
)


def is_proxied(obj: object) -> bool:
    """Whether `obj` is traced: a proxied module, one of its parameters or buffers, or one of its inputs or outputs.

    At DEBUG, the inputs and outputs of torch calls are traced too.
    """
    tracer = _installed.tracer
    return tracer is not None and tracer.registry.is_proxied(obj)


def unproxy(obj: T) -> T:
    """Stop tracing the module `obj` and its submodules, and return it. With the last one, all hooks are removed."""
    if _installed.tracer is None or not _is_module(obj):
        return obj
    from torch._C import DisableTorchFunction

    with _installed.lock:
        tracer = _installed.tracer
        if tracer is None:
            return obj
        try:
            with DisableTorchFunction():
                tracer.detach(obj)
                _installed.take_down_if_idle(tracer)
        except Exception as error:  # noqa: BLE001  A mistake of ours must not reach the program.
            tracer.fail(error)
    return obj


def flush() -> None:
    """Return once everything that has happened so far is in the trace file."""
    tracer = _installed.tracer
    if tracer is not None:
        tracer.flush()


def restore_proxied(module: nn.Module, sent: SentModule) -> None:
    """Proxy `module`, just received through `multiprocessing`, with the settings that it had in the sending process."""
    from proxy_wrapper.intercept.processes import restore_sent

    restore_sent(module, sent)
    for each, arguments in sent.settings:
        Proxy(each, **arguments)


def observe(observer: Observer) -> None:
    """Also pass every event of all proxied modules to `observer`, from now on."""
    _installed.get()
    with _installed.lock:
        _installed.get().add_observer(observer)


def change_of_thread() -> ChangingObserver | None:
    """The observer that changes the values computed by this thread; None if there is none."""
    tracer = _installed.tracer
    return None if tracer is None else tracer.thread.change


def change_live(observer: ChangingObserver) -> LiveChange:
    """Let `observer` change what this thread computes, until `end()` is called on the returned `LiveChange`."""
    from torch._C import DisableTorchFunction

    from proxy_wrapper.live_change import LiveChange

    _installed.get()
    with _installed.lock:
        tracer = _installed.get()
        with DisableTorchFunction():
            return LiveChange(tracer, observer, _installed.take_down_if_idle, _installed.blacklist.__contains__)


def blacklist(module_type: type[M]) -> type[M]:
    """Never look into modules of this type and its subclasses, from now on. Usable as a decorator.

    For modules that behave differently when observed, because they check `torch.overrides.has_torch_function` or the
    mode stack. At level DEBUG, the torch calls, attributes and tensor reads inside them are not recorded. Their own
    calls, their parameters and the calls of their submodules still are. `nn.MultiheadAttention`,
    `nn.TransformerEncoder` and `nn.TransformerEncoderLayer` are on the list from the start.

    Raises:
        SettingsTypeError: if it is not a subclass of `nn.Module`.
    """
    _require_module_type(module_type)
    _installed.blacklist.add(module_type)
    return module_type


def register_leaf_module(module_type: type[M]) -> type[M]:
    """Make each call of a module of this type a single node of `trace.graph()`. Usable as a decorator.

    This includes subclasses, and applies to `Proxy.trace` blocks created from now on. For a single graph, use
    `trace.graph(leaf_modules=[...])`.

    Raises:
        SettingsTypeError: if it is not a subclass of `nn.Module`.
    """
    _require_module_type(module_type)
    with _installed.lock:
        if module_type not in _installed.leaf_modules:
            _installed.leaf_modules = (*_installed.leaf_modules, module_type)
    return module_type


def _require_module_type(value: object) -> None:
    from torch import nn

    if not (isinstance(value, type) and issubclass(value, nn.Module)):
        raise SettingsTypeError("module_type", value, "a class derived from `nn.Module`")


class stage:  # noqa: N801  Called like a function, as `torch.no_grad` is.
    """Name the stage of the run. Every record then carries this name instead of "train" or "eval".

    The name applies from the call on or, as a context manager, until the block ends:

        with Proxy.stage("validation"):
            evaluate(model)

    Args:
        name: the name; None returns to "train" and "eval", after the mode of the model.

    Raises:
        SettingsTypeError: if `name` is neither a string nor None.
    """

    __slots__ = ("_before",)

    def __init__(self, name: str | None) -> None:
        if name is not None and not isinstance(name, str):
            raise SettingsTypeError("name", name, "a string")
        self._before = _installed.get().set_stage(name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        _installed.get().set_stage(self._before)


class trace:  # noqa: N801  Called like a function, as `torch.no_grad` is.
    """Record one call of `model` in the block, for viewing as a graph.

        with Proxy.trace(model) as trace:
            model(x)
        print(trace)
        graph = trace.graph()

    The block only records; views are built on request. `trace` keeps the tensors of the recorded call alive until
    `trace.close()`, or until `trace` itself is freed. The model computes exactly what it would without the block. In
    training mode this includes side effects: running statistics are updated, and random numbers are drawn.

    Args:
        model: a module. It need not be proxied, and is left as it was.
        call: the index of the recorded call, among the model's calls on this thread. Recursive calls do not count.
        live_sizes: whether the graph computes with tensor sizes, so that it accepts inputs of other sizes. Each size is
            an instance of an `int` subclass while the call runs. Pass False for programs that check `type(n) is int`.
        leaf_functions: plain Python functions of the program whose calls are single nodes, whatever they call.
        profile: whether to measure the calls in the block, including backward passes, for `trace.profile()`.
        logdir: where to write a trace of the block as well, as `Proxy` does. No trace is written if not given, or if
            `model` is already proxied.
        log_level: the level of that trace; INFO if not given.
        flow: whether to record the conditions and loops of the model's code, for `trace.flow_steps()` and that trace.

    Raises:
        NotAModelError: if `model` is not a module.
        LeafFunctionError: if one of `leaf_functions` is not a plain Python function.
    """

    __slots__ = ("_block", "_proxied")

    def __init__(
        self,
        model: nn.Module,
        *,
        call: int = 0,
        live_sizes: bool = True,
        leaf_functions: Iterable[Callable[..., Any]] = (),
        profile: bool = False,
        logdir: str | os.PathLike[str] | None = None,
        log_level: int | str | None = None,
        flow: bool = False,
    ) -> None:
        from proxy_views.block import Block

        self._block = Block(
            model, _installed.lock, _installed.get, _installed.take_down_if_idle, _installed.blacklist.__contains__,
            call=call, live_sizes=live_sizes, leaf_functions=leaf_functions,
            leaf_modules=_installed.leaf_modules, flow=flow, profile=profile,
        )  # fmt: skip
        settings = {"logdir": logdir, "log_level": log_level, "flow": flow}
        self._proxied: dict[str, Any] = settings if logdir is not None else {}

    def __enter__(self) -> LiveTrace:
        model = self._block.model
        if self._proxied and not is_proxied(model):
            Proxy(model, recurse=True, **self._proxied)
        else:
            self._proxied = {}
        return self._block.begin()

    def __exit__(self, *exception: object) -> None:
        self._block.end()
        if self._proxied:
            unproxy(self._block.model)


def _is_module(obj: object) -> TypeIs[nn.Module]:
    """Whether `obj` is a module. None exists before the program has loaded torch."""
    modules = sys.modules.get("torch.nn")
    return modules is not None and isinstance(obj, modules.Module)


def _watch_settings(
    first: int | None,
    every: int | None,
    include: str | Iterable[str] | None,
    exclude: str | Iterable[str] | None,
    statistics: str | None,
) -> dict[str, Any]:
    """The fields of `Watch` that were given.

    Raises:
        SettingsTypeError: if one is of the wrong type.
        SettingsValueError: if a number is too small, or `statistics` is not one of the three.
    """
    settings: dict[str, Any] = {}
    for argument, number, least in (("first", first, 0), ("every", every, 1)):
        if number is None:
            continue
        if not isinstance(number, int) or isinstance(number, bool):
            raise SettingsTypeError(argument, number, "a whole number")
        if number < least:
            raise SettingsValueError(argument, number, f"{least} or more")
        settings[argument] = number
    for argument, globs in (("include", include), ("exclude", exclude)):
        if globs is None:
            continue
        given = [globs] if isinstance(globs, str) else list(globs) if isinstance(globs, Iterable) else [None]
        if not all(isinstance(glob, str) for glob in given):
            raise SettingsTypeError(argument, globs, "a string or several")
        settings[argument] = tuple(given)
    if statistics is not None:
        settings["statistics"] = parse_statistics(statistics)
    return settings


def _nearest_setting(argument: str) -> tuple[str, list[str]]:
    """The argument of `Proxy` closest to `argument` ("" if none is close), and the names of all arguments."""
    import difflib

    parameters = inspect.signature(ProxyType.__call__).parameters.values()
    known = [each.name for each in parameters if each.kind is not each.VAR_KEYWORD and each.name not in ("cls", "obj")]
    return next(iter(difflib.get_close_matches(argument, known, n=1)), ""), known


def _path(logdir: str | os.PathLike[str]) -> str:
    """The path as a string.

    Raises:
        SettingsTypeError: if `logdir` is not a path.
    """
    try:
        return os.fsdecode(logdir)
    except TypeError:
        raise SettingsTypeError("logdir", logdir, "a path") from None


def _teach_dynamo(_: ModuleType) -> None:
    """Tell Dynamo, which has just been loaded, how to treat the functions of this file."""
    from proxy_wrapper.dynamo_rules import teach_dynamo

    of_blocks = [getattr(each, name) for each in (stage, trace) for name in ("__init__", "__enter__", "__exit__")]
    functions = (is_proxied, unproxy, flush, restore_proxied, observe, blacklist, register_leaf_module)
    teach_dynamo(Proxy, (ProxyType.__call__, *functions, *of_blocks), _note_capture)


def _note_capture(obj: object) -> None:
    """Note in the trace that a captured call of `Proxy` does nothing, unless `obj` is already traced."""
    tracer = _installed.tracer
    if tracer is not None and not tracer.registry.is_proxied(obj):
        tracer.note_problem(
            "Models that are created in compiled code are not traced: where `torch.compile` captures a call of "
            "`Proxy`, the call only returns the model."
        )


AfterImport("torch._dynamo.polyfills.loader", _teach_dynamo)  # Dynamo loads this module last.
