"""Which scripts are worth parsing at all, by their bytes: the first look and the cheapest.

What passes here is parsed and then analysed. A look may only say no where the next one would find nothing to wrap.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from instrumentor.resolve import catalogue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from instrumentor.settings import Settings


def _use_of(methods: Iterable[str]) -> re.Pattern[bytes]:
    return re.compile(rb"\.\s*(?:" + "|".join(sorted(methods)).encode() + rb")\b")


# Methods whose use says that an object is a module. Tensors are moved more often than modules are, and moving alone
# makes a module of nothing for those who want no guesses.
_SIGNS = catalogue.MODULE_EVIDENCE | catalogue.WEAK_EVIDENCE | {catalogue.BACKWARD}
_USED_OR_MOVED, _USED = _use_of(_SIGNS), _use_of(_SIGNS - catalogue.MOVES)
_OWN_COMMENT = b"# instrument: "
# An import starts a line, or follows a semicolon or colon. What follows a line continuation is not looked at but taken.
_IMPORT = re.compile(rb"(?:\A(?:\xef\xbb\xbf)?|[\r\n;:])[ \t\f]*(?:from|import)\b[ \t\f]*([^\r\n;#]*)")
_LATE_IMPORT = re.compile(rb"\b(?:__import__|import_module)\b")
_ROOT = re.compile(rb"\s*([A-Za-z_]\w*)")
_TORCH_MODULES = re.compile(rb"\b(?:" + "|".join(catalogue.TORCH_WORDS).encode() + rb")\b|\bimport\s*\*")
# Strings and comments. Where several bytes make a character, one of them may look like a quote.
_TEXT = re.compile(
    rb"'''.*?'''"
    rb'|""".*?"""'
    rb"|'(?:[^'\\\r\n]|\\.)*'"
    rb'|"(?:[^"\\\r\n]|\\.)*"'
    rb"|#[^\r\n]*",
    re.DOTALL,
)
# A formatted string in which a brace is open where its quote comes again: that may not be its end (PEP 701).
_NESTED_QUOTES = re.compile(rb"""\b(?:[fFtT][rR]?|[rR][fFtT])(?:'[^'\r\n]*\{[^'}\r\n]*'|"[^"\r\n]*\{[^"}\r\n]*")""")
_CODING = re.compile(rb"\A(?:[^\r\n]*(?:\r\n?|\n))?[ \t\f]*#[^\r\n]*?coding[:=][ \t]*([-\w.]+)")
_SINGLE_BYTES = re.compile(
    rb"utf-?8(-sig)?|us-ascii|ascii|latin-?1|l1|iso-?8859-\d+|cp125\d|windows-125\d", re.IGNORECASE
)

# Libraries in which nothing is a module, beside the standard one.
_PLAIN_LIBRARIES = (
    "PIL",
    "absl",
    "cv2",
    "gym",
    "gymnasium",
    "matplotlib",
    "numpy",
    "omegaconf",
    "pandas",
    "pytest",
    "requests",
    "scipy",
    "seaborn",
    "sklearn",
    "tensorboard",
    "tensorboardX",
    "tqdm",
    "wandb",
    "yaml",
)
_HARMLESS = frozenset(name.encode() for name in (*_PLAIN_LIBRARIES, "__future__"))
_STANDARD = frozenset(name.encode() for name in sys.stdlib_module_names)


def may_hold_site(source: bytes, settings: Settings, is_of_project: Callable[[str], bool] = lambda _: False) -> bool:
    """Tell whether a script can make a module at all, as far as its bytes show.

    What a script calls is its own, imported or built in. So it takes an import of something that makes modules or
    may do so, or the use of an object as a module. Much quicker than parsing, and never wrong when it says no.

    Args:
        source: the script's bytes.
        settings: what the user asked for.
        is_of_project: whether the script's project has something of its own by the name of a standard library's module.
    """
    if settings.factories or settings.wrappers or settings.module_classes:
        return True  # anything may be a module then
    if _OWN_COMMENT in source:
        return True
    used = _USED_OR_MOVED if settings.min_confidence == "possible" else _USED
    if not _has_sign(source, used, is_of_project):
        return False
    # Words in strings and comments look like code. Taking them out costs more than a look, and much less than parsing.
    coding = _CODING.match(source)
    if (coding is not None and _SINGLE_BYTES.fullmatch(coding[1]) is None) or _NESTED_QUOTES.search(source):
        return True
    return _has_sign(_TEXT.sub(b"", source), used, is_of_project)


def _has_sign(code: bytes, used: re.Pattern[bytes], is_of_project: Callable[[str], bool]) -> bool:
    if used.search(code) is not None or _LATE_IMPORT.search(code) is not None:
        return True
    return any(_may_give_modules(name, code, is_of_project) for name in _imported_roots(code))


def _may_give_modules(root: bytes, code: bytes, is_of_project: Callable[[str], bool]) -> bool:
    if root == b"torch":
        return _TORCH_MODULES.search(code) is not None
    if root in _STANDARD:
        return is_of_project(root.decode())
    return root not in _HARMLESS


def _imported_roots(code: bytes) -> set[bytes]:
    """The first parts of all imported names; the empty one for what does not show, such as `from . import net`."""
    roots = set()
    for found in _IMPORT.finditer(code):
        for imported in found[1].split(b" import ")[0].split(b","):
            name = _ROOT.match(imported)
            roots.add(name[1] if name else b"")
    return roots
