"""The benchmark of the runtime: what it names exists, and a small run of it gives a table."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from overhead.answer import Answer
from overhead.attachments import ATTACHMENTS
from overhead.interleaved import Launch, launch
from overhead.measurement import evaluate
from overhead.peers import PEERS
from overhead.tables import render
from overhead.tasks import CHAINS, TASKS
from overhead.variants import VARIANTS
from overhead.workloads import CHAINS as CHAIN_WORKLOADS
from overhead.workloads import WORKLOADS, target_of

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def answer(cpu: float, *, steps: int = 2, records: int = 0, peak_kb: int = 1000) -> Answer:
    return Answer(steps, cpu, cpu, 0.0, cpu / steps, records, 10 * records, "", peak_kb, 0)


def test_every_workload_can_be_built_and_every_variant_attached() -> None:
    assert set(TASKS) == set(WORKLOADS)
    assert set(CHAINS) == set(CHAIN_WORKLOADS)
    assert set(ATTACHMENTS) | set(PEERS) == set(VARIANTS)


def test_ratios_are_to_plain_of_the_same_round() -> None:
    rounds = [
        {"plain": answer(0.2), "INFO": answer(0.22, records=14)},
        {"plain": answer(2.0), "INFO": answer(2.2, records=18)},
        {"plain": answer(0.4), "INFO": answer(0.44, records=22)},
    ]
    warm = {"plain": answer(0.2), "INFO": answer(0.2, records=10)}
    found = evaluate("mnist", "INFO", [Launch(warm, rounds, {"plain": True, "INFO": True})])
    assert found.cpu_ratio == pytest.approx(1.1)
    assert found.records_per_step == 2
    assert found.bytes_per_step == 20
    assert found.us_per_record == pytest.approx(1e4)
    assert not found.meets_target  # A plain step takes 200 ms, so 1.03 is the target.


def test_targets_depend_on_how_long_a_plain_step_takes() -> None:
    assert target_of("INFO", 60) == 1.03
    assert target_of("DEBUG", 8) == 1.40
    assert target_of("INFO", 1) is None
    assert target_of("wandb", 60) is None


def test_workers_train_in_turn_to_the_same_weights() -> None:
    variants = ["plain", "INFO", "hooks"]
    result = launch("modules:3", variants, rounds=2, steps=2)
    assert result.are_weights_equal == dict.fromkeys(variants, True)
    info = evaluate("modules:3", "INFO", [result])
    # Four module calls and returns, six gradients and updates, the step and the backward pass.
    assert info.records_per_step == 8 + 12 + 4
    assert "INFO" in render([info], "markdown")


def test_packages_that_are_not_installed_are_named_and_left_out(tmp_path: Path) -> None:
    arguments = ["--variant", "torchlens", "--workload", "mnist-batch1", "--quick", "--rounds", "1", "--format", "json"]
    without = f"import sys; sys.modules['torchlens'] = None; sys.argv[1:] = {arguments!r}; "
    run = "import runtime_overhead; sys.exit(runtime_overhead.main())"
    done = subprocess.run(
        [sys.executable, "-c", without + run], cwd=BENCHMARKS, capture_output=True, text=True, check=False
    )
    assert "not installed, and so left out: torchlens" in done.stderr
    assert [one["variant"] for one in json.loads(done.stdout)] == ["plain"]
