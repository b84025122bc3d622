from __future__ import annotations

from instrumentor.source.edits import Edited, NewLine, NewText, apply_edits


def test_lines_and_texts_are_given_in_the_new_texts_coordinates() -> None:
    edits: list[NewLine | NewText] = [
        NewLine(1, "one and a half\n"),
        NewText(2, 3, "<"),
        NewText(2, 5, ">"),
        NewLine(0, "zero\n"),
    ]
    assert apply_edits(["one\n", "two and\n"], edits) == Edited(
        ("zero\n", "one\n", "one and a half\n", "two< a>nd\n"), ["+1", "+3", "4:3-4", "4:6-7"]
    )


def test_insertions_at_one_place_go_by_their_order() -> None:
    edits = [NewText(1, 0, "b", (1,)), NewText(1, 0, "c", (2,)), NewText(1, 0, "a", (0,))]
    assert apply_edits(["x"], edits) == Edited(("abcx",), ["1:0-1", "1:1-2", "1:2-3"])


def test_lines_at_one_place_stay_in_order() -> None:
    assert apply_edits(["x\n"], [NewLine(1, "a\n"), NewLine(1, "b\n")]).lines == ("x\n", "a\n", "b\n")


def test_nothing_to_do() -> None:
    assert apply_edits([], []) == Edited((), [])
