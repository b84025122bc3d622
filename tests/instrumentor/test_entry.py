"""A script with the files that it runs: what is written runs as it stands, and trains the same."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from textwrap import dedent

import pytest
from typer.testing import CliRunner, Result

from instrumentor.cli import app
from tests.python_process.run_python import run_python

ROOT = Path(__file__).parents[2]

NET = """
    import torch.nn as nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 2)
        def forward(self, x):
            return self.layer(x)

    def build():
        net = Net()
        return net
    """
TRAINER = """
    import torch
    from {net} import Net

    class Trainer:
        def __init__(self):
            self.model = Net()
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

        def fit(self):
            for _ in range(3):
                self.optimizer.zero_grad()
                loss = self.model(torch.ones(4, 3)).pow(2).sum()
                loss.backward()
                self.optimizer.step()
            return loss.item()

    if __name__ == "__main__":
        debug = Net()
    """
SCRIPT = '''
    """Train."""
    from __future__ import annotations
    import json, pathlib
    import torch
    from {trainer} import Trainer
    from {net} import build

    torch.manual_seed(0)
    trainer = Trainer()
    first = trainer.fit()
    other = build()
    sizes = json.loads(pathlib.Path(__file__).with_name("sizes.json").read_text())
    print(first, other(torch.ones(1, 3)).sum().item(), sizes)
    '''


def write(files: dict[str, str]) -> None:
    for path, text in files.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(dedent(text).lstrip("\n"))


def instrument(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": None}).invoke(app, ["--no-cache", "--isolated", "--entry", *arguments])


def run(script: str, *path: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "runtime"), *path])}
    done = run_python([script], env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def traced_models() -> list[str]:
    records = [
        json.loads(line)
        for path in Path("proxy_trace").rglob("*.jsonl")
        for line in path.read_text().split("\n")
        if line
    ]
    return sorted(each["name"] for each in records if each.get("kind") == "module" and "." not in each["name"])


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def flat() -> None:
    write(
        {
            "net.py": NET,
            "trainer.py": TRAINER.format(net="net"),
            "train.py": SCRIPT.format(trainer="trainer", net="net"),
            "sizes.json": "[1, 2]",
        }
    )


@pytest.mark.usefixtures("flat")
def test_the_tree_runs_and_computes_the_same() -> None:
    plain = run("train.py")
    outcome = instrument("train.py")
    assert outcome.exit_code == 0
    assert outcome.stderr.splitlines() == [
        "train.py -> instrumented_train/train.py: 1 model (other, line 11)",
        "trainer.py -> instrumented_train/trainer.py: 1 model (self.model, line 6)",
        "run it with: python instrumented_train/train.py",
    ]
    assert run("instrumented_train/train.py") == plain
    assert traced_models() == ["model", "other"]
    assert Path("instrumented_train/net.py").read_text() == Path("net.py").read_text()


def test_files_that_a_call_imports_are_of_the_program() -> None:
    write(
        {
            "train.py": """
                import torch
                from methods import create
                torch.manual_seed(0)
                print(create("plain").fit())
                """,
            "methods/__init__.py": """
                import importlib
                def create(name):
                    module = importlib.import_module("methods." + name + "_method")
                    return module.Method()
                """,
            "methods/plain_method.py": TRAINER.format(net="net").replace("class Trainer", "class Method"),
            "net.py": NET,
        }
    )
    plain = run("train.py")
    assert instrument("train.py").exit_code == 0
    assert run("instrumented_train/train.py") == plain
    assert traced_models() == ["model"]


def test_functions_that_nothing_calls_make_nothing() -> None:
    write(
        {
            "train.py": """
                import torch
                from nets import *

                def test(net):
                    return net(torch.ones(1, 3)).sum().item()

                net = Net()
                print(test(net))
                """,
            "nets/__init__.py": "from .small import *\nfrom .large import build_large\n",
            "nets/small.py": NET
            + """
    def test():
        net = build()
        print(net)

    if __name__ == "__main__":
        test()
    """,
            "nets/large.py": """
                from .small import Net

                def build_large():
                    net = Net()
                    net.eval()
                    return net
                """,
        }
    )
    told = instrument("train.py").stderr
    assert told.splitlines()[0] == "train.py -> instrumented_train/train.py: 1 model (net, line 7)"
    assert "small.py" not in told
    assert "large.py" not in told


@pytest.mark.parametrize(
    "mention",
    [
        "import nets\nnet = getattr(nets, 'check'[:5])()",
        "import nets\nnet = nets.__dict__['check']()",
        "import nets\nfor each in (nets.check,):\n    net = each()",
        "from nets import check as other\nnet = other()",
        "import importlib\nnet = getattr(importlib.import_module('nets'), 'ch' + 'eck')()",
        "import nets\nnet = eval('nets.check')()",
        "import functools, nets\nnet = functools.partial(nets.check)()",
        "import nets\nnet = vars(nets)['check'[:5]]()",
    ],
)
def test_a_function_that_may_be_mentioned_is_called(mention: str) -> None:
    check = (
        NET
        + """
    def check():
        net = build()
        net.train()
        return [net]
    """
    )
    write({"nets.py": check})
    Path("train.py").write_text(f"{mention}\nprint(net)\n")
    assert "nets.py -> instrumented_train/nets.py: 1 model" in instrument("train.py").stderr


def test_modules_of_packages_are_run_where_they_are_imported_or_run() -> None:
    step = """
        import torch
        from net import Net
        if {condition}:
            net = Net()
            print(net(torch.ones(1, 3)).shape)
        """
    write(
        {
            "train.py": """
                import runpy
                import steps.first
                runpy.run_module("steps.second", run_name="__main__")
                runpy.run_module("steps.third")
                """,
            "net.py": NET,
            "steps/__init__.py": "",
            "steps/first.py": step.format(condition="True"),
            "steps/second.py": step.format(condition='__name__ == "__main__"'),
            "steps/third.py": step.format(condition='__name__ == "__main__"'),
        }
    )
    plain = run("train.py")
    told = instrument("train.py").stderr
    assert [name for name in ("first", "second", "third") if f"steps/{name}.py ->" in told] == ["first", "second"]
    assert run("instrumented_train/train.py") == plain
    assert traced_models() == ["net", "net_1"]


@pytest.mark.usefixtures("flat")
def test_what_is_imported_is_not_the_main_program() -> None:
    instrument("train.py")
    assert "debug = Proxy" not in Path("instrumented_train/trainer.py").read_text()


@pytest.mark.usefixtures("flat")
def test_a_second_run_changes_nothing() -> None:
    instrument("train.py")
    before = {path: path.read_bytes() for path in Path("instrumented_train").rglob("*") if path.is_file()}
    outcome = instrument("train.py")
    assert "already up to date" in outcome.stderr
    assert {path: path.read_bytes() for path in Path("instrumented_train").rglob("*") if path.is_file()} == before


@pytest.mark.usefixtures("flat")
def test_what_somebody_edited_is_kept() -> None:
    instrument("train.py")
    edited = Path("instrumented_train/trainer.py")
    edited.write_text(edited.read_text() + "# mine\n")
    outcome = instrument("train.py")
    assert outcome.exit_code == 2
    assert "trainer.py: was edited after instrument wrote it" in outcome.stderr
    assert edited.read_text().endswith("# mine\n")


@pytest.mark.usefixtures("flat")
def test_in_place_and_back() -> None:
    plain = run("train.py")
    before = {path: path.read_bytes() for path in Path().glob("*.py")}
    assert instrument("train.py", "--in-place").exit_code == 0
    assert run("train.py") == plain
    assert traced_models() == ["model", "other"]
    second = instrument("train.py", "--in-place")
    assert second.exit_code == 0
    assert "train.py: already instrumented" in second.stderr
    CliRunner().invoke(app, ["--no-cache", "--isolated", "--revert", "train.py", "trainer.py"])
    assert {path: path.read_bytes() for path in Path().glob("*.py")} == before


@pytest.mark.usefixtures("flat")
def test_looking_writes_nothing() -> None:
    before = sorted(Path().rglob("*"))
    explained = instrument("train.py", "--explain")
    assert [line.split()[:3] for line in explained.stdout.splitlines() if " wrap " in line] == [
        ["train.py", "11", "other"],
        ["trainer.py", "6", "self.model"],
    ]
    assert "+        self.model = Proxy.Proxy(" in instrument("train.py", "--diff").stdout
    assert instrument("train.py", "--check").exit_code == 1
    assert sorted(Path().rglob("*")) == before


@pytest.mark.parametrize("end", ["\n", " \\\n\n", " \\\n; import sys\n"])
def test_modules_in_a_src_folder_are_found_before_the_originals(end: str) -> None:
    write(
        {
            "pyproject.toml": "",
            "src/pkg/__init__.py": "",
            "src/pkg/net.py": NET,
            "src/pkg/trainer.py": TRAINER.format(net=".net"),
            "scripts/train.py": SCRIPT.format(trainer="pkg.trainer", net="pkg.net"),
            "scripts/sizes.json": "[3]",
        }
    )
    script = Path("scripts/train.py")
    future = "from __future__ import annotations"
    script.write_text(script.read_text().replace(f"{future}\n", f"{future}{end}"))
    plain = run("scripts/train.py", "src")
    outcome = instrument("scripts/train.py", "-o", "out/")
    assert outcome.exit_code == 0, outcome.stderr
    assert run("out/scripts/train.py", "src") == plain
    assert traced_models() == ["model", "other"]
    back = CliRunner().invoke(app, ["--no-cache", "--isolated", "--revert", "out/scripts/train.py", "-o", "-"])
    assert back.stdout_bytes == Path("scripts/train.py").read_bytes()


def test_a_script_of_a_package_finds_the_package_in_the_tree() -> None:
    write(
        {
            "pkg/__init__.py": "",
            "pkg/net.py": NET,
            "pkg/parts/__init__.py": "",
            "pkg/parts/trainer.py": TRAINER.format(net="pkg.net"),
            "pkg/parts/train.py": SCRIPT.format(trainer="pkg.parts.trainer", net="pkg.net"),
            "pkg/parts/sizes.json": "[3]",
        }
    )
    plain = run("pkg/parts/train.py", os.getcwd())  # noqa: PTH109
    outcome = instrument("pkg/parts/train.py", "-o", "out/")
    assert outcome.exit_code == 0, outcome.stderr
    assert outcome.stderr.splitlines()[-1] == "run it with: python out/pkg/parts/train.py"
    assert run("out/pkg/parts/train.py", os.getcwd()) == plain  # noqa: PTH109
    assert traced_models() == ["model", "other"]


def test_what_a_caller_wraps_is_not_wrapped_where_it_is_made() -> None:
    write(
        {
            "net.py": NET,
            "factory.py": """
                from net import Net, build
                KEPT = []
                def make(deep):
                    net = Net()
                    if deep:
                        KEPT.append(net)
                    return net, 3
                """,
            "train.py": """
                import torch
                from factory import make
                model, size = make(True)
                print(model(torch.ones(1, size)).shape)
                """,
        }
    )
    assert instrument("train.py").exit_code == 0
    assert run("instrumented_train/train.py") == "torch.Size([1, 2])\n"
    assert traced_models() == ["model"]
    assert Path("instrumented_train/factory.py").read_text() == Path("factory.py").read_text()


def test_a_script_that_another_file_imports_back_is_one_file() -> None:
    write(
        {
            "pkg/__init__.py": "from .train import main\n",
            "pkg/net.py": NET,
            "pkg/use.py": """
                import torch
                def use(model):
                    from pkg.train import SIZE, make
                    other = make()
                    return model(torch.ones(1, SIZE)).shape, other(torch.ones(2, SIZE)).shape
                """,
            "pkg/train.py": """
                from pkg.net import Net
                from pkg.use import use
                SIZE = 3
                def make():
                    return Net()
                def main():
                    model = Net()
                    print(*use(model))
                if __name__ == "__main__":
                    main()
                """,
        }
    )
    plain = run("pkg/train.py", os.getcwd())  # noqa: PTH109
    assert instrument("pkg/train.py", "--diff").stdout.count("+++ ") == 2
    table = json.loads(instrument("pkg/train.py", "--explain", "--format", "json").stdout)
    assert [each["path"] for each in table["files"]] == ["pkg/train.py", "pkg/use.py"]
    outcome = instrument("pkg/train.py", "-o", "out/")
    assert outcome.exit_code == 0, outcome.stderr
    assert run("out/pkg/train.py", os.getcwd()) == plain  # noqa: PTH109
    assert traced_models() == ["model", "other"]


def test_what_a_library_makes_of_a_class_gets_its_proxy_in_the_file_of_the_class() -> None:
    write(
        {
            "net.py": NET,
            "train.py": """
                import torch
                from collections import defaultdict
                from net import Net
                torch.manual_seed(0)
                nets = defaultdict(Net)
                print(sum(nets[name](torch.ones(1, 3)).sum().item() for name in "ab"))
                """,
        }
    )
    Path("net.py").write_text(Path("net.py").read_text().partition("def build")[0])
    plain = run("train.py")
    outcome = instrument("train.py")
    assert outcome.exit_code == 0
    assert outcome.stderr.splitlines()[1] == "net.py -> instrumented_train/net.py: 1 model (self, line 6)"
    assert run("instrumented_train/train.py") == plain
    assert traced_models() == ["Net", "Net_1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["a.py", "b.py"], "needs exactly one script", id="two scripts"),
        pytest.param(["."], "needs exactly one script", id="a directory"),
        pytest.param(["a.py", "--revert"], "cannot be combined with --revert", id="a revert"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: list[str], message: str) -> None:
    outcome = instrument(*arguments)
    assert outcome.exit_code == 2
    assert message in " ".join(outcome.stderr.replace("│", " ").split())


def test_a_script_that_is_no_python_is_told_by_its_name() -> None:
    write({"bad.py": "def (:"})
    outcome = instrument("bad.py")
    assert outcome.exit_code == 2
    assert outcome.stderr.startswith("bad.py:1:5: not Python")
    assert not Path("instrumented_bad").exists()


def said(*arguments: str) -> str:
    return CliRunner(env={"COLUMNS": None}).invoke(app, ["--isolated", *arguments]).stderr


@pytest.mark.usefixtures("flat")
class TestHint:
    HINT = "train.py: 1 other file of its project creates models (trainer.py); add --entry to include them\n"

    def test_tells_of_models_that_the_script_does_not_get_hold_of(self) -> None:
        assert self.HINT in said("train.py", "--check", "--no-cache")

    def test_comes_from_the_cache_too(self) -> None:
        then = time.time() - 3600
        for name in ("train.py", "trainer.py", "net.py"):
            os.utime(name, (then, then))
        found = [said("train.py", "--check", "--cache-dir", "cache") for _ in range(2)]
        assert found[0] == found[1]
        assert self.HINT in found[1]

    @pytest.mark.parametrize(
        "arguments",
        [
            pytest.param(["train.py", "net.py"], id="several files"),
            pytest.param(["."], id="a directory"),
            pytest.param(["--entry", "train.py"], id="what it points to"),
            pytest.param(["train.py", "--quiet"], id="quiet"),
            pytest.param(["net.py"], id="a file without such models"),
        ],
    )
    def test_is_not_given_for(self, arguments: list[str]) -> None:
        assert "add --entry" not in said(*arguments, "--check", "--no-cache")
