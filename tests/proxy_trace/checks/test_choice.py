"""Which findings are told is chosen by code, and known ones are not told again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy_trace.checks.choice import EVERYTHING, KnownFinding, baseline_of, is_baseline, read_choice
from proxy_trace.checks.rule import Rule
from proxy_trace.errors import BadBaselineError, BadConfigurationError, UnknownCodeError

if TYPE_CHECKING:
    from pathlib import Path

CODES = ["never-called", "never-updated", "frozen"]
CALLED, UPDATED = (Rule(code, "error", "", "").finding("model.w", "words", [0]) for code in CODES[:2])


def test_everything_is_told_by_default(tmp_path: Path) -> None:
    assert read_choice(CODES, directory=tmp_path) == EVERYTHING
    assert EVERYTHING.has(CALLED)


def test_codes_and_globs_choose() -> None:
    chosen = read_choice(CODES, ["never-*"], ["never-called"])
    assert [chosen.has(CALLED), chosen.has(UPDATED)] == [False, True]


def test_the_nearest_project_file_chooses_and_options_stand_above_it(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.other]\nx = 1\n[tool.proxy-trace]\nignore = ["never-updated"]\n')
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)

    assert not read_choice(CODES, directory=below).has(UPDATED)
    assert read_choice(CODES, ignore=["frozen"], directory=below).has(UPDATED)


def test_a_baseline_beside_the_project_file_makes_findings_known(tmp_path: Path) -> None:
    (tmp_path / "known.json").write_bytes(baseline_of([UPDATED, UPDATED]))
    (tmp_path / "pyproject.toml").write_text('[tool.proxy-trace]\nbaseline = "known.json"\n')

    choice = read_choice(CODES, directory=tmp_path)
    assert choice.known == {KnownFinding("never-updated", "model.w")}
    assert [choice.has(CALLED), choice.has(UPDATED)] == [True, False]


def test_a_code_that_no_check_has_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownCodeError, match="Did you mean never-updated"):
        read_choice(CODES, ["never-updatd"])
    with pytest.raises(UnknownCodeError, match="Codes are: never-called, never-updated, frozen"):
        read_choice(CODES, ignore=["x*"])


def test_an_unknown_code_in_a_project_file_is_told_with_the_file(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.proxy-trace]\nignore = ["never-updatd"]\n')
    with pytest.raises(
        UnknownCodeError, match=r"pyproject\.toml: \[tool\.proxy-trace\]: there is no check with the code"
    ):
        read_choice(CODES, directory=tmp_path)
    with pytest.raises(UnknownCodeError, match=r"^there is no check with the code"):
        read_choice(CODES, ignore=["nver-called"], directory=tmp_path)


def test_what_is_known_can_be_told_again(tmp_path: Path) -> None:
    (tmp_path / "known.json").write_bytes(baseline_of([UPDATED]))
    choice = read_choice(CODES, baseline=tmp_path / "known.json", directory=tmp_path)
    assert [choice.has(UPDATED), choice.with_known().has(UPDATED)] == [False, True]


@pytest.mark.parametrize("text", ["[tool.proxy-trace]\nselct = []\n", "[tool.proxy-trace]\nselect = 3\n", "[tool"])
def test_settings_that_are_none_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(BadConfigurationError, match=r"pyproject\.toml: .*takes select and ignore"):
        read_choice(CODES, directory=tmp_path)


@pytest.mark.parametrize("data", [b"", b"{}", b'[{"code": 1}]', b"\xff"])
def test_a_file_that_holds_no_known_findings_is_refused(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "known.json"
    file.write_bytes(data)
    assert not is_baseline(file)
    with pytest.raises(BadBaselineError, match="is not a baseline"):
        read_choice(CODES, baseline=file)
    with pytest.raises(BadBaselineError, match="No such file"):
        read_choice(CODES, baseline=tmp_path / "none.json")


def test_an_empty_baseline_knows_nothing(tmp_path: Path) -> None:
    file = tmp_path / "known.json"
    file.write_bytes(baseline_of([]))
    assert read_choice(CODES, baseline=file, directory=tmp_path) == EVERYTHING
