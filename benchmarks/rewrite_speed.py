"""Measures the cost of analysing a script as a multiple of parsing it.

    python benchmarks/rewrite_speed.py [--rounds N] [--site-packages DIR] [SCRIPT ...]

For every script: the CPU time of `instrument_source` (parsing, analysis, rewriting and the check of the result),
over the CPU time of `ast.parse` and `libcst.parse_module` of the same text plus `ast.parse` of every other file that
the analysis had to read. Both take turns, in one process, in another order every round; shown are the median ratio and
its range. The cache of modules is off, so that what is resolved is parsed anew each time; with it the same work is a
fraction. The cyclic collector is off during both, as it is in `instrument`. Without arguments the scripts are the
examples of this repository, joined to a thousand lines, the same with models of torchvision, timm, transformers and
segmentation_models_pytorch where these are installed, and modules of some thousand lines from the torch installed.
Scripts that hand their models through many files of their own project take more: what these do is analysed, too. Name
one to see.
"""

from __future__ import annotations

import argparse
import ast
import gc
import statistics
import sys
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import libcst

from instrumentor.instrument import instrument_source
from instrumentor.resolve.facts_cache import FactsCache
from instrumentor.resolve.installed_files import InstalledFiles
from instrumentor.resolve.module_facts import ModuleFacts
from instrumentor.resolve.project import Sources
from instrumentor.resolve.search_path import SearchPaths, package_folders
from instrumentor.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[1]
TARGET = 3.0
# Modules of the torch of today that make models, train them, or pass them around, in one file; those that are there
# are taken.
TORCH_MODULES = (
    "nn/utils/prune.py",
    "testing/_internal/common_fsdp.py",
    "testing/_internal/common_pruning.py",
    "testing/_internal/distributed/_tensor/common_dtensor.py",
)


# Models whose classes are read in the sources of packages.
LIBRARY_MODELS = b"""
import segmentation_models_pytorch, timm, torchvision, transformers
def library_models():
    resnet = torchvision.models.resnet50(weights=None)
    vit = timm.create_model("vit_small_patch16_224")
    bert = transformers.AutoModel.from_pretrained("bert-base-uncased")
    unet = segmentation_models_pytorch.Unet("resnet34")
    return resnet, vit, bert, unet
resnet, vit, bert, unet = library_models()
"""
LIBRARIES = ("segmentation_models_pytorch", "timm", "torchvision", "transformers")


class _NothingKept(FactsCache[ModuleFacts]):
    """A cache that finds nothing, and records what had to be read."""

    def __init__(self) -> None:
        super().__init__(Path(), "modules", "", ModuleFacts)
        self.read: list[bytes] = []

    def load(self, content: bytes) -> ModuleFacts | None:
        self.read.append(content)
        return None

    def store(self, content: bytes, facts: ModuleFacts) -> None:
        """Keep nothing."""


@dataclass
class Script:
    """A script and its surroundings."""

    name: str
    content: bytes
    directory: Path
    folders: list[Path]
    read: list[bytes] = field(default_factory=list)

    def analyse(self) -> None:
        """Do the measured work."""
        cache = _NothingKept()
        self.read = []
        sources = Sources(
            self._read_sibling, SearchPaths().roots(str(self.directory)), InstalledFiles(self.folders, cache)
        )
        instrument_source(self.content, Settings(), source_name=self.name, sources=sources)
        self.read += cache.read

    def parse(self) -> None:
        """Do the work to compare with."""
        ast.parse(self.content)
        libcst.parse_module(self.content)
        for content in self.read:
            ast.parse(content)

    def _read_sibling(self, relative: str) -> bytes | None:
        path = self.directory / relative
        content = path.read_bytes() if path.is_file() else None
        if content is not None:
            self.read.append(content)
        return content


def join_examples(lines: int) -> bytes:
    """The examples of this repository, concatenated repeatedly up to `lines` lines."""
    sources = [path.read_text() for path in sorted((ROOT / "examples").glob("*.py")) if "instrumented" not in path.name]
    joined = ""
    while joined.count("\n") < lines:
        for source in sources:
            joined += source.replace("from __future__ import annotations\n", "")
    return joined.encode()


def find_scripts(named: list[Path], folders: list[Path]) -> list[Script]:
    """The scripts to measure."""
    if named:
        return [Script(str(path), path.read_bytes(), path.resolve().parent, folders) for path in named]
    torch_folder = next((folder / "torch" for folder in folders if (folder / "torch").is_dir()), None)
    joined = join_examples(1_000)
    found = [Script("examples, joined", joined, ROOT / "examples", folders)]
    if all(any((folder / name).is_dir() for folder in folders) for name in LIBRARIES):
        found.append(Script("the same with models of libraries", joined + LIBRARY_MODELS, ROOT / "examples", folders))
    for module in TORCH_MODULES if torch_folder is not None else ():
        path = torch_folder / module if torch_folder is not None else Path()
        if path.is_file():
            found.append(Script(f"torch/{module}", path.read_bytes(), path.parent, folders))
    return found


def cpu_time(work: Callable[[], None]) -> float:
    """CPU seconds of one run."""
    gc.collect()
    gc.disable()
    start = time.process_time()
    work()
    spent = time.process_time() - start
    gc.enable()
    return spent


def measure(script: Script, rounds: int) -> tuple[list[float], list[float]]:
    """The ratios of some rounds, and the CPU seconds of the analysis in each."""
    script.analyse()  # finds out what must be read, and triggers late imports
    ratios, seconds = [], []
    for number in range(rounds):
        if number % 2:
            parsing, analysis = cpu_time(script.parse), cpu_time(script.analyse)
        else:
            analysis, parsing = cpu_time(script.analyse), cpu_time(script.parse)
        ratios.append(analysis / parsing)
        seconds.append(analysis)
    return ratios, seconds


def main() -> int:
    """Measure and print.

    Returns:
        1 if a median is above the target.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scripts", nargs="*", type=Path, metavar="SCRIPT")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--site-packages", type=Path, action="append", default=[], metavar="DIR")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    folders = package_folders(options.site_packages, None)
    medians = []
    print(f"{'script':58} {'lines':>6} {'read':>5} {'CPU ms':>7}  ratio (range)")
    for script in find_scripts(options.scripts, folders):
        ratios, seconds = measure(script, options.rounds)
        medians.append(statistics.median(ratios))
        lines = script.content.count(b"\n")
        print(
            f"{script.name[-58:]:58} {lines:6,} {len(script.read):5} {1000 * statistics.median(seconds):7.0f}"
            f"  {medians[-1]:.2f} ({min(ratios):.2f}-{max(ratios):.2f})",
            flush=True,
        )
    print(f"worst median {max(medians):.2f}, target at most {TARGET:g}")
    return int(max(medians) > TARGET)


if __name__ == "__main__":
    sys.exit(main())
