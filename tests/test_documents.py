"""What the documents say of the commands is so."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import instrumentor.cli
import instrumentor.running.command_line
import proxy_trace.cli
from instrumentor.configuration import Configurations, Section

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*.md")])
USERS_GUIDES = [ROOT / "docs" / f"{name}.md" for name in ("instrument", "run", "batch", "resolution", "proxy_trace")]
# Of the scripts and programs that the examples run.
SELF_EXPLAINING = {"--help", "--version", "--show-completion"}
OPTIONS_OF_OTHERS = {
    "--no-format",
    "--array",
    "--epochs",
    "--lr",
    "--bug-step",
    "--nproc-per-node",
    "--no-python",
    "--no",  # accelerate spells --no_python.
}


def options_of(command: Any) -> list[set[str]]:
    """How each option of a command, and of the commands below it, may be spelled."""
    found = [{*option.opts, *option.secondary_opts} for option in command.params if option.opts[0].startswith("-")]
    for below in getattr(command, "commands", {}).values():
        found += options_of(below)
    return [*found, {"--help", "-h"}]


COMMANDS = {
    "instrument": typer.main.get_command(instrumentor.cli.app),
    "instrument run": typer.main.get_command(instrumentor.running.command_line.run_app),
    "proxy-trace": typer.main.get_command(proxy_trace.cli.app),
}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text("utf-8"))
    assert [link for link in links if not (document.parent / link).exists()] == []


def test_every_page_is_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert [page.name for page in ROOT.glob("docs/*.md") if f"(docs/{page.name})" not in readme] == []


@pytest.mark.parametrize("document", [ROOT / "README.md", *USERS_GUIDES], ids=lambda path: path.name)
def test_options_are_those_that_there_are(document: Path) -> None:
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", document.read_text("utf-8")))
    there_are = set().union(*(each for command in COMMANDS.values() for each in options_of(command)))
    assert named - OPTIONS_OF_OTHERS <= there_are


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_described(command: str) -> None:
    described = "".join(page.read_text("utf-8") for page in USERS_GUIDES)
    named = set(re.findall(r"(?<![\w-])-{1,2}[a-z][a-z-]*", described))
    missing = [each for each in options_of(COMMANDS[command]) if named.isdisjoint(each)]
    assert [each for each in missing if each.isdisjoint(SELF_EXPLAINING)] == []


def test_the_configuration_shown_has_every_setting_and_means_something(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "batch.md").read_text("utf-8")
    block = page[page.index("    [tool.instrumentor]") :].partition("\n\n")[0]
    text = "\n".join(line.strip() for line in block.splitlines())
    shown = tomllib.loads(text)["tool"]["instrumentor"]
    assert {name.replace("-", "_") for name in shown} == set(Section.__struct_fields__)
    file = tmp_path / "pyproject.toml"
    file.write_text(text, "utf-8")
    assert Configurations(file=str(file)).of_directory(".").settings.skip == ("ema*",)


def test_the_change_in_the_readme_is_what_the_command_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    command = "instrument examples/mnist.py --diff"
    readme = (ROOT / "README.md").read_text("utf-8")
    shown = readme.partition(f"$ {command}\n")[2].partition("\nThe comment")[0]
    made = CliRunner().invoke(instrumentor.cli.app, [*command.split()[1:], "--no-cache"]).stdout

    def lines(text: str) -> list[str]:
        return [line.strip() for line in text.splitlines() if line.strip()]

    assert lines(shown) == lines(made)
