"""Intersections of boxes whose sides are not clamped at 0 are found by the source."""

from __future__ import annotations

import pytest

from proxy_wrapper.source_patterns.unclamped_intersections import unclamped_intersections
from tests.proxy_wrapper.source_patterns.found import found

ENDS = """
def iou(a, b):
    left, top = torch.max(a[:, 0], b[:, 0]), torch.max(a[:, 1], b[:, 1])
    right = torch.min(a[:, 2], b[:, 2])
    bottom = a[:, 3].minimum(b[:, 3])
    {}
    return inter / (area(a) + area(b) - inter)
"""
CORNERS = """
def box_iou(a, b):
    lt = torch.maximum(a[:, None, :2], b[:, :2])
    rb = torch.minimum(a[:, None, 2:], b[:, 2:])
    {}
    return inter / (area(a) + area(b) - inter)
"""
WIDTH = "w, h = right - left, bottom - top\n    "


@pytest.mark.parametrize(
    ("text", "inter", "line", "product"),
    [
        (ENDS, "inter = (right - left) * (bottom - top)", 6, "(right - left) * (bottom - top)"),
        (ENDS, WIDTH + "inter = w * h", 7, "w * h"),
        (ENDS, "w, h = right - left + 1, bottom - top + 1\n    inter = w * h", 7, "w * h"),
        (CORNERS, "wh = rb - lt\n    inter = wh[..., 0] * wh[..., 1]", 6, "wh[..., 0] * wh[..., 1]"),
        (CORNERS, "inter = (rb - lt).prod(2)", 5, "(rb - lt).prod(2)"),
        (CORNERS, "inter = torch.prod(rb - lt, dim=2)", 5, "torch.prod(rb - lt, dim=2)"),
        (
            CORNERS,
            "inter = (min(a[2], b[2]) - max(a[0], b[0])) * (min(a[3], b[3]) - max(a[1], b[1]))",
            5,
            "(min(a[2], b[2]) - max(a[0], b[0])) * (min(a[3], b[3]) - max(a[1], b[1]))",
        ),
        (
            CORNERS,
            "inter = (rb[..., 0] - lt[..., 0]) * (rb[..., 1] - lt[..., 1])",
            5,
            "(rb[..., 0] - lt[..., 0]) * (rb[..., 1] - lt[..., 1])",
        ),
    ],
)
def test_an_unclamped_intersection_is_found(text: str, inter: str, line: int, product: str) -> None:
    assert found(text.format(inter), unclamped_intersections) == [(line, (product,))]


@pytest.mark.parametrize(
    ("text", "inter"),
    [
        pytest.param(ENDS, "inter = (right - left).clamp(min=0) * (bottom - top).clamp(min=0)", id="clamped"),
        pytest.param(ENDS, "inter = F.relu(right - left) * F.relu(bottom - top)", id="relu"),
        pytest.param(ENDS, "inter = max(0, right - left) * max(0, bottom - top)", id="max with 0"),
        pytest.param(ENDS, WIDTH + "w, h = max(w, 0), max(h, 0)\n    inter = w * h", id="assigned again"),
        pytest.param(ENDS, WIDTH + "w.clamp_(min=0)\n    inter = w * h", id="clamped in place"),
        pytest.param(ENDS, WIDTH + "inter = torch.where((w > 0) & (h > 0), w * h, 0)", id="where"),
        pytest.param(ENDS, WIDTH + "inter = w * h * (w > 0) * (h > 0)", id="a mask of overlaps"),
        pytest.param(
            ENDS, "if right <= left: return 0\n    inter = (right - left) * (bottom - top)", id="returned before"
        ),
        pytest.param(ENDS, "inter = (right - left) * (bottom - top)\n    inter *= (left < right)", id="tested later"),
        pytest.param(
            ENDS, "if apart(a, b): return 0\n    inter = (right - left) * (bottom - top)", id="boxes are tested"
        ),
        pytest.param(ENDS, "inter = (a[:, 2] - a[:, 0]) * (a[:, 3] - a[:, 1])", id="the area of one box"),
        pytest.param(ENDS, "inter = (right - left) * weight", id="one side"),
        pytest.param(ENDS, "inter = (left - right) * (top - bottom)", id="a box around both"),
        pytest.param(CORNERS, "wh = (rb - lt).clamp(min=0)\n    inter = wh[..., 0] * wh[..., 1]", id="both clamped"),
        pytest.param(CORNERS, "wh = rb - lt\n    wh[wh < 0] = 0\n    inter = wh.prod(2)", id="set to 0"),
        pytest.param(CORNERS, "inter = (min(a[2], w) - max(a[0], 0)) * (min(a[3], h) - max(a[1], 0))", id="an image"),
        pytest.param(CORNERS, "inter = (x.min(dim) - x.max(dim)) * (y.min(dim) - y.max(dim))", id="along a dimension"),
    ],
)
def test_other_areas(text: str, inter: str) -> None:
    assert found(text.format(inter), unclamped_intersections) == []


def test_a_tested_index_is_no_test_of_boxes() -> None:
    text = """
    def nms(x1, y1, x2, y2, order):
        while len(order) > 1:
            w = x2[order].minimum(x2[order[0]]) - x1[order].maximum(x1[order[0]])
            h = y2[order].minimum(y2[order[0]]) - y1[order].maximum(y1[order[0]])
            order = order[w * h / area(order) < 0.5]
    """
    assert found(text, unclamped_intersections) == []
    assert found(text.replace("w * h / area(order) < 0.5", "others(w * h)"), unclamped_intersections) == [
        (6, ("w * h",))
    ]


def test_areas_without_boxes_are_not_judged() -> None:
    text = "def covered(a, b):\n    return (min(a[2], b[2]) - max(a[0], b[0])) * (min(a[3], b[3]) - max(a[1], b[1]))"
    assert found(text, unclamped_intersections) == []
