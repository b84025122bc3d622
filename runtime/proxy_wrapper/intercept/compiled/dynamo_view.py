"""Shows a compiling thread's Dynamo torch as it would be without us, while other threads stay observed.

Our hooks stay in place, because they are process-wide and other threads call them. Dynamo reads such state for the
compiled code in only a few places. There it gets the value that it would find without us:

- values that it reads (`VariableBuilder`): a registry of hooks without ours, or the function that we replaced;
- guards (`CheckFunctionManager`): guards on the type of a registry hold either way. Guards on its content (a module has
  its own hooks; an optimizer's step is compiled) hold only without our hooks. From then on, ours are removed for all
    threads while any thread is in compiled code;
- the methods of `nn.Module` that replace attribute access at DEBUG, which it compares with those it saw when it was
  imported: the originals are restored while it compiles.

All of these are private to torch. If a version lacks one, all hooks are removed while any thread is in compiled code.
"""

from __future__ import annotations

import functools
import sys
from collections import OrderedDict
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from proxy_wrapper.intercept.attaching.call_sites import hide_frames, uncounted
from proxy_wrapper.places.location import UNCOUNTED
from proxy_wrapper.process.after_import import AfterImport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType

    from proxy_wrapper.intercept.calls.attributes import ModuleAttributes
    from proxy_wrapper.intercept.calls.autograd_functions import AutogradFunctions
    from proxy_wrapper.intercept.calls.module_calls import ModuleCalls
    from proxy_wrapper.intercept.state.updates import Updates
    from proxy_wrapper.tracer import Interceptor, Tracer

_CONVERSION: Final = "torch._dynamo.convert_frame"
_OF_MODULES: Final = ("_global_forward_hooks", "_global_forward_pre_hooks")
_OF_OPTIMIZERS: Final = ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks")
_HARMLESS: Final = ("TYPE_MATCH", "ID_MATCH")
"""Guards on a registry that do not depend on its content. An `ID_MATCH` is on the module that holds it."""


class DynamoView:
    """Hides our changes from Dynamo.

    Attributes:
        throughout: what has to be removed while any thread is in compiled code.
    """

    def __init__(
        self,
        tracer: Tracer,
        module_calls: ModuleCalls,
        updates: Updates,
        attributes: ModuleAttributes,
        autograd_functions: AutogradFunctions,
    ) -> None:
        self._tracer = tracer
        self._module_calls = module_calls
        self._updates = updates
        self._attributes = attributes
        self._autograd_functions = autograd_functions
        self.throughout: tuple[Interceptor, ...] = ()
        self._originals: list[tuple[Any, str, Any, Any]] = []
        self._waiting: list[AfterImport] = []
        self._is_installed = False

    def install(self) -> None:
        """Patch Dynamo, now or once it is imported. Does nothing if already done."""
        if self._is_installed:
            return
        self._is_installed = True
        conversion = sys.modules.get(_CONVERSION)
        if conversion is not None and getattr(getattr(conversion, "output_codes", None), "seen", True):
            # Code compiled earlier may already have guards on the registries.
            self.throughout = (self._module_calls, self._updates)
        self._watch("torch._dynamo.utils", self._correct_note)
        self._watch(
            "torch._dynamo.variables.builder",
            lambda module: self._replace_in(module, "VariableBuilder", "__call__", self._reading),
        )
        self._watch(
            "torch._dynamo.variables.base",
            lambda module: self._replace_in(module, "VariableTracker", "build", self._building),
        )
        self._watch(
            "torch._dynamo.guards",
            lambda module: self._replace_in(module, "CheckFunctionManager", "__init__", self._guarding),
        )
        self._watch(
            _CONVERSION, lambda module: self._replace_in(module, "ConvertFrameAssert", "__call__", self._converting)
        )

    def remove(self) -> None:
        """Restore Dynamo."""
        if not self._is_installed:
            return
        self._is_installed = False
        for owner, name, original, replacement in self._originals:
            if vars(owner).get(name) is replacement:
                setattr(owner, name, original)
        self._originals.clear()
        for each in self._waiting:
            each.give_up()
        self._waiting.clear()

    def _watch(self, module: str, then: Callable[[ModuleType], None]) -> None:
        self._waiting.append(AfterImport(module, then))

    def _replace_in(self, module: ModuleType, owner_name: str, name: str, make: Callable[[Any], Any]) -> None:
        """Replace the attribute `name` of a class of `module`; a static method stays one."""
        owner = getattr(module, owner_name, None)
        original = vars(owner).get(name) if owner is not None else None
        if original is None:
            self.throughout = (self._module_calls, self._updates, self._attributes)
            return
        if isinstance(original, staticmethod):
            replacement: Any = staticmethod(make(original.__func__))
        else:
            replacement = make(original)
        self._originals.append((owner, name, original, replacement))
        setattr(owner, name, replacement)

    def _correct_note(self, utils: ModuleType) -> None:
        """Correct Dynamo's note, just made, of the method that reads attributes of `nn.Module`: it must not be ours."""
        name = "unpatched_nn_module_getattr"
        if hasattr(utils, name):
            setattr(utils, name, self._without_ours(getattr(utils, name)))

    def _without_ours(self, value: Any) -> Any:
        """What `value` would be without us."""
        if type(value) is OrderedDict:
            return self._updates.without_ours(self._module_calls.without_ours(value))
        while type(value) is FunctionType and value.__code__.co_filename == UNCOUNTED:
            value = getattr(value, "__wrapped__", None)
        return value

    def _reading(self, original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        without_ours = self._without_ours

        @functools.wraps(original)
        @uncounted
        def read(builder: Any, value: Any) -> Any:
            return original(builder, without_ours(value))

        return read

    def _building(self, original: Callable[..., Any]) -> Callable[..., Any]:
        without_ours = self._without_ours

        @functools.wraps(original)
        @uncounted
        def build(tx: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
            return original(tx, without_ours(value), *args, **kwargs)

        return build

    def _guarding(self, original: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(original)
        @uncounted
        def guard(manager: Any, code: Any, graph: Any, *args: Any, **kwargs: Any) -> None:
            self._note_guards(getattr(graph, "guards", None) or ())
            has_hidden = self.hide()
            try:
                original(manager, code, graph, *args, **kwargs)
            except BaseException as error:
                hide_frames(error)
                raise
            finally:
                if has_hidden:
                    self.show()

        return guard

    def _note_guards(self, guards: Iterable[Any]) -> None:
        """If guards are on a registry's content, remove our hooks from it while any thread is in compiled code."""
        try:
            found: list[Interceptor] = []
            for guard in guards:
                kind = guard.create_fn_name()
                name = str(guard.name() if callable(guard.name) else guard.name)
                if kind not in _HARMLESS:
                    if any(each in name for each in _OF_MODULES):
                        found.append(self._module_calls)
                    if any(each in name for each in _OF_OPTIMIZERS):
                        found.append(self._updates)
            self._remove_throughout(found)
        except Exception as error:  # noqa: BLE001  A mistake of ours must not reach the program.
            self._tracer.fail(error)

    def _remove_throughout(self, found: Iterable[Interceptor]) -> None:
        tracer = self._tracer
        with tracer.lock:
            new = tuple(each for each in dict.fromkeys(found) if each not in self.throughout)
            if not new:
                return
            self.throughout += new
            for state in (tracer.thread, *tracer.threads.others()):  # Threads that are in compiled code now.
                inside = state.inside
                if inside is not None:
                    state.inside = inside._replace(hidden=(*inside.hidden, *new))
                    if inside.is_hiding:
                        tracer.hide(new)
            self.tell_of(new)

    def hide(self) -> bool:
        """Remove what this thread's compiled code requires; True if that was still to be done."""
        tracer = self._tracer
        inside = tracer.thread.inside
        if inside is None or not inside.hidden or inside.is_hiding:
            return False
        with tracer.lock:
            inside = tracer.thread.inside or inside
            tracer.thread.inside = inside._replace(is_hiding=True)
            tracer.hide(inside.hidden)
        return True

    def show(self, *, is_leaving: bool = False) -> bool:
        """Put back what `hide` removed; True if that was still to be done."""
        tracer = self._tracer
        inside = tracer.thread.inside
        if inside is None or not inside.is_hiding or (inside.is_export and not is_leaving):
            return False
        with tracer.lock:
            inside = tracer.thread.inside or inside
            tracer.thread.inside = inside._replace(is_hiding=False)
            tracer.show(inside.hidden)
        return True

    def tell_of(self, hidden: Iterable[Interceptor]) -> None:
        """Report once in the trace what is not observed in other threads because of `hidden`, if there are others."""
        if not any(thread.has_called and thread.inside is None for thread in self._tracer.threads.others()):
            return
        said = {
            self._module_calls: "calls of modules",
            self._updates: "steps of optimizers, and gradients,",
            self._attributes: "reads and writes of modules' attributes",
        }
        for each in hidden:
            if each in said:
                self._tracer.note_problem(
                    f"While a thread compiles or enters compiled code, {said[each]} of other threads may be missing: "
                    "compiled code depends on there being no hooks. Changes of parameters are found later."
                )

    def _converting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        @uncounted
        def convert(conversion: Any, *args: Any, **kwargs: Any) -> Any:
            replacing = (self._attributes, self._autograd_functions)
            hidden = tuple(each for each in replacing if each.is_installed)
            if hidden:
                self._tracer.hide(hidden)
                self.tell_of(hidden)
            has_shown = self.show()  # No guard is evaluated meanwhile.
            try:
                return original(conversion, *args, **kwargs)
            except BaseException as error:
                hide_frames(error)
                raise
            finally:
                if has_shown:
                    self.hide()
                if hidden:
                    self._tracer.show(hidden)

        return convert
