"""Notebooks: proxies in the cells, and not one byte else. nbformat is the oracle for what a notebook is."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instrumentor.errors import EditedSinceError, NotebookError, NotInstrumentedError, SourceSyntaxError
from instrumentor.instrument import instrument_source
from instrumentor.notebooks.notebook import instrument_notebook
from instrumentor.notebooks.undo import revert_notebook
from instrumentor.settings import Settings

MODEL_LINE = 'net = Proxy.Proxy(net, recurse=True, name="net", logdir="proxy_trace", log_level=Proxy.INFO)'
IMPORT_LINE = "import proxy_wrapper.proxy as Proxy"


def make_notebook(*cells: str) -> Any:
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_markdown_cell("# Vörtrag"), *map(nbformat.v4.new_code_cell, cells)]
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return notebook


def instrument(source: bytes) -> bytes:
    return instrument_notebook(source, Settings(), source_name="a.ipynb").instrumented


def sources(content: bytes) -> list[str]:
    notebook = nbformat.reads(content.decode(), as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


CELLS = ("import torch.nn as nn", "net = nn.Linear(2, 3)\nprint('é', net)", "x = [net, nn.Linear(1, 2)]\n")


class TestForms:
    """However a notebook is written down, what is not added stays as it is."""

    @pytest.mark.parametrize(
        "write",
        [
            pytest.param(nbformat.writes, id="as Jupyter writes it"),
            pytest.param(json.dumps, id="on one line, in ASCII"),
            pytest.param(lambda book: json.dumps(book, indent=4, ensure_ascii=False), id="sources as single strings"),
            pytest.param(lambda book: nbformat.writes(book).replace("\n", "\r\n"), id="CRLF"),
            pytest.param(lambda book: nbformat.writes(book) + "\n\n", id="blank lines at the end"),
            pytest.param(lambda book: json.dumps(book).replace("\\n", "\\u000a"), id="other escapes"),
        ],
    )
    def test_there_and_back(self, write: Any) -> None:
        source = write(make_notebook(*CELLS)).encode()
        instrumented = instrument(source)
        first, second, third = sources(instrumented)
        assert first == f"{CELLS[0]}\n{IMPORT_LINE}"
        assert second == CELLS[1].replace("\nprint", f"\n{MODEL_LINE}\nprint")
        assert third.startswith("x = [net, Proxy.Proxy(nn.Linear(1, 2), ")
        assert third.splitlines()[-1].startswith('# instrument: format=1 source="a.ipynb"')
        reverted = revert_notebook(instrumented, source_name="a.ipynb")
        assert (reverted.original, reverted.recorded_source) == (source, "a.ipynb")

    @given(
        words=st.text('aé\N{GRINNING FACE}\\"\N{LINE SEPARATOR}\t', max_size=6),
        cuts=st.none() | st.sets(st.integers(1, 200), max_size=6),
        is_ascii=st.booleans(),
        is_closed=st.booleans(),
    )
    @settings(max_examples=100, derandomize=True, deadline=None)
    def test_cells_become_what_a_script_of_their_text_becomes(
        self, words: str, cuts: set[int] | None, is_ascii: bool, is_closed: bool
    ) -> None:
        literal = json.dumps(words, ensure_ascii=False)
        cell = f"import torch.nn as nn\nuse({literal}, nn.Linear(2, 3)).train()  # {words}\nnet = nn.Linear(2, 3)"
        cell += "\n" * is_closed
        notebook = make_notebook("")
        if cuts is not None:  # strings that end anywhere, as no front end writes them but the format allows
            ends = [0, *sorted(each for each in cuts if each < len(cell)), len(cell)]
            notebook.cells[1].source = [cell[start:end] for start, end in pairwise(ends)]
        else:
            notebook.cells[1].source = cell
        source = json.dumps(notebook, ensure_ascii=is_ascii).encode()
        instrumented = instrument(source)
        script = instrument_source(cell.encode(), Settings(), source_name="a.ipynb").instrumented.decode()
        held = json.loads(instrumented)["cells"][1]["source"]
        assert "".join(held).splitlines()[:-1] == script.splitlines()[:-1]
        assert revert_notebook(instrumented, source_name="a.ipynb").original == source

    def test_a_second_run_changes_nothing(self) -> None:
        once = instrument(nbformat.writes(make_notebook(*CELLS)).encode())
        assert instrument_notebook(once, Settings(), source_name="a.ipynb").already_instrumented

    def test_outputs_and_metadata_stay(self) -> None:
        notebook = make_notebook(*CELLS)
        notebook.cells[2].outputs = [nbformat.v4.new_output("stream", text="net = nn.Linear(2, 3)\n")]
        notebook.cells[2].metadata["tags"] = ["import torch"]
        source = nbformat.writes(notebook)
        instrumented = instrument(source.encode()).decode().splitlines()
        # Only lines of sources are new or end otherwise.
        gone = [line for line in source.splitlines() if line not in instrumented]
        assert [json.loads(line.strip().rstrip(",")) for line in gone] == [
            "import torch.nn as nn",
            "x = [net, nn.Linear(1, 2)]\n",
        ]

    def test_without_models_the_very_bytes_come_back(self) -> None:
        source = nbformat.writes(make_notebook("x = 1")).encode()
        assert instrument(source) is source

    def test_half_a_character_is_as_good_as_another(self) -> None:
        source = (
            nbformat.writes(make_notebook(*CELLS)).replace("import torch", "x = '\\ud83d'; import torch", 1).encode()
        )
        result = instrument_notebook(source, Settings(), source_name="a.ipynb")
        assert result.changed
        assert revert_notebook(result.instrumented, source_name="a.ipynb").original == source

    def test_lines_are_those_of_the_cells(self) -> None:
        result = instrument_notebook(nbformat.writes(make_notebook(*CELLS)).encode(), Settings(), source_name="a.ipynb")
        assert result.cells == ((1, 2), (2, 3), (4, 4))
        assert [decision.line for decision in result.decisions if decision.verdict == "wrap"] == [2, 4]


class TestMagics:
    @pytest.mark.parametrize(
        "cell",
        [
            pytest.param("%matplotlib inline\n{}", id="a line"),
            pytest.param("!pip install a \\\n  b\n{}", id="a command over two lines"),
            pytest.param("%%time\n{}", id="a cell of Python"),
            pytest.param("files = !ls\nbig = %sql select 1\n{}", id="assignments"),
            pytest.param("if True:\n    %load_ext x\n    !ls\n{}", id="in a block"),
            pytest.param("?print\nprint?\nnn.Linear??\n{}", id="help"),
            pytest.param("x = ('%s'\n% 3)\n{}", id="what looks like one"),
            pytest.param("!ls\nx = ('%s'\n% 3)\n{}", id="what looks like one beside one"),
            pytest.param("!ls\nprint('%d %%' \\\n  % 3)\n{}", id="what looks like one behind a backslash"),
            pytest.param("!ls\nx = '''\n!ls\n%s''' % 3\n{}", id="what looks like one in a string"),
            pytest.param("!ls\nx = (a\n  # (\n  # '\n%b)\n{}", id="what looks like one behind comments"),
            pytest.param("if x:\n    !ls\n    y = [a\n%b]\n\n    # c\n    %time\n{}", id="both in a block"),
            pytest.param("!echo (\n!echo it's\n%ls ''''\n{}", id="what is open in one is closed behind it"),
        ],
    )
    def test_stay_and_are_stepped_over(self, cell: str) -> None:
        source = nbformat.writes(make_notebook(CELLS[0], cell.format("net = nn.Linear(2, 3)"))).encode()
        instrumented = instrument(source)
        found = sources(instrumented)[1].splitlines()
        assert found[:-1] == [*cell.format("net = nn.Linear(2, 3)").splitlines(), MODEL_LINE]
        assert revert_notebook(instrumented, source_name="a").original == source

    def test_cells_of_other_languages_stay(self) -> None:
        shell = "%%bash\nnet = nn.Linear(2, 3)"
        instrumented = instrument(nbformat.writes(make_notebook(CELLS[0], CELLS[1], shell)).encode())
        assert sources(instrumented)[2] == shell
        assert "# instrument: format=1" in sources(instrumented)[1]

    def test_an_import_never_comes_before_a_cell_magic(self) -> None:
        cell = "%%capture\nfrom torch.nn import Linear\nnet = Linear(2, 3)"
        assert sources(instrument(nbformat.writes(make_notebook(cell)).encode()))[0].splitlines()[:3] == [
            "%%capture",
            "from torch.nn import Linear",
            IMPORT_LINE,
        ]


class TestMistakes:
    @pytest.mark.parametrize(
        "source",
        [
            pytest.param(b"", id="empty"),
            pytest.param(b"x = 1", id="no JSON"),
            pytest.param(b"[]", id="no object"),
            pytest.param(b'{"worksheets": []}', id="format 3"),
            pytest.param(b'{"cells": [{"cell_type": "code"}]}', id="no source"),
            pytest.param(b'{"cells": []} x', id="more behind it"),
            pytest.param(b'{"cells": "\xff"}', id="no UTF-8"),
            pytest.param(b'{"cells": ["a]}', id="an open string"),
            pytest.param(b"[" * 100_000, id="nested without end"),
        ],
    )
    def test_what_is_no_notebook(self, source: bytes) -> None:
        with pytest.raises(NotebookError, match=r"a\.ipynb: "):
            instrument(source)

    def test_what_is_no_python_is_told_with_its_cell(self) -> None:
        with pytest.raises(SourceSyntaxError) as caught:
            instrument(nbformat.writes(make_notebook("x = 1", "y = 2\nz = (")).encode())
        assert str(caught.value).startswith("a.ipynb:cell 3:2:5: ")

    def test_saved_anew_it_cannot_be_reverted(self) -> None:
        instrumented = instrument(nbformat.writes(make_notebook(*CELLS)).encode())
        with pytest.raises(EditedSinceError, match="edited or saved"):
            revert_notebook(json.dumps(json.loads(instrumented)).encode(), source_name="a.ipynb")

    def test_edited_it_is_not_instrumented_again(self) -> None:
        instrumented = instrument(nbformat.writes(make_notebook(*CELLS)).encode())
        with pytest.raises(EditedSinceError, match="edited or saved"):
            instrument(instrumented.replace(b"# V", b"# W"))

    def test_spans_that_no_run_has_written_cannot_be_reverted(self) -> None:
        comment = f'# instrument: format=1 source="a" sha256={"0" * 64} added=json:{"9" * 5000}'
        with pytest.raises(EditedSinceError, match="edited or saved"):
            revert_notebook(nbformat.writes(make_notebook(comment)).encode(), source_name="a.ipynb")

    def test_never_instrumented(self) -> None:
        with pytest.raises(NotInstrumentedError):
            revert_notebook(nbformat.writes(make_notebook(*CELLS)).encode(), source_name="a.ipynb")

    def test_a_comment_that_somebody_has_spoilt_is_none(self) -> None:
        instrumented = instrument(nbformat.writes(make_notebook(*CELLS)).encode())
        spoilt = instrumented.replace(b'source=\\"a.ipynb\\"', b'source=\\"\\\\q\\"')
        assert spoilt != instrumented
        with pytest.raises(NotInstrumentedError):
            revert_notebook(spoilt, source_name="a.ipynb")
