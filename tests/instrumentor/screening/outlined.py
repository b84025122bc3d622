"""A script with other files, of which only the outlines are known."""

from __future__ import annotations

import ast
from textwrap import dedent
from typing import TYPE_CHECKING

from instrumentor.resolve.outline_cache import OutlineCache
from instrumentor.resolve.project import Sources
from instrumentor.resolve.unit import SCRIPT, index_unit
from instrumentor.resolve.unit_cache import UnitCache
from instrumentor.screening.neighbours import NeighbourProject
from instrumentor.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping


def project_of(script: str, files: Mapping[str, str]) -> NeighbourProject:
    """The project of a script; `files` are the texts of the others by their paths."""

    def read(path: str) -> bytes | None:
        return dedent(files[path]).encode() if path in files else None

    sources = Sources(read, parsed=OutlineCache(UnitCache(), None))
    return NeighbourProject(index_unit(SCRIPT, "", ast.parse(dedent(script))), Settings(), sources)
