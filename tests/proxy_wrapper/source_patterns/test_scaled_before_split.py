"""Scalers that are fitted to all data, before these are split, are found by the source."""

from __future__ import annotations

import pytest

from proxy_wrapper.source_patterns.scaled_before_split import scaled_before_split
from tests.proxy_wrapper.source_patterns.found import found


@pytest.mark.parametrize(
    ("text", "data"),
    [
        pytest.param(
            "scaled = StandardScaler().fit_transform(x)\na, b, c, d = train_test_split(scaled, y)", "x", id="by sklearn"
        ),
        pytest.param(
            """
            scaler = MinMaxScaler()
            data = scaler.fit_transform(df[["close"]].values.reshape(-1, 1))
            x, y = windows(data, 30)
            x_train, y_train = x[:cut], y[:cut]
            x_test, y_test = x[cut:], y[cut:]
            """,
            "df",
            id="windows of a series",
        ),
        pytest.param(
            "scaler = Scaler().fit(raw)\nz = scaler(raw)\ntrain = w(z[:cut])\ntest = w(z[cut - 5:])", "raw", id="called"
        ),
        pytest.param(
            "s = preprocessing.RobustScaler()\ns.fit(x)\nx = s.transform(x)\nds = TensorDataset(x, y)\n"
            "train, test = random_split(ds, [8, 2])",
            "x",
            id="a data set",
        ),
    ],
)
def test_a_scaler_of_all_data_is_found(text: str, data: str) -> None:
    ((_, names),) = found(text, scaled_before_split)
    assert names == (data,)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "train, test = train_test_split(x)\ns = StandardScaler()\ntrain = s.fit_transform(train)\n"
            "test = s.transform(test)",
            id="split before",
        ),
        pytest.param(
            "s = StandardScaler()\ns.fit(x[:cut])\nz = s.transform(x)\ntrain = z[:cut]\ntest = z[cut:]", id="fit"
        ),
        pytest.param("y = LabelEncoder().fit_transform(y)\na, b = train_test_split(y)", id="names of classes"),
        pytest.param("z = StandardScaler().fit_transform(x)\nmodel(z)", id="never split"),
        pytest.param("z = StandardScaler().fit_transform(x)\nhead, tail = z[:3], z[3:]", id="parts of another kind"),
        pytest.param("z = StandardScaler().fit_transform(x)\na, b = train_test_split(other)", id="other data"),
        pytest.param("scaler = GradScaler()\nz = scaler.fit(x)\na, b = train_test_split(z)", id="of gradients"),
        pytest.param("z = StandardScaler().fit_transform(x_train)\na, b = train_test_split(z)", id="a validation set"),
    ],
)
def test_other_scalers_are_not(text: str) -> None:
    assert found(text, scaled_before_split) == []
