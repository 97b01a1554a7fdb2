"""The table of everything that is evaluated without Spark: each use is proven equal to Spark's by the corpus test.

What is not in it for exactly these types of arguments is refused. `tests/spark/test_corpus.py` enumerates it.
"""

from __future__ import annotations

from windowpane.sql.signatures import branches, calendar, casts, numbers, texts, times
from windowpane.sql.signatures.model import LITERAL, NULL, SCALARS, Signature, duckdb_type
from windowpane.sql.signatures.written import WRITTEN, of_written

__all__ = ["LITERAL", "NULL", "SCALARS", "TABLE", "WRITTEN", "Signature", "duckdb_type", "find_signature"]

TABLE: dict[tuple[str, tuple[str, ...]], Signature] = {
    (each.name, each.args): each
    for part in (numbers, texts, times, calendar, casts, branches)
    for each in part.signatures()
}


def find_signature(name: str, args: tuple[str, ...]) -> Signature | None:
    """The signature of a function for these types. Decimals have one for every precision."""
    found = TABLE.get((name, args)) or of_written(name, args)
    return found or branches.of_any(name, args) or numbers.of_decimals(name, args) or casts.of_decimals(name, args)
