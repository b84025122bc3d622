"""Errors of drawing, one class each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy_wrapper.errors import ProxyError

if TYPE_CHECKING:
    from pathlib import Path


class DrawingError(ProxyError):
    """The base of all errors of drawing."""


class UnknownPictureError(DrawingError, ValueError):
    """A file name with an unknown extension."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path}: a drawing is a picture or a page. Use a name that ends in .svg or .html.")


class NoPydotError(DrawingError, ImportError):
    """The package that calls Graphviz is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "drawing a picture needs the package pydot: pip install 'instrumentor[draw]'. A page (.html) does not need "
            "it."
        )


class NoDotError(DrawingError, RuntimeError):
    """Graphviz is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "drawing a picture needs Graphviz, whose program 'dot' is not on the PATH. Install it with 'apt install "
            "graphviz', 'brew install graphviz' or 'conda install graphviz', or from https://graphviz.org/download. "
            "A page (.html) does not need it."
        )


class DotFailedError(DrawingError, RuntimeError):
    """Graphviz could not lay a picture out."""

    def __init__(self, error: Exception) -> None:
        super().__init__(
            f"Graphviz cannot draw this graph: {str(error).strip() or type(error).__name__}. Try a smaller depth=, "
            "or a page (.html)."
        )
