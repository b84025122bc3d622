"""The rows of a profile: modules, calls of operations and of registered functions, and graph nodes."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["module", "operation", "function", "node"]


class ProfileRow(NamedTuple):
    """The cost of a module, an operation or a registered function.

    The values of a module are sums over everything called inside it, in all of its calls. Data shared by several
    tensors counts once, by address. Parameters and buffers only count in their own columns.

    Attributes:
        kind: "module", "operation" or "function"; "node" for a graph node, with the sums of its operations.
        name: the qualified name of a module, "" for the model; the name of a node; for a call, the enclosing module,
            what is called, and from the second such call on its number ("conv1.convolution", "relu_1").
        type: the class of the module ("Conv2d"), the operation ("aten.convolution"), the name of the function, or the
            target of the node.
        module: the module itself, or the enclosing one; None outside of the model.
        calls: how often a module was called; 1 for a call.
        recomputed_calls: how many of these an activation checkpoint recomputed. They count as forward.
        forward_flops: the FLOPs of the forward pass; None if the operation has no formula.
        backward_flops: the FLOPs of the backward passes; None if no operation in them has a formula.
        saved_bytes: the bytes that it saved for the backward pass and that were not saved already.
        accumulated_bytes: the bytes saved for the backward pass after it, including its outputs that are saved later.
            So the next row may have less.
        output_bytes: its outputs that are saved for the backward pass, by itself or later.
        temporary_bytes: its other outputs.
        parameter_bytes: the parameters of a module and those inside it; for a call, those among its inputs.
        buffer_bytes: its buffers, likewise.
        input_gradient_bytes: the size of its inputs, which is that of their gradients, if they have any.
        is_alias: whether all its outputs lie in memory of its inputs.
        forward_s: the time of its operations in the forward pass, in seconds. On an accelerator, which runs them later,
            it is the time to launch them.
        backward_s: the time of the backward passes, likewise.
        communicated_bytes: the bytes passed to collectives.
        device_forward_s: the time of the forward pass, computed from the rates of a `Device`; None without one, and for
            operations without a formula.
        device_backward_s: the time of the backward passes, likewise.
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
        """Whether an activation checkpoint recomputed the call; for a module, any of its calls."""
        return self.recomputed_calls > 0
