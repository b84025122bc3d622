"""Which files of a tree are looked at."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from instrumentor.paths.selection import Found, Patterns, SelectionRules, expand_globs, is_in_shard, select_files

if TYPE_CHECKING:
    from collections.abc import Callable

    from instrumentor.errors import InstrumentError

needs_links = pytest.mark.skipif(os.name != "posix", reason="links as POSIX has them")


@pytest.fixture(autouse=True)
def _in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def make(*names: str, content: str = "") -> None:
    for name in names:
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def select(*arguments: str, rules: SelectionRules | Callable[[str], SelectionRules] | None = None) -> list[str]:
    problems: list[InstrumentError] = []
    rules_for = rules if callable(rules) else lambda _: rules or SelectionRules()
    found = [each.shown for each in select_files(list(expand_globs(arguments)), rules_for, report=problems.append)]
    assert not problems
    return found


class TestDirectories:
    def test_are_walked_in_the_order_of_names(self) -> None:
        make("zoo/b.py", "zoo/a/z.py", "zoo/a.py", "zoo/c.ipynb", "zoo/notes.txt")
        assert select("zoo") == ["zoo/a/z.py", "zoo/a.py", "zoo/b.py", "zoo/c.ipynb"]

    def test_stubs_are_never_taken(self) -> None:
        make("zoo/a.pyi", "zoo/a.py")
        assert select("zoo", rules=SelectionRules(include=Patterns(("*",)))) == ["zoo/a.py"]

    def test_a_stub_given_by_name_is_a_mistake(self) -> None:
        make("a.pyi")
        problems: list[InstrumentError] = []
        assert not list(select_files(["a.pyi"], lambda _: SelectionRules(), report=problems.append))
        assert "is a stub" in str(problems[0])

    def test_the_current_one_has_no_prefix(self) -> None:
        make("a.py", "b/c.py")
        assert select(".") == ["a.py", "b/c.py"]

    @pytest.mark.parametrize("name", [".git", ".venv", "build", "dist", "node_modules", "__pycache__", "site-packages"])
    def test_usual_exclusions(self, name: str) -> None:
        make(f"zoo/{name}/a.py", f"zoo/deep/{name}/a.py", "zoo/b.py")
        assert select("zoo") == ["zoo/b.py"]

    def test_an_excluded_one_given_by_name_is_walked(self) -> None:
        make("build/a.py")
        assert select("build") == ["build/a.py"]

    def test_that_overlap_give_each_file_once(self) -> None:
        make("zoo/a.py", "zoo/b/c.py", "zoo/build/d.py")
        assert select("zoo", "zoo/b", "zoo/build", "zoo/a.py") == ["zoo/b/c.py", "zoo/build/d.py", "zoo/a.py"]

    def test_that_cannot_be_listed_are_reported(self, monkeypatch: pytest.MonkeyPatch) -> None:
        make("zoo/a.py", "zoo/secret/b.py")
        scandir = os.scandir

        def refuse(folder: str) -> Any:  # as file systems refuse everybody but root
            if folder == "zoo/secret":
                raise PermissionError(13, "Permission denied", folder)
            return scandir(folder)

        monkeypatch.setattr(os, "scandir", refuse)
        problems: list[InstrumentError] = []
        found = list(select_files(["zoo"], lambda _: SelectionRules(), report=problems.append))
        assert [each.shown for each in found] == ["zoo/a.py"]
        assert [str(each) for each in problems] == [
            "zoo/secret: cannot be listed (Permission denied); the files in it are left out"
        ]


@needs_links
class TestLinks:
    def test_a_circle_ends(self) -> None:
        make("zoo/a.py")
        Path("zoo/loop").symlink_to("..", target_is_directory=True)
        assert select("zoo") == ["zoo/a.py"]

    def test_to_files_are_taken_and_broken_ones_are_not(self) -> None:
        make("real.py", "zoo/a.py")
        Path("zoo/link.py").symlink_to("../real.py")
        Path("zoo/gone.py").symlink_to("nowhere.py")
        assert select("zoo") == ["zoo/a.py", "zoo/link.py"]

    def test_a_linked_directory_given_by_name_is_walked(self) -> None:
        make("real/a.py")
        Path("link").symlink_to("real", target_is_directory=True)
        assert select("link") == ["link/a.py"]

    def test_a_pipe_is_no_script(self) -> None:
        make("zoo/a.py")
        os.mkfifo("zoo/pipe.py")
        assert select("zoo") == ["zoo/a.py"]


class TestArguments:
    def test_files_given_by_name_are_always_taken(self) -> None:
        make("build/a.py", "script", ".gitignore", content="")
        Path(".gitignore").write_text("*\n")
        assert select("build/a.py", "script") == ["build/a.py", "script"]

    def test_one_that_is_spelled_in_two_ways_is_taken_once(self) -> None:
        make("zoo/a.py")
        assert select("zoo/a.py", "./zoo/a.py", "zoo/../zoo/a.py") == ["zoo/a.py"]

    def test_unless_exclusions_are_forced(self) -> None:
        make("zoo/build/a.py", "zoo/b.py", "zoo/c.py")
        Path("zoo/.gitignore").write_text("c.py\n")
        assert select("zoo/build/a.py", "zoo/b.py", "zoo/c.py", rules=SelectionRules(force_exclude=True)) == [
            "zoo/b.py"
        ]

    def test_globs_that_no_shell_expanded(self) -> None:
        make("zoo/a.py", "zoo/deep/b.py", "zoo/deep/c.pyi")
        assert select("zoo/**/*.py*") == ["zoo/a.py", "zoo/deep/b.py"]

    def test_a_name_that_looks_like_a_glob(self) -> None:
        make("a[1].py", "a1.py")
        assert select("a[1].py") == ["a[1].py"]

    def test_what_is_not_there_is_kept_for_a_message(self) -> None:
        assert select("gone.py", "gone/*.py", "-") == ["gone.py", "gone/*.py", "-"]


class TestPatterns:
    @pytest.mark.parametrize(
        ("patterns", "kept"),
        [
            pytest.param(("tests",), ["zoo/a.py", "zoo/a_test.py", "zoo/old/tests.py"], id="a name"),
            pytest.param(("*_test.py",), ["zoo/a.py", "zoo/old/tests.py", "zoo/tests/b.py"], id="a glob"),
            pytest.param(("/zoo/old",), ["zoo/a.py", "zoo/a_test.py", "zoo/tests/b.py"], id="a path"),
            pytest.param(("zoo/*", "!zoo/tests/"), ["zoo/tests/b.py"], id="an exception"),
        ],
    )
    def test_exclude(self, patterns: tuple[str, ...], kept: list[str]) -> None:
        make("zoo/a.py", "zoo/a_test.py", "zoo/tests/b.py", "zoo/old/tests.py")
        assert select("zoo", rules=SelectionRules(exclude=(Patterns(patterns),))) == kept

    def test_include(self) -> None:
        make("zoo/train_a.py", "zoo/b.py", "zoo/train_c")
        assert select("zoo", rules=SelectionRules(include=Patterns(("train_*",)))) == ["zoo/train_a.py", "zoo/train_c"]

    def test_are_relative_to_their_own_base(self) -> None:
        make("one/sub/a.py", "one/b.py")
        rules = SelectionRules(exclude=(Patterns(("/sub",), "one"),))
        assert select("one", rules=rules) == ["one/b.py"]

    def test_may_differ_from_directory_to_directory(self) -> None:
        make("zoo/one/a.py", "zoo/one/skip.py", "zoo/two/a.py", "zoo/two/skip.py")
        plain, strict = SelectionRules(), SelectionRules(exclude=(Patterns(("skip.py",)),))

        def rules_for(directory: str) -> SelectionRules:
            return strict if directory.startswith("zoo/one") else plain

        assert select("zoo", rules=rules_for) == ["zoo/one/a.py", "zoo/two/a.py", "zoo/two/skip.py"]


class TestGitIgnore:
    """What git itself ignores in a repository is the oracle."""

    def files_that_git_sees(self) -> list[str]:
        listed = subprocess.run(
            ["git", "ls-files", "--others", "--exclude-standard", "-z", "--", "*.py"],
            capture_output=True,
            check=True,
            env={**os.environ, "HOME": str(Path.cwd()), "XDG_CONFIG_HOME": str(Path.cwd())},
        )
        return sorted(listed.stdout.decode().split("\0")[:-1])

    def test_at_every_level_as_git_has_it(self) -> None:
        subprocess.run(["git", "init", "-q"], check=True)
        make(
            "a.py", "keep.py", "gen_x.py", "sub/gen_y.py", "sub/gen_keep.py", "sub/deep/b.py", "out/c.py", "x/out/d.py",
            "sub/only/e.py", "sub/deep/only/f.py", "data/raw/g.py", "data/h.py", "info/i.py", "space /j.py", "ä/k.py",
        )  # fmt: skip
        Path(".gitignore").write_text("# generated\ngen_*.py\n/out/\ndata/*\n!data/h.py\n\\#x\n")
        Path("sub/.gitignore").write_text("!gen_keep.py\n/only\n")
        Path("sub/deep/.gitignore").write_text("*.py\n!b.py\n")
        Path(".git/info/exclude").write_text("info/\n")
        assert sorted(select(".")) == self.files_that_git_sees()
        # From within: the files above still count.
        assert select("sub") == [each for each in self.files_that_git_sees() if each.startswith("sub/")]

    def test_a_repository_within_starts_anew(self) -> None:
        subprocess.run(["git", "init", "-q"], check=True)
        make("inner/a.py", "b.py")
        subprocess.run(["git", "init", "-q", "inner"], check=True)
        Path(".gitignore").write_text("a.py\n")
        assert select(".") == ["b.py", "inner/a.py"]

    def test_can_be_left_aside(self) -> None:
        make("a.py", "b.py")
        Path(".gitignore").write_text("a.py\n")
        assert select(".") == ["b.py"]
        assert select(".", rules=SelectionRules(respect_gitignore=False)) == ["a.py", "b.py"]

    def test_a_pattern_that_means_nothing_is_passed_over(self) -> None:
        make("a.py", "b.py")
        Path(".gitignore").write_bytes(b"!\n\xff\xfe\na.py\n")
        assert select(".") == ["b.py"]


class TestShards:
    def test_make_up_the_whole_and_share_nothing(self) -> None:
        found = [Found(f"zoo/f{number}.py", "zoo") for number in range(300)]
        parts = [{each for each in found if is_in_shard(each, index, 4)} for index in (1, 2, 3, 4)]
        assert set.union(*parts) == set(found)
        assert sum(map(len, parts)) == len(found)
        assert min(map(len, parts)) > 40

    def test_do_not_depend_on_where_the_tree_lies(self) -> None:
        here, there = Found("zoo/a/b.py", "zoo"), Found("/mnt/data/zoo/a/b.py", "/mnt/data/zoo")
        assert [is_in_shard(here, index, 5) for index in range(1, 6)] == [
            is_in_shard(there, index, 5) for index in range(1, 6)
        ]
