"""Text of a trace as HTML has it."""

from __future__ import annotations

import re
from html import escape

from proxy_trace.terminal.colour import for_terminal


def as_text(text: object) -> str:
    """Text without any markup, and with everything unprintable spelled out."""
    return escape(for_terminal(str(text)))


def as_breakable(name: str) -> str:
    """A dotted name as text, which may end a line behind each dot."""
    return as_text(name).replace(".", ".<wbr>")


def as_text_with_code(text: str) -> str:
    """The same, with what stands between backticks as code."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", as_text(text))
