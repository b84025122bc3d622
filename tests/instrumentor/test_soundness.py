"""Random programs, run: no two bindings are said to hold one object that held two, and most that did are found.

`make soundness` judges 2,000 programs; the tests take as many as INSTRUMENT_PROGRAMS says.
"""

from __future__ import annotations

import os

import pytest

from tests.instrumentor.program_grammar import write_program
from tests.instrumentor.soundness import judge

PROGRAMS = int(os.environ.get("INSTRUMENT_PROGRAMS", "60"))
# Each with other branches and other numbers of rounds.
RUNS = range(int(os.environ.get("INSTRUMENT_RUNS", "24")))
PARTS = 4


# Of the bindings that always held the object of another one in all runs, and of the pairs of such bindings, the parts
# that must be found to do so.
BINDINGS_FLOOR = 0.88
PAIRS_FLOOR = 0.8


@pytest.mark.parametrize("part", range(PARTS))
def test_random_programs_are_judged_as_they_run(part: int, capsys: pytest.CaptureFixture[str]) -> None:
    same = merged = again = found_again = 0
    violations: list[str] = []
    for seed in range(part, PROGRAMS, PARTS):
        judgement = judge(write_program(seed), RUNS)
        same += len(judgement.same)
        merged += len(judgement.merged)
        again += len(judgement.again)
        found_again += len(judgement.found_again)
        found = [f"program {seed}: {each}" for each in judgement.violations]
        violations += found
        if found:
            with capsys.disabled():
                print("", *found, sep="\n", flush=True)
    with capsys.disabled():
        print(
            f"\n{len(range(part, PROGRAMS, PARTS))} programs: {len(violations)} wrong decisions;"
            f" {found_again / again:.1%} of {again} bindings that always held the object of another one are merged with"
            f" one ({merged / same:.1%} of {same} pairs)"
        )
    assert violations == []
    assert found_again / again >= BINDINGS_FLOOR
    assert merged / same >= PAIRS_FLOOR
