"""A checkpoint as Spark and windowpane leave it, without running either."""

from __future__ import annotations

import io
import json
import zipfile

from windowpane.checkpoint.ledger import Entry, Ledger
from windowpane.checkpoint.outbox import Outbox, PendingBatch
from windowpane.checkpoint.plan_record import PlanFile, PlanRecord
from windowpane.checkpoint.store import Store

COUNTS = {"in_": 3, "aggregated": 3}


def packed(*shared: str) -> bytes:
    """A snapshot of RocksDB that refers to files of as many bytes as their name has letters."""
    files = [{"localFileName": "1.sst", "dfsSstFileName": name, "sizeBytes": len(name)} for name in shared]
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("CURRENT", "MANIFEST-1")
        archive.writestr("metadata", "v1\n" + json.dumps({"sstFiles": files, "numKeys": -1}))
    return data.getvalue()


def entry(batch_id: int, **more: object) -> Entry:
    totals = {"in_": 3 * (batch_id + 1), "aggregated": 3 * (batch_id + 1)}
    known = {"clock_us": batch_id * 1_000_000, "watermark_us": batch_id * 500_000, "results": 1}
    return Entry(batch_id, **(known | {"accounting": COUNTS, "totals": totals} | more))  # type: ignore[arg-type]


def write_batch(store: Store, transform: str, batch_id: int, *, committed: bool = True) -> None:
    """A micro-batch that reads one file, and its new state: a snapshot every third version."""
    home = store.below(transform)
    root, state = home.spark_path("spark"), home.below("spark/state/0/0")
    conf = json.dumps({"batchTimestampMs": batch_id * 1000, "conf": {}})
    home.replace(f"spark/offsets/{batch_id}", f'v1\n{conf}\n{{"logOffset":{batch_id}}}\n-'.encode(), durable=False)
    line = json.dumps({"path": f"/input/{batch_id}.json", "batchId": batch_id})
    home.replace(f"spark/sources/0/{batch_id}", f"v1\n{line}".encode(), durable=False)
    state.replace(f"{batch_id + 1}.changelog", f"changes {batch_id}".encode(), durable=False)
    if (batch_id + 1) % 3 == 0:
        name = f"00000{batch_id}-x.sst"
        state.replace(f"SSTs/{name}", name.encode(), durable=False)
        state.replace(f"{batch_id + 1}.zip", packed(name), durable=False)
    if batch_id == 0:
        home.replace("spark/metadata", b'{"id": "the-original"}', durable=False)
        schema = f"file:{root}/state/0/_stateSchema/default/0_abc"
        about = {"operatorInfo": {}, "stateStoreInfo": [{"storeName": "default", "stateSchemaFilePaths": [schema]}]}
        home.replace("spark/state/0/_metadata/v2/0", f"v2\n{json.dumps(about)}".encode(), durable=False)
        home.replace("spark/state/0/_stateSchema/default/0_abc", b"schema", durable=False)
    if committed:
        Ledger(home.below("ledger")).write(entry(batch_id, outbox={"errors": 2 * (batch_id + 1)}))
        Outbox(home.below("outbox/errors")).put(PendingBatch(batch_id, [], ("{}", "{}")))
        home.replace(f"spark/commits/{batch_id}", b'v1\n{"nextBatchWatermarkMs":0}', durable=False)


def make_checkpoint(store: Store, batches: int, transform: str = "hot") -> None:
    """A checkpoint after so many batches. The side rows of the first one are delivered."""
    PlanFile(store.below(transform)).create(PlanRecord("plan", "SELECT 1", 2, unnamed_until=3))
    for batch_id in range(batches):
        write_batch(store, transform, batch_id)
    Outbox(store.below(f"{transform}/outbox/errors")).note_delivered(0, 2)
