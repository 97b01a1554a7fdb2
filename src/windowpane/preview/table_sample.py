"""The first rows of Delta and Iceberg tables, read without Spark as the pipeline would read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from windowpane.config import PipelineConfig, Stream, Table
from windowpane.config.models import MAX_RECORD_BYTES
from windowpane.errors import ConfigError
from windowpane.formats import source_format
from windowpane.preview.file_sample import sampled, typed
from windowpane.remote.access import NO_ACCESS, Access
from windowpane.remote.input_file import InputFile
from windowpane.remote.source_files import source_files
from windowpane.remote.table_log import TableFile, TableSettings, open_log
from windowpane.scan.columnar_files import read_parquet
from windowpane.scan.files import FileReader
from windowpane.scan.scan import Damage
from windowpane.sql.query import Column
from windowpane.sql.sampling import arrow_ddl
from windowpane.sql.types import quoted
from windowpane.testing.decode import Decoded

_DELTA = "delta"
_DELTA_LOG = "_delta_log"


@dataclass(frozen=True)
class TableSampler:
    """Reads the beginning of a table's files."""

    columns: Sequence[Column]
    access: Access

    def read(self, file: TableFile, count: int) -> Iterator[Decoded | Damage]:
        """At least `count` rows, if the file has them."""
        reader = FileReader(read_parquet, typed(self.columns), MAX_RECORD_BYTES, self.access, None)
        for content in reader.contents(InputFile(file.path, self.access), file.values):
            yield sampled(content, self.columns, count)


def files_of_table(config: PipelineConfig, source: Stream | Table, access: Access) -> list[TableFile]:
    """The files that a table has now, oldest first."""
    name = source.spark_options.get("table") or config.resolve(source.path or "")
    log = open_log(_settings(source.source_format.name, str(name), source.spark_options, access))
    return log.snapshot(log.latest())


def delta_schema(address: str) -> str | None:
    """The columns of the Delta table in a folder; None if there is none."""
    try:
        if not source_files(f"{address.rstrip('/')}/{_DELTA_LOG}"):
            return None
    except ConfigError:
        return None
    schema = open_log(_settings(_DELTA, address, {}, NO_ACCESS)).schema()
    return ", ".join(f"{quoted(field.name)} {arrow_ddl(field.type)}" for field in schema)


def _settings(format_: str, name: str, options: dict[str, str], access: Access) -> TableSettings:
    log = source_format(format_).table_log
    assert log is not None, "only tables have a log"
    return TableSettings(log, format_.capitalize(), name, options, access)
