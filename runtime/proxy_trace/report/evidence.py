"""Selects the curves shown beside a finding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from proxy_trace.report.process_curves import AT_LEAST, GRADIENT, LOSS, MAXIMUM, MINIMUM, NORM, RATE, RATIO

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy_trace.checks.finding import Finding

STATE: Final = "state"
_MOST: Final = 3
_OF_GRADIENTS: Final = frozenset({"gradient", "gradients", "grad"})
_UPDATE: Final = (RATIO, AT_LEAST)


class SeriesName(NamedTuple):
    """Something with curves: a parameter or buffer ("state"), a loss or a learning rate."""

    of: str
    name: str
    type: str = ""
    is_buffer: bool = False


class Plot(NamedTuple):
    """A small plot: the indices of its series, the kinds of values drawn, its title, and the step marked."""

    series: list[int]
    kinds: tuple[str, ...]
    title: str
    step: int | None


def plot_of(finding: Finding, series: Sequence[SeriesName]) -> Plot | None:
    """The plot beside a finding; None if nothing recorded relates to it.

    It shows what the finding names: a parameter, parameters below a module, or the rates of an optimizer. Otherwise it
    shows the loss, if the finding has a step or a place.
    """
    of_name = _of_name(finding, series)
    if of_name:
        kinds, title = _what_of(finding)
        names = ", ".join(series[number].name for number in of_name)
        return Plot(of_name, kinds, f"{title} of {names}", finding.step)
    rates = [number for number, each in enumerate(series) if each.of == RATE and _is_of(each.name, finding.name)]
    if rates and "rate" in finding.code:
        return Plot(rates[:_MOST], (RATE,), "learning rate", finding.step)
    losses = [number for number, each in enumerate(series) if each.of == LOSS]
    if losses and (finding.step is not None or finding.place):
        return Plot(losses[:_MOST], (LOSS,), "loss", finding.step)
    return None


def _of_name(finding: Finding, series: Sequence[SeriesName]) -> list[int]:
    """The parameters of a finding: the one it names, else the first ones below the module it names."""
    exact = [number for number, each in enumerate(series) if each.of == STATE and each.name == finding.name]
    if exact:
        return exact
    below = f"{finding.name.removesuffix('.*')}."
    found = [number for number, each in enumerate(series) if each.of == STATE and each.name.startswith(below)]
    parameters = [number for number in found if not series[number].is_buffer]
    return (parameters or found)[:_MOST]


def _is_of(line: str, optimizer: str) -> bool:
    return line == optimizer or line.startswith((f"{optimizer},", f"{optimizer} "))


def _what_of(finding: Finding) -> tuple[tuple[str, ...], str]:
    """The values of a parameter that say most about a finding, and their title."""
    words = {*finding.code.split("-"), *finding.reason.replace(":", " ").split()}
    if finding.code == "never-updated":
        return (NORM,), "norm"
    if words & _OF_GRADIENTS:
        return (GRADIENT,), "gradient norm"
    if words & {"update", "updates"}:
        return _UPDATE, "update / weight"
    if words & {"minimum", "maximum"}:
        return (MINIMUM, MAXIMUM), "extremes"
    return (NORM,), "norm"
