"""Schedulers that nothing advances are told from those that something may advance."""

from __future__ import annotations

import ast
import textwrap

import pytest

from proxy_wrapper.source_patterns.unread_schedulers import unread_scheduler


def unread(text: str, *others: str) -> str:
    """What is found of the scheduler that the only line with `StepLR(` creates, in a program with other files."""
    text = textwrap.dedent(text)
    line = next(number for number, each in enumerate(text.splitlines(), 1) if "StepLR(" in each)
    tree = ast.parse(text)
    return unread_scheduler(tree, line, lambda _: [tree, *map(ast.parse, map(textwrap.dedent, others))])


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("sched = StepLR(opt, 3)\nopt.step()\n", id="never mentioned"),
        pytest.param("sched = StepLR(opt, 3)\nprint(sched.get_last_lr())\n", id="its rate is printed"),
        pytest.param("sched = StepLR(opt, 3)\ntorch.save({'s': sched.state_dict()}, path)\n", id="its state is saved"),
        pytest.param("sched: StepLR = lr_scheduler.StepLR(\n    opt, 3\n)\n", id="with a type"),
        pytest.param("def f(opt):\n    sched = StepLR(opt, 3)\n    opt.step()\n", id="in a function"),
        pytest.param(
            "def f(opt):\n    sched = StepLR(opt, 3)\ndef g(sched):\n    sched.step()\n",
            id="another function has another",
        ),
    ],
)
def test_a_scheduler_that_nothing_advances(text: str) -> None:
    assert unread(text) == "sched"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("sched = StepLR(opt, 3)\nsched.step()\n", id="advanced"),
        pytest.param("sched = StepLR(opt, 3)\ndef f():\n    sched.step()\n", id="advanced in a function"),
        pytest.param("def f():\n    sched = StepLR(opt, 3)\n    return sched\n", id="returned"),
        pytest.param("sched = StepLR(opt, 3)\ntrain(opt, sched)\n", id="passed on"),
        pytest.param("sched = StepLR(opt, 3)\nsteps = [sched]\n", id="in a list"),
        pytest.param("sched = StepLR(opt, 3)\nadvance = sched.step\n", id="its method is kept"),
        pytest.param("sched = StepLR(opt, 3)\nfor key in ('sched',): globals()[key].step()\n", id="looked up"),
        pytest.param("def f():\n    global sched\n    sched = StepLR(opt, 3)\n", id="a global variable"),
        pytest.param("self.sched = StepLR(opt, 3)\n", id="an attribute of an unknown class"),
        pytest.param("if (sched := StepLR(opt, 3)): pass\n", id="in an expression"),
        pytest.param("opt, sched = make(), StepLR(opt, 3)\nsched.step()\n", id="assigned with something else"),
        pytest.param("StepLR(opt, 3).step()\n", id="no variable"),
        pytest.param("sched = StepLR(opt, 3) if decay else None\n", id="or none"),
    ],
)
def test_a_scheduler_that_something_may_advance(text: str) -> None:
    assert unread(text) == ""


TRAINER = """
class Trainer:
    def __init__(self, opt):
        self.sched = StepLR(opt, 3)
    def fit(self):
        {}
"""
BUILT = """
def build(opt):
    sched = StepLR(opt, 3)
    return opt, sched
def main():
    {}
"""
RETURNED = """
def build(opt):
    return opt, StepLR(opt, 3)
def main():
    {}
"""
ALONE = """
def build(opt):
    return StepLR(opt, 3)
def main():
    {}
"""
KEPT = """
def build(opt):
    return {{"opt": opt, "sched": StepLR(opt, 3)}}
def main(state):
    {}
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(TRAINER.format("self.opt.step()"), "self.sched", id="an attribute"),
        pytest.param(TRAINER.format("save({'sched': self.sched.state_dict()})"), "self.sched", id="its state is saved"),
        pytest.param(
            TRAINER.format("self.sched.load_state_dict(old['sched'])"), "self.sched", id="its state is loaded"
        ),
        pytest.param(BUILT.format("opt, sched = build(make())\n    opt.step()"), "sched", id="returned to a caller"),
        pytest.param(RETURNED.format("opt, _ = build(make())"), "StepLR", id="returned without a name"),
        pytest.param(ALONE.format("sched = build(make())"), "StepLR", id="returned alone"),
        pytest.param(
            ALONE.replace("main", "start").format("s = build(opt)\n    return 1, s")
            + "def main():\n    _, s = start()\n",
            "StepLR",
            id="returned by a caller",
        ),
        pytest.param(KEPT.format("state['opt'].step()"), "'sched'", id="under a key"),
        pytest.param("state['sched'] = StepLR(opt, 3)\n", "'sched'", id="under a key of its own"),
    ],
)
def test_a_scheduler_that_is_kept_and_never_advanced(text: str, expected: str) -> None:
    assert unread(text, "def other(trainer):\n    trainer.opt.step()\n") == expected


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(TRAINER.format("self.sched.step()"), id="advanced"),
        pytest.param(TRAINER.format("advance(self.sched)"), id="passed on"),
        pytest.param(TRAINER.format("getattr(self, 'sched').step()"), id="looked up"),
        pytest.param(TRAINER.replace("Trainer:", "Trainer(Base):").format("pass"), id="its class has a library's base"),
        pytest.param(BUILT.format("opt, sched = build(make())\n    sched.step()"), id="a caller advances it"),
        pytest.param(BUILT.format("both = build(make())"), id="a caller gets a tuple"),
        pytest.param(BUILT.format("opt, sched = build(a)\n    run(build)"), id="its function is passed on"),
        pytest.param(BUILT.format("pass"), id="nobody of the program calls its function"),
        pytest.param(RETURNED.format("_, sched = build(make())\n    run(sched)"), id="a caller passes it on"),
        pytest.param(ALONE.format("sched = build(make())\n    sched.step()"), id="a caller advances what it gets"),
        pytest.param(ALONE.format("sched, = build(make())"), id="a caller unpacks it"),
        pytest.param(KEPT.format("state['sched'].step()"), id="its item is advanced"),
        pytest.param(KEPT.format("state.get('sched').step()"), id="its item is got"),
        pytest.param(KEPT.format("[each.step() for each in state.values()]"), id="all items are advanced"),
        pytest.param(KEPT.format("run(**state)"), id="all items are passed on"),
        pytest.param(KEPT.replace("build", "configure_optimizers").format("pass"), id="a library reads it"),
    ],
)
def test_a_scheduler_that_is_kept_and_may_be_advanced(text: str) -> None:
    assert unread(text) == ""


@pytest.mark.parametrize("text", [TRAINER.format("pass"), KEPT.format("pass")])
def test_another_file_may_advance_it(text: str) -> None:
    advancing = "def step(kept):\n    kept.sched.step()\n    kept['sched'].step()\n"
    assert unread(text, advancing) == ""
