"""docs/testing.md lists exactly the functions that are evaluated without Spark."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from windowpane.sql.builtins import FILE
from windowpane.sql.signatures import TABLE, find_signature

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
LIST = re.compile(r"<!-- functions -->\n(.*?)<!-- end -->", re.DOTALL)
ARRAY = "ARRAY<INT>"


def functions() -> list[str]:
    """Names in the table of signatures, and those that take arrays of any type."""
    spark = FILE.read_text(encoding="utf-8").split()
    listed = {name for name, _ in TABLE if name in spark}
    taken = {name for name in spark if any(find_signature(name, args) for args in ((ARRAY,), (ARRAY, "INT")))}
    return sorted(name for name in listed | taken if name.replace("_", "").isalnum())


def test_the_list_of_functions_is_that_of_the_table() -> None:
    wanted = textwrap.fill(", ".join(f"`{name}`" for name in functions()) + ".", 100, break_on_hyphens=False)
    found = LIST.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None
    assert found.group(1).strip() == wanted, f"the list is to be:\n{wanted}"
