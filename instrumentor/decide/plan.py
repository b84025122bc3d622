"""All decisions about one script, and what is written for them."""

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
        name: what the object is called in the trace.
    """

    placement: Placement
    name: str


@dataclass(frozen=True)
class Plan:
    """All that was decided about one script.

    Attributes:
        decisions: what is told to the user.
        wraps: what is written.
        wrapped: the sites whose objects these proxies get.
    """

    decisions: tuple[Decision, ...]
    wraps: tuple[Wrap, ...]
    wrapped: frozenset[SiteKey] = frozenset()
