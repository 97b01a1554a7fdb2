/* Copies batches of librdkafka's messages into Arrow buffers and frees them: one call for a batch, not one per message.
 *
 * Nothing is linked: the caller passes the functions of the librdkafka that it has loaded. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* rd_kafka_message_t, whose layout is part of librdkafka's public interface. */
typedef struct {
    int32_t error;
    void *topic;
    int32_t partition;
    const void *value;
    size_t value_bytes;
    const void *key;
    size_t key_bytes;
    int64_t offset;
    void *own;
} message;

typedef void (*destroy_function)(message *);
typedef int64_t (*timestamp_function)(const message *, int *);

/* Arrow's binary array: `ends` has one entry more than there are values; bits of `valid` are zero before the call. */
typedef struct {
    int32_t *ends;
    uint8_t *valid;
    uint8_t *bytes;
} binary_column;

typedef struct {
    int64_t value_bytes;
    int64_t key_bytes;
    int64_t events;
    int64_t absent_values;
    int64_t absent_keys;
} batch_size;

/* What buffers have to hold. Events are errors and ends of partitions, which come in place of messages. */
void wp_measure_messages(message **messages, int64_t count, batch_size *size)
{
    memset(size, 0, sizeof *size);
    for (int64_t i = 0; i < count; i++) {
        const message *one = messages[i];
        if (one->error) {
            size->events++;
            continue;
        }
        size->value_bytes += one->value ? (int64_t)one->value_bytes : 0;
        size->key_bytes += one->key ? (int64_t)one->key_bytes : 0;
        size->absent_values += !one->value;
        size->absent_keys += !one->key;
    }
}

static void append(binary_column *column, int64_t at, const void *bytes, size_t size)
{
    int32_t end = column->ends[at];
    if (bytes) {
        memcpy(column->bytes + end, bytes, size);
        column->valid[at >> 3] |= (uint8_t)(1u << (at & 7));
        end += (int32_t)size;
    }
    column->ends[at + 1] = end;
}

/* Copies messages in their order. `keys` and `times_ms` may be NULL. Codes and offsets of events go to their own arrays.
 * All messages are freed. */
void wp_take_messages(message **messages, int64_t count, destroy_function destroy, timestamp_function timestamp,
                      int64_t *offsets, binary_column *values, binary_column *keys, int64_t *times_ms,
                      int32_t *event_codes, int64_t *event_offsets)
{
    int64_t at = 0;
    int kind;
    values->ends[0] = 0;
    if (keys)
        keys->ends[0] = 0;
    for (int64_t i = 0; i < count; i++) {
        message *one = messages[i];
        if (i + 4 < count)
            __builtin_prefetch(messages[i + 4]);
        if (one->error) {
            *event_codes++ = one->error;
            *event_offsets++ = one->offset;
        } else {
            offsets[at] = one->offset;
            append(values, at, one->value, one->value_bytes);
            if (keys)
                append(keys, at, one->key, one->key_bytes);
            if (times_ms)
                times_ms[at] = timestamp(one, &kind);
            at++;
        }
        destroy(one);
    }
}

/* Frees messages that cannot be copied. */
void wp_free_messages(message **messages, int64_t count, destroy_function destroy)
{
    for (int64_t i = 0; i < count; i++)
        destroy(messages[i]);
}
