"""The examples, instrumented as a user would and run: they train bit for bit as before, and leave their trace."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
import torch

from instrumentor.instrument import instrument_source
from instrumentor.settings import Settings
from instrumentor.source.undo import undo
from proxy_wrapper import events
from tests.python_process.run_python import run_python

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterable

    from instrumentor.settings import LogLevel

    RunPlain = Callable[[str], "RunResult"]
    RunTraced = Callable[[str, LogLevel], "RunResult"]

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
WEIGHTS = "weights.pt"

ARGUMENTS = {
    "mnist": ["--epochs", "1", "--train-samples", "192", "--test-samples", "64", "--log-interval", "1", "--save-model"],
    "dcgan": ["--steps", "6", "--batch-size", "16", "--log-interval", "1"],
    "char_transformer": ["--max-steps", "6", "--log-interval", "1"],
    "finetune": ["--epochs", "2"],
}
"""Options that make each example short, and make it print the loss of every step, or of every epoch."""

MNIST_ADDED = [
    "import proxy_wrapper.proxy as Proxy",
    '    model = Proxy.Proxy(model, recurse=True, name="model", logdir="proxy_trace", log_level=Proxy.INFO)',
]

SOURCE_COMMENT = re.compile(r'# instrument: format=1 source="mnist.py" sha256=[0-9a-f]{64} added=\+\d+,\+\d+')

# Every kind of line in the logs that the project's founding notes show, in an example that this script's log has too.
SEED_LINES = [
    "found the root object",
    "logger_proxy: Proxying all submodules of 'Net'",
    "logger_proxy: Proxying submodule 'conv1'",
    "INFO:root:Accessing attribute 'grad'",
    "INFO:root:Accessing attribute 'is_sparse'",
    "INFO:root:Accessing attribute 'mul_'",
    "INFO:root:Go to __torch_function__ for function 'is_complex'",
    "INFO:root:Go to __call__ for object 'builtin_function_or_method'",
    "INFO:root:Go to __init__ for object 'Tensor'",
    "INFO:root:Go to __init__ for object 'Parameter'",
    "INFO:root:Go to __init__ for object 'builtin_function_or_method'",
    "INFO:root:Object 'Tensor' is already proxied",
    "INFO:root:Object 'Parameter' is already proxied",
    "INFO:root:Object 'builtin_function_or_method' is already proxied",
    "INFO:root:Setting attribute '_obj' to an updated tensor with shape'torch.Size([10])'",
    "INFO:root:Setting attribute 'grad' to 'None'",
]
SEED_NUMBERS = [r"INFO:root:Minimum value: -?\d+\.\d+(e-\d+)?", r"INFO:root:Maximum value: -?\d+\.\d+(e-\d+)?"]


@dataclass(frozen=True)
class RunResult:
    """What a run printed, and the folder that it left its weights and its trace in."""

    stdout: str
    folder: Path

    @property
    def weights(self) -> Path:
        return self.folder / WEIGHTS

    def events(self) -> list[events.AnyEvent]:
        """The trace of the run's one process."""
        decoder = msgspec.json.Decoder(events.AnyEvent)
        (path,) = self.folder.glob("proxy_trace/*/rank0-*.jsonl")
        return [decoder.decode(line) for line in path.read_bytes().splitlines()]


def run_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the interpreter of the tests in `folder`, which must succeed."""
    paths = [str(ROOT), str(ROOT / "runtime")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)}
    # Warnings are errors, as in the tests themselves: instrumenting must not bring any in.
    # PyTorch 2.6 leaves it to Python's exit to remove a folder of its own.
    options = ["-W", "error", "-W", "ignore:Implicitly cleaning up:ResourceWarning"]
    done = run_python([*options, *arguments], cwd=folder, env=environment)
    assert done.returncode == 0, done.stderr
    return done


def run_script(source: bytes, name: str, folder: Path) -> RunResult:
    """Run the text of example `name` in `folder` with its short arguments."""
    (folder / f"{name}.py").write_bytes(source)
    done = run_in(folder, f"{name}.py", *ARGUMENTS[name], "--save-path", WEIGHTS)
    assert done.stderr == ""
    return RunResult(done.stdout, folder)


def source_of(name: str) -> bytes:
    return (EXAMPLES / f"{name}.py").read_bytes()


def instrumented(name: str, level: LogLevel = "INFO", logdir: str = "proxy_trace") -> bytes:
    settings = Settings(logdir=logdir, log_level=level)
    return instrument_source(source_of(name), settings, source_name=f"{name}.py").instrumented


@pytest.fixture(scope="session")
def run_plain(tmp_path_factory: pytest.TempPathFactory) -> RunPlain:
    """The result of an example as it is; each is run once."""
    return cache(lambda name: run_script(source_of(name), name, tmp_path_factory.mktemp(name)))


@pytest.fixture(scope="session")
def run_traced(tmp_path_factory: pytest.TempPathFactory) -> RunTraced:
    """The result of an example instrumented at a level; each is run once."""
    return cache(lambda name, level: run_script(instrumented(name, level), name, tmp_path_factory.mktemp(name)))


def tensors_of(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a saved state, and of the states in it, by name."""

    def walk(value: object, name: str) -> Iterable[tuple[str, torch.Tensor]]:
        if isinstance(value, dict):
            for key, child in value.items():
                yield from walk(child, f"{name}.{key}")
        else:
            assert isinstance(value, torch.Tensor)
            yield name, value

    return dict(walk(torch.load(path, weights_only=True), ""))


@pytest.mark.sample(5)
@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
@pytest.mark.parametrize("name", list(ARGUMENTS))
def test_trains_bit_for_bit_as_before(name: str, level: LogLevel, run_plain: RunPlain, run_traced: RunTraced) -> None:
    plain, traced = run_plain(name), run_traced(name, level)
    assert traced.stdout == plain.stdout
    assert len(plain.stdout.splitlines()) > 3  # A loss for every step or epoch, that is.

    expected, found = tensors_of(plain.weights), tensors_of(traced.weights)
    assert list(found) == list(expected)
    assert [key for key in expected if not torch.equal(found[key], expected[key])] == []
    assert traced.weights.read_bytes() == plain.weights.read_bytes()

    kinds = {type(event) for event in traced.events()}
    assert {events.CallModule, events.Gradient, events.Update, events.OptimizerStep, events.Backward} <= kinds
    assert (events.CallMethod in kinds) == (level == "DEBUG")
    assert events.Problem not in kinds


@pytest.mark.parametrize(
    ("name", "roots"),
    [
        pytest.param("mnist", {"model": "Net"}, id="one model"),
        pytest.param("dcgan", {"netG": "Generator", "netD": "Discriminator"}, id="two models, and no loss function"),
        pytest.param("char_transformer", {"model": "GPT"}, id="a model moved by a statement of its own"),
        pytest.param("finetune", {"model": "Net"}, id="a model that gets another head"),
    ],
)
def test_proxies_every_model_once(name: str, roots: dict[str, str], run_traced: RunTraced) -> None:
    modules = {event.id: event for event in run_traced(name, "INFO").events() if isinstance(event, events.Module)}
    assert {event.name: event.type for event in modules.values() if not event.parent} == roots


def test_the_bug_of_the_fine_tuning_example_is_named_with_its_line(run_traced: RunTraced) -> None:
    folder = run_traced("finetune", "INFO").folder
    lines = source_of("finetune").decode().splitlines()
    (line,) = (number for number, text in enumerate(lines, 1) if "torch.optim.SGD(" in text)
    told = run_in(folder, "-m", "proxy_trace", "summary", "proxy_trace", "--format", "github").stdout
    (finding,) = told.splitlines()
    assert finding.startswith(f"::error file=finetune.py,line={line},title=optimizer-of-other-model%3A SGD::")


def test_tied_weights_are_one_parameter_with_two_names(run_traced: RunTraced) -> None:
    seen = run_traced("char_transformer", "INFO").events()
    names = {event.name: event.aliases for event in seen if isinstance(event, events.Parameter)}
    assert names["model.wte.weight"] == ["model.lm_head.weight"]
    assert "model.lm_head.weight" not in names


def test_mnist_gets_two_lines_and_the_source_comment() -> None:
    before = source_of("mnist").decode().splitlines()
    after = instrumented("mnist").decode().splitlines()
    assert SOURCE_COMMENT.fullmatch(after.pop())
    for line in MNIST_ADDED:
        after.remove(line)
    assert after == before


def test_mnist_model_line_stands_right_below_the_model() -> None:
    after = instrumented("mnist").decode().splitlines()
    assert after[after.index(MNIST_ADDED[1]) - 1] == "    model = Net().to(device)"


@pytest.mark.parametrize("name", list(ARGUMENTS))
def test_reverts_to_the_original_bytes(name: str) -> None:
    assert undo(instrumented(name), source_name=f"instrumented_{name}.py").original == source_of(name)


@pytest.mark.parametrize("name", list(ARGUMENTS))
def test_instrumenting_twice_changes_nothing(name: str) -> None:
    once = instrumented(name)
    again = instrument_source(once, Settings(), source_name=f"instrumented_{name}.py")
    assert again.already_instrumented
    assert not again.changed


def test_command_line_instruments_shows_no_diff_of_the_result_and_reverts(tmp_path: Path) -> None:
    def instrument(*arguments: str) -> str:
        return run_in(tmp_path, "-m", "instrumentor", *arguments).stdout

    (tmp_path / "mnist.py").write_bytes(source_of("mnist"))
    instrument("mnist.py", "-o", "instrumented_mnist.py")
    assert (tmp_path / "instrumented_mnist.py").read_bytes() == instrumented("mnist")
    assert instrument("instrumented_mnist.py", "--diff") == ""
    instrument("instrumented_mnist.py", "--revert", "-o", "reverted.py")
    assert (tmp_path / "reverted.py").read_bytes() == source_of("mnist")


def test_text_log_has_every_kind_of_line_of_the_seeds(run_plain: RunPlain, tmp_path: Path) -> None:
    traced = run_script(instrumented("mnist", "DEBUG", logdir="mnist.log"), "mnist", tmp_path)
    plain = run_plain("mnist")
    assert traced.stdout == plain.stdout
    assert traced.weights.read_bytes() == plain.weights.read_bytes()
    log = (tmp_path / "mnist.log").read_text(encoding="utf-8")
    lines = set(log.splitlines())
    assert [line for line in SEED_LINES if line not in lines] == []
    assert [pattern for pattern in SEED_NUMBERS if not any(re.fullmatch(pattern, line) for line in lines)] == []
