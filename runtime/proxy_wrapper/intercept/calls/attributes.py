"""Observes reads, writes and deletions of the attributes of proxied modules.

`nn.Module` keeps parameters, buffers and submodules outside the instance's `__dict__`, so each read of one goes
through `nn.Module.__getattr__`. These three methods are the only place to observe them.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn

from proxy_wrapper.events import DelAttr, GetAttr, SetAttr
from proxy_wrapper.intercept.attaching.call_sites import hide_frames, uncounted
from proxy_wrapper.levels import DEBUG
from proxy_wrapper.values.describe import describe_plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_wrapper.tracer import Tracer

_METHODS: Final = ("__getattr__", "__setattr__", "__delattr__")


class ModuleAttributes:
    """Makes `GetAttr`, `SetAttr` and `DelAttr` events for proxied modules at level DEBUG."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._originals: dict[str, Callable[..., Any]] = {}
        self._replacements: dict[str, Callable[..., Any]] = {}

    @property
    def is_installed(self) -> bool:
        """Whether the methods are replaced."""
        return bool(self._originals)

    def install(self) -> None:
        """Replace the three methods of `nn.Module`."""
        if self._originals:
            return
        self._originals = {name: getattr(nn.Module, name) for name in _METHODS}
        self._replacements = {
            "__getattr__": self._reader(self._originals["__getattr__"]),
            "__setattr__": self._writer(self._originals["__setattr__"]),
            "__delattr__": self._deleter(self._originals["__delattr__"]),
        }
        for name, replacement in self._replacements.items():
            setattr(nn.Module, name, replacement)

    def remove(self) -> None:
        """Restore the originals, unless other code has replaced ours since."""
        for name, original in self._originals.items():
            if getattr(nn.Module, name) is self._replacements[name]:
                setattr(nn.Module, name, original)
        self._originals = {}

    def _reader(self, original: Callable[..., Any]) -> Callable[..., Any]:
        modules = self._tracer.registry.modules

        @functools.wraps(original)
        @uncounted
        def __getattr__(module: nn.Module, name: str) -> Any:  # noqa: N807
            try:
                value = original(module, name)
            except BaseException as error:
                hide_frames(error)
                raise
            if id(module) in modules:
                self._record(GetAttr, module, name, value=value, known=True)
            return value

        return __getattr__

    def _writer(self, original: Callable[..., Any]) -> Callable[..., Any]:
        modules = self._tracer.registry.modules

        @functools.wraps(original)
        @uncounted
        def __setattr__(module: nn.Module, name: str, value: Any) -> None:  # noqa: N807
            try:
                original(module, name, value)
            except BaseException as error:
                hide_frames(error)
                raise
            if id(module) in modules:
                self._record(SetAttr, module, name, value=value)

        return __setattr__

    def _deleter(self, original: Callable[..., Any]) -> Callable[..., Any]:
        modules = self._tracer.registry.modules

        @functools.wraps(original)
        @uncounted
        def __delattr__(module: nn.Module, name: str) -> None:  # noqa: N807
            try:
                original(module, name)
            except BaseException as error:
                hide_frames(error)
                raise
            if id(module) in modules:
                self._record(DelAttr, module, name)

        return __delattr__

    def _record(
        self, make: Callable[..., GetAttr | SetAttr | DelAttr], module: nn.Module, name: str, **fields: Any
    ) -> None:
        """Emit an event for `name` of `module` if it is traced at DEBUG. `fields` are the event's own fields."""
        tracer = self._tracer
        try:
            entry = tracer.registry.module_entry(module)
            if entry is None or entry.level > DEBUG or not tracer.active or torch._C._get_tracing_state() is not None:
                return
            thread = tracer.thread
            if thread.inside is not None:
                return
            location = tracer.locator.locate(2)
            value = fields.get("value")
            if "value" in fields:
                with torch._C.DisableTorchFunction():
                    fields["value"] = self._describe(value)
                    if isinstance(value, torch.Tensor):
                        fields["value_id"] = tracer.registry.meet(value)
            now = tracer.now_us()
            event = make(now, tracer.step, entry.id, location, thread.number, thread.stage, name, entry.name, **fields)
            entry.channel.emit(event, location)
        except Exception as error:  # noqa: BLE001  A mistake of ours must not reach the program.
            tracer.fail(error)

    def _describe(self, value: Any) -> str:
        registry = self._tracer.registry
        if isinstance(value, nn.Module):
            entry = registry.module_entry(value)
            return entry.name if entry is not None else type(value).__name__
        if isinstance(value, torch.Tensor):
            state = registry.state_entry(value)
            return state.name if state is not None else self._tracer.describer.describe(value)
        return describe_plain(value)
