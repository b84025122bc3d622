"""Adds the compiled `one_pass.c` to a wheel, or, for an editable installation, to the source tree.

Where it cannot be compiled the wheel is one for any platform, and works.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.builders.wheel import WheelBuilderConfig


class CompiledOnePass(BuildHookInterface[WheelBuilderConfig]):
    """The hook that hatchling calls around the building of a wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and enter the library into what the wheel is to hold."""
        sys.path.insert(0, self.root)
        from scripts.compile_one_pass import LIBRARY, SOURCE, compile_one_pass

        if version == "editable":
            compile_one_pass(SOURCE.parent)
            return
        self._folder = tempfile.TemporaryDirectory()
        made = compile_one_pass(Path(self._folder.name))
        if made is None:
            return
        build_data["force_include"][str(made)] = f"proxy_wrapper/values/native/{LIBRARY}"
        build_data["pure_python"] = False
        # It is loaded by ctypes, and so is as good for any other Python.
        builder: Any = self.build_config.builder  # A WheelBuilder: the configuration knows it as any builder.
        build_data["tag"] = "py3-none-" + builder.get_best_matching_tag().rpartition("-")[2]

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove what was compiled for the wheel."""
        if version != "editable":
            self._folder.cleanup()
