"""What traces say of programs that are drawn at random is what independent counting finds.

PROXY_TRUTH_EXAMPLES says how many are drawn; without it the same few each time.
"""

from __future__ import annotations

import os
import tempfile
import warnings

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import proxy_wrapper.proxy as Proxy
from tests.proxy_wrapper.truth.judgement import faults
from tests.proxy_wrapper.truth.random_programs import PLANS, ProgramPlan, program_of

EXAMPLES = int(os.environ.get("PROXY_TRUTH_EXAMPLES", "10"))


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="PROXY_TRUTH_EXAMPLES" not in os.environ,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(plan=PLANS, level=st.sampled_from(["INFO", "INFO", "DEBUG"]))
def test_the_trace_of_a_random_program_tells_the_truth(plan: ProgramPlan, level: str) -> None:
    note(str(plan))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            assert faults(program_of(plan), f"{folder}/trace", level) == []
        finally:
            Proxy._installed.take_down()
