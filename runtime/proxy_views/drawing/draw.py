"""Draws a graph into a file."""

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
    """Draw the calls of a graph in boxes, one for each call of a module, with the shapes of what goes between them.

    Args:
        gm: the graph. `node.meta["nn_module_stack"]` says what the boxes are, `node.meta["tensor_meta"]` the shapes.
        path: the file, which is written anew. One that ends in .svg is a picture, which takes the extra `draw` and
            Graphviz. One that ends in .html is a page that needs nothing else, in which boxes open and close.
        depth: how many boxes lie in one another at most. Deeper ones are closed, in a picture for good; None for none.

    Returns:
        The path.

    Raises:
        UnknownPictureError: if the name of the file ends in something else.
        NoPydotError: if a picture is wanted and the package pydot is not installed.
        NoDotError: if Graphviz is not.
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
