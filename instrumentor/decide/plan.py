"""All decisions about one script, and the proxies to write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from instrumentor.analysis.placement import Placement
    from instrumentor.analysis.values import SiteKey
    from instrumentor.decision import Decision


class Wrap(NamedTuple):
    """One proxy to be written.

    Attributes:
        placement: where.
        name: the object's name in the trace.
    """

    placement: Placement
    name: str


@dataclass(frozen=True)
class Plan:
    """The decisions about one script.

    Attributes:
        decisions: what is reported to the user.
        wraps: the proxies to write.
        wrapped: the sites whose objects get these proxies.
    """

    decisions: tuple[Decision, ...]
    wraps: tuple[Wrap, ...]
    wrapped: frozenset[SiteKey] = frozenset()
