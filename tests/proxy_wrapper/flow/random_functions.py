"""Random functions of tests and loops, which keep their own account of both.

`test(n)` gives an object whose truth is drawn, and which notes that it was asked for it; `items(n)` gives elements, and
notes how many were taken when it ends.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEEPEST = 3


class Account:
    """What a function did, by its own word, and the random numbers that it draws."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.truths: list[tuple[int, bool]] = []
        self.taken: list[tuple[int, int]] = []

    def test(self, number: int) -> Truth:
        """An object whose truth is drawn now; every now and then asking for it raises an error."""
        return Truth(self, number, self.random.random() < 0.5, is_bad=self.random.random() < 0.01)

    def items(self, number: int) -> Iterator[int]:
        """Up to three elements; every now and then an error in place of one."""
        count = 0
        try:
            for each in range(self.random.randrange(4)):
                if self.random.random() < 0.02:
                    raise KeyError(number)
                count += 1
                yield each
        finally:
            self.taken.append((number, count))


class Truth:
    """Something that is true or false, and notes when it is asked."""

    def __init__(self, account: Account, number: int, truth: bool, *, is_bad: bool) -> None:
        self.account, self.number, self.truth, self.is_bad = account, number, truth, is_bad

    def __bool__(self) -> bool:
        if self.is_bad:
            raise ValueError(self.number)
        self.account.truths.append((self.number, self.truth))
        return self.truth

    def __lt__(self, other: Any) -> Truth:
        return self


class Writer:
    """Writes the source of a function."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._number = 0

    def source(self) -> str:
        """The source of `function(test, items)`, a generator function."""
        body = self._block(0, in_loop=False)
        lines = ["def function(test, items):", "    done = []", "    left = 12", *(f"    {line}" for line in body)]
        return "\n".join([*lines, "    yield done", ""])

    def _new(self) -> int:
        self._number += 1
        return self._number

    def _test(self) -> str:
        one = f"test({self._new()})"
        kind = self._random.randrange(12)
        if kind < 6:
            return one
        other = f"test({self._new()})"
        return [
            f"({one}\n            and {other})",
            f"({one} or\n            {other})",
            f"not {one}",
            f"{one} < {other} < test({self._new()})",
            f"(kept := {one})",
            f"({one} if {other} else test({self._new()}))",
        ][kind - 6]

    def _items(self) -> str:
        return f"items({self._new()})"

    def _block(self, depth: int, *, in_loop: bool) -> list[str]:
        return [line for _ in range(self._random.randint(1, 3)) for line in self._statement(depth, in_loop=in_loop)]

    def _indented(self, depth: int, *, in_loop: bool) -> list[str]:
        return [f"    {line}" for line in self._block(depth + 1, in_loop=in_loop)]

    def _statement(self, depth: int, *, in_loop: bool) -> list[str]:
        simple = [self._note, self._ifexp, self._comprehension, self._assert, self._lambda, self._yield]
        compound = [self._if, self._while, self._for, self._match, self._try, self._inner, self._class]
        if in_loop and self._random.random() < 0.2:
            return [f"if {self._test()}:", f"    {self._random.choice(['break', 'continue'])}"]
        if self._random.random() < 0.06:
            return [f"if {self._test()}:", "    return"]
        if depth < _DEEPEST and self._random.random() < 0.6:
            return self._random.choice(compound)(depth, in_loop)
        return self._random.choice(simple)()

    def _note(self) -> list[str]:
        return [f"done.append({self._new()})"]

    def _ifexp(self) -> list[str]:
        return [f"done.append({self._new()} if {self._test()} else {self._new()})"]

    def _comprehension(self) -> list[str]:
        inner = f" for y in {self._items()}" if self._random.random() < 0.3 else ""
        made = f"x for x in {self._items()}{inner} if {self._test()}"
        return [
            self._random.choice(
                [
                    f"done.extend([{made}])",
                    f"done.append(any({made}))",
                    f"done.append(len({{{made}}}))",
                    f"left_over = ({made})",
                ]
            )
        ]

    def _assert(self) -> list[str]:
        return ["try:", f"    assert {self._test()}, {self._new()}", "except AssertionError as error:",
                "    done.append(error.args)"]  # fmt: skip

    def _lambda(self) -> list[str]:
        return [f"done.append((lambda x: {self._new()} if {self._test()} else x)({self._new()}))"]

    def _yield(self) -> list[str]:
        return [f"if (yield {self._new()}) is None:", "    pass"]

    def _if(self, depth: int, in_loop: bool) -> list[str]:
        lines = [f"if {self._test()}:", *self._indented(depth, in_loop=in_loop)]
        for _ in range(self._random.randrange(3)):
            lines += [f"elif {self._test()}:", *self._indented(depth, in_loop=in_loop)]
        return [*lines, "else:", *self._indented(depth, in_loop=in_loop)] if self._random.random() < 0.5 else lines

    def _while(self, depth: int, _: bool) -> list[str]:
        lines = [
            f"while {self._test()}:",
            "    left -= 1",
            "    if left < 0: break",
            *self._indented(depth, in_loop=True),
        ]
        return [*lines, "else:", *self._indented(depth, in_loop=False)] if self._random.random() < 0.3 else lines

    def _for(self, depth: int, _: bool) -> list[str]:
        target = self._random.choice(["x", "done[-1:]", "(x,)", "x, *rest"])
        items = self._items() if target == "x" else f"[[x] for x in {self._items()}]"
        lines = [f"for {target} in {items}:", *self._indented(depth, in_loop=True)]
        return [*lines, "else:", *self._indented(depth, in_loop=False)] if self._random.random() < 0.3 else lines

    def _match(self, depth: int, in_loop: bool) -> list[str]:
        lines = [f"match len(done) % {self._random.randint(1, 4)}:"]
        for value in range(self._random.randint(1, 3)):
            guard = f" if {self._test()}" if self._random.random() < 0.5 else ""
            lines += [f"    case {value}{guard}:", *(f"    {line}" for line in self._indented(depth, in_loop=in_loop))]
        return lines

    def _try(self, depth: int, in_loop: bool) -> list[str]:
        return ["try:", *self._indented(depth, in_loop=in_loop), "except ValueError as error:",
                "    done.append(error.args)", "finally:", "    done.append(-1)"]  # fmt: skip

    def _inner(self, depth: int, _: bool) -> list[str]:
        name = f"inner{self._new()}"
        body = [f"    {line}" for line in self._block(depth + 1, in_loop=False)]
        return [f"def {name}():", "    nonlocal left", *body, f"    yield {self._new()}",
                f"for x in {name}():", "    done.append(x)"]  # fmt: skip

    def _class(self, depth: int, _: bool) -> list[str]:
        name = f"Inner{self._new()}"
        return [f"class {name}:", f"    __private = {self._new()} if {self._test()} else {self._new()}",
                "    def get(self):", f"        return self.__private if {self._test()} else left",
                f"done.append({name}().get())"]  # fmt: skip
