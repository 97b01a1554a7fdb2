"""Names of the columns of a Kafka record. Shared by the driver, which selects them, and the workers."""

PLACE = ("topic", "partition", "offset")
"""These locate a record. The original event of a bad record has them beside its text."""

VALUE = "_value"
"""BINARY: the undecoded value; NULL for a tombstone."""
TOPIC = "_topic"
PARTITION = "_partition"
"""Topic and partition of the record, which determine its source partition."""
