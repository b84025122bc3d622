"""Restores the activation checkpoints of a program in its graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy_views.passes.outline import REGION, outline_nodes

if TYPE_CHECKING:
    from torch import fx


def checkpoint_regions(gm: fx.GraphModule) -> fx.GraphModule:
    """Turn each checkpoint into a sub-graph that the backward pass recomputes. Changes and returns `gm`.

    A node that ran in a checkpoint has `meta["checkpoint_region"]`: `(0,)` in the first one, `(0, 1)` in the second one
    within that. It moves into the sub-`GraphModule` `checkpoint_0`, or `checkpoint_0_1` within it, which
    `torch.utils.checkpoint.checkpoint` calls. `meta["checkpoint_reentrant"]` says for each whether it is reentrant.
    Sub-graphs use the tensors and modules of `gm`, and register none.

    Raises:
        RegionError: if a node between the nodes of a checkpoint would have to be inside it.
    """
    outline_nodes(gm, {node: node.meta[REGION] for node in gm.graph.nodes if node.meta.get(REGION)})
    return gm
