"""The rows of a profile: for modules, for calls of operations and of registered functions, and for nodes of graphs."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["module", "operation", "function", "node"]


class ProfileRow(NamedTuple):
    """What a module, an operation or a registered function takes.

    Those of a module are the sums of all that is called inside it, in all of its calls. Data that several tensors share
    counts once, by its address; parameters and buffers are left out of all bytes but their own.

    Attributes:
        kind: "module", "operation" or "function"; "node" for one of a graph, which has the sums of its operations.
        name: of a module its qualified name, "" for the model; of a call the module that it is made in, what is called,
            and from the second one on its number there ("conv1.convolution", "relu_1"); of a node its own.
        type: the class of the module ("Conv2d"), the operation ("aten.convolution"), the name of the function, the
            target of the node.
        module: the module that it is, or is made in; None outside of the model.
        calls: how often a module was called; 1 for a call.
        recomputed_calls: how many of these an activation checkpoint has made again. They count as forward.
        forward_flops: in the forward pass; None if there is no formula for the operation.
        backward_flops: in the backward passes; None if there is no formula for any operation in them.
        saved_bytes: what it has kept for the backward pass that was not kept already.
        accumulated_bytes: what is kept for the backward pass once it has run, its own outputs that are kept at any time
            included. So it may be less in the next row.
        output_bytes: its outputs that are kept for the backward pass, by itself or by what comes later.
        temporary_bytes: its outputs that are not.
        parameter_bytes: the parameters of a module, with those inside it; of a call, those that it is given.
        buffer_bytes: the same of buffers.
        input_gradient_bytes: its inputs: the size that their gradients have, or would have.
        is_alias: whether all that it gives back lies in memory that it was given.
        forward_s: how long its operations took in the forward pass, in seconds. On an accelerator, which runs them
            later, it is the time to hand them over.
        backward_s: the same of the backward passes.
        communicated_bytes: what collectives were given to send.
        device_forward_s: the time of the forward pass computed from the rates of a `Device`; None without one, and of
            operations without a formula.
        device_backward_s: the same of the backward passes.
    """

    kind: Kind
    name: str
    type: str
    module: str | None
    calls: int
    recomputed_calls: int
    forward_flops: int | None
    backward_flops: int | None
    saved_bytes: int
    accumulated_bytes: int
    output_bytes: int
    temporary_bytes: int
    parameter_bytes: int
    buffer_bytes: int
    input_gradient_bytes: int
    is_alias: bool
    forward_s: float
    backward_s: float
    communicated_bytes: int
    device_forward_s: float | None
    device_backward_s: float | None

    @property
    def is_recomputed(self) -> bool:
        """Whether an activation checkpoint has made the call again; of a module, any of its calls."""
        return self.recomputed_calls > 0
