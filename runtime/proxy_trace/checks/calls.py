"""Checks that every module was called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.checks.check import Check, Sight
from proxy_trace.checks.evidence import is_recorded, is_sampled, of
from proxy_trace.checks.finding import NOTE, WARNING
from proxy_trace.checks.rule import Rule

if TYPE_CHECKING:
    from proxy_trace.checks.evidence import Evidence
    from proxy_trace.checks.finding import Finding
    from proxy_trace.process.module_tree import ModuleTree
    from proxy_trace.process.process_summary import ModuleSummary, ProcessEvidence, ProcessSummary

_UNCALLED: Final = frozenset(
    {"ModuleList", "ModuleDict", "ParameterList", "ParameterDict", "NonDynamicallyQuantizableLinear"}
)
"""Types of torch that are never called: containers, and the last projection of `nn.MultiheadAttention`."""

NEVER_CALLED: Final = Rule(
    "never-called",
    WARNING,
    "Modules never called",
    "A module of a traced model has parameters or buffers, and neither it nor any module below it was ever called. "
    "Modules that compiled code may have called, modules whose class bypasses PyTorch's hooks, modules below one of "
    "which no call returned, and steps that were not recorded are not judged.",
    "Check whether `forward` was meant to use it: a layer may be left out, a name misspelt, or `forward` called "
    "directly. If it is not needed, delete it.",
    "show {run} --kind call_module",
    explains=("never-updated", "untrained", "frozen"),
)
UNCALLED: Final = Rule(
    "uncalled",
    NOTE,
    "Modules never called, perhaps on purpose",
    "A module was never called, but training changed its parameters: another module uses them (tied weights, the "
    "projection of `nn.MultiheadAttention`), they are used as plain tensors, or `forward` is called directly. Or it "
    "has no parameters, like a dropout that fused attention performs itself. Or the module around it was not called "
    "either, and only its other parts are used. Or it is a template, of which the program calls copies. Or the run "
    "called no module and had no backward pass: it only created a model. Or the run was interrupted or failed, perhaps "
    "before it came to the model.",
)


def _look(evidence: Evidence) -> Sight:
    any_called = any(process.module_calls for process in evidence.processes)
    findings: list[Finding] = []
    for of_process, tree in zip(evidence.of_processes, evidence.trees, strict=True):
        process = of_process.process
        # A process that only holds the model is not judged, unless there is no other.
        if process.module_calls or not (any_called or process.is_empty):
            findings += _never_called(of_process, tree, evidence)
    if evidence.is_quiet or not (any_called or findings):
        return Sight(findings, _unseen(evidence) or ["no call of a module was traced"], has_looked=False)
    return Sight(findings, _unseen(evidence))


def _unseen(evidence: Evidence) -> list[str]:
    """Why some modules may have been called although the trace has no call of them."""
    uncalled = []
    for of_rank in evidence.of_rank.values():
        called = {module.name for process in of_rank for module in process.modules if module.calls}
        uncalled += [
            module
            for process in of_rank
            for module in process.modules
            if not module.removed and module.name not in called
        ]
    unseen = evidence.level_words if any(not is_recorded(module) for module in uncalled) else []
    if any(map(is_sampled, uncalled)):
        unseen = [*unseen, *evidence.sampling_words]
    around = sum(not module.calls_seen for module in uncalled)
    if around:
        unseen = [*unseen, f"calls of {of(around, len(evidence.modules), 'module')} bypass PyTorch's hooks"]
    return [*unseen, *evidence.compiled_words] if uncalled else unseen


def _never_called(of_process: ProcessEvidence, tree: ModuleTree, evidence: Evidence) -> list[Finding]:
    """The topmost modules that were not called, nor anything below them, in any process of their rank.

    A worker may inherit models that only its parent or another worker calls. Calls in compiled code are not seen, so
    nothing below a compiled module is judged; and compiled functions may call whatever has been trained. A module whose
    calls bypass the hooks is not judged, nor are the modules above it. Nothing below a module is judged if none of its
    calls returned: the run may have ended in the first.
    """
    process = of_process.process
    of_rank = evidence.of_rank[process.rank]
    unseen = {
        module.name
        for module in process.modules
        if not is_recorded(module) or is_sampled(module) or not module.calls_seen
    }
    above_unseen = tree.with_those_above(unseen)
    with_state = {tensor.module for tensor in process.tensors}
    roots = [
        root
        for root in tree.roots
        # A model without registered parts keeps them in plain containers, and they are called directly.
        if not root.removed and (root.calls or tree.children(root) or root.id in with_state)
    ]
    trained = tree.with_those_above(name for each in of_rank for name in _names_of_updated(each))
    if not process.module_calls:
        if process.calls_compiled_functions:
            return []
        return [
            rule.finding(root.name, reason, [process.rank], tree.size(root), place=root.origin, concerns=[root.name])
            for root in roots
            if root.id not in above_unseen
            for rule, reason in [_rule_for_root(root, process, trained)]
        ]
    called = tree.with_those_above(module.name for each in of_rank for module in each.modules if module.calls)
    holding = {above.id for id_ in with_state for above in tree.upwards(id_)}
    has_ended_early = process.end not in ("exit", "unproxied")
    copied, snapshots = _templates(process, tree), _snapshots(process, tree)
    found = []
    pending = list(reversed(roots))
    while pending:
        module = pending.pop()
        below = [child for child in tree.children(module) if not child.removed]
        is_own = module.id in trained or tree.is_root(module)
        if module.is_compiled or (process.calls_compiled_functions and is_own and module.id not in called):
            continue  # Calls in compiled code are not seen.
        if module.calls and module.ended == module.raised:
            continue  # The run may have ended before `forward` came to them.
        if module.id in called or module.id in above_unseen:
            pending.extend(reversed(below))
        elif below or module.type not in _UNCALLED:
            rule, reason = _rule_for(module, tree, trained, holding, has_ended_early=has_ended_early)
            if rule is NEVER_CALLED and module.id in copied:
                rule, reason = UNCALLED, "it is a template: a model that was created later began with its values"
            elif rule is NEVER_CALLED and module.id in snapshots:
                rule, reason = UNCALLED, "it is a copy of a model in training"
            found.append(
                rule.finding(
                    module.name, reason, [process.rank], tree.size(module), place=module.origin, concerns=[module.name]
                )
            )
    return found


def _rule_for_root(root: ModuleSummary, process: ProcessSummary, trained: set[int]) -> tuple[Rule, str]:
    """The rule for a model of a process that called no module, and the reason."""
    if root.id in trained:
        return (
            UNCALLED,
            "no module was ever called, but its parameters were updated: perhaps `forward` is called directly",
        )
    if not process.backward_passes:
        return UNCALLED, "no module was called, and nothing was trained"
    return NEVER_CALLED, "no module was ever called (perhaps its forward is called directly)"


def _rule_for(
    module: ModuleSummary, tree: ModuleTree, trained: set[int], holding: set[int], *, has_ended_early: bool
) -> tuple[Rule, str]:
    """The rule for a module that was not called, and the reason.

    Args:
        module: the module.
        tree: the modules of its process.
        trained: the modules that training changed, and those above them.
        holding: the modules with parameters or buffers, and those above them.
        has_ended_early: whether the run failed, or was interrupted or killed.
    """
    if not _is_around_called(module, tree):
        return UNCALLED, "neither it nor the module around it was called; only other parts of the latter are used"
    if module.id in trained:
        return UNCALLED, "its parameters were updated: another module uses them, or provides them"
    if module.id not in holding:
        return UNCALLED, "it has no parameters, and something else may do its work"
    if tree.is_root(module) and has_ended_early:
        return UNCALLED, "not called before the run ended early"
    return NEVER_CALLED, "never called"


def _templates(process: ProcessSummary, tree: ModuleTree) -> set[int]:
    """The uncalled roots of which a later root that was called is a copy: it began with all of their random values."""
    values: dict[int, set[tuple[str, str]]] = {}
    for tensor in process.tensors:
        first, root = tensor.first, tree.root_of(tensor.module)
        if first is not None and first.bits is not None and first.minimum != first.maximum:
            values.setdefault(root, set()).add((tensor.type, first.bits))
    called = [root.id for root in tree.roots if root.calls and root.id in values]
    return {
        root.id
        for root in tree.roots
        if not root.calls and root.id in values
        if any(other > root.id and values[root.id] <= values[other] for other in called)
    }


def _snapshots(process: ProcessSummary, tree: ModuleTree) -> set[int]:
    """The roots that began with the values of another model after training had changed these."""
    of_roots: dict[int, list[bool]] = {}
    for tensor in process.tensors:
        if not tensor.is_buffer:
            of_roots.setdefault(tree.root_of(tensor.module), []).append(tensor.is_snapshot)
    return {root for root, are_snapshots in of_roots.items() if all(are_snapshots)}


def _is_around_called(module: ModuleSummary, tree: ModuleTree) -> bool:
    """Whether the nearest module around one, except containers, was called, so that its `forward` skipped this one."""
    above = [each for each in tree.upwards(module.id) if each.id != module.id and each.type not in _UNCALLED]
    return not above or bool(above[0].calls) or not above[0].calls_seen


def _names_of_updated(process: ProcessSummary) -> set[str]:
    """The modules whose own parameters training has changed."""
    updated = {tensor.module for tensor in process.tensors if tensor.has_changed and not tensor.is_buffer}
    return {module.name for module in process.modules if module.id in updated}


CHECK: Final = Check("calls", "every module was called", _look, (NEVER_CALLED, UNCALLED))
