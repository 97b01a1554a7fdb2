"""`format = "toy"`: a sink with exactly-once delivery into a folder, one Arrow file per batch."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from windowpane import Sink
from windowpane.connectors.sinks import SinkBatch, SinkSettings
from windowpane.formats import SinkFormat


class ToySink(Sink):
    """A batch that comes again replaces its file."""

    delivery = "exactly_once"

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(name)
        self.folder = folder

    @classmethod
    def create(cls, name: str, settings: SinkSettings) -> ToySink:
        return cls(name, Path(settings.path or "") / settings.options["folder"])

    def write(self, batch: SinkBatch) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with pa.OSFile(str(self.folder / f"{batch.identity}.arrow"), "wb") as file:
            table = batch.arrow()
            with pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)


TOY = SinkFormat("toy", ToySink, needs_path=True, required_options=("folder",), options=frozenset({"folder"}))
