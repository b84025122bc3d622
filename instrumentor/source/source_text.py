"""A script's bytes as text and lines, which can be converted back exactly."""

from __future__ import annotations

import ast
import codecs
import io
import re
import tokenize
import warnings
from dataclasses import dataclass

from instrumentor.errors import SourceDecodeError, SourceSyntaxError

# Lines as in Python's tokenizer, unlike str.splitlines(), which also splits at form feeds and U+2028.
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_LINE_END = re.compile(r"(?:\r\n|\r|\n)\Z")
# A script's tree takes a hundred times the memory of its text. Nobody writes this much by hand.
_LONGEST = 8_000_000
_BOM = b"\xef\xbb\xbf"
# To detect binary data: how many bytes are checked, characters that no text has, and what may explain others.
_HEAD = 8000
_FEW_NULLS = 2
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_OTHER_ENCODING = re.compile(rb"\A(?:\xff\xfe|\xfe\xff)|coding[:=]")


@dataclass(frozen=True)
class SourceText:
    """A decoded script.

    Attributes:
        bom: the byte order mark, or empty.
        encoding: the declared codec; UTF-8 without a declaration.
        lines: the text in Python's own lines, each with its line end.
    """

    bom: bytes
    encoding: str
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """The whole text, without the byte order mark."""
        return "".join(self.lines)

    @property
    def newline(self) -> str:
        """The line end of the first line that has one; a line feed if none has."""
        return line_end(self.lines[0]) or "\n" if self.lines else "\n"

    @property
    def has_final_newline(self) -> bool:
        """Whether a further line can be appended directly."""
        return not self.lines or bool(line_end(self.lines[-1]))

    def column(self, line: int, byte_offset: int) -> int:
        """The character column for `ast`'s `byte_offset` (in UTF-8) of line `line` (from 1)."""
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        if text.isascii():
            return byte_offset
        return len(text.encode("utf-8")[:byte_offset].decode("utf-8", errors="ignore"))

    def encode(self, lines: tuple[str, ...]) -> bytes:
        """The bytes of other lines in this script's encoding."""
        return self.bom + "".join(lines).encode(self.encoding)

    def can_encode(self, text: str) -> bool:
        """Whether this script's encoding can represent `text`."""
        try:
            text.encode(self.encoding)
        except UnicodeEncodeError:
            return False
        return True


def line_end(line: str) -> str:
    """The line end of `line`; empty for a last line without one."""
    found = _LINE_END.search(line)
    return found[0] if found else ""


def split_lines(text: str) -> tuple[str, ...]:
    """Split into lines as Python's tokenizer does, keeping the line ends."""
    return tuple(_LINE.findall(text))


def decode(source: bytes, *, source_name: str) -> SourceText:
    """Decode a script as Python would.

    Raises:
        SourceDecodeError: it is not text, or the declared encoding is unknown or does not fit the bytes.
    """
    if _is_binary(source):
        raise SourceDecodeError("a binary file, not Python source; exclude it", path=source_name)
    bom = _BOM if source.startswith(_BOM) else b""
    body = source[len(bom) :]
    try:
        # A declaration may end in a lone carriage return, which BytesIO.readline() does not treat as a line end. And
        # from Python 3.14 on, null bytes are already refused here, while the parser gives a better message.
        head = source.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\0", b" ")
        declared, _ = tokenize.detect_encoding(io.BytesIO(head).readline)
        encoding = "utf-8" if declared == "utf-8-sig" else declared
        text = body.decode(encoding)
        survives = text.encode(encoding) == body
    except UnicodeDecodeError as error:
        line = len(split_lines(body[: error.start].decode("latin-1") + " "))
        raise SourceDecodeError(
            f"byte 0x{body[error.start]:02x} is not {error.encoding}; declare the file's encoding in its first two"
            " lines (`# -*- coding: ... -*-`) or save it as UTF-8",
            path=source_name,
            line=line,
        ) from None
    except (SyntaxError, LookupError, UnicodeError, ValueError) as error:
        raise SourceDecodeError(
            f"{error}; correct the coding declaration or save the file as UTF-8", path=source_name
        ) from None
    if not survives:
        raise SourceDecodeError(
            f"the bytes do not survive decoding and encoding as {encoding}; save the file as UTF-8",
            path=source_name,
        )
    return SourceText(bom, encoding, split_lines(text))


def _is_binary(source: bytes) -> bool:
    """Whether these bytes are not text in any encoding of Python source.

    A few null bytes in a text do not count; they are reported with their line.
    """
    head = source[:_HEAD]
    if not _CONTROL.search(head):
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return not _OTHER_ENCODING.search(head)
    return head.count(b"\0") > max(_FEW_NULLS, len(head) // 10)


def parse(source: SourceText, *, source_name: str) -> ast.Module:
    """Parse a script.

    Raises:
        SourceSyntaxError: this interpreter's grammar rejects it.
    """
    text = source.text
    if len(text) > _LONGEST:
        raise SourceSyntaxError(
            f"longer than {_LONGEST:,} characters, too long to be analysed; exclude the file", path=source_name
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in the user's strings are not this tool's concern
            return ast.parse(text)
    except SyntaxError as error:
        raise SourceSyntaxError(
            f"not Python that this interpreter can parse ({error.msg}); correct it, or run this tool with the"
            " Python version that the script is written for",
            path=source_name,
            line=error.lineno,
            column=error.offset,
        ) from None
    except ValueError as error:  # null bytes
        raise SourceSyntaxError(
            f"not Python that this interpreter can parse ({error}); correct it", path=source_name
        ) from None
    except (RecursionError, MemoryError):  # the parser's own stack is full
        raise SourceSyntaxError(
            "not Python that this interpreter can parse (it is nested too deeply); split its longest expression, or"
            " exclude the file",
            path=source_name,
        ) from None


def read_comments(source: SourceText) -> dict[int, str]:
    """The comments (not look-alikes in strings) by line; empty if the tokenizer rejects the text."""
    # The tokenizer gets only line feeds, since some versions treat a lone carriage return as a character.
    text = "".join(line.removesuffix(line_end(line)) + "\n" for line in source.lines)
    comments: dict[int, str] = {}
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                comments[token.start[0]] = token.string
    except (tokenize.TokenError, SyntaxError):
        return {}
    return comments
