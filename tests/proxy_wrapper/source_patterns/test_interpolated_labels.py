"""Label maps that are resized by interpolation are found by the source."""

from __future__ import annotations

import pytest

from proxy_wrapper.source_patterns.interpolated_labels import interpolated_labels
from tests.proxy_wrapper.source_patterns.found import found

IMPORTS = "import torch.nn.functional as F\nimport torchvision.transforms.functional as TF\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("mask = F.interpolate(mask[None].float(), size, mode='bilinear')[0].long()", 3),
        ("y = F.interpolate(seg_mask, size=s, mode='bicubic').squeeze(1).to(torch.int64)", 3),
        ("y = torch.nn.functional.interpolate(labels.float(), s, None, 'area').type(torch.LongTensor)", 3),
        ("target = F.interpolate(target, size=s, mode='linear')\ntarget = target.squeeze(1)\nloss(x, target.int())", 3),
        ("mask = F.interpolate(mask, size=s, mode='bilinear')\nloss(x, mask.squeeze(1).to(device).long())", 3),
        ("mask = TF.resize(mask.float(), size)\nreturn_(image, mask.long())", 3),
        ("m = F.interpolate(sample['mask'].float(), s, mode='bilinear').to(dtype=torch.long)", 3),
    ],
)
def test_interpolated_labels_are_found(text: str, line: int) -> None:
    assert [each for each, _ in found(IMPORTS + text, interpolated_labels)] == [line]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("mask = F.interpolate(mask.float(), size, mode='nearest').long()", id="nearest"),
        pytest.param("mask = F.interpolate(mask.float(), size).long()", id="nearest by default"),
        pytest.param("mask = F.interpolate(mask.float(), size, mode=mode).long()", id="a mode that is not known"),
        pytest.param("mask = (F.interpolate(mask.float(), size, mode='bilinear') > 0.5).long()", id="a threshold"),
        pytest.param("mask = F.interpolate(mask.float(), size, mode='bilinear').round().long()", id="rounded"),
        pytest.param("mask = F.interpolate(mask, size, mode='bilinear')\nmask.round_()\nmask.long()", id="in place"),
        pytest.param("mask = F.interpolate(mask, s, mode='bilinear')\nmask[mask > 0.5] = 1\nmask.long()", id="set"),
        pytest.param("mask = F.interpolate(mask, s, mode='bilinear')\nmask = mask >= 0.5\nmask.long()", id="again"),
        pytest.param("mask = F.interpolate(mask, size, mode='bilinear')", id="a soft mask"),
        pytest.param("image = F.interpolate(image, size, mode='bilinear').long()", id="an image"),
        pytest.param("y = F.interpolate(pred_masks, size, mode='bilinear').long()", id="predictions"),
        pytest.param("y = F.interpolate(mask_logits, s, mode='bilinear').argmax(1).long()", id="logits"),
        pytest.param("mask = F.interpolate(mask.float(), s, mode='bilinear').to(torch.uint8).long()", id="bytes"),
        pytest.param("mask = TF.resize(mask, size).long()", id="perhaps rounded"),
        pytest.param("mask = TF.resize(mask.float(), size, TF.InterpolationMode.NEAREST).long()", id="resized nearest"),
        pytest.param("mask = F.interpolate(mask, size, mode='bilinear').to(device)", id="only moved"),
    ],
)
def test_other_resizing(text: str) -> None:
    assert found(IMPORTS + text, interpolated_labels) == []
