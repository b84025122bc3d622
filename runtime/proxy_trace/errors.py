"""What a user of `proxy-trace` can get wrong, one class each; the message says what to do."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path


class TraceError(Exception):
    """The base of all errors that `proxy-trace` reports in one line."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Come whole from one process to another: by its message, since each class is made from something else."""
        return _restore, (type(self), self.args, self.__dict__)


def _restore(error_class: type[TraceError], arguments: tuple[Any, ...], attributes: dict[str, Any]) -> TraceError:
    error = error_class.__new__(error_class)
    error.args = arguments
    error.__dict__.update(attributes)
    return error


class TraceNotFoundError(TraceError):
    """There is no such file or directory."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path}: no such file or directory. Give a run directory, one of its .jsonl files, or the logdir."
        )


class NoRunGivenError(TraceError):
    """No RUN was given, and there is no default."""

    def __init__(self, default: str) -> None:
        super().__init__(
            f"no RUN was given, and there is no '{default}' here. "
            "Give a run directory, one of its .jsonl files, or the logdir."
        )


class NoTraceError(TraceError):
    """A directory contains no trace."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path}: contains no trace: there is no .jsonl file in it, or in a run directory below it.")


class UnreadableFileError(TraceError):
    """The operating system would not let us read."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(f"{path}: cannot be read: {error.strerror or error}.")


class NotATraceError(TraceError):
    """A file does not begin as a trace does."""

    def __init__(self, path: Path, reason: str) -> None:
        self.reason = reason
        super().__init__(f"{path}: is not a trace: {reason}.")


class NewerFormatError(TraceError):
    """A trace was written by a later version than this reader knows."""

    def __init__(self, path: Path, found: int, known: int) -> None:
        self.reason = f"it has trace format {found}, and this proxy-trace reads formats up to {known}"
        super().__init__(f"{path}: {self.reason}. Upgrade the package that contains proxy-trace.")


class TextLogError(TraceError):
    """A text log was given where records are needed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(
            f"{path}: is a text log and has no records; print it with 'proxy-trace log'. For a JSON Lines trace, give "
            "Proxy.Proxy a logdir that does not end in .log, "
            'such as logdir="proxy_trace", and run the script again.'
        )


class UnknownKindError(TraceError):
    """An event kind that does not exist."""

    def __init__(self, kind: str, valid: Iterable[str]) -> None:
        super().__init__(f"there is no event kind '{kind}'. Kinds are: {', '.join(valid)}.")


class StepRangeError(TraceError):
    """A range of steps that cannot be understood."""

    def __init__(self, text: str) -> None:
        super().__init__(
            f"'{text}' is not a range of steps. Give one step (7), a range (2-5), or an open one (100- or -10)."
        )


class OneRankError(TraceError):
    """A run with one rank, where several are to be compared."""

    def __init__(self, path: Path, rank: int) -> None:
        super().__init__(
            f"{path}: only rank {rank} left a trace, so there is nothing to compare it with. Give a run of several "
            "ranks: a run directory, or a logdir (meaning its newest run)."
        )


class NothingToCompareError(TraceError):
    """A choice of steps and names that leaves nothing which several ranks have."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path}: there is nothing to compare: several ranks have no matching parameter or buffer at the end of "
            "the same step. 'proxy-trace ranks' without --name and --step compares all of them."
        )


class SameRunError(TraceError):
    """Two paths that stand for one run, where two are to be compared."""

    def __init__(self, first: Path, second: Path, run: str) -> None:
        super().__init__(
            f"{first} and {second} are the same run, {run}, so there is nothing to compare. "
            "Give the directories of two runs; a logdir means its newest run."
        )


class NothingInCommonError(TraceError):
    """Two runs that have nothing to compare."""

    def __init__(self, first: Path, second: Path) -> None:
        super().__init__(
            f"{first} and {second}: there is nothing to compare: they have no matching parameter or buffer with the "
            "same name in the same rank."
        )


class NothingAlikeError(TraceError):
    """Two runs of which no record stands for one of the other."""

    def __init__(self, first: Path, second: Path) -> None:
        super().__init__(
            f"{first} and {second}: there is nothing to compare: they have no matching record in the same rank. "
            "'proxy-trace compare --records' without --name and --step compares all records."
        )


class TooFewBaselinesError(TraceError):
    """So few baselines that nothing can be said of what other seeds give."""

    def __init__(self, count: int, least: int) -> None:
        super().__init__(
            f"{count} baseline{'' if count == 1 else 's'}: too few to know the effect of other seeds. Give at least "
            f"{least} runs that differ only in their seeds."
        )


class SameBaselinesError(TraceError):
    """Two baselines with the same values throughout."""

    def __init__(self, first: Path, second: Path) -> None:
        super().__init__(
            f"{first} and {second} have the same values throughout, so they do not show the effect of another seed. "
            "Give baselines that differ in their seeds."
        )


class NothingInBaselineError(TraceError):
    """Runs that have nothing in common."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path}: there is nothing to compare: this run and the baselines have nothing matching with the same "
            "name in the same rank."
        )


class NoSuchRankError(TraceError):
    """A rank that left no file in this run."""

    def __init__(self, rank: int, ranks: Iterable[int]) -> None:
        super().__init__(f"no file of rank {rank} in this run. Ranks are: {', '.join(map(str, ranks))}.")


class OutputExistsError(TraceError):
    """An export would replace something."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path}: already exists. Use --force to replace it, or give another name with --output.")


class NotOurOutputError(TraceError):
    """Something that no export made lies where one writes before it is whole."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path}: is in the way of this export, and was not made by one. Move it elsewhere, or give another place "
            "with --output."
        )


class ExportRunningError(TraceError):
    """Two exports of one run into one dataset at a time."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path}: another export is writing it. Wait until that ends, or give another place with --output."
        )


class OutputIsFolderError(TraceError):
    """An export that is one file would replace a folder."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path}: is a directory, and this format is a single file. Give the name of a file with --output."
        )


class OutputIsLinkError(TraceError):
    """An export that nobody named a place for would go where a link leads."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path}: is a link. Use --output to say where to write, even if it is through this link.")


class UnwritableFileError(TraceError):
    """The operating system would not let us write."""

    def __init__(self, path: Path | str, error: OSError) -> None:
        super().__init__(f"{path}: cannot be written: {error.strerror or error}.")


class MissingExtraError(TraceError):
    """A package is needed that only an extra of this distribution installs."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(f"{what} needs {package}, which is not installed: pip install 'instrumentor[{extra}]'.")


class UnknownNameError(TraceError):
    """A name that nothing in the trace has."""

    def __init__(self, name: str, nearest: Sequence[str]) -> None:
        did_you_mean = f" Did you mean {', '.join(nearest)}?" if nearest else ""
        super().__init__(
            f"no module, parameter or buffer of this run is called '{name}'.{did_you_mean} Globs such as 'model.fc*' "
            "and places (FILE:LINE) work too."
        )


class UnknownGlobError(TraceError):
    """A choice by name that meets no parameter or buffer."""

    def __init__(self, glob: str, nearest: Sequence[str]) -> None:
        did_you_mean = f" Did you mean {', '.join(nearest)}?" if nearest else ""
        super().__init__(
            f"no parameter or buffer of this run is called '{glob}'.{did_you_mean} "
            "Globs such as 'model.fc*' match whole names."
        )


class UnknownPlaceError(TraceError):
    """A place at which nothing was recorded."""

    def __init__(self, what: str, near: str, there: Sequence[str], *, has_calls: bool) -> None:
        if not there:
            hint = "This trace contains no places."
        elif near == "line":
            hint = f"Places near it: {', '.join(there)}."
        else:
            hint = f"Files: {', '.join(there)}."
        if not has_calls:
            hint += " Calls of torch functions are recorded at level DEBUG only."
        super().__init__(f"nothing was recorded at '{what}'. {hint}")


class NoCallError(TraceError):
    """No call of a module that could be put into order."""

    def __init__(self, which: str = "") -> None:
        super().__init__(
            f"no call of a module was recorded{which}. 'proxy-trace show --kind call_module' lists those that were."
        )


class NoGraphError(TraceError):
    """A graph of a stored run."""

    def __init__(self) -> None:
        super().__init__(
            "a stored run has the names of the tensors of a call, but neither its other arguments nor its functions, "
            "so no graph can be built from it. Call the model inside `with Proxy.trace(model) as trace:`, and use "
            "`trace.graph()`. The execution order is available: `execution_order()`."
        )


class UnknownClassesError(TraceError):
    """A trace that does not say which modules are torch.nn's, where FSDP's leaf rule asks for that."""

    def __init__(self) -> None:
        super().__init__(
            "this trace was written by an older version and does not say which classes torch.nn defines, so FSDP's "
            "leaf rule cannot be applied. Use --every-call (in Python leaf_rule=None), or run the script again."
        )


class OrderTooLongError(TraceError):
    """One call of a model with more in it than an order of execution is kept of."""

    def __init__(self) -> None:
        super().__init__(
            "this call of a model contains more calls and parameter names than an execution order can hold. Choose a "
            "part of the model: --module 'model.encoder'."
        )


class UnknownCodeError(TraceError):
    """A code of findings that no check has, or a glob that meets none."""

    def __init__(self, code: str, codes: Iterable[str], path: Path | None = None) -> None:
        codes = list(codes)
        nearest = get_close_matches(code, codes, n=3)
        hint = f"Did you mean {', '.join(nearest)}?" if nearest else f"Codes are: {', '.join(codes)}."
        where = "" if path is None else f"{path}: [tool.proxy-trace]: "
        super().__init__(f"{where}there is no check with the code '{code}'. {hint}")


class BadConfigurationError(TraceError):
    """A `pyproject.toml` with settings that are none."""

    def __init__(self, path: Path, error: Exception) -> None:
        super().__init__(
            f"{path}: {_reason(error)}. [tool.proxy-trace] takes select and ignore (lists of codes) and baseline (a "
            "file name)."
        )


class BadBaselineError(TraceError):
    """A file of known findings that cannot be read."""

    def __init__(self, path: Path, error: Exception) -> None:
        super().__init__(
            f"{path}: is not a baseline: {_reason(error)}. 'proxy-trace summary --write-baseline {path}' writes one."
        )


class BadCheckError(TraceError):
    """A check that another package brings, and that cannot be used."""

    def __init__(self, name: str, value: str, reason: str) -> None:
        super().__init__(f"the check {name} ({value}), provided by an installed package, cannot be used: {reason}.")


class NoFlowStepsError(TraceError):
    """A run that is to be compared by its flow steps, and has none."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path}: has no flow steps. They are recorded for models that are proxied with flow=True, which "
            "'instrument --flow' adds."
        )


class BaselineExistsError(TraceError):
    """Known findings would replace what is not a file of known findings."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path}: exists and is not a baseline. Give another name.")


def _reason(error: Exception) -> str:
    words = (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
    return words.rstrip(".")


class WorkerDiedError(TraceError):
    """A process that read a part of a run ended before it was done."""

    def __init__(self) -> None:
        super().__init__(
            "a process that was reading a part of the run died, perhaps for lack of memory. Try again with --jobs 1."
        )
