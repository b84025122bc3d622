"""The rewriter as a command of LibCST's own tools: `instrumentor.codemod.Instrument`."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import libcst as cst
from libcst.codemod import SkipFile, VisitorBasedCodemodCommand

from instrumentor import emit
from instrumentor.configuration import Configurations
from instrumentor.errors import InstrumentError
from instrumentor.instrument import instrument_source
from instrumentor.paths import files
from instrumentor.resolve.libraries import Libraries
from instrumentor.resolve.project import Sources
from instrumentor.resolve.search_path import SearchPaths
from instrumentor.source.source_text import decode
from instrumentor.transformer import ProxyMaker, ProxyTransformer, transform

if TYPE_CHECKING:
    from libcst.codemod import CodemodContext

    from instrumentor.instrument import Result
    from instrumentor.settings import Settings


class Instrument(VisitorBasedCodemodCommand):
    """Puts the models of a file under proxies: the text that `instrument` writes, the source comment included.

    Settings are those of the nearest `pyproject.toml`.

    Args:
        context: the file, as LibCST's tools describe it.
        settings: what to write, in place of what the file's configuration says.
    """

    DESCRIPTION = "Trace the models of PyTorch training scripts."

    def __init__(self, context: CodemodContext, settings: Settings | None = None) -> None:
        super().__init__(context)
        self._settings = settings

    def transform_module_impl(self, tree: cst.Module) -> cst.Module:
        """The changed tree; `tree` itself where there is nothing to wrap.

        Raises:
            SkipFile: the file cannot be instrumented, or was edited since it was.
        """
        shown = self.context.filename or files.STDIN_NAME
        try:
            settings = self._settings or Configurations().of_directory(os.path.dirname(shown)).settings  # noqa: PTH120
            result = _instrument(tree.bytes, settings, shown)
        except InstrumentError as error:
            raise SkipFile(str(error)) from None
        changes = result.changes
        if changes is None:
            return tree
        source = decode(tree.bytes, source_name=shown)
        maker = ProxyMaker(changes.alias, settings, source.can_encode)
        transformer = ProxyTransformer(maker, changes.proxies, changes.import_place)
        if not tree.has_trailing_newline:
            tree = tree.with_changes(has_trailing_newline=True)
        changed = transform(tree, transformer)
        comment = emit.render_source_comment(
            files.recorded_name(shown),
            hashlib.sha256(result.original).hexdigest(),
            [each.spelled for each in transformer.additions(changed)],
            had_final_newline=source.has_final_newline,
        )
        return changed.with_changes(footer=[*changed.footer, cst.EmptyLine(indent=False, comment=cst.Comment(comment))])


def _instrument(content: bytes, settings: Settings, shown: str) -> Result:
    """What `instrument` gives for a file; its project's files and packages are found in the same way."""
    name = files.recorded_name(shown)
    if shown == files.STDIN_NAME:
        return instrument_source(content, settings, source_name=name)
    path = Path(shown)
    script = files.Script(shown, name, content, path, path.parent)
    libraries = Libraries()
    folders = SearchPaths().packages(os.path.dirname(shown)).folders  # noqa: PTH120
    roots = libraries.search.roots(str(files.project_directory(script)))
    sources = Sources(files.read_siblings(script), roots, libraries.at(folders, None), libraries.units)
    return instrument_source(content, settings, source_name=name, sources=sources)
