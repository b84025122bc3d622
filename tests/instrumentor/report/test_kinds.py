"""Reports for programs and for comments: what they say, and that their formats' own readers take them."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import nbformat
import pytest
from markdown_it import MarkdownIt
from msgspec.structs import replace
from sarif_pydantic import Sarif

from instrumentor.engine.outcome import Task
from instrumentor.engine.work import process
from instrumentor.report import json_report, markdown, sarif
from instrumentor.report.kinds import write_reports
from instrumentor.report.record import Alias, FileRecord, Site, make_readable, record_file, summarize
from instrumentor.settings import Settings

if TYPE_CHECKING:
    from instrumentor.report.kinds import Render

ROOT = Path(__file__).parents[3]


def render(kind: Render, records: list[FileRecord]) -> bytes:
    out = io.BytesIO()
    kind(lambda: iter(records), summarize(records), out)
    return out.getvalue()


class TestRecord:
    def test_each_addition_names_its_site(self, records: list[FileRecord]) -> None:
        gan = records[0]
        lines = gan.diff.splitlines()
        named = {
            addition.text: None if addition.site is None else gan.sites[addition.site].target
            for addition in gan.additions
        }
        assert {text.strip().partition(" = ")[0]: target for text, target in named.items() if " = " in text} == {
            "netG": "netG",
            "net": "net",
        }
        assert named["import proxy_wrapper.proxy as Proxy"] is None
        assert all(f"+{addition.text}" in lines for addition in gan.additions if addition.column is None)

    def test_aliases_are_quoted(self, records: list[FileRecord]) -> None:
        site = next(site for site in records[0].sites if site.target == "netG")
        quoted = {quote.line: quote.text for quote in records[0].quotes}
        assert {alias.name for alias in site.aliases} == {"other", "late"}
        for alias in site.aliases:
            assert quoted[alias.line].strip().startswith(f"{alias.name} = ")

    def test_a_failure_has_its_place(self, records: list[FileRecord]) -> None:
        assert records[3].status == "failed"
        assert records[3].error is not None
        assert (records[3].error.line, records[3].error.column) == (2, 5)

    def test_lines_and_columns_count_from_one(self, records: list[FileRecord]) -> None:
        (site,) = (site for site in records[1].sites if site.target == "net")
        assert (site.line, site.column) == (3, 7)  # net = nn.Linear(1, 1)

    def test_what_is_added_within_a_line_names_its_site_too(self, records: list[FileRecord]) -> None:
        gan = records[0]
        within = [addition for addition in gan.additions if addition.column is not None]
        (listed,) = (site for site in gan.sites if site.decision == "wrap" and site.target not in ("netG", "net"))
        assert [addition.text.partition(",")[0] for addition in within] == ["Proxy.Proxy(", ""]
        assert [gan.sites[addition.site].line for addition in within if addition.site is not None] == [listed.line] * 2

    def test_of_several_models_in_a_line_each_addition_names_its_own(self, tmp_path: Path) -> None:
        script = tmp_path / "a.py"
        script.write_text(
            "from torch import nn\n"
            "first = nn.Linear(1, 1)\n"
            "models = [nn.Linear(1, 1), nn.ReLU(), nn.Conv2d(1, 1, 1)]\n"
            "a = nn.Linear(1, 1); b = nn.Linear(1, 1); print()\n"
            "run(nn.Linear(2, 2),\n"
            "    nn.Sequential(nn.Linear(3, 3)), nn.Linear(4, 4))\n"
        )
        task = Task(str(script), "a.py", "a.py", Settings(), goal="explain")
        record = record_file(task, process(task), written_to=None, diff_to="a.py")
        found = [
            record.sites[addition.site].target
            for addition in record.additions
            if addition.column is not None and addition.site is not None
        ]
        in_list = ["models[0]", "models[0]", "models[2]", "models[2]"]
        assert found == [*in_list, "a", "a", "b", "b", "arg0", "arg0", "arg1", "arg1", "arg2", "arg2"]

    def test_texts_that_no_file_can_hold_are_made_readable_however_deep_they_lie(
        self, records: list[FileRecord]
    ) -> None:
        record = records[0]
        alias = replace(record.sites[0].aliases[0], name="\udcff") if record.sites[0].aliases else Alias("\udcff", 1)
        site = replace(record.sites[0], target="net_\udcff", aliases=(alias,))
        readable = make_readable(replace(record, path="zoo/\udcff.py", sites=(site,)))
        assert readable.path == "zoo/\ufffd.py"
        assert (readable.sites[0].target, readable.sites[0].aliases[0].name) == ("net_\ufffd", "\ufffd")
        assert render(json_report.render, [readable])


class TestJson:
    def test_fits_its_documented_schema(self, records: list[FileRecord]) -> None:
        schema = json.loads((ROOT / "docs" / "report.schema.json").read_bytes())
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.Draft202012Validator(schema).validate(json.loads(render(json_report.render, records)))

    def test_the_documented_schema_is_that_of_the_code(self) -> None:
        assert (ROOT / "docs" / "report.schema.json").read_bytes() == json_report.schema()

    def test_can_be_read_back(self, records: list[FileRecord], tmp_path: Path) -> None:
        (tmp_path / "r.json").write_bytes(render(json_report.render, records))
        document = json_report.read(str(tmp_path / "r.json"))
        assert list(document.files) == records
        assert document.summary == summarize(records)


class TestSarif:
    def read(self, records: list[FileRecord]) -> Any:
        text = render(sarif.render, records)
        Sarif.model_validate_json(text)  # what the standard requires and allows, as others have written it down
        (run,) = json.loads(text)["runs"]
        return run

    def test_shows_each_site_at_its_place(self, records: list[FileRecord]) -> None:
        run = self.read(records)
        assert len(run["results"]) == sum(len(record.sites) for record in records)
        shown = [result for result in run["results"] if result["level"] == "note"]
        places = [result["locations"][0]["physicalLocation"] for result in shown]
        assert [(place["artifactLocation"]["uri"], place["region"]["startLine"]) for place in places] == [
            (record.path.replace(" ", "%20").replace("ä", "%C3%A4"), site.line)
            for record in records
            for site in record.sites
            if site.decision == "wrap"
        ]
        assert {result["kind"] for result in shown} == {"fail"}  # the one kind that may have a level
        assert {result["kind"] for result in run["results"] if result not in shown} == {"informational"}

    def test_rules_are_those_of_the_results(self, records: list[FileRecord]) -> None:
        run = self.read(records)
        rules = run["tool"]["driver"]["rules"]
        assert {rule["id"] for rule in rules} == {result["ruleId"] for result in run["results"]}
        assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in run["results"])

    def test_other_names_of_a_model_are_related_places(self, records: list[FileRecord]) -> None:
        result = next(each for each in self.read(records)["results"] if each["properties"]["target"] == "netG")
        related = [
            (each["id"], each["physicalLocation"]["region"]["startLine"], each["message"]["text"])
            for each in result["relatedLocations"]
        ]
        assert related == [(1, 8, "also called other"), (2, 18, "also called late")]

    def test_places_of_a_notebook_are_its_cells(self, records: list[FileRecord]) -> None:
        site = replace(next(site for site in records[0].sites if site.target == "netG"), cell=3)
        (result,) = self.read([replace(records[0], sites=(site,))])["results"]
        assert "relatedLocations" not in result  # SARIF knows lines of files only
        assert "region" not in result["locations"][0]["physicalLocation"]
        assert result["message"]["text"].startswith(f"cell 3, line {site.line}: netG (")

    def test_failures_are_notifications(self, records: list[FileRecord]) -> None:
        (invocation,) = self.read(records)["invocations"]
        (notification,) = invocation["toolExecutionNotifications"]
        assert not invocation["executionSuccessful"]
        assert notification["locations"][0]["physicalLocation"]["region"] == {"startLine": 2, "startColumn": 5}

    def test_a_site_keeps_its_fingerprint_when_it_moves(self, records: list[FileRecord]) -> None:
        def fingerprints(found: list[FileRecord]) -> list[str]:
            return [result["partialFingerprints"]["site/v1"] for result in self.read(found)["results"]]

        def moved(site: Site) -> Site:
            return type(site)(
                **{**{name: getattr(site, name) for name in site.__struct_fields__}, "line": site.line + 7}
            )

        first = records[0]
        after = FileRecord(path=first.path, status=first.status, sites=tuple(map(moved, first.sites)))
        assert fingerprints([after]) == fingerprints([first])
        assert len(set(fingerprints(records))) == len(fingerprints(records))


class TestMarkdown:
    def test_shows_each_model_with_its_reason_and_the_diff(self, records: list[FileRecord]) -> None:
        text = render(markdown.render, records).decode()
        shown = MarkdownIt("commonmark").enable("table").render(text)
        for record in records:
            for site in record.sites:
                if site.decision == "wrap":
                    assert f"<td><code>{site.target}</code></td>" in shown
        fences = re.findall(r'<code class="language-diff">(.*?)</code>', shown, re.DOTALL)
        assert len(fences) == sum(bool(record.diff) for record in records)
        assert "<b>&amp;" not in shown  # what a script says is no markup

    def test_says_what_failed_and_where(self, records: list[FileRecord]) -> None:
        text = render(markdown.render, records).decode()
        assert text.startswith(
            "# Instrumented models\n\n**5** models get a proxy; 3 of 5 files change, **1 failed**.\n"
        )
        assert "## Failed\n\n- `zoo/bad.py:2`: not Python" in text

    def test_leaves_out_files_without_models(self, records: list[FileRecord]) -> None:
        assert "done.py" not in render(markdown.render, records).decode()

    def test_fits_into_a_comment(self, records: list[FileRecord]) -> None:
        many = [
            FileRecord(path=f"zoo/f{number}.py", status="changed", sites=records[0].sites, diff=records[0].diff)
            for number in range(400)
        ]
        text = render(markdown.render, many).decode()
        assert len(text) < 65_536
        assert text.endswith("more files do not fit into a comment; the other report formats include them.\n")


def test_a_report_is_written_whole_or_not_at_all(
    records: list[FileRecord], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(records: object, summary: object, out: object) -> None:
        raise KeyboardInterrupt

    target = tmp_path / "deep" / "r.json"
    write_reports(lambda: iter(records), [str(target)])
    before = target.read_bytes()
    monkeypatch.setattr(json_report, "render", fail)
    with pytest.raises(KeyboardInterrupt):
        write_reports(lambda: iter(records), [str(target)])
    assert target.read_bytes() == before
    assert [path.name for path in target.parent.iterdir()] == ["r.json"]


def test_lines_of_a_notebook_are_those_of_its_cells(tmp_path: Path) -> None:
    cells = ["import torch.nn as nn", "net = nn.Linear(2, 2)\nbest = net", "last = net"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in cells])
    path = tmp_path / "a.ipynb"
    nbformat.write(notebook, path)
    task = Task(str(path), "a.ipynb", "a.ipynb", Settings(), goal="explain")
    made, best, last = record_file(task, process(task), written_to=None, diff_to="a.ipynb").sites
    assert [(each.name, each.cell, each.line) for each in made.aliases] == [("best", 2, 2), ("last", 3, 1)]
    assert (best.cell, best.line, best.wrapped_in, best.wrapped_at) == (2, 2, 2, 1)
    assert (last.cell, last.line, last.wrapped_in, last.wrapped_at) == (3, 1, 2, 1)
    assert last.reason == "another name of the object wrapped at cell 2 line 1"
