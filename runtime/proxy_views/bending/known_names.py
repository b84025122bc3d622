"""The names that the nodes of a trace have while such a call is repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from proxy_views.bending.errors import NotBendableError
from proxy_views.bending.node_names import NodeNames
from proxy_views.live_trace import LiveTrace
from proxy_views.steps import ModuleCall, TorchCall

if TYPE_CHECKING:
    from proxy_views.recording import Recording


def known_names(trace: LiveTrace) -> dict[str, str]:
    """For each name of a graph node, or of a module's output, its name during a call.

    The two differ if the graph has nodes for sizes, which are not recognised during a call.

    Raises:
        NotBendableError: if `trace` is not a trace.
        ViewError: if it has no graph.
    """
    if not isinstance(trace, LiveTrace):
        raise NotBendableError("trace", trace, "the result of `Proxy.trace`")
    recording, built = trace.recorded()
    of_results = _names_of_results(recording)
    found = {name: of_results[id(value)] for name, value in built.values.items() if id(value) in of_results}
    for qualified, nodes in built.outputs.items():
        plain = qualified.replace(".", "_")
        for number in range(len(nodes) if qualified else 0):
            names = (f"{plain}_{number}", f"{qualified}@{number}") if number else (plain,)
            for name in names:
                found.setdefault(name, name)
    return found


def _names_of_results(recording: Recording) -> dict[int, str]:
    """The name of each call that returned a tensor, by the tensor's `id`."""
    root = recording.steps[0]
    assert isinstance(root, ModuleCall)
    names = NodeNames(recording.model, recording.model.forward, root.args, root.kwargs, root.state)
    found: dict[int, str] = {}
    for step in recording.steps[1:]:
        if isinstance(step, TorchCall):
            name = names.of_call(step.function, step.args, step.kwargs, step.state)
            names.note_result(step.result)
            if name is not None and isinstance(step.result, torch.Tensor):
                found[id(step.result)] = name
    return found
