"""What was seen, as frozen values that hold no tensor: one class for each kind of event.

An event is also the record that a trace keeps of it: `msgspec` writes each as one JSON object whose `kind`
names the class, with fields at their default left out. Reading a trace therefore needs this module and
nothing else; it imports no torch.

Kinds are called as `torch.fx` calls its nodes where it has a name for the thing (`call_module`,
`call_function`, `call_method`, `get_attr`); parameters and buffers are called by their `state_dict` name
behind the name of the root module.

Three tables keep the events small. `Module`, `Parameter`/`Buffer`/`OptimizerState` and `Location` events define an `id`
before any event that refers to it; a later definition of the same id replaces the earlier one (a module found to be
part of a larger one gets its longer name). Ids count from 1, and 0 means "none", in every reference.

Other tensors are numbered as they are met: `input_ids`, `output_ids` and the like hold a number for each tensor
described beside them, the same one as long as the tensor lives and never given again; 0 stands for a tensor of the
model's state, which its name tells. So a number relates what one call put out to what later calls take. What it
cannot do is relate the tensors of one iteration to those of the next: that is what the place does. The variable
that a call makes is told by the call's `location` and target, and its `ordinal` among the calls of that target at
that location in one call of the enclosing module (outside of all modules: since the last call of a root or the last
optimizer step).

Where events are made, what holds several words or numbers is a tuple: the garbage collector soon forgets such a tuple,
while it would go through every list that waits to be written, again and again. Where a trace is read, it is a list.
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

# A trace is data from anywhere: what these types refuse is no record, wherever one is read. What is written is never
# checked. Numbers stay within what a float64 tells apart, as other readers of JSON have no more.
_LARGEST: Final = 2**53

Whole: TypeAlias = Annotated[int, msgspec.Meta(ge=-_LARGEST, le=_LARGEST)]
"""A whole number, such as a time."""

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=_LARGEST)]
"""How many there are of something, or a reference to an id, 0 for none."""

Id: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=_LARGEST)]
"""An id where it is defined."""

Ranks: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**20)]
"""A rank, or how many there are."""

RankSpans: TypeAlias = Annotated[
    str, msgspec.Meta(pattern=r"\A(([0-9]{1,7}(-[0-9]{1,7})?)(,[0-9]{1,7}(-[0-9]{1,7})?)*)?\Z")
]
"""Ranks and spans of ranks, such as "0,8-15"; "" for all."""

RunName: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9_+=.-]{0,99}\Z")]
"""The name of a run, which becomes that of folders and files; see `launch.new_run_name`."""


def as_number(value: float) -> Number:
    """The value as JSON can hold it."""
    if math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


Setting: TypeAlias = bool | Annotated[int, msgspec.Meta(ge=-_LARGEST, le=_LARGEST)] | float | str | None
"""What one of torch's settings is set to."""

TRAIN: Final = "train"
EVAL: Final = "eval"
"""The stages that a program is in by the mode of its model."""


class Statistics(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Reductions over all elements of a tensor.

    `minimum` and `maximum` are those of the elements as torch orders them (a NaN anywhere gives "nan"), over
    real and imaginary parts for complex tensors; both are None for a tensor without elements. `norm` is the
    L2 norm, accumulated in at least float32. `nonfinite` counts elements that are NaN or infinite. `bits` is a
    fingerprint of the bytes of all elements, 16 hexadecimal digits: the same on any machine and device and for any
    number of threads, so that it alone says whether values are the same. It is None where it is not known: in older
    traces, and for values that could not be read.
    """

    minimum: Number | None = None
    maximum: Number | None = None
    norm: Number | None = None
    nonfinite: Count = 0
    bits: str | None = None


def have_same_values(first: object, second: object) -> bool:
    """Whether both are `Statistics` that are known to be of the same values."""
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
    """The first record of every file: what ran. `started` is UTC, ISO 8601; times in events count from it.

    `ranks` are those that were to write a trace (`--ranks`), as far as that was known when the file was begun.
    `compiled` tells whether tensors on the CPU were read by the compiled `one_pass.c`; None in older traces.
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
    """Defines a place in user code, in the lines of the original file where the script was instrumented.

    `caller` is the location that called the function, up to the enclosing module call; 0 if there is none.
    """

    id: Id
    file: str
    line: Whole
    function: str
    caller: Count = 0


class Module(Event, frozen=True, gc=False):
    """Defines a proxied module. `name` is the root's name or `<root>.<qualified name>`; `type` its class.

    `parent` is the id of the module that it is a submodule of, `root` that of the root (its own for a root).
    `parameters` counts the elements of all parameters below it. `time_us` says when it was proxied. Steps are
    recorded while their number is below `first`, and from there on each `every`-th. `calls_seen` is false if the class
    has a `__call__` of its own, which may go around PyTorch's hooks. `removed` if it was part of a model that no longer
    has it, when the trace was written out last. `module_of_type` is the Python module that defines its class
    ("torch.nn.modules.linear"); "" in older traces. `made` is the location where the `__init__` around it assigns it,
    if that is known. `settings` are the numbers, truth values and short texts that a module of PyTorch's own was made
    with ("p", "momentum"), as of this definition.
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


class StateTensor(Event, frozen=True, gc=False):
    """Defines a tensor of the model's state, `Parameter` or `Buffer`, or of an optimizer's for it, `OptimizerState`.

    `name` is the root's name and the `state_dict` name; `aliases` are further names of the same tensor (tied
    weights); `module` the module that holds it. `type` is as in `describe`: "float32[32, 1, 3, 3]".
    `watched` says whether its updates and gradients are recorded (`include` and `exclude` choose). `placements`
    says how a `DTensor` lies over the ranks: "Replicate()", or "Shard(0)[1/4]" in the rank that has the second of four
    parts along dimension 0. Its statistics are those of this rank's part. `removed` if the model has no tensor by that
    name any more, when the trace was written out last. `freed` if the model was freed before anybody could see whether
    the only gradient of a parameter that no optimizer has changed it. `filled` is the location where the `__init__` of
    a module above fills tensors with one number, if all elements of a matrix are one number other than 0, and there is
    only one such line.
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


class Parameter(StateTensor, frozen=True, gc=False):
    """Defines a parameter, with its statistics when it was first seen."""


class Buffer(StateTensor, frozen=True, gc=False):
    """Defines a buffer, with its statistics when it was first seen."""


class OptimizerState(StateTensor, frozen=True, gc=False):
    """Defines a tensor that an optimizer keeps for a parameter: an average of its gradients, a count of its steps.

    `name` is the parameter's and, behind a dot, the key in the optimizer's state: "model.fc.weight.exp_avg". Where
    several optimizers keep a tensor for one parameter under one key, a number follows ("model.fc.weight.exp_avg_1").
    `parameter` is the id of the parameter, `module` the module that holds that, `optimizer` the class. `aliases` are
    the names of further parameters that the same tensor is kept for. There are statistics and `Update` events only
    where statistics of everything are asked for (`statistics="all"`).
    """

    parameter: Count = 0
    optimizer: str = ""


class Happening(Event, frozen=True, gc=False):
    """The base of what happens at a time.

    `time_us` is microseconds since the run started, `step` the number of optimizer steps that had ended,
    `module` the id of the innermost proxied module being called, `location` the place in user code,
    `thread` 0 for the main thread, else a number per thread. `stage` is the name that the program gave by
    `Proxy.stage`, else "train" or "eval", the mode of the outermost proxied module that this thread called last.
    """

    time_us: Whole
    step: Count = 0
    module: Count = 0
    location: Count = 0
    thread: Count = 0
    stage: str = TRAIN


class CallModule(Happening, frozen=True, gc=False):
    """A proxied module is called. `inputs` are descriptions of the tensors among its arguments, in order.

    `compiled` if it was compiled in place, by its `compile()`: of what it calls nothing is seen then. `no_grad` if it
    is the outermost one and autograd was off, as under `torch.no_grad()`. `around` if it is the outermost one, in
    training mode, and is the model of a `DistributedDataParallel`, or part of it, which is not called.
    """

    inputs: Sequence[str] = ()
    training: bool = False
    input_ids: Sequence[Count] = ()
    ordinal: Count = 0
    compiled: bool = False
    no_grad: bool = False
    around: bool = False


class Input(Happening, frozen=True, gc=False):
    """Tells of the values of one tensor that `module`, an outermost one, is given in training mode.

    `position` is that among the inputs of the call, `type` the description and `input_id` the number of the tensor.
    There are such events for the first few calls of a module.
    """

    position: Count = 0
    type: str = ""
    input_id: Count = 0
    statistics: Statistics | None = None


class ReturnModule(Happening, frozen=True, gc=False):
    """A proxied module's call ended; `raised` if by an exception, and then `outputs` is empty.

    `keywords` describes the tensors given by keyword, which PyTorch tells only now. `statistics` is None unless those
    of outputs are asked for (`statistics="outputs"` or "all"); else it has an item for each of `outputs`, None for a
    tensor whose values could not be read. `cut_off` says of the first calls in training that none of `outputs` requires
    a gradient, though parameters of the module do.
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

    Of a pass that is not within another one, and leaves gradients, `loss_value` is the value of its only input, if that
    has one real element, and `loss` the id of how that was computed (0 where this is not known). `create_graph` if what
    it computes can be differentiated in its turn.
    """

    function: str = "backward"
    inputs: Sequence[str] = ()
    input_ids: Sequence[Count] = ()
    loss_value: Number | None = None
    loss: Count = 0
    create_graph: bool = False


class BackwardEnd(Happening, frozen=True, gc=False):
    """The backward pass ended; `raised` if by an exception."""

    duration_us: Count = 0
    raised: bool = False


class LossNode(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A node of the autograd graph: its name ("MseLossBackward0") and the shape of what the call gave.

    `parent` is the position of the node that took that, among those of the loss; -1 for the first. `inside` if a root
    module computed it, and not what came after.
    """

    name: str
    shape: Sequence[Count] = ()
    parent: Whole = -1
    inside: bool = False


class Loss(Happening, frozen=True, gc=False):
    """Tells for the first time of a way that a loss is computed: the autograd graph back to the model's outputs.

    The nodes come breadth first, with a few of those inside the model; of more than 24, the first ones. Another shape
    makes another way, and so does another place of the backward pass. `made` is the location of the statement that
    assigned the variable which the backward pass was given, if that is known, and `computed` that of the line that
    computed it, in a function which the other one calls. `activated` is the location of the only line in the code of
    the proxied modules that makes probabilities of scores, `cut` that of the only line which cuts a tensor off the
    graph, among those that the loss comes from.
    """

    id: Count = 0
    nodes: Sequence[LossNode] = ()
    made: Count = 0
    computed: Count = 0
    activated: Count = 0
    cut: Count = 0


class GraphPattern(Happening, frozen=True, gc=False):
    """Something that the autograd graph of a loss has, found in the first backward passes at a place.

    `what` is "linear-linear", where a linear layer takes what another one gave, and nothing else does: `weights`
    are the ids of theirs, the first one first. Or it is "softmax", over the dimension `dim` of a tensor with `shape`.
    Or it is "self-similarity", a log-softmax over the products of vectors with themselves, a matrix with `shape`, which
    nothing has masked. Or it is a view that changes what the elements of a tensor with `shape` belong to, as it does
    not move them: a "view" whose first dimension is the second of that tensor, and whose second is the first and the
    third; or a "classes-view", of which a log-softmax is taken, whose rows are as long as the second dimension.

    Or it is what a loss or an attention was given. "token-targets" are classes that are the tokens with `shape` which
    an embedding was given, `dim` places ahead; `values` says whether some attention sees no later token (1, or else 0).
    "padding-targets" have the padding of that embedding at their ends, so many of so many. "padding-attended" is an
    attention that leaves out all tokens but one, the padding. "later-tokens-seen": the targets are the next tokens, and
    all attention to the tokens lets them see later ones. "binary-targets" are farther than 0.5 from 0 and 1: the
    smallest and the largest of them. "sign-targets" are neither 1 nor -1, so many of so many. `made` is the location of
    the line that gives an attention its mask, if there is only one.
    """

    what: str = ""
    weights: Sequence[Count] = ()
    dim: Count = 0
    shape: Sequence[Count] = ()
    values: Sequence[Number] = ()
    made: Count = 0


class ActiveDropout(Happening, frozen=True, gc=False):
    """`function` drops values although `module`, which called it, and the outermost one are in evaluation mode.

    It was not told to: the call says nothing of training. Looked at in the first calls of each outermost module.
    """

    function: str = ""


class DiscardedResult(Happening, frozen=True, gc=False):
    """A statement of the code that trains computes a tensor, and nothing uses that.

    `function` is what is called, as the code has it ("scores.masked_fill"), `made` the location of the statement.
    """

    function: str = ""
    made: Count = 0


class FreezeWithoutEffect(Happening, frozen=True, gc=False):
    """Parameters that an optimizer steps, or their modules, have an attribute that looks like `requires_grad = False`.

    It has no effect: `attribute` is not the name of a tensor's, or it is that of a module. `tensor` is the first such
    parameter, `count` says how many there are, `made` is the location where such an attribute is assigned.
    """

    attribute: str = ""
    tensor: Count = 0
    count: Count = 0
    made: Count = 0


class RateWithoutEffect(Happening, frozen=True, gc=False):
    """A learning rate was given to an optimizer where it does not read any, while that which it reads stayed the same.

    `name` is that of an attribute of the optimizer (`optimizer.lr`), or of a key of its groups (`learning_rate`), as
    `is_key` says. `made` is the location where it is assigned, if that was found.
    """

    optimizer_id: Count = 0
    name: str = ""
    is_key: bool = False
    made: Count = 0


class ParameterGroup(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A group of an optimizer's parameters.

    `settings` are the numbers, truth values and short texts among its hyperparameters (learning rate, weight decay,
    momentum). `tensors` are the ids of the parameters in it that a proxied module has, `others` counts the rest.
    """

    settings: dict[str, Setting] = msgspec.field(default_factory=dict)
    tensors: Sequence[Count] = ()
    others: Count = 0


class Optimizer(Happening, frozen=True, gc=False):
    """An optimizer is new, or steps with other settings or parameters than at its last step.

    It is told of when the first backward pass begins after it was made, or else at its first step. `groups` are all
    groups the first time; later those at `indices` alone, which have changed. Of these, `settings` has those that have
    changed, and `tensors` and `others` are there only if they have. `made` is the location where it was made, if that
    was seen.
    """

    id: Count = 0
    optimizer: str = ""
    groups: Sequence[ParameterGroup] = ()
    indices: Sequence[Count] = ()
    made: Count = 0


class OptimizerStep(Happening, frozen=True, gc=False):
    """An optimizer's `step` begins. `optimizer` is its class name; `tensors` how many it updates.

    `optimizer_id` is the id that its `Optimizer` record has. `carried` says that the gradients of its last step had not
    been cleared when any of the backward passes for this one began, so that these have added to them. That is decided
    by the values of one of its parameters; it is False where they could not be read without waiting for a device.
    `dropped` counts the backward passes since the last step, all at one place, whose gradients had been cleared when
    the next of them began.
    """

    optimizer: str = ""
    tensors: Count = 0
    optimizer_id: Count = 0
    carried: bool = False
    dropped: Count = 0


class OptimizerStepEnd(Happening, frozen=True, gc=False):
    """An optimizer's `step` ended, and the updates it made have been recorded."""

    optimizer: str = ""
    duration_us: Count = 0


class SchedulerStep(Happening, frozen=True, gc=False):
    """A learning rate scheduler is advanced: for the first time, or elsewhere or in another order than the last time.

    Also once it has been advanced 8, 16, 32, ... times. `scheduler` is its class, `id` its number, `optimizer_id` that
    of its optimizer, `count` how often it had been advanced before. `follows` says what came last of its optimizer:
    "nothing", a "backward" pass since its last step, or a "step". `made` is the location where it was made, if that was
    seen. `settings` are the numbers, truth values and short texts among its public attributes ("T_max",
    "total_steps"), with the first record alone.
    """

    id: Count = 0
    scheduler: str = ""
    optimizer_id: Count = 0
    count: Count = 0
    follows: str = "step"
    made: Count = 0
    settings: dict[str, Setting] = msgspec.field(default_factory=dict)


class RateReduced(Happening, frozen=True, gc=False):
    """A `ReduceLROnPlateau` lowered the rate, the first, second, fourth, ... time.

    `id` is its number, `optimizer_id` that of its optimizer, `mode` is "min" or "max", `made` the location where it was
    made, if that was seen. `never_better` says that no value that it was given was better than the first. `words` are
    the names and texts in the line that gave it the last value: "val_acc".
    """

    id: Count = 0
    optimizer_id: Count = 0
    mode: str = ""
    made: Count = 0
    never_better: bool = False
    words: Sequence[str] = ()


class Clip(Happening, frozen=True, gc=False):
    """Gradients are clipped, by norm or by value: the first time at a place, or in another way than last time.

    `parameters` counts what was given, `gradients` those of them that had a gradient, `limit` is the largest norm that
    is left. `is_late` if an optimizer has stepped with some of them since the last backward pass. `tensor` is, where
    there was no gradient at all, the first of the parameters that a proxied module has.

    Also the first, second, fourth, ... time that something is amiss: `again` counts the times that gradients were
    clipped in which a backward pass had added to what was clipped at this place already, for the same step; `others`
    those that were followed by steps of optimizers, none of which had any of the parameters, if that was always so.
    `count` is how often gradients had been clipped at this place.
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
    """A gradient scaler came to a step of an optimizer, and something was amiss the first, second, fourth, ... time.

    `id` is its number, `optimizer_id` that of the optimizer, `made` the location where the scaler was made, `count` how
    many steps it has come to. `skipped` counts those that it skipped, as gradients were not finite, and `stuck` those
    of them that had no smaller scale than the one skipped before. `clipped` counts the steps whose gradients were
    clipped while they were still multiplied by the scale; `location` is then where that was, else where it stepped.
    """

    id: Count = 0
    optimizer_id: Count = 0
    made: Count = 0
    count: Count = 0
    skipped: Count = 0
    stuck: Count = 0
    clipped: Count = 0


class Loading(Happening, frozen=True, gc=False):
    """An iteration over a `DataLoader` begins: the first, the second, the fourth, ... of this one.

    `id` is the number of the loader, `sampler` the class of what draws the order, `batches` how many batches there are
    (0 if that is not known), `workers` how many processes load them, `count` how many iterations have begun. Of those
    before this one: `same_order` counts the iterations in an order that was drawn, and was that of the one before;
    `first_only` those that gave the first of several batches in a fixed order and no other one, and that a step of an
    optimizer followed. `given` counts the batches, `same_batch` those of them with the values of the batch before.
    `trains` if an optimizer has stepped between two batches of one iteration. `unweighted` counts the samples that a
    `WeightedRandomSampler` has no weight for, and so never draws. `changed_samples` counts the iterations in which the
    data set changed a tensor that it keeps all samples in, while it gave some; `changed_by` is then the location of the
    function that gives one.
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


class Load(Happening, frozen=True, gc=False):
    """A proxied module was given weights by `load_state_dict`.

    `loaded` counts the keys that were taken; `missing` are those of the module that it was not given, and `unexpected`
    those that it was given and does not have, the first 100 of each, with `missing_count` and `unexpected_count`.
    `strict` is the argument. `is_own` if all that it was given is its own: the very tensors that it has.
    """

    loaded: Count = 0
    missing: Sequence[str] = ()
    unexpected: Sequence[str] = ()
    missing_count: Count = 0
    unexpected_count: Count = 0
    strict: bool = True
    is_own: bool = False


class Gradient(Happening, frozen=True, gc=False):
    """The gradient of parameter `tensor` as the optimizer's step found it; no statistics if it had none.

    `has_optimizer` is false for a parameter that no optimizer has; its gradient is that which a backward pass left.
    `cleared` says that the step found no gradient, or nothing but zeros, although the last backward pass that
    reached the parameter had left one that was not zero: something such as `zero_grad` came between them.
    """

    tensor: Count = 0
    statistics: Statistics | None = None
    has_optimizer: bool = True
    cleared: bool = False


class Update(Happening, frozen=True, gc=False):
    """The tensor of state `tensor` has changed. `version` is torch's count of in-place changes to it.

    `cause` is "step" for an optimizer's step, "in-place" for any other in-place change, "data" for one that
    went around the version count (`p.data.clamp_()`), "replaced" where another tensor took the name, "converted" where
    the values stayed and the dtype or the device changed (`model.half()`, `model.to(device)`), and "unchanged" for an
    optimizer's step that left both version and values as they were. Neither of the last two is a change of values.
    `type` is the description of the tensor where it was replaced or converted, or has another shape than before (a lazy
    layer).
    """

    tensor: Count = 0
    statistics: Statistics | None = None
    version: Whole = 0
    cause: str = "step"
    type: str = ""


class NonFinite(Happening, frozen=True, gc=False):
    """The first NaN or infinity seen in one place.

    `where` is "output" (of `module`), "parameter", "buffer" or "gradient" (of `tensor`), or "loss": what a backward
    pass began with. `count` is the number of such elements in the first tensor that had any, `type` the description of
    that tensor.

    Of a loss, `computed` is the location of the line that computed it. If one of the variables that it was computed
    from holds a NaN, then `variable` is the first of them, and `computed` is the line that computed that.
    """

    where: str = "output"
    tensor: Count = 0
    count: Count = 0
    type: str = ""
    computed: Count = 0
    variable: str = ""


class CallFunction(Happening, frozen=True, gc=False):
    """A function of torch was called. `target` is its qualified name, such as "torch.relu".

    `inputs` describes the tensors among its arguments, `outputs` those it gave back: a tensor of the model's state by
    its name ("model.conv1.weight"), any other as "float32[64, 32, 26, 26]". `in_place` says that it gave back its
    first argument.

    The rest is there only where statistics of everything are asked for (`statistics="all"`). `statistics` has an item
    for each of `outputs`, None for a tensor whose values could not be read. `changed` are the positions in `inputs` of
    those tensors that the call has changed in place and has not given back (`x[0] = 1` gives nothing back),
    and `changed_statistics` has an item for each of these.
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
    """Python read the value of a tensor: what a branch, a loop or a print depends on.

    `target` is the method ("__bool__", "item", "__float__", "__int__", "__index__", "__len__", ...), `value` what came
    back where that is a bool, an int or a float (non-finite floats as text).
    """

    target: str = ""
    inputs: Sequence[str] = ()
    value: bool | int | float | str | None = None
    input_ids: Sequence[Count] = ()


class FlowStep(Happening, frozen=True, gc=False):
    """A test of the program's code came out, or a loop ended; only where it is asked for (`flow=True`).

    `construct` is "if", "elif", "while", "ifexp" (`a if test else b`), "assert", "for", "comprehension" or "match",
    `text` the source of the test, with blanks and brackets as `ast.unparse` sets them. `value` is the truth of a test.
    A `match` step says that the pattern of a case matched, and how its guard came out if it has one. Of a loop, `value`
    is None and `iterations` counts the elements that it took; it is recorded once it has ended, in whichever way. Of a
    comprehension, there is one such step for each `for`, and one with a truth for each `if`. `location` has the line of
    the test, also in code that is not the user's, and `ordinal` counts the steps of that text there in one call of the
    enclosing module.
    """

    construct: str = "if"
    text: str = ""
    value: bool | None = None
    iterations: Count | None = None
    ordinal: Count = 0


class GetAttr(Happening, frozen=True, gc=False):
    """An attribute was read.

    `owner` is the name of a proxied module or of a tensor of its state, else the description of a tensor. `value`
    describes what came back: a tensor as in `CallFunction.inputs`, "None", a bool or an int, or the name of its
    type. `known` says that the tensor that came back has been seen before. `statistics` are those of a tensor that was
    read from a tensor (`p.grad`), where statistics of everything are asked for (`statistics="all"`).
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
    """An attribute was written; fields as in `GetAttr`, and `value` is any number as it is."""

    target: str = ""
    owner: str = ""
    value: str = ""
    owner_id: Count = 0
    value_id: Count = 0


class DelAttr(Happening, frozen=True, gc=False):
    """An attribute was deleted; fields as in `GetAttr`."""

    target: str = ""
    owner: str = ""


class Configuration(Happening, frozen=True, gc=False):
    """What torch's global settings are: all of them in the first such event of a file, then those that have changed.

    They are looked at when a model is proxied, at each call of a root module and at each step of an optimizer. The
    names of settings are dotted as torch has them where it does ("cudnn.benchmark"). Dtypes are named as in
    `describe`, seeds that JSON has no exact number for are texts. What this version of torch does not have is left
    out; None stands for "off" (autocast), and for what could not be read.
    """

    settings: dict[str, Setting] = msgspec.field(default_factory=dict)


class Problem(Happening, frozen=True, gc=False):
    """Tracing met a problem, and what was lost by it; training went on."""

    message: str = ""


class Limit(Happening, frozen=True, gc=False):
    """The trace of this process has reached the size that was asked for (`max_size`, in bytes).

    From here on there are only records of what changes state: updates, the steps of optimizers and their settings; and
    what is wrong: non-finite values and problems.
    """

    max_size: Count = 0


class RunEnd(Happening, frozen=True, gc=False):
    """The last record of a file whose process ended, or stopped being traced, in an orderly way.

    `reason` is "exit", "exception" (`error` is then its class name, such as "ValueError" or "KeyboardInterrupt"),
    "unproxied" (by the program) or "failed" (a mistake of the tracing itself). A process that was killed, by SIGTERM
    for instance, leaves none.
    """

    reason: str = "exit"
    error: str = ""


AnyEvent: TypeAlias = Union[  # noqa: UP007  A bar between so many reads worse.
    Run, Location, Module, Parameter, Buffer, OptimizerState,
    CallModule, Input, ReturnModule, Loss, GraphPattern, Backward, BackwardEnd,
    Optimizer, OptimizerStep, OptimizerStepEnd,
    SchedulerStep, RateReduced, Clip, ScalerStep, Loading, Load, ActiveDropout, DiscardedResult, FreezeWithoutEffect,
    RateWithoutEffect,
    Gradient, Update, NonFinite,
    CallFunction, CallMethod, ReadValue, FlowStep, GetAttr, SetAttr, DelAttr,
    Configuration, Problem, Limit, RunEnd,
]  # fmt: skip
"""Every class that a trace may hold."""
