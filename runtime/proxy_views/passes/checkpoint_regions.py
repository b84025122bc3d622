"""Puts the activation checkpoints of a program back into its graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy_views.passes.outline import REGION, outline_nodes

if TYPE_CHECKING:
    from torch import fx


def checkpoint_regions(gm: fx.GraphModule) -> fx.GraphModule:
    """Make a sub-graph of each checkpoint, which is computed again in the backward pass; gives `gm` back, changed.

    A node that ran in a checkpoint has `meta["checkpoint_region"]`: `(0,)` in the first one, `(0, 1)` in the second one
    within that. It comes into the sub-`GraphModule` `checkpoint_0`, or into `checkpoint_0_1` within it, which
    `torch.utils.checkpoint.checkpoint` calls; `meta["checkpoint_reentrant"]` says of each whether it is reentrant.
    Sub-graphs work on the tensors and modules of `gm`, and register none.

    Raises:
        RegionError: if what lies between the nodes of a checkpoint is not in it, and has to be.
    """
    outline_nodes(gm, {node: node.meta[REGION] for node in gm.graph.nodes if node.meta.get(REGION)})
    return gm
