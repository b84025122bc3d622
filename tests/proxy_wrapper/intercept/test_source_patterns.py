"""The source of a training program is read when its first backward pass begins."""

from __future__ import annotations

import runpy
from typing import TYPE_CHECKING

from proxy_trace.checks import views
from tests.proxy_trace.checks.judged import find

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
import torch
from torch import nn
import proxy_wrapper.proxy as Proxy

def channels_first(image):
    h, w, c = image.shape
    return image.{}

def main(logdir):
    model = Proxy.Proxy(nn.Conv2d(3, 2, 3), name="model", logdir=logdir, log_level=Proxy.INFO)
    for _ in range(3):
        model(channels_first(torch.ones(4, 5, 3))[None]).sum().backward()
    Proxy.unproxy(model)

main(LOGDIR)
"""


def trained(view: str, tmp_path: Path) -> list[tuple[str, str]]:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(view), encoding="utf-8")
    logdir = tmp_path / "trace"
    runpy.run_path(str(script), {"LOGDIR": logdir})
    return [(each.code, each.place.rpartition(":")[2]) for each in find(logdir, views.CHECK)]


def test_a_pattern_is_reported_once_with_its_line(tmp_path: Path) -> None:
    assert trained("view(c, h, w)", tmp_path) == [("view-instead-of-permute", "8")]


def test_right_code_is_not(tmp_path: Path) -> None:
    assert trained("permute(2, 0, 1)", tmp_path) == []
