"""What is done, noted on the disk while a run goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor.errors import OutputLeadsOutError, ReportError
from instrumentor.report.journal import Journal
from instrumentor.report.record import FileRecord

FULL = Path("/dev/full")


def record(path: str) -> FileRecord:
    return FileRecord(path=path, status="changed", digest="", lines=1, written_to=f"out/{path}")


def test_records_come_back_in_their_order_however_often(tmp_path: Path) -> None:
    with Journal(None, run="a run") as journal:
        journal.add(record("b.py"))
        assert [each.path for each in journal.records()] == ["b.py"]
        journal.add(record("a.py"))
        for _ in range(2):
            assert [each.path for each in journal.records()] == ["b.py", "a.py"]
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_ends_leaves_none(tmp_path: Path) -> None:
    with Journal(tmp_path / "r.json", run="a run") as journal:
        journal.add(record("a.py"))
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_broken_off_leaves_its_own(tmp_path: Path) -> None:
    def break_off() -> None:
        with Journal(tmp_path / "r.json", run="a run") as journal:
            journal.add(record("a.py"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        break_off()
    assert [path.name for path in tmp_path.iterdir()] == ["r.json.partial"]


def test_what_is_done_is_gone_on_with(tmp_path: Path) -> None:
    partial = tmp_path / "r.json.partial"
    with Journal(tmp_path / "r.json", run="a run") as journal:
        journal.add(record("a.py"))
        journal.add(record("b.py"))
        written = partial.read_bytes()
    partial.write_bytes(written[:-5])  # killed within a line
    with Journal(tmp_path / "r.json", run="a run", resume=True) as journal:
        assert journal.done == {"a.py": "out/a.py"}
        journal.add(record("c.py"))
        assert [each.path for each in journal.records()] == ["a.py", "c.py"]


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")
def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(tmp_path), "open", lambda *_: open(FULL, "w+b"))  # noqa: PTH123, SIM115
    with pytest.raises(ReportError, match=r"r\.json\.partial: progress cannot be saved \(No space left on device\)"):
        Journal(tmp_path / "r.json", run="a run")


@pytest.mark.parametrize("resume", [False, True])
def test_a_link_that_leads_elsewhere_is_refused(tmp_path: Path, resume: bool) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "precious").write_text("text")
    for target in ("precious", "new"):
        (tmp_path / "here" / "r.json.partial").unlink(missing_ok=True)
        (tmp_path / "here" / "r.json.partial").symlink_to(f"../{target}")
        with pytest.raises(OutputLeadsOutError, match=r"r\.json\.partial: points outside"):
            Journal(tmp_path / "here" / "r.json", run="a run", resume=resume)
    assert (tmp_path / "precious").read_text() == "text"
    assert not (tmp_path / "new").exists()


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")
def test_a_disk_that_fills_up_is_told(tmp_path: Path) -> None:
    def fill_up() -> None:
        with Journal(tmp_path / "r.json", run="a run") as journal:
            journal._file.close()
            journal._file = FULL.open("w+b")
            journal.add(record("a.py"))

    with pytest.raises(ReportError, match="progress cannot be saved"):
        fill_up()
