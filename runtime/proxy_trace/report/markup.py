"""Escapes text for HTML."""

from __future__ import annotations

import re
from html import escape

from proxy_trace.terminal.colour import for_terminal


def as_text(text: object) -> str:
    """Text without markup, and with unprintable characters escaped."""
    return escape(for_terminal(str(text)))


def as_breakable(name: str) -> str:
    """A dotted name as text that may be broken after each dot."""
    return as_text(name).replace(".", ".<wbr>")


def as_text_with_code(text: str) -> str:
    """The same, with text between backticks as code."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", as_text(text))
