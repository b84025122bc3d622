"""Events as frozen values that hold no tensor: one class for each kind of event.

An event is also its record in a trace: `msgspec` writes each as a JSON object whose `kind` names the class. Fields at
their default are omitted. Reading a trace therefore needs only this module, which does not import torch.

Kinds have the names of `torch.fx` node kinds where those exist (`call_module`, `call_function`, `call_method`,
`get_attr`). Parameters and buffers are named by the root module's name and their `state_dict` name.

Three tables keep the events small. `Module`, `Parameter`/`Buffer`/`OptimizerState` and `Location` events define an `id`
before any event refers to it. A later definition of the same id replaces the earlier one (a module found to be part of
a larger one gets its longer name). Ids count from 1; 0 means "none" in every reference.

Other tensors are numbered when they are first seen. `input_ids`, `output_ids` and the like hold one number for each
tensor described beside them. A tensor keeps its number as long as it lives, and numbers are never reused; 0 stands for
a tensor of the model's state, which is identified by its name. Numbers relate the output of one call to the inputs of
later calls, but not the tensors of one iteration to those of the next. Places do that. The variable that a call
produces is identified by the call's `location`, its target, and its `ordinal` among the calls of that target at that
location within one call of the enclosing module (outside all modules: since the last call of a root or the last
optimizer step).

Writers use tuples for sequences, because the garbage collector soon untracks a tuple of strings or numbers. It would
traverse every list that waits to be written, again and again. Readers get lists.
"""

from __future__ import annotations

import math
from collections.abc import Sequence  # noqa: TC003  msgspec looks the types of fields up.
from typing import Annotated, Final, Literal, TypeAlias, Union

import msgspec

FORMAT = 1
"""The number of this record format; a reader refuses a trace with a higher one."""

Number: TypeAlias = float | Literal["nan", "inf", "-inf"]
"""A finite float, or the name of one that JSON cannot write as a number."""

# Traces are untrusted data: whatever these types refuse is not a record. They are checked on reading, never on writing.
# Integers stay within the exact range of a float64, because many JSON readers have nothing wider.
_LARGEST: Final = 2**53

Whole: TypeAlias = Annotated[int, msgspec.Meta(ge=-_LARGEST, le=_LARGEST)]
"""A whole number, such as a time."""

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=_LARGEST)]
"""A count, or a reference to an id (0 for none)."""

Id: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=_LARGEST)]
"""An id, in the event that defines it."""

Ranks: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**20)]
"""A rank, or the number of ranks."""

RankSpans: TypeAlias = Annotated[
    str, msgspec.Meta(pattern=r"\A(([0-9]{1,7}(-[0-9]{1,7})?)(,[0-9]{1,7}(-[0-9]{1,7})?)*)?\Z")
]
"""Ranks and spans of ranks, such as "0,8-15"; "" for all."""

RunName: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9_+=.-]{0,99}\Z")]
"""The name of a run, which is used in names of folders and files; see `launch.new_run_name`."""


def as_number(value: float) -> Number:
    """The value in a form that JSON can hold."""
    if math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


Setting: TypeAlias = bool | Annotated[int, msgspec.Meta(ge=-_LARGEST, le=_LARGEST)] | float | str | None
"""The value of a setting, such as one of torch's."""

TRAIN: Final = "train"
EVAL: Final = "eval"
"""The default stages, which follow the mode of the model."""


class Statistics(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Reductions over all elements of a tensor.

    `minimum` and `maximum` follow torch's ordering (a NaN anywhere gives "nan"), and cover the real and imaginary parts
    of complex tensors. Both are None for a tensor without elements. `norm` is the L2 norm, accumulated in at least
    float32. `nonfinite` counts elements that are NaN or infinite. `bits` is a fingerprint of the bytes of all elements,
    16 hexadecimal digits. It is the same on every machine and device and for any number of threads, so it alone decides
    whether values are equal. It is None if unknown: in older traces, and for values that could not be read.
    """

    minimum: Number | None = None
    maximum: Number | None = None
    norm: Number | None = None
    nonfinite: Count = 0
    bits: str | None = None


def have_same_values(first: object, second: object) -> bool:
    """Whether both are `Statistics`, and their `bits` are known and equal."""
    return (
        type(first) is Statistics
        and type(second) is Statistics
        and first.bits is not None
        and first.bits == second.bits
    )


class Event(
    msgspec.Struct,
    frozen=True,
    gc=False,
    omit_defaults=True,
    tag_field="kind",
    tag=lambda name: "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_"),
):
    """The base of all events. `kind` in a record is the class name in snake case."""


class Run(Event, frozen=True, gc=False):
    """The first record of every file: what ran. `started` is UTC, ISO 8601; times in events are relative to it.

    `ranks` are the ranks chosen to write a trace (`--ranks`), as far as known when the file was opened. `compiled`
    tells whether tensors on the CPU were read by the compiled `one_pass.c`; None in older traces.
    """

    format: Whole
    run: RunName
    started: str
    pid: Count
    script: str
    argv: list[str]
    python: str
    torch: str
    version: str
    rank: Ranks = 0
    world_size: Ranks = 1
    parent_pid: Count = 0
    ranks: RankSpans = ""
    compiled: bool | None = None


class Location(Event, frozen=True, gc=False):
    """Defines a place in user code. For an instrumented script, `file` and `line` refer to the original file.

    `caller` is the location that called the function, up to the enclosing module call; 0 if there is none.
    """

    id: Id
    file: str
    line: Whole
    function: str
    caller: Count = 0


class Module(Event, frozen=True, gc=False):
    """Defines a proxied module. `name` is the root's name or `<root>.<qualified name>`; `type` is its class.

    `parent` is the id of its parent module, and `root` that of its root (its own id for a root). `parameters` counts
    the elements of all parameters in it and its submodules. `time_us` is when it was proxied. The first `first`
    iterations are recorded, then every `every`-th. `calls_seen` is false if its class has its own `__call__`, which may
    bypass PyTorch's hooks. `removed`: its model no longer contained it when the trace was last written out.
    `module_of_type` is the Python module that defines its class ("torch.nn.modules.linear"); "" in older traces. `made`
    is the location where the `__init__` of an enclosing module assigns it, if known. `settings`, for modules of
    PyTorch, are the numbers, booleans and short strings it was created with ("p", "momentum"), as of this definition.
    `repeated` is the number of positions of a container that all hold one module, which `__init__` creates once and
    multiplies (`[Block()] * 4`); else 0.
    """

    id: Id
    name: str
    type: str
    root: Count
    parent: Count = 0
    level: str = "INFO"
    parameters: Count = 0
    location: Count = 0
    time_us: Whole = 0
    first: Count = 0
    every: Count = 1
    calls_seen: bool = True
    removed: bool = False
    module_of_type: str = ""
    made: Count = 0
    settings: dict[str, Setting] = msgspec.field(default_factory=dict)
    repeated: Count = 0


class StateTensor(Event, frozen=True, gc=False):
    """Defines a tensor of the model's state (`Parameter`, `Buffer`) or of an optimizer's state (`OptimizerState`).

    `name` is the root's name and the `state_dict` name. `aliases` are other names of the same tensor (tied weights).
    `module` is the module that holds it. `type` is as in `describe`: "float32[32, 1, 3, 3]". `watched` says whether its
    updates and gradients are recorded, as chosen by `include` and `exclude`. `placements` says how a `DTensor` is
    distributed over the ranks: "Replicate()", or "Shard(0)[1/4]" on the rank with the second of four shards along
    dimension 0. Its statistics are those of the local shard. `removed`: the model no longer had a tensor of this name
    when the trace was last written out. `freed`: the parameter had a single gradient and no optimizer, and the model
    was freed before it could be seen whether the parameter changed. `filled`, for a matrix whose elements all equal one
    number, is the location of the only line where the `__init__` of an enclosing module fills tensors; for a matrix of
    zeros, of the line there that names the matrix, or its layer.
    `derived`: the program computed the tensor from others and put it in the place of a parameter, as in the copies of
    a model whose inner steps MAML differentiates.
    """

    id: Id
    name: str
    module: Count
    type: str
    device: str = "cpu"
    requires_grad: bool = False
    aliases: Sequence[str] = ()
    statistics: Statistics | None = None
    time_us: Whole = 0
    watched: bool = True
    placements: str = ""
    removed: bool = False
    freed: bool = False
    filled: Count = 0
    derived: bool = False


class Parameter(StateTensor, frozen=True, gc=False):
    """Defines a parameter, with its statistics at the time it was first seen."""


class Buffer(StateTensor, frozen=True, gc=False):
    """Defines a buffer, with its statistics at the time it was first seen."""


class OptimizerState(StateTensor, frozen=True, gc=False):
    """Defines a tensor that an optimizer keeps for a parameter: an average of its gradients, a count of its steps.

    `name` is the parameter's name, a dot, and the key in the optimizer's state: "model.fc.weight.exp_avg". If several
    optimizers keep a tensor for one parameter under one key, a number is appended ("model.fc.weight.exp_avg_1").
    `parameter` is the id of the parameter, `module` the module that holds the parameter, and `optimizer` the
    optimizer's class. `aliases` are names for the other parameters that share the tensor. Statistics and `Update`
    events exist only with `statistics="all"`.
    """

    parameter: Count = 0
    optimizer: str = ""


class Happening(Event, frozen=True, gc=False):
    """The base of all events that happen at a point in time.

    `time_us` is microseconds since `Run.started`, `step` the number of optimizer steps completed so far, `module` the
    id of the innermost proxied module being called, and `location` the place in user code. `thread` is 0 for the main
    thread, else a number for each thread. `stage` is the name set with `Proxy.stage`, else "train" or "eval", the mode
    of the outermost proxied module that this thread called last.
    """

    time_us: Whole
    step: Count = 0
    module: Count = 0
    location: Count = 0
    thread: Count = 0
    stage: str = TRAIN


class CallModule(Happening, frozen=True, gc=False):
    """A proxied module is called. `inputs` describes the tensors among its arguments, in order.

    `compiled`: it was compiled in place by its `compile()`, and calls inside it are not seen. `no_grad`: it is the
    outermost module, and autograd was off, as under `torch.no_grad()`. `around`: it is the outermost module, is in
    training mode, and is (part of) the model of a `DistributedDataParallel` that was bypassed. `discarded`, only with
    `no_grad` in training mode: the statement that calls it drops the result, so only running statistics change.
    """

    inputs: Sequence[str] = ()
    training: bool = False
    input_ids: Sequence[Count] = ()
    ordinal: Count = 0
    compiled: bool = False
    no_grad: bool = False
    around: bool = False
    discarded: bool = False


class Input(Happening, frozen=True, gc=False):
    """The values of a floating-point tensor passed to `module`, an outermost module.

    `position` is its index among the inputs of the call, `type` its description, and `input_id` its number. Recorded
    only for the first few calls of a module in training mode, and for the first few in evaluation mode (`evaluation`)
    after these.
    """

    position: Count = 0
    type: str = ""
    input_id: Count = 0
    statistics: Statistics | None = None
    evaluation: bool = False


class ReturnModule(Happening, frozen=True, gc=False):
    """The call of a proxied module ended. `raised`: it raised an exception, and `outputs` is empty.

    `keywords` describes the tensors passed by keyword, which PyTorch's hooks only show at this point. `statistics` is
    None unless requested (`statistics="outputs"` or "all"). It then has an item for each of `outputs`, None for a
    tensor whose values could not be read. `cut_off`, for the first calls in training: none of `outputs` requires a
    gradient, although parameters of the module do.
    """

    outputs: Sequence[str] = ()
    duration_us: Count = 0
    raised: bool = False
    keywords: dict[str, str] = msgspec.field(default_factory=dict)
    output_ids: Sequence[Count] = ()
    keyword_ids: dict[str, Count] = msgspec.field(default_factory=dict)
    statistics: Sequence[Statistics | None] | None = None
    cut_off: bool = False


class Backward(Happening, frozen=True, gc=False):
    """A backward pass begins: `function` is "backward" or "grad", of `torch.autograd`.

    `loss_value` and `loss` are for a pass that accumulates gradients and is not nested in another one. `loss_value` is
    the value of its only input, if that is a single real number. `loss` is the id of the `Loss` event that says how it
    was computed, 0 if unknown. `create_graph`: its results can be differentiated again.
    """

    function: str = "backward"
    inputs: Sequence[str] = ()
    input_ids: Sequence[Count] = ()
    loss_value: Number | None = None
    loss: Count = 0
    create_graph: bool = False


class BackwardEnd(Happening, frozen=True, gc=False):
    """The backward pass ended. `raised`: it raised an exception."""

    duration_us: Count = 0
    raised: bool = False


class LossNode(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A node of the autograd graph: its name ("MseLossBackward0") and the shape of its forward result.

    `parent` is the index, in `Loss.nodes`, of the node that used this result; -1 for the first. `inside`: it was
    computed inside a root module, not after it.
    """

    name: str
    shape: Sequence[Count] = ()
    parent: Whole = -1
    inside: bool = False


class LossCall(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A call of a loss function: its name in `torch.nn.functional`, and the location of the line."""

    function: str
    location: Count = 0


class Loss(Happening, frozen=True, gc=False):
    """A new way of computing a loss: the nodes of the autograd graph from the loss back to the model's outputs.

    `nodes` has the first 24 in breadth-first order, including a few inside the model. Different shapes count as a
    different way, and so do different places of the backward pass. The other fields are locations, 0 where they are not
    known. `made` is the statement that assigned the variable on which the backward pass was called. `computed` is the
    line that computed the value, in a function that this statement calls. Among the values that the loss comes from,
    `activated` is the only line in the code of the proxied modules that turns scores into probabilities, and `cut` the
    only line that cuts a tensor off the graph; for a loss of no model, the only line that begins another graph, by a
    tensor that is to require a gradient. `calls` are the calls of loss functions on which `computed` depends, in the
    same function.
    """

    id: Count = 0
    nodes: Sequence[LossNode] = ()
    made: Count = 0
    computed: Count = 0
    activated: Count = 0
    cut: Count = 0
    calls: Sequence[LossCall] = ()


class GraphPattern(Happening, frozen=True, gc=False):
    """A pattern in the autograd graph of a loss, found in the first backward passes at a place.

    `what` names the pattern. Of computations:

    - "linear-linear": a linear layer whose output goes directly to another one, and nowhere else. `weights` are the ids
      of their weights, in order of execution. `values` is 1 if any linear layer in the graph follows an activation.
    - "softmax": over dimension `dim` of a tensor of `shape`. `made` is the location of the line that computes it, if
      `dim` is 0 and only one line of the modules' code computes a softmax over it.
    - "class-softmax": a softmax over the samples makes the probabilities of classes, of `shape`. `made` likewise.
    - "softmax-over-queries": a softmax over dimension `dim` of products of queries and keys, of `shape`, which are then
      summed over another dimension. `made` is the location of the only line of the modules' code with a softmax.
    - "self-similarity": a log-softmax over a matrix of `shape`, the products of vectors with themselves, not masked.
    - "view": of a tensor of `shape` (a, b, c), to (b, a * c). A view moves no element, so rows are mixed.
    - "heads-view": of queries and keys of `shape` (batch, tokens, features), split into `dim` heads as (batch, dim,
      tokens, features / dim) or (batch * dim, tokens, features / dim), which mixes the tokens.
    - "heads-merge": of the `dim` heads of an attention, of `shape` (batch, dim, tokens, features), as (batch, tokens,
      dim * features), which mixes the tokens.
    - "map-as-tokens": of a convolution's output of `shape` (batch, channels, ...), as (batch, positions, channels).
      For these three and for "view", `made` is the location of the line with the view, if there is only one.
    - "classes-view": a log-softmax of such a view, whose rows are as long as dimension 1 of `shape`.
    - "normal-draw": values of `shape` that `torch.normal` drew, through which no gradient passes. `made` is the
      location of the line that draws them, if there is only one.
    - "position-slice": `module` adds positions of `shape`, as many as dimension `dim` of its input has items. `made` is
      the location of that line. This is read from its code, once.
    - "half-threshold": the code that calls `module`, an outermost one, compares its output with 0.5, at `made`. This is
      read once for each place of a call. `values` is 1 if that code also passes the output to a binary cross entropy
      with logits. Else it is 0, and neither the code nor the layers of the module compute probabilities.
    - "count-broadcasts": the code that calls `module`, an outermost one, counts at `made` how often its output of
      `shape`, or the index of the largest score in each row, equals labels with the sizes in `values`: one has the
      shape [n], the other [n, 1]. This is read once for each place of a call.
    - "index-of-one-score": likewise, but the index is that of the largest score in each row of one, and so always 0.
    - "views-not-detached": each term of the loss compares what is predicted from one of two views, of `shape`, with the
      other one, and both have a gradient.
    - "norm-of-batch": a matrix of `shape` is divided by the norm of all its elements, and its rows are then compared.
    - "scale-is-variance": noise is scaled by an exponential of `shape`, which is the variance in a divergence.
    - "dice-of-scores": scores of `shape`, the output of a layer, are multiplied by a mask of zeros and ones, and the
      sum is divided by their own.
    - "error-not-detached": an error of `shape`, of which a critic has a loss, is multiplied by log-probabilities.

    For the last three, `made` is the line that computes it, if only one line may do so. Of derivatives:

    - "derivatives-unused": no later pass differentiated the results of eight followed passes at this place, which had
      `create_graph=True` and were with respect to parameters or to tensors computed from them. `made` is the line that
      led to the first pass, in a function that is still running.
    - "derivatives-used": a later pass did so after all.

    Of the inputs of a loss or an attention:

    - "token-targets": the targets are the tokens of `shape` that an embedding read, `dim` positions ahead. `values`: 1
      if some attention to these tokens sees no later ones, else 0; and the number of other texts that the model read.
    - "padding-targets": the targets end with that embedding's padding. `values`: how many are padding, of how many.
    - "padding-attended": an attention excludes all tokens except padding, whose index is in `values`. `made` is the
      location of the line that passes the mask, if there is only one.
    - "later-tokens-seen": the targets are the next tokens, and all attention to the tokens can see later ones.
    - "binary-targets": some are below -0.5 or above 1.5. `values`: the smallest and the largest.
    - "sign-targets": some are neither 1 nor -1 (for a soft margin loss: some are 0). `values`: how many, of how many.
    - "multi-hot-targets": targets of a cross entropy; some rows have several ones and some none. `values`: the number
      of rows with several ones, of rows with none, and of all rows.
    - "multi-hot-probabilities": likewise, of a binary cross entropy of a softmax in dimension `dim`. `made` is the
      location of the line that computes it, if there is only one.
    - "targets-as-scores": targets of `shape` have a gradient, and the scores of the cross entropy have none.
    - "classes-in-order": in two epochs the targets of a cross entropy were in ascending order. `values`: the number of
      batches of an epoch, the lowest class and the highest.
    - "last-step-padding": a model takes the last step, in dimension `dim`, of a recurrent layer's output for padded
      tokens. `values`: the number of sequences that end with padding, and of all. `made` is the location of the line
      that takes it, if there is only one.
    - "rounded": the parameters `weights` are behind an operation that is flat wherever it has a derivative, such as
      `round`. `made` is the location of the line that calls it, if there is only one.
    - "probability-lowered": log-probabilities of actions, times returns, are in the loss with a plus sign. `made` is
      the line that multiplies them.
    - "cut-term": a term of the loss has no gradient, and the line at `made` cut it off.
    - "class-ignored": targets of a cross entropy of this `shape`, (samples, classes), hold class `dim`, which it
      ignores. `values`: how many, of how many.
    - "separate-term": the gradient of a term of the loss reaches only the parameters in `weights`, and no other term
      reaches these. `made` is the only line behind the loss that draws by `sample()`.
    - "loss-factor": `values` is the smallest of the numbers that the loss is multiplied by last, and of their products,
      if all are known.
    - "one-label": in 16 backward passes at the place, all outputs of the layer with the weight in `weights` were
      compared with one label. `values`: the label, and the number of outputs in each pass.
    - "several-labels": a later pass at such a place had others.
    - "label-of-generated": 16 times, samples to which gradients flow at the place were compared with the label in
      `values`, and the same samples, without a gradient, in another pass, too. `weights`: that of their first layer.
    - "positions-repeat": `module` counts as many positions as `shape` says, in a type that holds every whole number up
      to `dim` only. `made` is the line that counts them, if only one line may do so.
    - "softmax-of-output": the code that calls `module` computes, at `made`, a softmax over the first dimension of its
      output.
    """

    what: str = ""
    weights: Sequence[Count] = ()
    dim: Count = 0
    shape: Sequence[Count] = ()
    values: Sequence[Number] = ()
    made: Count = 0


class ActiveDropout(Happening, frozen=True, gc=False):
    """`function` drops values although `module`, which called it, and the outermost module are in evaluation mode.

    The code does not make it depend on the mode. Checked in the first calls of each outermost module.
    """

    function: str = ""


class DiscardedResult(Happening, frozen=True, gc=False):
    """A statement in the training code computes a tensor that nothing uses.

    `function` is the call as spelled in the code ("scores.masked_fill"), and `made` the location of the statement.
    """

    function: str = ""
    made: Count = 0


class SourcePattern(Happening, frozen=True, gc=False):
    """A mistake that the source of the training program shows. Each file is read once.

    `what` names it:

    - "weights-overwritten": the model in `names` loads weights at `other`, and draws them anew at `made`.
    - "sizes-permuted": `made` views a tensor of the first of `names`, its sizes, as the second: the same sizes in
      another order. For the input of an outermost module this is told by the tensors themselves.
    - "count-overwritten": a loop over batches, at `other`, overwrites the counts in `names`, the first one at `made`,
      which were 0 before it and are divided after it.
    - "loop-left": a loop, at `other`, adds up what is in `names`, and its last statement, at `made`, returns that. So
      it ends in its first pass.
    - "scheduler-unread": a scheduler, created at `made`, is kept in the variable or attribute in `names`, or under that
      key, and no code advances it.
    - "count-per-batch": the numbers of equal values in `names`, which the loop at `other` adds up, are divided by its
      number of batches at `made`.
    - "loss-per-sample": the averages of batches in `names`, which the loop at `other` adds up, are divided by the
      number of samples at `made`.
    - "argmax-of-batch": the first of `names`, computed at `made`, is one index for all samples, and the loop over
      batches at `other` compares it with the second, their labels.
    - "intersection-unclamped": the product in `names`, at `made`, is the area of the intersection of two boxes, and its
      factors are negative where these lie apart.
    - "arguments-exchanged": `made` calls the function that is first in `names`, defined at `other`, with the second and
      the third, each in the place of the parameter that is named like the other.
    - "state-cut": `made` detaches the recurrent state in `names` in each pass of the loop at `other`, over the steps of
      a sequence.
    - "labels-interpolated": `made` resizes the label map in `names` by interpolation, and `other` cuts the result to
      integers.
    - "scaled-by-own-statistics": `made` standardises the first of `names`, validation or test data, by their own
      statistics, as `other` does the second, the training data.
    - "worst-kept": weights are kept at `made` when the first of `names` is worse than the second, the best so far.
    - "ends-unread": the first of `names`, at `made`, adds a discounted value to a reward, and nothing reads the second,
      computed at `other`, which tells the ends of episodes.
    - "loss-unmasked": the loss at `made` compares an output with the labels in `names`, of all nodes of a graph, of
      which `other` selects some.
    - "seed-repeated": each pass of a training loop calls what is in `names`, at `made`, and then draws, at `other`.
    - "transform-shared": `made` assigns a transform to the data set of the first of `names`, a part of it. It is also
      that of the second, whose transform is assigned at `other`; at `made` if the data set was created with it.
    - "tie-replaced": the initialiser of a model ties the two weights in `names` at `other`, and then puts a new
      parameter in the place of the first one, at `made`.
    - "batch-unused": a training loop, at `made`, reads none of the variables in `names`, the parts of its batch.
    - "returns-backwards", "returns-forwards": a loop over rewards appends the discounted returns in `names` in reverse,
      at `made`, or adds them up from the first reward, from `made` on.
    - "noise-of-one-step": `made` mixes a sample and noise by the level in `names`, whose cumulative product is computed
      elsewhere.
    - "loss-overwritten": the loss in `names`, computed at `other`, is overwritten at `made`, and nothing reads it
      before.
    - "step-after-loop": what is in `names` steps at `made`, after the loop at `other`, which goes backward and clears
      the gradients in each pass.
    - "count-not-reset": the loop at `other` adds up a metric in `names` over all its passes, at `made`, and divides it
      by what stays the same.
    - "training-data-evaluated": the training data in `names`, at `made`, are used for what is second in `names`, and is
      called validation or test.
    - "residual-unread": a module's `forward` assigns the residual in `names`, and never reads it. `made` is that line,
      or the one that adds a tensor to itself.
    - "shuffled-apart": the inputs and labels in `names` are shuffled by two permutations, at `other` and at `made`.
    - "scaler-fitted-on-all": a scaler is fitted at `made` to the data in `names`, which are split at `other` into
      training and test data.
    - "state-carried", and "state-carried-shuffled" if the source shows that batches are shuffled: a loop over batches,
      at `other`, carries the state of a recurrent layer in `names` from each batch to the next, at `made`.
    - "ratio-of-one": a clipped policy ratio, as written in `names`, at `made`, is 1 in each pass of the loop at
      `other`.
    - "average-shares-memory": the average in `names` refers to the parameters themselves, stored at `made`, and is
      updated in place at `other`.
    - "augmented-apart": at `made`, a data set moves the image in `names` at random, and the mask in them otherwise or
      not at all.
    - "unsigned-difference": at `made`, a data set, a module, or the code that calls a model subtracts the second of
      `names` from the first, both uint8. For some of their values, the difference is negative, and wraps around.
    - "evaluation-augmented": the transform or data set that is first in `names`, and is called validation or test, is
      augmented at random by the second.
    - "evaluation-not-normalised": the transform that is first in `names`, and is called validation or test, does not
      normalise as the second does at `other`.
    - "state-left-in-checkpoint": training resumes with a model that is loaded at `made`; the state of the first of
      `names`, which is saved under the second, at `other`, is not loaded.
    - "weights-unrestored": at `made`, in the training loop at `other`, the weights of a model are stored, as in the
      first of `names`, for others to take their place, and nothing puts them back. The second is the model, if known.
    - "noise-unadded": the noise in `names`, drawn at `made`, is the target of a loss, and nothing else reads it. The
      input of the model is computed at `other`, with another noise.
    - "values-lowered": the loss in `names`, computed at `made`, is the mean of a critic's values of an actor's actions,
      and the critic learns rewards, by their name.
    - "model-frozen": `made` freezes all parameters of the model in `names`.
    - "tied-by-data", "copied-by-data": `made` gives the first of `names` the memory of the second, two parameters, or
      its values.
    - "decay-excepted": the list at `made` has the strings in `names`; parameters with one of them in their name are
      excepted from weight decay.
    - "freeze-undone": at `made`, a loop unfreezes all parameters of the model in `names`, some of which were frozen at
      `other`, with no training in between.
    - "gradient-overwritten": each pass of the loop over losses at `other` assigns the gradient in `names` anew, at
      `made`.
    - "model-shared-by-folds": the model in `names` is trained at `made` in each fold of the loop at `other`, and never
      reset.
    """

    what: str = ""
    names: Sequence[str] = ()
    made: Count = 0
    other: Count = 0


class FreezeWithoutEffect(Happening, frozen=True, gc=False):
    """Parameters of an optimizer, or modules that contain them, have an attribute that looks like `requires_grad`.

    It has no effect: `attribute` is misspelled, or was set on a module. `tensor` is the first such parameter, `count`
    the number of them, and `made` the location where such an attribute is assigned. Its value is `False` although the
    parameters require a gradient; with `unfreezes`, it became `True` although they do not.
    """

    attribute: str = ""
    tensor: Count = 0
    count: Count = 0
    made: Count = 0
    unfreezes: bool = False


class RateWithoutEffect(Happening, frozen=True, gc=False):
    """A learning rate was set where the optimizer does not read it, while the rate that it reads stayed the same.

    `name` is a key of its parameter groups (`learning_rate`) if `is_key`, else an attribute of the optimizer
    (`optimizer.lr`). `made` is the location where it is assigned, if found.
    """

    optimizer_id: Count = 0
    name: str = ""
    is_key: bool = False
    made: Count = 0


class ScheduleRestart(Happening, frozen=True, gc=False):
    """An optimizer that resumes training makes its first step, with the rate of a schedule that begins anew.

    `scheduler` is the class of the scheduler that did so when it was created, at `made`: the state of the optimizer had
    been loaded before, with the rate `loaded_rate`, and the scheduler has set it to `rate` and is still at its start.
    `start` is the number from which a loop around the step counts.
    """

    optimizer_id: Count = 0
    scheduler: str = ""
    made: Count = 0
    loaded_rate: Number = 0.0
    rate: Number = 0.0
    start: Count = 0


class LoadedRate(Happening, frozen=True, gc=False):
    """An optimizer makes its first step with a loaded state, and at most a hundredth of the rate it was created with.

    `given_rate` is the largest rate of the groups with which it was created, at `made`, and `rate` the largest one now.
    It has no scheduler, and no code of the program that may run in training assigns a learning rate.
    """

    optimizer_id: Count = 0
    made: Count = 0
    given_rate: Number = 0.0
    rate: Number = 0.0


class StatePattern(Happening, frozen=True, gc=False):
    """A pattern in the values of parameters, or in the memory of the state that an optimizer keeps for them.

    `what` names the pattern:

    - "state-is-gradient": when an optimizer began a step, its state for `tensor` under the key `name` shared memory
      with the gradient. `made` is the line that stored the state, if there is only one.
    - "average": 16 times in a row, `tensor` became `factor * tensor + (1 - factor) * other`; eight elements were
      compared. `values`: the smallest and the largest factor, and the number of optimizer steps from the first to the
      last time. `made` is the line that computes the average, if only one line may do so.
    - "gradient-carried": without an optimizer, backward passes added to the gradient of `tensor` that the step before
      had used, and that nothing had changed since. `values`: how often, and how many steps there were.
    - "gradient-left": in as many steps as `values` says, an optimizer whose first parameter is `tensor` used gradients
      that a backward pass at `made` had left, before a step of another optimizer, and those of later passes. The losses
      of the passes are those of a generator and of a discriminator.
    """

    what: str = ""
    tensor: Count = 0
    other: Count = 0
    name: str = ""
    values: Sequence[Number] = ()
    made: Count = 0


class ParameterGroup(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A group of an optimizer's parameters.

    `settings` are the numbers, booleans and short strings among its hyperparameters (learning rate, weight decay,
    momentum). `tensors` are the ids of its parameters that belong to proxied modules; `others` counts the rest.
    """

    settings: dict[str, Setting] = msgspec.field(default_factory=dict)
    tensors: Sequence[Count] = ()
    others: Count = 0


class Optimizer(Happening, frozen=True, gc=False):
    """An optimizer is new, or steps with other settings or parameters than at its last step.

    A new one is recorded when the next backward pass begins, or else at its first step. The first record has all
    `groups`. Later ones have only the groups that changed, at `indices`. Their `settings` has only the changed ones,
    and `tensors` and `others` are present only if changed. `made` is the location where the optimizer was created, if
    known. `clears`, in the first record, is the location of the only line that calls `zero_grad` in the function that
    begins the backward pass or steps, if there is exactly one. `rates`, in the first record, are the learning rates
    with which the groups were created, if these differ and the groups have all the same rate now. `overwrites` is then
    the location where a rate is assigned, if known; also in the first record in which the rate of the first of several
    groups has changed alone. `loop`, in the first record, is the target of the innermost loop in which it was created
    ("epoch"); "" if there is none.
    """

    id: Count = 0
    optimizer: str = ""
    groups: Sequence[ParameterGroup] = ()
    indices: Sequence[Count] = ()
    made: Count = 0
    clears: Count = 0
    rates: Sequence[float] = ()
    overwrites: Count = 0
    loop: str = ""


class OptimizerStep(Happening, frozen=True, gc=False):
    """An optimizer's `step` begins. `optimizer` is its class name; `tensors` is the number of tensors it updates.

    `optimizer_id` is the id in its `Optimizer` record. `carried`: the gradients of its previous step had not been
    cleared when any of the backward passes for this one began, so the new gradients were added to them. This is decided
    by the values of one parameter. It is False if those could not be read without waiting for a device. `dropped`
    counts the backward passes since the previous step whose gradients were cleared before the next pass began. It is 0
    if the passes were at different places.
    """

    optimizer: str = ""
    tensors: Count = 0
    optimizer_id: Count = 0
    carried: bool = False
    dropped: Count = 0


class OptimizerStepEnd(Happening, frozen=True, gc=False):
    """An optimizer's `step` ended, and its updates have been recorded.

    `carried`, of a step with a closure, is as in `OptimizerStep`: none of the backward passes of the closure began with
    cleared gradients.
    """

    optimizer: str = ""
    duration_us: Count = 0
    carried: bool = False


class SchedulerStep(Happening, frozen=True, gc=False):
    """A learning rate scheduler advances: for the first time, or at another place or in another order than before.

    Also the 9th, 17th, 33rd, ... time. `scheduler` is its class, `id` its number, `optimizer_id` the number of its
    optimizer, and `count` how often it had advanced before. `follows` is the last event of its optimizer: "nothing", a
    "backward" pass since its last step, or a "step". `made` is the location where it was created, if known. `settings`,
    only in the first record, are the numbers, booleans and short strings among its public attributes ("T_max",
    "total_steps"). `words`, likewise, are the names and strings that the functions of a `LambdaLR` read, and those of
    the program that they call.
    """

    id: Count = 0
    scheduler: str = ""
    optimizer_id: Count = 0
    count: Count = 0
    follows: str = "step"
    made: Count = 0
    settings: dict[str, Setting] = msgspec.field(default_factory=dict)
    words: Sequence[str] = ()


class RateReduced(Happening, frozen=True, gc=False):
    """A `ReduceLROnPlateau` lowered the rate, for the first, second, fourth, ... time.

    `id` is its number, `optimizer_id` that of its optimizer, `mode` is "min" or "max", and `made` the location where it
    was created, if known. `never_better`: none of the values passed to it was better than the first. `words` are the
    names and strings in the line that passed the last value, such as "val_acc".
    """

    id: Count = 0
    optimizer_id: Count = 0
    mode: str = ""
    made: Count = 0
    never_better: bool = False
    words: Sequence[str] = ()


class Clip(Happening, frozen=True, gc=False):
    """Gradients are clipped, by norm or by value: for the first time at a place, or in another way than before.

    `parameters` is the number of parameters passed, and `gradients` how many of them had a gradient. `limit` is the
    largest norm or value allowed. `is_late`: an optimizer has stepped with some of them since the last backward pass.
    `tensor`, if none had a gradient, is the first of them that belongs to a proxied module.

    Also the first, second, fourth, ... time of one of two irregularities. `again` counts how often gradients already
    clipped here were clipped again before the same step, after a backward pass had added to them. `others` counts how
    often only optimizers without any of these parameters stepped next; it is 0 if another one ever did. `count` is how
    often gradients have been clipped here.
    """

    parameters: Count = 0
    gradients: Count = 0
    limit: Number | None = None
    is_late: bool = False
    tensor: Count = 0
    again: Count = 0
    others: Count = 0
    count: Count = 0


class ScalerStep(Happening, frozen=True, gc=False):
    """A gradient scaler reached a step of an optimizer, with an irregularity for the first, second, fourth, ... time.

    `id` is its number, `optimizer_id` that of the optimizer, `made` the location where the scaler was created, and
    `count` how many steps it has reached. `skipped` counts those that it skipped because gradients were not finite.
    `stuck` counts the skipped ones whose scale was no smaller than at the one skipped before; on an accelerator, where
    it is not read, those without an `update` in between. `clipped` counts the steps whose gradients were clipped before
    they were unscaled; `location` is then the place of the clipping. `undivided` counts the steps that the optimizer
    took without the scaler, with gradients that were still scaled.
    """

    id: Count = 0
    optimizer_id: Count = 0
    made: Count = 0
    count: Count = 0
    skipped: Count = 0
    stuck: Count = 0
    clipped: Count = 0
    undivided: Count = 0


class Loading(Happening, frozen=True, gc=False):
    """An iteration over a `DataLoader` begins: the first, second, fourth, ... of this loader.

    The third is recorded, too, if all three had the same order although it is drawn at random.

    `id` is the number of the loader, `sampler` the class of its sampler, `batches` the number of batches (0 if
    unknown), `workers` the number of worker processes, and `count` how many iterations have begun. `same_order` counts
    the iterations that drew a random order and got that of the iteration before. `first_only` counts those that yielded
    only the first of several batches in a fixed order, and were followed by an optimizer step. `given` counts the
    batches. `same_batch`, with two or more workers, counts those equal to the batch before. `trains`: an optimizer has
    stepped between two batches of one iteration. `unweighted` counts the samples for which a `WeightedRandomSampler`
    has no weight, and which it never draws. `changed_samples` counts the iterations in which the data set changed a
    tensor that holds all its samples while it returned some. `changed_by` is the location of the function that returns
    a sample. `sampler_made` is the location of the only line that names the class of a sampler with too few weights.
    `generator` is an attribute of the data set with a random generator that two or more workers copy, and from which
    the line `drawn_at` draws. `samples`, for a loader of a part of a data set, is the number of samples in it, and
    `shared` counts those that are also among those with which the loader before it trained, unless all of that are.
    `dropped` is the number of samples of a loader that has no batch, because all of them are fewer than a batch and
    `drop_last` drops them. `held_out` is the name of a variable with the loader, if all its samples are shared, and the
    name says validation or test data. `batch_size` is the number of samples in a batch; 0 if unknown.
    """

    id: Count = 0
    sampler: str = ""
    batches: Count = 0
    workers: Count = 0
    count: Count = 0
    same_order: Count = 0
    first_only: Count = 0
    given: Count = 0
    same_batch: Count = 0
    trains: bool = False
    unweighted: Count = 0
    changed_samples: Count = 0
    changed_by: Count = 0
    sampler_made: Count = 0
    generator: str = ""
    drawn_at: Count = 0
    shared: Count = 0
    samples: Count = 0
    dropped: Count = 0
    held_out: str = ""
    batch_size: Count = 0


class Load(Happening, frozen=True, gc=False):
    """A proxied module received weights through `load_state_dict`.

    `loaded` counts the keys that were loaded. `missing` and `unexpected` are the first 100 keys that PyTorch reported
    as such; `missing_count` and `unexpected_count` are their numbers. `strict` is the argument. `is_own`: every tensor
    passed is the very one that the module already has. `names` are then the two names of the module in that line, if
    it has two, and `made` is the line that made the second one. Else `made` is the line that stored the state, if only
    one line may have done so.
    """

    loaded: Count = 0
    missing: Sequence[str] = ()
    unexpected: Sequence[str] = ()
    missing_count: Count = 0
    unexpected_count: Count = 0
    strict: bool = True
    is_own: bool = False
    made: Count = 0
    names: Sequence[str] = ()


class Gradient(Happening, frozen=True, gc=False):
    """The gradient of parameter `tensor` as the optimizer's step found it; no statistics if it had none.

    `has_optimizer` is false for a parameter that no optimizer has: the gradient is then what a backward pass left.
    `cleared`: the step found no gradient, or only zeros, although the last backward pass that reached the parameter had
    left a non-zero one. Something such as `zero_grad` came in between.
    """

    tensor: Count = 0
    statistics: Statistics | None = None
    has_optimizer: bool = True
    cleared: bool = False


class Update(Happening, frozen=True, gc=False):
    """The state tensor `tensor` has changed. `version` is torch's count of in-place changes to it.

    `cause` is "step" for an optimizer's step, "in-place" for any other in-place change, "data" for one that bypassed
    the version count (`p.data.clamp_()`), "replaced" if another tensor took the name, "converted" if the values stayed
    and the dtype or device changed (`model.half()`, `model.to(device)`), and "unchanged" for an optimizer's step that
    left both version and values as they were. The last two are not changes of values. `type` is the description of a
    tensor that was replaced or converted, or whose shape changed (a lazy layer).
    """

    tensor: Count = 0
    statistics: Statistics | None = None
    version: Whole = 0
    cause: str = "step"
    type: str = ""


class NonFinite(Happening, frozen=True, gc=False):
    """The first NaN or infinity seen in one place.

    `where` is "output" (of `module`), "parameter", "buffer" or "gradient" (of `tensor`), or "loss" (the tensor on which
    a backward pass was called). `count` is the number of such elements in the first tensor that had any, and `type` the
    description of that tensor.

    For a loss, `computed` is the location of the line that computed it. If one of the variables that it was computed
    from holds a NaN, `variable` is the first of them, and `computed` is the line that computed that variable.

    `operation` is the operation that made the value from finite ones, such as "div", if the autograd graph tells; for a
    gradient, one without a finite derivative, such as "sqrt" at 0. `computed` is then the only line that calls it.
    """

    where: str = "output"
    tensor: Count = 0
    count: Count = 0
    type: str = ""
    computed: Count = 0
    variable: str = ""
    operation: str = ""


class CallFunction(Happening, frozen=True, gc=False):
    """A torch function was called. `target` is its qualified name, such as "torch.relu".

    `inputs` describes the tensors among its arguments, and `outputs` those it returned: a tensor of the model's state
    by its name ("model.conv1.weight"), any other as "float32[64, 32, 26, 26]". `in_place`: it returned its first
    argument.

    The last three fields exist only with `statistics="all"`. `statistics` has an item for each of `outputs`, None for a
    tensor whose values could not be read. `changed` has the indices in `inputs` of tensors that the call changed in
    place and did not return (`x[0] = 1` returns nothing). `changed_statistics` has an item for each of these.
    """

    target: str = ""
    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()
    in_place: bool = False
    raised: bool = False
    input_ids: Sequence[Count] = ()
    output_ids: Sequence[Count] = ()
    ordinal: Count = 0
    statistics: Sequence[Statistics | None] | None = None
    changed: Sequence[Count] = ()
    changed_statistics: Sequence[Statistics | None] | None = None


class CallMethod(CallFunction, frozen=True, gc=False):
    """A method of a tensor was called. `target` is its name, such as "mul_"."""


class ReadValue(Happening, frozen=True, gc=False):
    """Python read the value of a tensor, as for a branch, a loop or a print.

    `target` is the method ("__bool__", "item", "__float__", "__int__", "__index__", "__len__", ...). `value` is the
    result if it is a bool, an int or a float (a non-finite float as text).
    """

    target: str = ""
    inputs: Sequence[str] = ()
    value: bool | int | float | str | None = None
    input_ids: Sequence[Count] = ()


class FlowStep(Happening, frozen=True, gc=False):
    """A condition in the program's code was evaluated, or a loop ended; recorded only with `flow=True`.

    `construct` is "if", "elif", "while", "ifexp" (`a if test else b`), "assert", "for", "comprehension" or "match".
    `text` is the source of the condition, formatted as by `ast.unparse`. `value` is the truth of a condition. A `match`
    step says that the pattern of a case matched, and how its guard evaluated if it has one. For a loop, `value` is None
    and `iterations` counts the elements it consumed; it is recorded when the loop ends, for whatever reason. A
    comprehension has one such step for each `for`, and one with a truth value for each `if`. `location` has the line of
    the condition, also in library code. `ordinal` counts the steps of that text there within one call of the enclosing
    module.
    """

    construct: str = "if"
    text: str = ""
    value: bool | None = None
    iterations: Count | None = None
    ordinal: Count = 0


class GetAttr(Happening, frozen=True, gc=False):
    """An attribute was read.

    `owner` is the name of a proxied module or of a tensor of its state, else the description of a tensor. `value`
    describes the result: a tensor as in `CallFunction.inputs`, "None", a bool or an int, or the name of its type.
    `known`: the tensor returned has been seen before. `statistics` are those of a tensor read from a tensor (`p.grad`),
    with `statistics="all"`.
    """

    target: str = ""
    owner: str = ""
    value: str = ""
    known: bool = False
    owner_id: Count = 0
    value_id: Count = 0
    ordinal: Count = 0
    statistics: Statistics | None = None


class SetAttr(Happening, frozen=True, gc=False):
    """An attribute was written. Fields are as in `GetAttr`, except that `value` shows any number as it is."""

    target: str = ""
    owner: str = ""
    value: str = ""
    owner_id: Count = 0
    value_id: Count = 0


class DelAttr(Happening, frozen=True, gc=False):
    """An attribute was deleted. Fields are as in `GetAttr`."""

    target: str = ""
    owner: str = ""


class Configuration(Happening, frozen=True, gc=False):
    """Torch's global settings: all of them in the first such event of a file, then only those that changed.

    They are read when a model is proxied, at each call of a root module and at each optimizer step. Settings have
    torch's own dotted names where there are any ("cudnn.benchmark"). Dtypes are named as in `describe`. Seeds beyond
    the range of `Whole` are strings. Settings that this version of torch lacks are omitted. None stands for "off"
    (autocast), and for a setting that could not be read.
    """

    settings: dict[str, Setting] = msgspec.field(default_factory=dict)


class Problem(Happening, frozen=True, gc=False):
    """A problem in the tracing itself; training went on. `message` says what was lost."""

    message: str = ""


class Limit(Happening, frozen=True, gc=False):
    """The trace of this process has reached the requested size (`max_size`, in bytes).

    From here on, only two sorts of events are recorded: changes of state (updates, optimizer steps, settings), and
    faults (non-finite values, problems).
    """

    max_size: Count = 0


class RunEnd(Happening, frozen=True, gc=False):
    """The last record of a file whose process ended, or stopped being traced, in an orderly way.

    `reason` is "exit", "exception" (`error` is then its class name, such as "ValueError" or "KeyboardInterrupt"),
    "unproxied" (by the program) or "failed" (an error in the tracing itself). A process that was killed, for instance
    by SIGTERM, leaves none.
    """

    reason: str = "exit"
    error: str = ""


AnyEvent: TypeAlias = Union[  # noqa: UP007  So many bars would read worse.
    Run, Location, Module, Parameter, Buffer, OptimizerState,
    CallModule, Input, ReturnModule, Loss, GraphPattern, Backward, BackwardEnd,
    Optimizer, OptimizerStep, OptimizerStepEnd,
    SchedulerStep, RateReduced, Clip, ScalerStep, Loading, Load, ActiveDropout, DiscardedResult, SourcePattern,
    FreezeWithoutEffect, RateWithoutEffect, ScheduleRestart, LoadedRate, StatePattern,
    Gradient, Update, NonFinite,
    CallFunction, CallMethod, ReadValue, FlowStep, GetAttr, SetAttr, DelAttr,
    Configuration, Problem, Limit, RunEnd,
]  # fmt: skip
"""Every class of event that a trace may contain."""
