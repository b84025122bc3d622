from __future__ import annotations

from instrumentor.analysis.tables import Marks, Table, Visits


def test_a_scope_is_due_until_it_is_visited() -> None:
    visits = Visits()
    assert visits.is_due("f")
    with visits.of("f"):
        pass
    assert not visits.is_due("f")


def test_a_change_has_those_visited_again_that_read_the_entry() -> None:
    visits = Visits()
    table: Table[str, int] = Table(visits)
    with visits.of("f"):
        assert table.get("a") is None
    with visits.of("g"):
        assert "b" not in table
    with visits.of("h"):
        assert table.peek("a") is None
        table["a"] = 1
    assert [scope for scope in "fgh" if visits.is_due(scope)] == ["f"]


def test_a_scope_that_changes_what_it_read_is_visited_again() -> None:
    visits = Visits()
    table: Table[str, int] = Table(visits)
    with visits.of("f"):
        table["a"] = 1
        assert table["a"] == 1
    assert not visits.is_due("f")
    with visits.of("f"):
        table["a"] = table["a"] + 1
    assert visits.is_due("f")


def test_what_is_added_to_an_entry_is_told_by_who_adds_it() -> None:
    visits = Visits()
    table: Table[str, list[int]] = Table(visits)
    with visits.of("f"):
        assert table.get("a", []) == []
    table.kept("a", list).append(1)
    assert not visits.is_due("f")
    table.note_changed("a")
    assert visits.is_due("f")
    assert table["a"] == [1]


def test_a_mark_is_told_once() -> None:
    visits = Visits()
    marks: Marks[str] = Marks(visits)
    with visits.of("f"):
        assert "a" not in marks
    marks.add(["a"])
    assert visits.is_due("f")
    with visits.of("f"):
        assert "a" in marks
    marks.add(["a"])
    assert not visits.is_due("f")


def test_reading_leaves_no_trace_when_no_scope_is_visited() -> None:
    visits = Visits()
    table: Table[str, int] = Table(visits)
    with visits.of("f"):
        pass
    assert table.get("a") is None
    table["a"] = 1
    assert list(table.items()) == [("a", 1)]
    assert not visits.is_due("f")
