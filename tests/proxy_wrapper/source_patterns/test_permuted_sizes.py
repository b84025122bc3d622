"""Views that give a tensor its own sizes in another order are found by the source."""

from __future__ import annotations

import pytest

from proxy_wrapper.source_patterns.permuted_sizes import permuted_sizes
from tests.proxy_wrapper.source_patterns.found import found


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("h, w, c = x.shape\ny = x.view(c, h, w)", ("h, w, c", "c, h, w")),
        ("b, h, w, c = x.size()\nx = x.reshape((b, c, h, w))", ("b, h, w, c", "b, c, h, w")),
        ("h, w, c = im.shape\ny = torch.from_numpy(im).float().view(c, h, w)", ("h, w, c", "c, h, w")),
        ("h, w, c = im.shape\ny = np.reshape(im, (c, h, w))", ("h, w, c", "c, h, w")),
        ("y = x\ny = y.view(y.size(0), y.size(2), y.size(1))", ("y.size(0), y.size(1), y.size(2)", "")),
        ("y = x\ny = x.reshape(x.shape[2], x.shape[0], x.shape[1])", ("x.shape[0], x.shape[1], x.shape[2]", "")),
        ("b, t, c = self.x.shape\ny = self.x.contiguous().view(t, b, c)", ("b, t, c", "t, b, c")),
    ],
)
def test_a_view_that_permutes_sizes_is_found(text: str, names: tuple[str, str]) -> None:
    ((line, told),) = found(text, permuted_sizes)
    assert line == 2
    assert told[0] == names[0]
    assert told[1] == names[1] or not names[1]


@pytest.mark.parametrize(
    "text",
    [
        "img = cv2.imread(path)\ny = img.reshape(3, 32, 32)",
        "img = cv2.resize(cv2.imread(path), (64, 64))\ny = torch.from_numpy(img).float().view(3, 64, 64)",
        "img = Image.open(path).convert('RGB')\ny = np.array(img).reshape((3, h, w))",
    ],
)
def test_an_image_with_the_channels_last_is_found(text: str) -> None:
    ((line, (before, _)),) = found(text, permuted_sizes)
    assert (line, before) == (2, "height, width, 3")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("img = cv2.imread(path).transpose(2, 0, 1)\ny = img.reshape(3, 32, 32)", id="an image transposed"),
        pytest.param("img = cv2.imread(path)\ny = img.reshape(1, 32, 32)", id="a grey image"),
        pytest.param("img = np.fromfile(path)\ny = img.reshape(3, 32, 32)", id="planes of a binary file"),
        pytest.param("h, w, c = x.shape\nx.transpose_(0, 2)\ny = x.view(c, w, h)", id="permuted in place"),
        pytest.param("h, w, c = x.shape\ny = x.permute(2, 0, 1)", id="a permutation"),
        pytest.param("h, w, c = x.shape\ny = x.view(h, w, c)", id="the same sizes"),
        pytest.param("h, w, c = x.shape\ny = x.permute(2, 0, 1).reshape(c, h, w)", id="permuted before"),
        pytest.param("h, w, c = x.shape\nx = x.permute(2, 0, 1)\ny = x.reshape(c, h, w)", id="permuted as a variable"),
        pytest.param("h, w, c = x.shape\ny = z.view(c, h, w)", id="another tensor"),
        pytest.param("h, w, c = x.shape\nh = 3\ny = x.view(c, h, w)", id="another size"),
        pytest.param("b, h, w, c = x.shape\ny = x.view(b, h * w, c)", id="joined dimensions"),
        pytest.param("n, m = x.shape\ny = x.view(m, n)", id="a matrix"),
        pytest.param("b, g, n = x.shape\ny = x.view(b, n, -1)", id="a size that is computed"),
        pytest.param("x = F.pad(x, (1, 0))\nb, r, c = x.shape\ny = x.view(b, c, r)[:, 1:]", id="rows that are skewed"),
        pytest.param("b, *rest, c = x.shape\ny = x.view(c, rest, b)", id="a rest"),
    ],
)
def test_other_views_are_not(text: str) -> None:
    assert found(text, permuted_sizes) == []
