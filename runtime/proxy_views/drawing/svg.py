"""Draws a graph as a picture, with Graphviz."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, Final

from proxy_views.drawing.errors import DotFailedError, NoDotError, NoPydotError
from proxy_views.drawing.picture import Box

if TYPE_CHECKING:
    import pydot

    from proxy_views.drawing.picture import Drawn, Picture

_FONT: Final = "Helvetica"
_SHAPES: Final = {"placeholder": "ellipse", "output": "ellipse", "call": "box"}


def draw_svg(picture: Picture, depth: int | None) -> bytes:
    """The picture as SVG.

    Args:
        picture: the content.
        depth: the maximum nesting of boxes; a deeper box is drawn as one node. None for no limit.

    Raises:
        NoPydotError: if the package pydot is not installed.
        NoDotError: if Graphviz is not installed.
        DotFailedError: if Graphviz cannot lay the picture out.
    """
    try:
        import pydot
    except ModuleNotFoundError:
        raise NoPydotError from None
    if shutil.which("dot") is None:
        raise NoDotError
    graph = pydot.Dot("graph", graph_type="digraph", rankdir="TB", compound="true", fontname=_FONT)
    graph.set_node_defaults(fontname=_FONT, fontsize="11", style="filled", fillcolor="white", color="#667788")
    graph.set_edge_defaults(fontname=_FONT, fontsize="9", color="#667788", fontcolor="#667788", arrowsize="0.6")
    stands_for: dict[int, int] = {}
    _add_items(graph, picture.root, depth, stands_for)
    edges: dict[tuple[int, int], str] = {}
    for edge in picture.edges:
        ends = (stands_for[edge.source], stands_for[edge.target])
        if ends[0] != ends[1]:
            edges.setdefault(ends, edge.label)
    for (source, target), label in edges.items():
        graph.add_edge(pydot.Edge(f"n{source}", f"n{target}", label=_quoted(label)))
    try:
        made = graph.create(format="svg", encoding="utf-8")
    except (OSError, AssertionError) as error:  # pydot raises the second if `dot` fails.
        raise DotFailedError(error) from error
    return made if isinstance(made, bytes) else made.encode()


def _add_items(graph: pydot.Graph, box: Box, depth: int | None, stands_for: dict[int, int]) -> None:
    import pydot

    for item in box.items:
        if not isinstance(item, Box):
            graph.add_node(pydot.Node(f"n{item.id}", label=_quoted(*_lines(item)), shape=_SHAPES[item.kind]))
            stands_for[item.id] = item.id
        elif depth is not None and item.depth > depth:
            label = _quoted(item.name, item.type)
            graph.add_node(pydot.Node(f"n{item.id}", label=label, shape="box3d", fillcolor="#e8eef6"))
            _fold(item, item.id, stands_for)
        else:
            cluster = pydot.Cluster(
                f"b{item.id}",
                label=_quoted(f"{item.name} ({item.type})" if item.type else item.name),
                labeljust="l",
                style="rounded,filled",
                color="#99aabb",
                fillcolor=("#f4f7fb", "#e8eef6")[item.depth % 2],
                fontname=_FONT,
                fontsize="11",
            )
            _add_items(cluster, item, depth, stands_for)
            add: Any = graph.add_subgraph  # Its annotation lacks clusters.
            add(cluster)


def _fold(box: Box, into: int, stands_for: dict[int, int]) -> None:
    for item in box.items:
        if isinstance(item, Box):
            _fold(item, into, stands_for)
        else:
            stands_for[item.id] = into


def _lines(drawn: Drawn) -> list[str]:
    return [drawn.name, *([drawn.does] if drawn.does else []), *([", ".join(drawn.reads)] if drawn.reads else [])]


def _quoted(*lines: str) -> str:
    r"""Lines as a quoted DOT string, with backslashes and quotation marks escaped."""
    escaped = [line.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") for line in lines if line]
    return '"' + "\\n".join(escaped) + '"'
