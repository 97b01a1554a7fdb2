"""Users' functions in a Spark session. Their modules are shipped by value, so executors need no copy of the files."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.pandas.functions import arrow_udf

from windowpane.core.accumulators import user_classes
from windowpane.core.user_functions import registered

_INSTALLED = tuple(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib"))


def register_functions(spark: SparkSession) -> None:
    """Make the registered functions callable in the session's SQL. Doing it again changes nothing."""
    for function in registered():
        _ship(function.call)
        made: Any = arrow_udf if function.of_columns else udf
        spark.udf.register(function.name, made(function.call, function.returns))
    for aggregate in user_classes():
        _ship(aggregate)


def _ship(definition: object) -> None:
    """Pickle the module of a function by value, and the modules that lie beside it, unless they are installed."""
    module = sys.modules.get(getattr(definition, "__module__", ""))
    file = getattr(module, "__file__", None)
    if module is None or file is None or _is_installed(Path(file)):
        return
    folder = Path(file).resolve().parent
    by_value: Any = cloudpickle.register_pickle_by_value
    for each in list(sys.modules.values()):
        place = getattr(each, "__file__", None)
        if place is None or each.__name__ == "__main__" or _is_installed(Path(place)):
            continue
        if folder in Path(place).resolve().parents:
            by_value(each)


def _is_installed(file: Path) -> bool:
    return any(place in file.parents for place in _INSTALLED) or "windowpane" in file.parts[-3:-1]
