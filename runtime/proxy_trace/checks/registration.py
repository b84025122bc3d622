"""Checks that called modules are part of the model that calls them.

A model does not know the modules in its plain lists and dictionaries: `parameters()`, `to()`, `train()` and
`state_dict()` skip them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.finding import ERROR
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.process.module_tree import ModuleTree
    from proxy_trace.process.process_summary import ModuleSummary, ProcessEvidence

NOT_REGISTERED: Final = Rule(
    "layers-not-registered",
    ERROR,
    "Layers that are not part of their model",
    "A model called a module that is not registered in it. The parameters of this module had gradients, but no "
    "optimizer has them and they never changed, while optimizer steps changed those of the model. A module that is "
    "kept separate on purpose, such as a teacher in a list, has no gradients.",
    "Keep the modules in an `nn.ModuleList` or `nn.ModuleDict`, or assign them as attributes in `__init__`.",
    "show {run} --kind module",
    sources=("https://github.com/pytorch/pytorch/issues/59925",),
    explains=("optimizer-misses-parameters", "never-updated", "untrained", "only-evaluated"),
)


def _look(evidence: Evidence) -> Sight:
    findings: list[Finding] = []
    for of_process, tree in zip(evidence.of_processes, evidence.trees, strict=True):
        findings += _unregistered(of_process, tree)
    if not any(process.module_calls for process in evidence.processes):
        return Sight((), evidence.level_words or ["no call of a module was traced"], has_looked=False)
    return Sight(findings)


def _unregistered(of_process: ProcessEvidence, tree: ModuleTree) -> list[Finding]:
    """The modules of one process that others call but do not contain, grouped by where they were proxied."""
    stepped = {tree.root_of(each.module) for each in of_process.process.tensors if each.is_stepped and each.has_changed}
    modules = {module.id: module for module in of_process.process.modules}
    found: dict[tuple[str, int], list[ModuleSummary]] = {}
    for inner, outer in of_process.acts.inner_roots.items():
        module = modules.get(inner)
        if module is None or module.removed or tree.root_of(outer) not in stepped or inner in stepped:
            continue
        own = [each for each in of_process.process.tensors if tree.root_of(each.module) == inner and not each.is_buffer]
        starved = [each for each in own if each.is_without_optimizer and not each.has_changed]
        if starved and not any(each.has_changed for each in own):
            found.setdefault((module.origin, outer), []).append(module)
    return [
        NOT_REGISTERED.finding(
            inner[0].name,
            f"{modules[outer].name if outer in modules else 'a model'} calls it, but does not contain it",
            [of_process.process.rank],
            len(inner),
            place=place,
            concerns=[each.name for each in inner],
        )
        for (place, outer), inner in found.items()
    ]


CHECK: Final = Check("registration", "modules that are called are part of the model", _look, (NOT_REGISTERED,))
