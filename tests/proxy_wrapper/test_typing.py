"""Type checkers see `Proxy.Proxy(model)` as `model`: mypy reads this file with the others (`make types`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.errors import SettingsTypeError

if TYPE_CHECKING:
    from typing_extensions import assert_type
else:

    def assert_type(value: object, of: object) -> None: ...


def test_a_proxied_model_has_the_type_of_the_model(logdir: str) -> None:
    model = Proxy.Proxy(nn.Linear(1, 2), recurse=True, name="m", logdir=logdir, log_level=Proxy.INFO)
    assert_type(model, nn.Linear)
    assert_type(Proxy.unproxy(model), nn.Linear)


def test_a_wrong_setting_is_a_type_error(logdir: str) -> None:
    with pytest.raises(SettingsTypeError):
        Proxy.Proxy(nn.Linear(1, 2), recurse=3.5, logdir=logdir)  # type: ignore[arg-type]
