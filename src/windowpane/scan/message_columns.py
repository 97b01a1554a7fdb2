"""Names of the columns of a Kafka record. Shared by the driver, which selects them, and the workers."""

PLACE = ("topic", "partition", "offset")
"""These locate a record. The original event of a bad record has them beside its text."""

VALUE = "_value"
"""BINARY: the undecoded value; NULL for a tombstone."""
KEY = "_key"
"""BINARY: the undecoded key, where a codec decodes it; NULL if there is none."""
TOPIC = "_topic"
PARTITION = "_partition"
"""Topic and partition of the record, which determine its source partition."""

FIRST, UNTIL, MARK = "_first", "_until", "_mark"
"""Of a range of offsets that workers fetch: its first offset, the one after its last, and MARKED."""
MARKED = -7
"""In place of a record's timestampType, which is -1, 0 or 1, shows that a row is a range and not a record."""
