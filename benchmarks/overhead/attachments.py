"""Attaches a variant to a task: the proxy, or what bounds its cost from below. For the workers, which import torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.overrides import TorchFunctionMode

if TYPE_CHECKING:
    from pathlib import Path

    from overhead.tasks import Task


class Attachment:
    """Watches nothing: what the others add to."""

    def __init__(self, task: Task, folder: Path) -> None:
        """Attach to `task`; whatever is written goes into `folder`."""
        self.task = task
        self.folder = folder

    def begin(self) -> None:
        """Some steps are about to run."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """The model's output for `inputs`."""
        output: torch.Tensor = self.task.model(inputs)
        return output

    def end_step(self, loss: torch.Tensor) -> None:
        """The optimizer's step is done."""

    def end(self) -> None:
        """Hand everything recorded so far to the operating system."""


class Traced(Attachment):
    """The proxy of this project, at one level."""

    level = "INFO"
    statistics = "state"

    def __init__(self, task: Task, folder: Path) -> None:
        super().__init__(task, folder)
        import proxy_wrapper.proxy as Proxy

        self._flush = Proxy.flush
        Proxy.Proxy(task.model, True, str(folder), self.level, "model", statistics=self.statistics)

    def end(self) -> None:
        """Wait until the writer has nothing left."""
        self._flush()


class TracedAtDebug(Traced):
    """The proxy of this project at its closest level."""

    level = "DEBUG"


class TracedWithOutputs(Traced):
    """The proxy of this project, with statistics of what modules put out."""

    statistics = "outputs"


class TracedWithAll(TracedAtDebug):
    """The proxy of this project, with statistics of everything."""

    statistics = "all"


class TracedByFallback(Traced):
    """The proxy of this project as it is where its library could not be compiled."""

    def __init__(self, task: Task, folder: Path) -> None:
        from proxy_wrapper.values import extents

        vars(extents)["library"] = None
        super().__init__(task, folder)


class EmptyModuleHooks(Attachment):
    """Global module hooks that do nothing."""

    def __init__(self, task: Task, folder: Path) -> None:
        super().__init__(task, folder)
        register_module_forward_pre_hook(lambda *_: None)
        register_module_forward_hook(lambda *rest: self.look_at_output(rest[-1]), with_kwargs=True, always_call=True)

    def look_at_output(self, output: Any) -> None:
        """Do nothing with a module's output."""


class EmptyOptimizerHooks(Attachment):
    """Global optimizer hooks, which end in `look`."""

    def __init__(self, task: Task, folder: Path) -> None:
        super().__init__(task, folder)
        register_optimizer_step_pre_hook(lambda *_: self.look_at_gradients())
        register_optimizer_step_post_hook(lambda *_: self.look(list(task.model.parameters())))

    def look_at_gradients(self) -> None:
        """Look at the gradients that there are."""
        self.look([tensor.grad for tensor in self.task.model.parameters() if tensor.grad is not None])

    def look(self, tensors: list[torch.Tensor]) -> None:
        """Do nothing with `tensors`."""


class Norms(EmptyOptimizerHooks):
    """The norms of gradients and parameters."""

    def look(self, tensors: list[torch.Tensor]) -> None:
        """Compute the norms and leave them unread."""
        with torch.no_grad():
            torch._foreach_norm(tensors)  # noqa: SLF001  It is what is measured.


class Statistics(EmptyOptimizerHooks):
    """Norm, minimum and maximum of gradients and parameters."""

    def look(self, tensors: list[torch.Tensor]) -> None:
        """Compute the numbers and read them."""
        with torch.no_grad():
            for tensor, norm in zip(tensors, torch._foreach_norm(tensors), strict=True):  # noqa: SLF001
                _ = norm.item(), torch.amin(tensor).item(), torch.amax(tensor).item()


class Sums(EmptyModuleHooks):
    """The sum of each module's output."""

    def look_at_output(self, output: Any) -> None:
        """Sum up and read the sum."""
        if isinstance(output, torch.Tensor):
            with torch.no_grad():
                output.sum().item()


class InfoFloor(Attachment):
    """The least that could record what INFO records."""

    def __init__(self, task: Task, folder: Path) -> None:
        super().__init__(task, folder)
        Sums(task, folder)
        Statistics(task, folder)


class EmptyMode(Attachment):
    """A function mode that does nothing."""

    def __init__(self, task: Task, folder: Path) -> None:
        super().__init__(task, folder)
        _PassingMode().__enter__()  # type: ignore[no-untyped-call]


class DebugFloor(InfoFloor):
    """The least that could record what DEBUG records."""

    def __init__(self, task: Task, folder: Path) -> None:
        super().__init__(task, folder)
        _PassingMode().__enter__()  # type: ignore[no-untyped-call]


class _PassingMode(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **kwargs) if kwargs else func(*args)


ATTACHMENTS: dict[str, type[Attachment]] = {
    "plain": Attachment,
    "control": Attachment,
    "INFO": Traced,
    "INFO-fallback": TracedByFallback,
    "DEBUG": TracedAtDebug,
    "INFO-outputs": TracedWithOutputs,
    "DEBUG-all": TracedWithAll,
    "empty-module-hooks": EmptyModuleHooks,
    "empty-optimizer-hooks": EmptyOptimizerHooks,
    "norms": Norms,
    "statistics": Statistics,
    "sums": Sums,
    "floor-INFO": InfoFloor,
    "empty-mode": EmptyMode,
    "floor-DEBUG": DebugFloor,
}
