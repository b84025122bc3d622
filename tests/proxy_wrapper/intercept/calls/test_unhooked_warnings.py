"""A warning names the same line, whatever its `stacklevel`, and the filters decide the same, traced and untraced."""

from __future__ import annotations

import pickle
import sys
import traceback
import warnings
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import proxy_wrapper.proxy as Proxy

if TYPE_CHECKING:
    from collections.abc import Callable

LEVELS = (-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 1000)


class Warning_(nn.Module):  # noqa: N801
    """Warns of each of its callers."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for level in LEVELS:
            warnings.warn(f"level {level}", stacklevel=level)
            warnings.warn(DeprecationWarning(f"of a class, level {level}"), None, level)
            warnings.warn(f"in time, level {level}", FutureWarning, stacklevel=level)
        return x


class Calling(nn.Sequential):
    def __call__(self, *args: Any) -> Any:
        return super().__call__(*args)


def with_hook() -> nn.Module:
    model = nn.Sequential(Warning_())
    model[0].register_forward_pre_hook(lambda *_: None)
    return model


def warned(model: nn.Module, action: Any = "always") -> list[tuple[str, str, str, int]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(action)
        for _ in range(2):
            model(torch.ones(2, 3))
    return [(str(each.message), each.category.__name__, each.filename, each.lineno) for each in caught]


def both(find: Callable[[nn.Module], Any], make: Callable[[], nn.Module], **settings: Any) -> tuple[Any, Any]:
    """What is found without a proxy, and with one, from one line."""
    plain, proxied = (find(model) for model in (each(make()) for each in (_as_it_is, _proxied(settings))))
    return plain, proxied


def _as_it_is(model: nn.Module) -> nn.Module:
    return model


def _proxied(settings: dict[str, Any]) -> Callable[[nn.Module], nn.Module]:
    return lambda model: Proxy.Proxy(model, recurse=True, **settings)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "one": Warning_,
    "nested": lambda: nn.Sequential(nn.Sequential(Warning_())),
    "own hook": with_hook,
    "own __call__": lambda: Calling(Warning_()),
    "wrapper": lambda: nn.DataParallel(Warning_()),
    "torch's own warning": lambda: nn.Sequential(nn.Softmax()),
}


@pytest.mark.parametrize("action", ["always", "default", "module"])
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_each_stacklevel_names_the_same_line(
    make: Callable[[], nn.Module], action: str, level: str, logdir: str
) -> None:
    plain, proxied = both(lambda model: warned(model, action), make, logdir=logdir, log_level=level)
    assert plain
    assert proxied == plain


def test_other_global_hooks_count_as_they_do_without_us(logdir: str) -> None:
    handle = nn.modules.module.register_module_forward_pre_hook(lambda *_: None)
    try:
        plain, proxied = both(warned, Warning_, logdir=logdir)
        assert proxied == plain
    finally:
        handle.remove()


@pytest.mark.parametrize("module", [r"torch\.nn\.modules\.module", __name__.replace(".", r"\.")])
def test_filters_go_by_the_same_module(module: str, logdir: str) -> None:
    def shown(model: nn.Module) -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.filterwarnings("ignore", module=module)
            model(torch.ones(2, 3))
        return [str(each.message) for each in caught]

    plain, proxied = both(shown, Warning_, logdir=logdir)
    assert 0 < len(plain) < 3 * len(LEVELS)
    assert proxied == plain


@pytest.mark.skipif(sys.version_info < (3, 11), reason="3.10 keeps a traceback of its own")
@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_a_warning_that_is_an_error_has_the_same_traceback(level: int, logdir: str) -> None:
    class Strict(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            warnings.warn("too bad", stacklevel=level)
            return x

    def printed(model: nn.Module) -> str:
        warnings.simplefilter("error")
        with pytest.raises(UserWarning) as raised:
            model(torch.ones(2, 3))
        assert raised.value.__traceback__ is not None
        return "".join(traceback.format_exception(raised.value.with_traceback(raised.value.__traceback__.tb_next)))

    with warnings.catch_warnings():
        plain, proxied = both(printed, Strict, logdir=logdir)
    assert proxied == plain


@pytest.mark.parametrize("given", [("too bad", int), ("too bad", None, "two")], ids=["category", "stacklevel"])
def test_what_cannot_be_warned_of_fails_in_the_same_words(given: tuple[Any, ...], logdir: str) -> None:
    def words() -> str:
        with pytest.raises(TypeError) as raised:
            warnings.warn(*given)
        return str(raised.value)

    plain = words()
    model = Proxy.Proxy(Warning_(), logdir=logdir)
    assert words() == plain
    del model


@pytest.mark.skipif(sys.version_info < (3, 12), reason="new in Python 3.12")
@pytest.mark.parametrize("prefix", [nn.__file__.removesuffix("__init__.py"), __file__, "nowhere"])
def test_files_to_skip_are_skipped(prefix: str, logdir: str) -> None:
    class Skipping(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for level in LEVELS:
                skipping: dict[str, Any] = {"skip_file_prefixes": (prefix,)}
                warnings.warn(f"level {level}", stacklevel=level, **skipping)
            return x

    plain, proxied = both(warned, lambda: nn.Sequential(Skipping()), logdir=logdir)
    assert proxied == plain


def test_it_is_pickled_by_its_name(logdir: str) -> None:
    model = Proxy.Proxy(Warning_(), logdir=logdir)
    assert pickle.loads(pickle.dumps(warnings.warn)) is warnings.warn
    del model


def test_code_that_warns_is_compiled_as_often(logdir: str) -> None:
    from torch._dynamo.testing import CompileCounter

    def count(model: nn.Module) -> tuple[int, int]:
        torch._dynamo.reset()
        counter = CompileCounter()
        compiled = torch.compile(model, backend=counter)
        for _ in range(5):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compiled(torch.ones(2, 3))
        return counter.frame_count, counter.op_count

    class Breaking(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x * 2
            warnings.warn("in between", stacklevel=2)
            return x + 1

    plain, proxied = both(count, Breaking, logdir=logdir)
    assert proxied == plain


class ScriptedSoftmax(nn.Module):
    """Scripted, it calls what warns within torch."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        warnings.warn("of a script", stacklevel=2)
        return torch.nn.functional.softmax(x, dim=1)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
def test_code_that_warns_is_scripted(logdir: str) -> None:
    x = torch.randn(2, 3)
    plain = torch.jit.script(ScriptedSoftmax())
    model = Proxy.Proxy(nn.Linear(3, 3), name="model", logdir=logdir)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scripted = torch.jit.script(ScriptedSoftmax())
        assert torch.equal(scripted(x), plain(x))
    assert "of a script" in [str(each.message) for each in caught]
    assert torch.jit._builtins._find_builtin(warnings.warn) == "aten::warn"
    stood_in = warnings.warn
    Proxy.unproxy(model)
    assert warnings.warn is not stood_in
    assert torch.jit._builtins._find_builtin(stood_in) is None
    assert torch.jit._builtins._find_builtin(warnings.warn) == "aten::warn"
