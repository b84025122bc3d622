"""What traces say of programs is what independent counting finds, and results are the same to the bit."""

from __future__ import annotations

import pytest

from tests.proxy_wrapper.truth.judgement import TruthProgram, faults
from tests.proxy_wrapper.truth.programs import layers

PROGRAMS = [program for module in (layers,) for program in module.PROGRAMS]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_the_trace_tells_the_truth(program: TruthProgram, level: str, logdir: str) -> None:
    assert faults(program, logdir, level) == []
