"""Every aggregate of Spark is run or refused by name."""

from __future__ import annotations

import pytest

from tests.sql.golden import CATALOG
from windowpane.core import accumulators
from windowpane.core.accumulators.registry import _BUILT_IN
from windowpane.errors import SqlError
from windowpane.sql import bind
from windowpane.sql.functions import SPARK_AGGREGATES


def test_every_aggregate_of_spark_is_run_or_refused_by_name() -> None:
    for name in SPARK_AGGREGATES.difference(accumulators.names()):
        with pytest.raises(SqlError, match=f"`{name}`") as refused:
            bind(f"SELECT {name}(price) FROM bids GROUP BY tumblingwindow('ss', 10)", CATALOG)
        assert refused.value.code == ("GROUPING_SETS" if name.startswith("grouping") else "UNSUPPORTED_AGGREGATE")


def test_the_registry_has_no_aggregate_that_spark_does_not_have() -> None:
    assert SPARK_AGGREGATES.issuperset(function.name for function in _BUILT_IN)
