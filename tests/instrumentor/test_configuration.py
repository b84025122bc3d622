"""Settings from pyproject.toml: the nearest one, under what the command line says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from instrumentor.configuration import Configurations, Section
from instrumentor.errors import ConfigError
from instrumentor.settings import Settings


@pytest.fixture(autouse=True)
def _in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(name: str, text: str) -> None:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


class TestWhere:
    def test_the_nearest_file_with_the_table_counts(self) -> None:
        write("pyproject.toml", '[tool.instrumentor]\nlogdir = "outer"\n')
        write("a/pyproject.toml", '[tool.instrumentor]\nlogdir = "inner"\n')
        write("a/b/pyproject.toml", '[tool.other]\nlogdir = "x"\n')
        found = Configurations()
        assert [found.of_directory(each).settings.logdir for each in ("", "c", "a", "a/b/c")] == [
            "outer",
            "outer",
            "inner",
            "inner",
        ]

    def test_nothing_anywhere(self) -> None:
        assert Configurations().of_directory("a").settings == Settings()

    def test_one_file_for_all(self) -> None:
        write("pyproject.toml", '[tool.instrumentor]\nlogdir = "near"\n')
        write("mine.toml", 'logdir = "mine"\n')
        assert Configurations(file="mine.toml").of_directory("").settings.logdir == "mine"

    def test_isolated(self) -> None:
        write("pyproject.toml", '[tool.instrumentor]\nlogdir = "near"\n')
        assert Configurations(isolated=True).of_directory("").settings.logdir == "proxy_trace"


class TestWhat:
    def test_every_key(self) -> None:
        write(
            "pyproject.toml",
            '[tool.instrumentor]\nlogdir = "runs"\nlog-level = "DEBUG"\nrecurse = false\nselect = ["net*"]\n'
            'skip = ["ema"]\nmin-confidence = "certain"\nfactories = ["lib.build_*"]\nwrappers = ["lib.Wrap"]\n'
            'statistics-of = "outputs"\n'
            'identity-methods = ["warm"]\nmodule-classes = ["lib.Base"]\ninclude = ["*.py"]\nexclude = ["old"]\n'
            'extend-exclude = ["gen/"]\nrespect-gitignore = false\nforce-exclude = true\n',
        )
        found = Configurations().of_directory("")
        assert found.settings == Settings(
            logdir="runs",
            log_level="DEBUG",
            statistics_of="outputs",
            recurse=False,
            select=("net*",),
            skip=("ema",),
            min_confidence="certain",
            factories=("lib.build_*",),
            wrappers=("lib.Wrap",),
            identity_methods=("warm",),
            module_classes=("lib.Base",),
        )
        assert found.rules.include.texts == ("*.py",)
        assert [each.texts for each in found.rules.exclude] == [("old",), ("gen/",)]
        assert (found.rules.respect_gitignore, found.rules.force_exclude) == (False, True)

    def test_options_win_and_what_is_added_adds_up(self) -> None:
        write("a/pyproject.toml", '[tool.instrumentor]\nlogdir = "file"\nrecurse = false\nextend-exclude = ["x"]\n')
        found = Configurations(Section(logdir="option", extend_exclude=("y",))).of_directory("a")
        assert (found.settings.logdir, found.settings.recurse) == ("option", False)
        assert [each.texts for each in found.rules.exclude][1:] == [("x",), ("y",)]
        assert [each.base for each in found.rules.exclude][1:] == [str(Path("a").resolve()), ""]

    def test_every_setting_has_a_key(self) -> None:
        # `wrap_factories` is the key `factories` where that is a word.
        assert set(Settings.__dataclass_fields__) - {"wrap_factories"} <= set(Section.__struct_fields__)


class TestMistakes:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            pytest.param("\n[{}]\nlog-levl = 1\n", "3: log-levl {}; did you mean log-level?", id="a slip"),
            pytest.param("[{}]\nlog_level = 'INFO'\n", "2: log_level {}; did you mean log-level?", id="an underscore"),
            pytest.param("[{}]\nqqq = 1\n", "2: qqq {}; the keys are logdir, log-level,", id="nothing near"),
            pytest.param("[{}]\nlogdir = 1\n[tool.x]\nlogdir = 2\n", "2: logdir: expected `str", id="a wrong type"),
            pytest.param("[x]\nskip = 2\n[{}]\nskip = ['a', 3]\n", "4: skip: expected `str", id="a wrong element"),
            pytest.param(
                "{}.skip = 'a'\n",
                "1: skip: expected `array`, got `str`; write a list of strings, skip = ",
                id="no list",
            ),
            pytest.param("{}.recurse = 'a'\n", "1: recurse: expected `bool`, got `str`; write true or", id="no truth"),
            pytest.param(
                "{}.log-level = 'A'\n",
                '1: log-level: invalid enum value \'A\'; choose "WARNING", "INFO" or "DEBUG"',
                id="a wrong word",
            ),
            pytest.param("[{}]\nlogdir = ''\n", " logdir is empty", id="empty"),
            pytest.param("[tool]\ninstrumentor = 3\n", "2: tool.instrumentor is not a table", id="no table"),
            pytest.param("[{}\n", " is not TOML: ", id="no TOML"),
        ],
    )
    def test_are_told_with_their_place(self, text: str, message: str) -> None:
        write("pyproject.toml", text.replace("{}", "tool.instrumentor"))
        with pytest.raises(ConfigError) as caught:
            Configurations().of_directory("")
        shown = str(caught.value).removeprefix(str(Path.cwd()) + os.sep)
        assert shown.startswith("pyproject.toml:" + message.replace("{}", "is not a setting of this tool"))

    def test_a_named_file_that_is_not_there_or_says_nothing(self) -> None:
        with pytest.raises(ConfigError, match=r"gone\.toml: cannot be read"):
            Configurations(file="gone.toml")
        write("pyproject.toml", "[tool.x]\n")
        with pytest.raises(ConfigError, match=r"has no \[tool\.instrumentor\] table"):
            Configurations(file="pyproject.toml")

    def test_a_named_file_with_tables_of_other_tools_only(self) -> None:
        write("mine.toml", "[tool.other]\nx = 1\n")
        with pytest.raises(ConfigError, match=r"mine\.toml: has no \[tool\.instrumentor\] table"):
            Configurations(file="mine.toml")
