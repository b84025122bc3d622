"""Draws a graph to a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from proxy_views.drawing.errors import UnknownPictureError
from proxy_views.drawing.page import draw_page
from proxy_views.drawing.picture import picture_of
from proxy_views.drawing.svg import draw_svg

if TYPE_CHECKING:
    import os

    from torch import fx


def draw(gm: fx.GraphModule, path: str | os.PathLike[str], depth: int | None = None) -> Path:
    """Draw the calls of a graph, boxed by module call, with the shapes of the values between them.

    Args:
        gm: the graph. `node.meta["nn_module_stack"]` gives the boxes, `node.meta["tensor_meta"]` the shapes.
        path: the file, which is overwritten. A name ending in .svg makes a picture, which needs the extra `draw` and
            Graphviz. A name ending in .html makes a self-contained page in which boxes open and close.
        depth: the maximum nesting of boxes. Deeper ones are closed, in a picture for good; None for no limit.

    Returns:
        The path.

    Raises:
        UnknownPictureError: if the file name has another extension.
        NoPydotError: if a picture is requested and the package pydot is not installed.
        NoDotError: if a picture is requested and Graphviz is not installed.
        DotFailedError: if Graphviz cannot lay the picture out.
        OSError: if the file cannot be written.
    """
    path = Path(path)
    if path.suffix.lower() == ".svg":
        content = draw_svg(picture_of(gm), depth)
    elif path.suffix.lower() in (".html", ".htm"):
        content = draw_page(picture_of(gm), depth).encode("utf-8", "backslashreplace")
    else:
        raise UnknownPictureError(path)
    path.write_bytes(content)
    return path
