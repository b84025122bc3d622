"""Draws a graph as a page: one self-contained HTML file in which module boxes open and close."""

from __future__ import annotations

import base64
import hashlib
import json
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from proxy_views.drawing.picture import Box

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_views.drawing.picture import Drawn, Picture

_HEAD: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src {style}; script-src {script}">
<title>{title}</title>
<style>{css}</style>
</head>
<body>
<header><h1>{title}</h1><p>{words}</p>
<button type="button" id="open">Open all</button> <button type="button" id="close">Close all</button></header>
<main id="graph">
"""


def draw_page(picture: Picture, depth: int | None) -> str:
    """The page. Boxes deeper than `depth` are closed at first; None opens all."""
    return "".join(_parts(picture, depth))


def _parts(picture: Picture, depth: int | None) -> Iterator[str]:
    css, script = _resource("page.css"), _resource("page.js")
    calls, boxes = _count(picture.root)
    yield _HEAD.format(
        style=_hash(css),
        script=_hash(script),
        title=escape(picture.root.name),
        words=f"{calls:,} nodes in {boxes:,} boxes. Click the title of a box to open or close it. Point at a node to "
        "highlight its inputs and the users of its output.",
        css=css,
    )
    yield from _items(picture.root, depth)
    edges = json.dumps([[edge.source, edge.target, edge.label] for edge in picture.edges])
    yield f'</main>\n<template id="edges">{escape(edges, quote=False)}</template>\n'
    yield f"<script>{script}</script>\n</body>\n</html>\n"


def _items(box: Box, depth: int | None) -> Iterator[str]:
    for item in box.items:
        if not isinstance(item, Box):
            yield _node(item)
            continue
        is_open = "" if depth is not None and item.depth > depth else " open"
        title = f"<b>{escape(item.name)}</b> <i>{escape(item.type)}</i>"
        yield f'<details id="n{item.id}"{is_open}><summary>{title}</summary>\n'
        yield from _items(item, depth)
        yield "</details>\n"


def _node(drawn: Drawn) -> str:
    words = [f"<b>{escape(drawn.name)}</b>"]
    if drawn.does:
        words.append(f"<code>{escape(drawn.does)}</code>")
    if drawn.reads:
        words.append(f"<i>{escape(', '.join(drawn.reads))}</i>")
    if drawn.gives and drawn.kind != "output":
        words.append(f"<small>{escape(drawn.gives)}</small>")
    return f'<div class="node {drawn.kind}" id="n{drawn.id}">{" ".join(words)}</div>\n'


def _count(box: Box) -> tuple[int, int]:
    """The number of nodes in a box, and of boxes."""
    calls = boxes = 0
    for item in box.items:
        if isinstance(item, Box):
            inner_calls, inner_boxes = _count(item)
            calls, boxes = calls + inner_calls, boxes + inner_boxes + 1
        else:
            calls += 1
    return calls, boxes


def _resource(name: str) -> str:
    return files("proxy_views.drawing").joinpath(name).read_text("utf-8")


def _hash(text: str) -> str:
    """The hash by which the page's security policy allows this text, and nothing else."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
