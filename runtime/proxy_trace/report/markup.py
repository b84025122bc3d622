"""Text of a trace as HTML has it."""

from __future__ import annotations

from html import escape

from proxy_trace.terminal.colour import for_terminal


def as_text(text: object) -> str:
    """Text without any markup, and with everything unprintable spelled out."""
    return escape(for_terminal(str(text)))
