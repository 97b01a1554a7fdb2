"""docs/testing.md lists exactly the functions that are evaluated without Spark."""

from __future__ import annotations

import contextlib
import re
import textwrap
from pathlib import Path

from tests.spark import corpus, corpus_written
from windowpane.errors import SqlError
from windowpane.sql import translate_expression
from windowpane.sql.builtins import FILE
from windowpane.sql.signatures import TABLE, WRITTEN, find_signature

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
LIST = re.compile(r"<!-- functions -->\n(.*?)<!-- end -->", re.DOTALL)
ARRAYS = (("ARRAY<INT>",), ("ARRAY<INT>", "INT"), ("ARRAY<STRING>", "STRING"))
FIELDS = {"date_part", "datepart"}
"""Other spellings of EXTRACT."""


def functions() -> list[str]:
    """Names in the table of signatures, those that depend on a written argument, and those that take arrays."""
    spark = FILE.read_text(encoding="utf-8").split()
    listed = {name for name in [*(name for name, _ in TABLE), *WRITTEN, *FIELDS] if name in spark}
    taken = {name for name in spark if any(find_signature(name, args) for args in ARRAYS)}
    return sorted(name for name in listed | taken if name.replace("_", "").isalnum())


def test_the_list_of_functions_is_that_of_the_table() -> None:
    wanted = textwrap.fill(", ".join(f"`{name}`" for name in functions()) + ".", 100, break_on_hyphens=False)
    found = LIST.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None
    assert found.group(1).strip() == wanted, f"the list is to be:\n{wanted}"


def test_each_function_with_a_written_argument_is_in_the_corpus() -> None:
    accepted = []
    for text in corpus_written.WRITTEN:
        with contextlib.suppress(SqlError):
            translate_expression(text, corpus.types())
            accepted.append(text)
    assert [name for name in WRITTEN if not any(re.search(rf"\b{name}\b", text) for text in accepted)] == []
