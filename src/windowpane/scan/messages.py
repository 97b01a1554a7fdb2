"""Decodes the values of Kafka records in the workers, a batch at a time.

Spark's source reads the records and owns the offsets. Only values cross to Python, with those other columns of the
record that the query and its side outputs use.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core import columns as c
from windowpane.core.rows import in_chunks
from windowpane.scan.codec import Codec, decode_keys, decode_values
from windowpane.scan.message_columns import KEY, PARTITION, PLACE, TOPIC, VALUE
from windowpane.scan.scan import Part

PARTITIONS = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True)
class MessageReader:
    """Decodes VALUE of each record. `beside`: columns of the record that are passed on."""

    stream: str
    codec: Codec
    columns: tuple[tuple[str, pa.DataType], ...]
    beside: tuple[tuple[str, pa.DataType], ...]
    several_topics: bool
    max_record_bytes: int
    key_codec: Codec | None = None
    key_columns: tuple[tuple[str, pa.DataType], ...] = ()
    """Decode KEY of each record too."""

    @property
    def place(self) -> tuple[str, ...]:
        return PLACE

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([*self.columns, *self.key_columns, *self.beside, (c.SOURCE_PARTITION, PARTITIONS)])

    def read(self, handed: Iterator[pa.RecordBatch]) -> Iterator[Part]:
        decoded = (self._decoded(records) for records in handed if records.num_rows)
        return (Part(self._with_partitions(rows)) for rows in in_chunks(decoded))

    def _decoded(self, records: pa.RecordBatch) -> pa.RecordBatch:
        decoded = decode_values(self.codec, records.column(VALUE), pa.schema(self.columns), self.max_record_bytes)
        columns = {name: decoded.columns.column(name) for name, _ in self.columns}
        bad = decoded.bad
        if self.key_codec is not None:
            keys = decode_keys(self.key_codec, records.column(KEY), pa.schema(self.key_columns), self.max_record_bytes)
            columns |= {name: keys.columns.column(name) for name, _ in self.key_columns}
            bad = pc.coalesce(bad, keys.bad)
        columns[c.CORRUPT] = bad
        columns |= {name: records.column(name).cast(kind) for name, kind in self.beside}
        columns |= {name: records.column(name) for name in self._partition_columns}
        return pa.RecordBatch.from_pydict(columns)

    @property
    def _partition_columns(self) -> tuple[str, ...]:
        return (TOPIC, PARTITION) if self.several_topics else (PARTITION,)

    def _with_partitions(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows.drop_columns(list(self._partition_columns)).append_column(
            c.SOURCE_PARTITION, self._partitions(rows)
        )

    def _partitions(self, rows: pa.RecordBatch) -> pa.Array:
        """The name of each record's source partition, with the topic if there are several."""
        numbers = rows.column(PARTITION)
        if self.several_topics:
            numbers = pc.binary_join_element_wise(rows.column(TOPIC), numbers.cast(pa.string()), "-")
        encoded = numbers.dictionary_encode()
        names = pa.array([f"{self.stream}/{number}" for number in encoded.dictionary.to_pylist()], pa.string())
        return pa.DictionaryArray.from_arrays(encoded.indices, names)
