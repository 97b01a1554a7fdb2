"""Names of the columns that cross between stages. They start with an underscore, so no user's column can clash.

A row batch has EVENT_TIME and ARRIVAL, and where the plan needs them SOURCE_PARTITION, KEEP, ERROR, DETAIL,
EVENT, the group keys `_k0…`, partition keys `_p0…`, aggregate inputs `_a0_0…`, aggregate filters `_a0_f`,
carried columns `_c0…`, dedupe keys `_d0…` and the flags below.
"""

EVENT_TIME = "_ts"
"""int64 microseconds: the row's event time (processing time in that mode). NULL only on error rows."""
ARRIVAL = "_arrival"
"""int64: order of arrival, unique within a stream's life."""
SOURCE_PARTITION = "_shard"
"""string `stream/number`: the partition of the source, which has its own largest event time. State and queues of
reinjected rows contain this column name.
"""
KEEP = "_keep"
"""bool: the WHERE clause; anything but true is filtered."""
UNMATCHED = "_unmatched"
"""bool: an inner or semi join with a static table found no partner for the row. Only there if a query has such a join.
"""
ERROR = "_error"
"""string: reason why the row cannot be evaluated; NULL for good rows."""
DETAIL = "_detail"
"""string: what exactly went wrong, for error rows."""
MADE = "_made"
"""bool: the row is a further row that explode, or a join with a static table, has made of a source row. There only if
the query has one of these.
"""
ORIGIN = "_origin"
"""A number that rows have in common that a join with static tables has made of one row, and rows beside them have not.
These rows follow each other. `evaluation.made_rows` makes MADE of it, before operators take the rows.
"""
EVENT = "_event"
"""The original event, for side output."""
CORRUPT = "_corrupt_record"
"""string: the text of a record that the source could not read, NULL for the others. Sources that cannot tell have none.
"""
TIME_SOURCE = "_time_source"
"""int8: where the row's time comes from, a position in `TIME_SOURCES`; NULL for a row without a time."""
TIME_SOURCES = ("sql_override", "config_field", "stream_column", "metadata", "processing_time")
REINJECTIONS = "_reinjections"
"""int32: how often the row has been read again; NULL for a row as the source gave it."""
FILE, FILE_TIME, FILE_START = FILE_COLUMNS = ("_file", "_file_time", "_file_start")
"""string, int64 microseconds, int64: the file that a row is from, when it was modified, and where the part of it begins
that a task reads. NULL for rows that are from no file of the source.
"""

RIGHT = "_right"
"""bool: the row is of the right side of a join of streams. The columns in which partners agree are `_j0…`."""

WHEN = "_when"
OPEN = "_open"
EMIT = "_emit"
"""bool: the conditions of sliding triggers (WHEN) and of state windows (OPEN, EMIT)."""

SEQUENCE = "_sequence"
"""int64: number of a row within its partition, for count windows."""

SESSION_START = "_session_start"
SESSION_LAST = "_session_last"
PENDING = "_pending"
"""int64 0/1: the session has changed since it was last emitted."""

HASH = "_hash"
"""uint64: the hash of a row's group, by which large state is sorted."""
PANE = "_pane"
"""int64: what a partial accumulator belongs to: a pane by its start, or a window by its key."""
WINDOW_KEY = "_window_start"
"""int64: the window that a row of state belongs to, by its key (`windows/aligned.py`). Older state has this name."""

WINDOW_START = "_window_start"
WINDOW_END = "_window_end"
WINDOW_INDEX = "_window_index"
"""int64: which of the windows of one WindowRows frame a row is in, 0 for the first to be emitted."""
WINDOW_SALT = "_window_salt"
"""int64: tells windows with equal bounds apart where time does not (count, state). Arrival of the first row."""
ROWS_BEFORE = "_rows_before"
"""int64: rows of earlier windows with the same bounds, where a row's number within them must not start again at 1."""
TRIGGER = "_trigger"
EPOCH = "_epoch"
FINAL = "_final"
SOURCE_TIME = "_source_ts"
"""The column in which a source that stamps its rows (Kafka) hands over the stamp; NULL where it has none."""
