"""Names of the parts of a Kafka record. Imports nothing, so that workers can."""

PLACE = ("topic", "partition", "offset")
"""Where a record stands: what the original event of one that cannot be read has beside its text."""

VALUE = "_value"
"""binary: the value as it crosses to a worker that decodes it; NULL where there is none."""
TOPIC = "_topic"
PARTITION = "_partition"
"""Where the record stands, for its shard."""
