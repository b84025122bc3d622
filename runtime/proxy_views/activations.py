"""Views of a recorded call: its activations by name, its nodes as a table, and statistics of its parameters."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from proxy_wrapper.values.value_marks import version_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from proxy_views.graph import Built
    from proxy_views.recording import Recording


class Activations(dict[str, torch.Tensor]):
    """Tensors by name.

    Attributes:
        overwritten: the names of tensors left out because their values were changed in place later.
    """

    overwritten: tuple[str, ...] = ()

    @classmethod
    def of(cls, built: Built, pattern: re.Pattern[str]) -> Activations:
        """The tensors of the nodes and modules whose full names match `pattern`."""
        found, overwritten = cls(), []
        computed = [node.name for node in built.module.graph.nodes if node.op not in ("get_attr", "output")]
        names = {name: name for name in computed if name in built.values}
        for qualified, nodes in built.outputs.items():
            for count, node in enumerate(nodes):
                names.setdefault(f"{qualified}@{count}" if count else qualified, node.name)
        for name, node_name in names.items():
            if not name or pattern.fullmatch(name) is None:
                continue
            tensor = built.values[node_name]
            if built.versions.get(node_name, -1) != -1 and built.versions[node_name] != version_of(tensor):
                overwritten.append(name)
            else:
                found[name] = tensor
        found.overwritten = tuple(overwritten)
        return found


class Table:
    """Rows of words under headings, in aligned columns."""

    def __init__(self, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        self._rows = [tuple(headings), *(tuple(row) for row in rows)]

    def __str__(self) -> str:
        widths = [max(map(len, column)) for column in zip(*self._rows, strict=True)]
        lines = ["  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)) for row in self._rows]
        return "\n".join(line.rstrip() for line in lines)

    def write(self, out: str | Path | None) -> str:
        """The table as text. It is also written to the file `out`, if given."""
        text = str(self)
        if out is not None:
            Path(out).write_text(text + "\n", "utf-8")
        return text

    @classmethod
    def of(cls, built: Built, op: str | None, flt: str | None, exclude: str | None) -> Table:
        """The nodes of a graph with operation `op` whose full names match `flt` and do not match `exclude`."""
        rows = []
        for node in built.module.graph.nodes:
            if op is not None and node.op != op:
                continue
            if flt is not None and re.fullmatch(flt, node.name) is None:
                continue
            if exclude is not None and re.fullmatch(exclude, node.name) is not None:
                continue
            rows.append((node.name, node.op, _target(node.target), *_type_and_shape(node.meta)))
        return cls(("name", "op", "target", "type", "shape"), rows)


def _target(target: Any) -> str:
    return target if isinstance(target, str) else str(getattr(target, "__name__", target))


def _type_and_shape(meta: dict[str, Any]) -> tuple[str, str]:
    found: Any = meta.get("tensor_meta")
    if hasattr(found, "dtype"):
        return str(found.dtype).removeprefix("torch."), str(tuple(found.shape))
    if isinstance(found, tuple):
        return "tuple", ", ".join(str(tuple(each.shape)) for each in found)
    return ("int", "") if "val" in meta else ("", "")


class Weight(NamedTuple):
    """A parameter or buffer. The numbers are over all elements; NaN for an empty, complex or meta tensor."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    min: float
    max: float
    mean: float
    stddev: float


class Weights(list[Weight]):
    """Parameters and buffers; `str` gives a table."""

    def __str__(self) -> str:
        rows = [(each.name, str(each.shape), each.dtype, *(f"{number:.4g}" for number in each[3:])) for each in self]
        return str(Table(Weight._fields, rows))

    @classmethod
    def of(cls, recording: Recording, pattern: re.Pattern[str]) -> Weights:
        """Those of the model whose full names match `pattern`, with their current values."""
        found = recording.tensors.values()
        return cls(_weight(name, tensor.detach()) for name, tensor in found if pattern.fullmatch(name) is not None)


def _weight(name: str, tensor: torch.Tensor) -> Weight:
    shape, dtype = tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")
    numbers = [float("nan")] * 4
    if tensor.numel() and not tensor.is_complex() and not tensor.is_meta:
        values = tensor.double()
        numbers = [float(each) for each in (values.min(), values.max(), values.mean(), values.std(correction=0))]
    return Weight(name, shape, dtype, *numbers)
