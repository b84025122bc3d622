"""What traces say of programs is what independent counting finds, and results are the same to the bit."""

from __future__ import annotations

import pytest

from tests.proxy_wrapper.truth.judgement import TruthProgram, faults
from tests.proxy_wrapper.truth.programs import by_hand, functions, layers, loops, optimizers, several_models

MODULES = (by_hand, functions, layers, loops, optimizers, several_models)
PROGRAMS = [program for module in MODULES for program in module.PROGRAMS]


@pytest.mark.sample(60)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_the_trace_tells_the_truth(program: TruthProgram, level: str, logdir: str) -> None:
    assert faults(program, logdir, level) == []
