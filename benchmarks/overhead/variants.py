"""What can be attached to a training step, as far as one can say without torch; `attachments` and `peers` do it."""

from __future__ import annotations

from typing import NamedTuple


class Variant(NamedTuple):
    """A way of watching a training step.

    `same_detail` names our level that records as much or more; "" where there is none to compare with. `package`
    is what has to be installed for it.
    """

    what: str
    same_detail: str = ""
    package: str = ""


OURS = {
    "plain": Variant("nothing"),
    "control": Variant("nothing, once more: what it is off 1 is noise"),
    "INFO": Variant("module calls, gradients, updates, backward, steps"),
    "INFO-fallback": Variant("INFO where one_pass.c could not be compiled"),
    "DEBUG": Variant("and every torch call, attribute and read of a value, with its place in the code"),
    "INFO-outputs": Variant('INFO with statistics="outputs": also of what modules put out'),
    "DEBUG-all": Variant('DEBUG with statistics="all": also of what torch calls put out, and optimizer state'),
}

PEERS = {
    "hooks": Variant("by hand: shapes at every module, as JSON Lines"),
    "hooks-statistics": Variant("by hand: the same, and min, max, norm of parameters and gradients: less than INFO"),
    "hooks-same-detail": Variant("by hand: all that INFO records, written straightforwardly", "INFO"),
    "wandb": Variant('wandb.watch(log="all", log_freq=1), offline: histograms of both', "INFO", "wandb"),
    "nnsight": Variant("tracer.cache(): the outputs of all modules, in memory", "", "nnsight"),
    "profiler": Variant("torch.profiler(record_shapes=True), a Chrome trace per block"),
    "profiler-stack": Variant("the same, with_stack=True: each operation's place in the code", "DEBUG"),
    "torchlens": Variant("torchlens.record: operations and modules of forward passes, in memory", "DEBUG", "torchlens"),
}

FLOOR = {
    "empty-module-hooks": Variant("a global forward pre-hook and hook that do nothing"),
    "empty-optimizer-hooks": Variant("a global optimizer pre-hook and post-hook that do nothing"),
    "norms": Variant("torch._foreach_norm of gradients and parameters at each step, not read"),
    "statistics": Variant("norms, amin and amax of the same, read"),
    "sums": Variant("the sum of each module's output, read: the least that finds a NaN"),
    "floor-INFO": Variant("all of the above", "INFO"),
    "empty-mode": Variant("a TorchFunctionMode that does nothing"),
    "floor-DEBUG": Variant("all of the above", "DEBUG"),
}

VARIANTS = {**OURS, **PEERS, **FLOOR}
