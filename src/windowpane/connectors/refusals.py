"""Whether a sink failed because of a record in the batch, not because it is away: the same record fails every time."""

from __future__ import annotations

import re

import psycopg

_TOO_LARGE = re.compile(
    r"RecordTooLargeException|RecordBatchTooLargeException|"
    r"spark\.rpc\.message\.maxSize|spark\.driver\.maxResultSize"
)
"""What Kafka's client and broker say, and Spark where records do not fit into its own messages."""
REFUSED = (psycopg.DataError, psycopg.errors.ProgramLimitExceeded, psycopg.errors.StatementTooComplex)
"""What PostgreSQL raises for a value that is too long, nested too deeply, or holds what its types do not."""


def refuses_record(failed: BaseException | None) -> bool:
    """Whether shorter records may help."""
    while failed is not None:
        if isinstance(failed, REFUSED) or _TOO_LARGE.search(str(failed)):
            return True
        failed = failed.__cause__
    return False
