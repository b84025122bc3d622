"""Which scripts are worth parsing at all, by their bytes."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from instrumentor.resolve import catalogue

if TYPE_CHECKING:
    from instrumentor.settings import Settings

# Methods whose use says that an object is a module, and this tool's own comments.
_SIGNS = re.compile(
    rb"\.\s*(?:"
    + "|".join(sorted(catalogue.MODULE_EVIDENCE | catalogue.WEAK_EVIDENCE)).encode()
    + rb")\b|# instrument: "
)
# An import statement, or what looks like one; what follows a line continuation is not looked at but taken.
_IMPORT = re.compile(rb"\b(?:from|import)\b[ \t\f]*([^\r\n;#]*)")
_ROOT = re.compile(rb"\s*([A-Za-z_]\w*)")
# What in torch itself makes modules: the layers, whole models by name, scripted modules and averaged copies.
_TORCH_MODULES = re.compile(rb"\b(?:nn|hub|ScriptModule|AveragedModel|swa_utils|fully_shard|fsdp|parallel)\b")

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
_HARMLESS = frozenset(name.encode() for name in (*sys.stdlib_module_names, *_PLAIN_LIBRARIES, "__future__"))


def may_hold_site(source: bytes, settings: Settings) -> bool:
    """Tell whether a script can make a module at all, as far as its bytes show.

    What a script calls is its own, imported or built in. So it takes an import of something that makes modules or
    may do so, or the use of an object as a module. Much quicker than parsing, and never wrong when it says no.
    """
    if settings.factories or settings.wrappers or settings.module_classes:
        return True  # anything may be a module then
    if _SIGNS.search(source):
        return True
    return any(_may_give_modules(name, source) for name in _imported_roots(source))


def _may_give_modules(root: bytes, source: bytes) -> bool:
    if root == b"torch":
        return _TORCH_MODULES.search(source) is not None
    return root not in _HARMLESS


def _imported_roots(source: bytes) -> set[bytes]:
    """The first parts of all imported names; the empty one for what does not show, such as `from . import net`."""
    roots = set()
    for found in _IMPORT.finditer(source):
        for imported in found[1].split(b" import ")[0].split(b","):
            name = _ROOT.match(imported)
            roots.add(name[1] if name else b"")
    return roots
