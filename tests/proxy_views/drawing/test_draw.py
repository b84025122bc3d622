"""A graph as a picture and as a page: what is in which box, what the edges say, and that names are only text."""

from __future__ import annotations

import json
import re
import shutil
import sys
from html import unescape
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest
import torch
from torch import fx, nn
from torch.fx.passes.shape_prop import ShapeProp
from torch.utils.checkpoint import checkpoint

import proxy_wrapper.proxy as Proxy
from proxy_views.drawing.draw import draw
from proxy_views.drawing.errors import DotFailedError, NoDotError, NoPydotError, UnknownPictureError
from proxy_views.drawing.picture import Box, picture_of
from proxy_views.passes.outline import outline

if TYPE_CHECKING:
    from pathlib import Path

    from proxy_views.drawing.picture import Picture

X = torch.ones(2, 4)
needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="needs Graphviz (Debian: apt install graphviz)")


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = torch.chunk(self.mlp(x), 2, 1)
        return torch.cat([second, first], 1) + x


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Block()
        self.head = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.block(x))
        return out


class Inside(fx.Tracer):
    """Goes into linear layers."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, nn.ReLU)


def graph(model: nn.Module | None = None) -> fx.GraphModule:
    model = model or Net()
    gm = fx.GraphModule(model, Inside().trace(model))
    ShapeProp(gm).propagate(X)
    gm.graph.eliminate_dead_code()
    for node in gm.graph.nodes:
        if node.name == "chunk":
            node.meta["tensor_meta"] = tuple(user.meta["tensor_meta"] for user in node.users)
    return gm


def outlined() -> fx.GraphModule:
    return outline(graph(), {(0,): ["linear", "block_mlp_1", "chunk", "getitem", "getitem_1"]})


def boxes(box: Box) -> dict[str, Any]:
    """What is in a box, as names."""
    return {
        (f"{item.name} {item.type}" if isinstance(item, Box) else item.name): boxes(item)
        if isinstance(item, Box)
        else item.reads
        for item in box.items
    }


def edges(picture: Picture) -> set[tuple[str, str, str]]:
    names = {}

    def visit(box: Box) -> None:
        for item in box.items:
            if isinstance(item, Box):
                visit(item)
            else:
                names[item.id] = item.name

    visit(picture.root)
    return {(names[edge.source], names[edge.target], edge.label) for edge in picture.edges}


def test_boxes_hold_what_runs_in_modules() -> None:
    both = ("weight", "bias")
    mlp = {"0 Linear": {"linear": both}, "block_mlp_1": ()}
    assert boxes(picture_of(graph()).root) == {
        "x": (),
        "block Block": {"mlp Sequential": mlp, "chunk": (), "cat": (), "add": ()},
        "head Linear": {"linear_1": both},
        "output": (),
    }


def test_edges_say_what_goes_from_one_to_the_next() -> None:
    """What only picks one of several results is part of an edge."""
    whole, half = "float32[2, 4]", "float32[2, 2]"
    assert edges(picture_of(graph())) == {
        ("x", "linear", whole),
        ("linear", "block_mlp_1", whole),
        ("block_mlp_1", "chunk", whole),
        ("chunk", "cat", half),
        ("cat", "add", whole),
        ("x", "add", whole),
        ("add", "linear_1", whole),
        ("linear_1", "output", "float32[2, 3]"),
    }


def test_a_part_that_is_computed_again_is_a_box_with_the_same_edges() -> None:
    picture = picture_of(outlined())
    found = boxes(picture.root)["block Block"]
    assert found == {
        "checkpoint_0 ": {
            "mlp Sequential": {"0 Linear": {"linear": ("weight", "bias")}, "block_mlp_1": ()},
            "chunk": (),
        },
        "cat": (),
        "add": (),
    }
    assert edges(picture) == edges(picture_of(graph()))


def test_a_graph_of_which_nothing_is_said_is_drawn_too(tmp_path: Path) -> None:
    gm = fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    assert boxes(picture_of(gm).root) == {"x": (), "relu": (), "add": (), "output": ()}
    assert draw(gm, tmp_path / "plain.html").stat().st_size > 0


def svg_texts(path: Path) -> list[str]:
    return [each.text or "" for each in ET.parse(path).iter("{http://www.w3.org/2000/svg}text")]


@needs_dot
def test_a_picture_has_boxes_nodes_and_shapes(tmp_path: Path) -> None:
    path = draw(graph(), tmp_path / "graph.svg")
    texts = svg_texts(path)
    assert {"block (Block)", "mlp (Sequential)", "0 (Linear)", "linear", "weight, bias", "float32[2, 2]"} <= set(texts)
    assert path.read_text().count('class="cluster"') == 4
    assert path.read_text().count('class="edge"') == 8


@needs_dot
@pytest.mark.parametrize(("depth", "clusters", "nodes"), [(0, 0, 4), (1, 2, 7), (2, 3, 8), (9, 4, 8)])
def test_deeper_boxes_are_folded(depth: int, clusters: int, nodes: int, tmp_path: Path) -> None:
    text = draw(graph(), tmp_path / "graph.svg", depth=depth).read_text()
    assert (text.count('class="cluster"'), text.count('class="node"')) == (clusters, nodes)


HOSTILE = 'a"b\\n<script>alert(1)</script>&\\'


def hostile() -> fx.GraphModule:
    gm = graph(nn.Sequential(nn.Linear(4, 4)))
    for node in gm.graph.nodes:
        node.meta["nn_module_stack"] = {HOSTILE: (HOSTILE, type(HOSTILE, (), {}))}
    return gm


@needs_dot
def test_names_are_text_in_a_picture(tmp_path: Path) -> None:
    assert f"{HOSTILE} ({HOSTILE})" in svg_texts(draw(hostile(), tmp_path / "graph.svg"))


def test_a_recorded_call_is_drawn(tmp_path: Path) -> None:
    """With what the recording says of boxes and shapes; a checkpoint is a box."""

    class Checkpointed(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.head(checkpoint(self.block, x, use_reentrant=False))
            return out

    model = Checkpointed()
    with Proxy.trace(model) as trace:
        model(X)
    page = trace.draw(tmp_path / "graph.html").read_text()
    picture = picture_of(trace.graph())
    found = boxes(picture.root)
    assert list(found) == ["x", "block Block", "head Linear", "output"]
    assert list(found["block Block"]) == ["checkpoint_0 "]
    inside = found["block Block"]["checkpoint_0 "]
    assert list(inside) == ["mlp Sequential", "chunk", "cat", "add"]
    assert ("chunk", "cat", "float32[2, 2]") in edges(picture)
    assert all(f"<b>{name}</b>" in page for name in ("checkpoint_0", "mlp", "chunk"))


class Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_a_page_loads_nothing_and_names_in_it_are_text(tmp_path: Path) -> None:
    page = draw(hostile(), tmp_path / "graph.html").read_text()
    tags = Tags(page).tags
    assert [attributes for tag, attributes in tags if tag in ("script", "style")] == [{}, {}]
    assert not {tag for tag, _ in tags} & {"link", "img", "iframe", "a", "object"}
    assert not any({"src", "href", "style", "onclick"} & set(attributes) for _, attributes in tags)
    policy = [attributes["content"] for tag, attributes in tags if attributes.get("http-equiv")]
    assert re.fullmatch(r"default-src 'none'; style-src 'sha256-[^']+'; script-src 'sha256-[^']+'", policy[0] or "")


def test_the_edges_in_a_page_are_those_of_the_picture(tmp_path: Path) -> None:
    page = draw(outlined(), tmp_path / "graph.html").read_text()
    listed = json.loads(unescape(page.partition('<template id="edges">')[2].partition("</template>")[0]))
    assert [tuple(edge) for edge in listed] == [tuple(edge) for edge in picture_of(outlined()).edges]


@pytest.mark.parametrize("name", ["graph", "graph.png", "graph.svg.txt"])
def test_another_kind_of_file_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownPictureError, match=r"ends in \.svg or \.html"):
        draw(graph(), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_without_graphviz_the_error_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoDotError, match="apt install graphviz"):
        draw(graph(), tmp_path / "graph.svg")
    assert draw(graph(), str(tmp_path / "graph.html")).exists()


def test_without_pydot_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydot", None)
    with pytest.raises(NoPydotError, match=r"pip install 'instrumentor\[draw\]'"):
        draw(graph(), tmp_path / "graph.svg")


def test_a_graphviz_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "dot"
    broken.write_text("#!/bin/sh\necho too large >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(DotFailedError, match="smaller depth="):
        draw(graph(), tmp_path / "graph.svg")
    assert not (tmp_path / "graph.svg").exists()
