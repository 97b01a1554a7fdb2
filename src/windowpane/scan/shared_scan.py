"""One reader for several scans: workers read and decode rows once, and project them for each transform."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from windowpane.evaluation.common_values import CommonValues
from windowpane.scan.codec import Codec
from windowpane.scan.own_columns import own_columns
from windowpane.scan.scan import Damage, Reader, Scan, Scanned


@dataclass(frozen=True)
class SharedScan:
    """Scans by the tags of their transforms. Pickled: `read` runs in the workers."""

    reader: Reader
    """Reads all columns that one of the scans reads."""
    scans: Mapping[str, Scan]
    codec: Codec | None = None
    """As of `own_columns`."""

    @classmethod
    def alone(cls, scan: Scan, tag: str = "") -> SharedScan:
        return cls(scan.reader, {tag: scan})

    def read(self, handed: Iterator[pa.RecordBatch], clock_us: int) -> Iterator[dict[str, Scanned]]:
        """The rows of a task as each transform takes them."""
        for part in self.reader.read(handed):
            found = part.content
            if isinstance(found, Damage):
                scanned = {tag: scan.damaged(found) for tag, scan in self.scans.items()}
            else:
                scanned = self._scanned(found, clock_us)
            yield {tag: replace(each, place=part.place) for tag, each in scanned.items()}

    def _scanned(self, source: pa.RecordBatch, clock_us: int) -> dict[str, Scanned]:
        if len(self.scans) == 1:
            return {tag: scan.scanned(source, clock_us) for tag, scan in self.scans.items()}
        items = [item for scan in self.scans.values() for _, item in scan.projections[0].computed]
        common, found = CommonValues(source, clock_us, items), dict[str, Scanned]()
        for tag, scan in self.scans.items():
            equal = self._first_equal[tag]
            found[tag] = found.get(equal) or self._own(source, scan, clock_us, common)
        return found

    def _own(self, source: pa.RecordBatch, scan: Scan, clock_us: int, common: CommonValues) -> Scanned:
        """Rows as one transform takes them, which reads no more columns than its own."""
        schema = scan.reader.schema
        others = [name for name in self.reader.schema.names if name not in schema.names]
        rows, differ = own_columns(source, schema, others, self.codec)
        return scan.scanned(rows, clock_us, None if differ else common)

    @cached_property
    def _first_equal(self) -> dict[str, str]:
        """For each scan the first one that gives the same rows."""
        return {tag: next(each for each in self.scans if self.scans[each] == scan) for tag, scan in self.scans.items()}
