"""Packages in memory, for tests of what is found in installed ones."""

from __future__ import annotations

from textwrap import dedent

from instrumentor.resolve.installed import Module
from instrumentor.resolve.module_reader import read_facts


class PackagesInMemory:
    """Finds modules in a dict from paths such as `lib/net.py` to sources; remembers which were parsed."""

    def __init__(self, files: dict[str, str]) -> None:
        self._files = {path: dedent(source) for path, source in files.items()}
        self._modules: dict[str, Module | None] = {}
        self.parsed: list[str] = []

    def exists(self, name: str) -> bool:
        return self._path(name) is not None

    def find(self, name: str) -> Module | None:
        path = self._path(name)
        if name not in self._modules:
            self._modules[name] = None
            if path is not None:
                self.parsed.append(path)
                facts = read_facts(self._files[path].encode())
                self._modules[name] = Module(name, path, path.endswith("__init__.py"), facts)
        return self._modules[name]

    def mentions(self, name: str, word: str) -> bool:
        path = self._path(name)
        return path is not None and (word in self._files[path] or "import *" in self._files[path])

    def _path(self, name: str) -> str | None:
        plain = name.replace(".", "/")
        return next((path for path in (f"{plain}/__init__.py", f"{plain}.py") if path in self._files), None)
