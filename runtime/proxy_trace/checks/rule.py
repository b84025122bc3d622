"""Rules: the kinds of findings, with code, severity and remedy."""

from __future__ import annotations

from typing import Final, NamedTuple

from proxy_trace.checks.finding import ERROR, NOTE, WARNING, Finding

SEVERITIES: Final = (ERROR, WARNING, NOTE)
"""From the most to the least severe."""


class Rule(NamedTuple):
    """A kind of finding.

    Attributes:
        code: its stable name, in lower case with hyphens.
        severity: "error" for what is wrong, "warning" for what looks wrong, "note" for what is worth knowing.
        title: what all its findings have in common, as a heading.
        meaning: what it says about a run, what it requires of the trace, and when it applies, with thresholds.
        remedy: what to do, as an imperative sentence; "" for a note that needs no action.
        more: the arguments of `proxy-trace` that show more; `{run}` and `{name}` are filled in from the finding.
        counts: what `Finding.names` counts: "parameter" for parameters; "" if names are not counted.
        sources: public reports of the bug: URLs, or papers with title, venue and year.
        explains: the codes of its consequences, which are reported as its evidence.
    """

    code: str
    severity: str
    title: str
    meaning: str
    remedy: str = ""
    more: str = ""
    counts: str = ""
    sources: tuple[str, ...] = ()
    explains: tuple[str, ...] = ()

    def finding(
        self,
        name: str,
        reason: str,
        ranks: list[int],
        names: int = 1,
        *,
        step: int | None = None,
        time_us: int | None = None,
        place: str = "",
        trail: list[str] | None = None,
        evidence: list[str] | None = None,
        concerns: list[str] | None = None,
    ) -> Finding:
        """A finding of this kind; the arguments are the fields of `Finding`."""
        return Finding(
            code=self.code,
            severity=self.severity,
            name=name,
            reason=reason,
            ranks=ranks,
            names=names,
            step=step,
            time_us=time_us,
            place=place,
            trail=trail or [],
            evidence=evidence or [],
            remedy=self.remedy,
            concerns=concerns or [],
        )
