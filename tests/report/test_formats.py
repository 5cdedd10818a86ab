"""One document, in each of its forms."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.report import catalog_tables
from paceline.report.document import GAP, Block, Document, Heading, Notes, Paragraph, Table, Title, folding, listing
from paceline.report.formats import as_csv, as_markdown, as_text, formats

TABLE = Table([Heading("name", whole=True), Heading("s", number=True)], [["torch", "1.5"], ["jax", "12.5"]])
DOCUMENT: Document = [Title("times"), TABLE, Notes(["a|b"]), GAP, Block(["$ " + "word " * 30]), Paragraph("the end")]


def test_terminal() -> None:
    lines = as_text(DOCUMENT, 40).splitlines()
    assert [line.rstrip() for line in lines[:5]] == [
        "times",
        "name      s",
        "───────────",
        "torch   1.5",
        "jax    12.5",
    ]
    assert lines[5:] == ["* a|b", "", "$ " + "word " * 30, "the end"]


def test_markdown() -> None:
    assert as_markdown(DOCUMENT).splitlines() == [
        *("**times**", "", "| name | s |", "|---|---:|", "| torch | 1.5 |", "| jax | 12.5 |", ""),
        *("* a\\|b", "", "```text", "$ " + "word " * 30, "```", "", "the end"),
    ]


def test_csv_has_no_formulas() -> None:
    assert as_csv([*DOCUMENT, listing(["a"], [["=1"]])]) == "name,s\ntorch,1.5\njax,12.5\na\n'=1\n"


def test_csv_leaves_signed_numbers_as_they_are() -> None:
    numbers = ["+0.012", "-1,200.5", "+0.010–-0.020", "-0.1 to +0.2"]
    formulas = ["+1+cmd", "-2-3", "+A1", "-", "@x"]
    written = as_csv([listing(["x"], [[text] for text in (*numbers, *formulas)])]).splitlines()[1:]
    assert [line.strip('"') for line in written] == [*numbers, *(f"'{text}" for text in formulas)]


def test_table_without_lines_is_its_headings_in_csv_and_nothing_for_people() -> None:
    empty: Document = [Paragraph("none"), replace(listing(["a", "b"], []), optional=True)]
    assert (as_csv(empty), as_text(empty), as_markdown(empty)) == ("a,b\n", "none\n", "none\n")


def test_only_people_are_kept_from_letters_that_steer() -> None:
    def document(name: str) -> Document:
        return [Paragraph(name)]

    forms = formats(document)
    assert forms["text"]("a\x1bb") == forms["markdown"]("a\x1bb") == "a�b\n"
    assert forms["json"]("a\x1bb") == '"a\\u001bb"\n'


def test_numbers_between_colons_are_no_emoji() -> None:
    assert as_text([Block(["--shares 1:100:1"]), listing(["x"], [[":100:"]])], 40).count("100") == 2


@pytest.mark.parametrize(("width", "lines"), [(20, 1), (8, 2)])
def test_cell_of_two_values_is_broken_where_one_line_is_too_wide(width: int, lines: int) -> None:
    assert len(as_text([folding(listing(["MiB"], [["1,000+2,000"]]))], width).splitlines()) == 2 + lines


def test_frameworks_at_80_columns_have_whole_words(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    catalog_tables.show("frameworks", "")
    table = capsys.readouterr().out.split("\nneon:")[0].splitlines()
    assert max(map(len, table)) <= 80
    words = {word for line in table[2:] for word in line.split()}
    assert {"parameter_server", "independent", "replicated", "fake:device", "bfloat16"} <= words
    assert not {"server", "t", "independen"} & words
