"""The names of data tell whether they are for training or held out."""

from __future__ import annotations

import pytest

from proxy_wrapper.source_patterns.data_roles import Role, role_of


@pytest.mark.parametrize(
    ("name", "role"),
    [
        pytest.param("train_loader", Role(is_training=True, is_held_out=False, rest=("loader",))),
        pytest.param("valLoader", Role(is_training=False, is_held_out=True, rest=("loader",))),
        pytest.param("testset", Role(is_training=False, is_held_out=True, rest=("set",))),
        pytest.param("xtrain", Role(is_training=True, is_held_out=False, rest=("x",))),
        pytest.param("train_val_data", Role(is_training=True, is_held_out=True, rest=("data",))),
        pytest.param("value", Role(is_training=False, is_held_out=False, rest=("value",))),
        pytest.param("latest", Role(is_training=False, is_held_out=False, rest=("latest",))),
    ],
)
def test_role(name: str, role: Role) -> None:
    assert role_of(name) == role
