"""Reads Delta and Iceberg tables with DuckDB's extensions, which share no code with the packages that write them.

Runs in an interpreter of its own, since the extensions exist for one version of DuckDB: see scripts/duckdb-reader.
"""

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import duckdb

ORDER = {"delta": ("delta",), "iceberg": ("avro", "iceberg")}


def main() -> None:
    kind, place, columns = sys.argv[1], sys.argv[2], sys.argv[3:]
    connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    for name in ORDER[kind]:
        package = find_spec(f"duckdb_extension_{name}")
        assert package is not None
        assert package.submodule_search_locations is not None
        folder = Path(next(iter(package.submodule_search_locations)))
        connection.load_extension(str(next(folder.rglob("*.duckdb_extension"))))
    names = ", ".join(f'"{column}"' for column in columns)
    rows = connection.execute(f"SELECT {names} FROM {kind}_scan(?)", [place]).fetchall()
    sys.stdout.write(json.dumps(rows, default=str))


if __name__ == "__main__":
    main()
