"""Which functions of a program a line of its code calls is read off the code and its names."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from proxy_wrapper.program_code.called_functions import (
    Body,
    bodies_around,
    body_at,
    body_of_function,
    called_by,
    reachable,
    return_lines,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType


def first() -> int:
    return 1


def second() -> int:
    return first() + 1


class Holder:
    def only_here(self) -> int:
        return second()

    def in_both(self) -> int:
        return 1

    @staticmethod
    def static() -> int:
        return first()


class Other:
    def in_both(self) -> int:
        return 2


def body(function: Callable[..., Any]) -> Body:
    return Body(function.__code__, function.__globals__)


def with_what_is_around(function: Any) -> Body:
    return body_of_function(function)


def names(function: Callable[..., Any], line: int | None = None) -> list[str]:
    """The names of the functions that one calls: all of them, or those of a line counted from its first."""
    number = None if line is None else function.__code__.co_firstlineno + line
    return [each.body.code.co_name for each in called_by(body(function), number)]


def test_functions_are_found_by_name_each_with_its_line() -> None:
    def calls() -> int:
        found = first()
        return found + second()

    assert names(calls) == ["first", "second"]
    assert names(calls, 1) == ["first"]
    assert names(calls, 2) == ["second"]


def test_a_method_is_known_where_only_one_class_has_it() -> None:
    def calls(holder: Any) -> Any:
        return holder.only_here(), holder.in_both(), holder.static()

    assert names(calls) == ["only_here", "static"]


def test_what_the_function_itself_has_by_that_name_goes_before_the_module_s() -> None:
    def calls(first: Any) -> Any:
        def second() -> int:
            return 3

        return first(), second()

    assert names(calls) == ["second"]
    found = called_by(body(calls))[0].body.code
    assert found.co_firstlineno > calls.__code__.co_firstlineno


def test_functions_of_libraries_and_classes_are_none_of_these() -> None:
    def calls() -> Any:
        return Holder(), len([])

    assert names(calls) == []


def test_all_that_a_function_leads_to_is_reached_from_a_line_of_it() -> None:
    def calls(holder: Any) -> Any:
        return holder.only_here()

    def is_followed(code: CodeType) -> bool:
        return True

    start = calls.__code__.co_firstlineno
    reached = [(each.body.code.co_name, each.line) for each in reachable(body(calls), is_followed)]
    assert reached == [("calls", 0), ("only_here", start + 1), ("second", start + 1), ("first", start + 1)]
    assert len(list(reachable(body(calls), lambda code: code.co_name != "second"))) == 2


def test_functions_that_call_each_other_are_reached_once() -> None:
    names: dict[str, Any] = {}
    exec("def one(n): return two(n)\ndef two(n): return one(n)", names)
    reached = [each.body.code.co_name for each in reachable(body(names["one"]), lambda _: True)]
    assert reached == ["one", "two"]


def test_statements_that_return_nothing_but_a_constant_do_not_count() -> None:
    def returns(x: int) -> int | None:
        if x > 2:
            return x
        if x > 1:
            return None
        return x + 1

    start = returns.__code__.co_firstlineno
    assert [line - start for line in return_lines(returns.__code__)] == [2, 5]


class TestDefinedInAFunction:
    """What a function defines is found from its frame, and from the functions that refer to it."""

    def test_a_function_leads_to_those_that_it_refers_to_around_it(self) -> None:
        def inner() -> int:
            return first()

        class Inside:
            def only_inside(self) -> int:
                return inner()

        def calls() -> int:
            return Inside().only_inside()

        start = with_what_is_around(calls)
        assert [each.body.code.co_name for each in reachable(start, lambda _: True)] == [
            "calls",
            "only_inside",
            "inner",
            "first",
        ]

    def test_a_variable_without_a_value_leads_nowhere(self) -> None:
        def calls() -> int:
            return later()

        assert called_by(with_what_is_around(calls)) == []

        def later() -> int:
            return first()

        assert [each.body.code.co_name for each in called_by(with_what_is_around(calls))] == ["later"]

    def test_a_frame_knows_the_functions_among_its_variables_and_no_other_value(self) -> None:
        def inner() -> int:
            return first()

        number = 1

        def of_this() -> Body:
            return body_at(sys._getframe(1))

        assert dict(of_this().values) == {"inner": inner, "of_this": of_this}
        assert number == 1

    def test_methods_of_a_class_in_a_running_function_are_around(self) -> None:
        class Inside:
            def only_inside(self) -> int:
                return 1

        found = bodies_around(sys._getframe(), lambda code: code.co_filename == __file__)
        assert Inside.only_inside.__code__ in [each.code for each in found]
