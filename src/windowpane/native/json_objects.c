/* Parses JSON objects into columns: integers, doubles, booleans and strings of the declared names.
 *
 * A record is read only if no parser could read it otherwise. Whatever is unusual (a value of another type, a name that
 * repeats or has escapes, NaN, a number out of range, text behind the object, invalid UTF-8, deep nesting) marks the
 * record as doubtful. The caller reads doubtful records with its exact reader. */

#define _GNU_SOURCE
#include <locale.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#ifndef WINDOWPANE_SOURCES
#define WINDOWPANE_SOURCES ""
#endif

enum { INT32 = 1, INT64 = 2, DOUBLE = 3, BOOLEAN = 4, STRING = 5 };
enum { DEEPEST = 64, LONGEST_NUMBER = 300, PREDICTED = 64 };

typedef const uint8_t *cursor;

/* `values`: numbers by the kind of the column, a byte per boolean, positions of strings. `lengths`: of strings, with
 * ESCAPED if there are escapes in them. `valid`: a byte per record. `text_bytes` and `absent` are results. */
typedef struct {
    const char *name;
    int32_t name_bytes;
    int32_t kind;
    void *values;
    int32_t *lengths;
    uint8_t *valid;
    int64_t text_bytes;
    int64_t absent;
} column;

#define ESCAPED INT32_MIN

/* The names of the previous record by their position: most records have the same names in the same order. */
typedef struct {
    cursor name;
    int64_t bytes;
    int32_t column;
} prediction;

typedef struct {
    cursor data;
    column *columns;
    int32_t column_count;
    int64_t record;
    int64_t *seen; /* by column: the last record, counted from 1, that has it */
    prediction predicted[PREDICTED];
    locale_t locale;
} parser;

/* The digest of the sources that this library was compiled from. */
const char *wp_sources(void) { return WINDOWPANE_SOURCES; }

static cursor after_space(cursor at, cursor end)
{
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
        at++;
    return at;
}

#define EACH(byte) (0x0101010101010101ull * (byte))
#define ZERO_BYTES(word) (((word) - EACH(1)) & ~(word) & EACH(0x80))

/* The first quote, backslash or control character of a string. */
static cursor to_special(cursor at, cursor end)
{
#ifdef __SSE2__
    const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\'), control = _mm_set1_epi8(0x1F);
    for (; end - at >= 16; at += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)at);
        __m128i found = _mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash));
        found = _mm_or_si128(found, _mm_cmpeq_epi8(_mm_min_epu8(bytes, control), bytes));
        int places = _mm_movemask_epi8(found);
        if (places)
            return at + __builtin_ctz((unsigned)places);
    }
#endif
    for (; end - at >= 8; at += 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        uint64_t control_bytes = (word - EACH(0x20)) & ~word & EACH(0x80);
        if (control_bytes | ZERO_BYTES(word ^ EACH('"')) | ZERO_BYTES(word ^ EACH('\\')))
            break;
    }
    while (at < end && *at != '"' && *at != '\\' && *at >= 0x20)
        at++;
    return at;
}

static int hex_digit(uint8_t sign)
{
    if (sign >= '0' && sign <= '9')
        return sign - '0';
    sign |= 0x20;
    return sign >= 'a' && sign <= 'f' ? sign - 'a' + 10 : -1;
}

/* Four hexadecimal digits; -1 if there are none. */
static int32_t code_unit(cursor at, cursor end)
{
    int32_t unit = 0;
    if (end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(at[i]);
        if (digit < 0)
            return -1;
        unit = unit << 4 | digit;
    }
    return unit;
}

/* The closing quote of a string that begins at `at`; NULL if there is none, or the string is not valid. Strings that
 * are `kept` must not have lone surrogates. */
static cursor string_end(cursor at, cursor end, int *escaped, int kept)
{
    int32_t pending = 0;
    for (;;) {
        cursor special = to_special(at, end);
        if (special == end || *special < 0x20 || (pending && special != at))
            return NULL;
        if (*special == '"')
            return pending ? NULL : special;
        *escaped = 1;
        at = special + 2;
        if (at > end)
            return NULL;
        if (special[1] != 'u') {
            if (pending || !memchr("\"\\/bfnrt", special[1], 8))
                return NULL;
            continue;
        }
        int32_t unit = code_unit(at, end);
        at += 4;
        if (unit < 0)
            return NULL;
        if (kept) {
            int low = unit >= 0xDC00 && unit <= 0xDFFF;
            if (low != (pending != 0))
                return NULL;
            pending = unit >= 0xD800 && unit <= 0xDBFF;
        }
    }
}

static cursor digits(cursor at, cursor end)
{
    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return at;
}

/* The end of a number by JSON's grammar, NULL if there is none. `whole`: it has neither fraction nor exponent. */
static cursor number_end(cursor at, cursor end, int *whole)
{
    cursor first = at;
    if (at < end && *at == '-')
        at++;
    cursor after = digits(at, end);
    if (after == at || (*at == '0' && after > at + 1))
        return NULL;
    *whole = 1;
    if (after < end && *after == '.') {
        *whole = 0;
        at = after + 1;
        after = digits(at, end);
        if (after == at)
            return NULL;
    }
    if (after < end && (*after | 0x20) == 'e') {
        *whole = 0;
        at = after + 1;
        if (at < end && (*at == '+' || *at == '-'))
            at++;
        after = digits(at, end);
        if (after == at)
            return NULL;
    }
    return after - first > LONGEST_NUMBER ? NULL : after;
}

static cursor literal(cursor at, cursor end, const char *word, int64_t bytes)
{
    return end - at >= bytes && !memcmp(at, word, (size_t)bytes) ? at + bytes : NULL;
}

/* The end of a value that no column takes, checked all the same; NULL if it is not valid. */
static cursor skipped_value(cursor at, cursor end)
{
    uint64_t objects = 0;
    int depth = 0, flag = 0, wants_value = 1;
    for (;;) {
        at = after_space(at, end);
        if (at == end)
            return NULL;
        if (wants_value && (*at == '{' || *at == '[')) {
            int is_object = *at == '{';
            if (depth == DEEPEST)
                return NULL;
            objects = objects << 1 | (uint64_t)is_object;
            depth++;
            at = after_space(at + 1, end);
            if (at == end)
                return NULL;
            if (*at == (is_object ? '}' : ']')) {
                wants_value = 0;
                continue;
            }
        } else if (wants_value) {
            if (*at == '"') {
                at = string_end(at + 1, end, &flag, 0);
                at = at ? at + 1 : NULL;
            } else if (*at == 't') {
                at = literal(at, end, "true", 4);
            } else if (*at == 'f') {
                at = literal(at, end, "false", 5);
            } else if (*at == 'n') {
                at = literal(at, end, "null", 4);
            } else {
                at = number_end(at, end, &flag);
            }
            if (!at || !depth)
                return at;
            wants_value = 0;
            continue;
        } else {
            int is_object = (int)(objects & 1);
            if (*at == (is_object ? '}' : ']')) {
                objects >>= 1;
                at++;
                if (!--depth)
                    return at;
                continue;
            }
            if (*at != ',')
                return NULL;
            at = after_space(at + 1, end);
            wants_value = 1;
        }
        if (depth && (objects & 1)) {
            if (at == end || *at != '"' || !(at = string_end(at + 1, end, &flag, 0)))
                return NULL;
            at = after_space(at + 1, end);
            if (at == end || *at != ':')
                return NULL;
            at++;
            wants_value = 1;
        }
    }
}

static cursor read_integer(cursor at, cursor end, column *into, int64_t record)
{
    int negative = at < end && *at == '-', whole = 0;
    cursor first = at + negative, after = number_end(at, end, &whole);
    if (!after || !whole || after - first > 19 || (negative && *first == '0'))
        return NULL;
    uint64_t value = 0;
    for (cursor each = first; each < after; each++)
        value = value * 10 + (uint64_t)(*each - '0');
    uint64_t most = into->kind == INT64 ? (uint64_t)INT64_MAX : (uint64_t)INT32_MAX;
    if (value > most + (uint64_t)negative)
        return NULL;
    int64_t number = negative ? (int64_t)(0 - value) : (int64_t)value;
    if (into->kind == INT64)
        ((int64_t *)into->values)[record] = number;
    else
        ((int32_t *)into->values)[record] = (int32_t)number;
    return after;
}

static const double POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* Exact for up to 2^53 and 22 decimal places, because both numbers and one operation on them are; else -1. */
static double short_decimal(cursor at, cursor after)
{
    uint64_t value = 0;
    int count = 0, places = 0, behind = 0;
    for (; at < after; at++) {
        if (*at == '.') {
            behind = 1;
        } else if (*at < '0' || *at > '9' || ++count > 18) {
            return -1;
        } else {
            value = value * 10 + (uint64_t)(*at - '0');
            places += behind;
        }
    }
    return value <= 1ull << 53 ? (double)value / POWERS[places] : -1;
}

static cursor read_double(parser *self, cursor at, cursor end, column *into)
{
    int negative = at < end && *at == '-', whole = 0;
    cursor after = number_end(at, end, &whole);
    if (!after || (whole && negative && at[1] == '0'))
        return NULL;
    double value = short_decimal(at + negative, after);
    if (value < 0) {
        char text[LONGEST_NUMBER + 1];
        memcpy(text, at, (size_t)(after - at));
        text[after - at] = 0;
        value = strtod_l(text, NULL, self->locale);
        if (isinf(value))
            return NULL;
    } else if (negative) {
        value = -value;
    }
    ((double *)into->values)[self->record] = value;
    return after;
}

static cursor read_value(parser *self, cursor at, cursor end, column *into)
{
    int64_t record = self->record;
    cursor after = NULL;
    if (*at == 'n')
        return literal(at, end, "null", 4);
    if (into->kind == STRING) {
        int escaped = 0;
        cursor close = *at == '"' ? string_end(at + 1, end, &escaped, 1) : NULL;
        if (!close)
            return NULL;
        int32_t bytes = (int32_t)(close - at - 1);
        ((int32_t *)into->values)[record] = (int32_t)(at + 1 - self->data);
        into->lengths[record] = escaped ? bytes | ESCAPED : bytes;
        into->text_bytes += bytes;
        after = close + 1;
    } else if (into->kind == BOOLEAN) {
        ((uint8_t *)into->values)[record] = *at == 't';
        after = *at == 't' ? literal(at, end, "true", 4) : literal(at, end, "false", 5);
    } else if (into->kind == DOUBLE) {
        after = read_double(self, at, end, into);
    } else {
        after = read_integer(at, end, into, record);
    }
    if (after)
        into->valid[record] = 1;
    return after;
}

/* The number of the column of a name, -1 if there is none. */
static int32_t column_of(parser *self, int64_t position, cursor name, int64_t bytes)
{
    prediction *likely = position < PREDICTED ? &self->predicted[position] : NULL;
    if (likely && likely->bytes == bytes && !memcmp(likely->name, name, (size_t)bytes))
        return likely->column;
    int32_t found = -1;
    for (int32_t i = 0; i < self->column_count && found < 0; i++)
        if (self->columns[i].name_bytes == bytes && !memcmp(self->columns[i].name, name, (size_t)bytes))
            found = i;
    if (likely)
        *likely = (prediction){name, bytes, found};
    return found;
}

/* Whether a record is read. */
static int read_record(parser *self, cursor at, cursor end)
{
    at = after_space(at, end);
    if (at == end || *at != '{')
        return 0;
    at = after_space(at + 1, end);
    int done = at < end && *at == '}';
    for (int64_t position = 0; !done; position++) {
        int escaped = 0;
        if (at == end || *at != '"')
            return 0;
        cursor name = at + 1;
        at = string_end(name, end, &escaped, 0);
        if (!at || escaped)
            return 0;
        int32_t number = column_of(self, position, name, at - name);
        at = after_space(at + 1, end);
        if (at == end || *at != ':')
            return 0;
        at = after_space(at + 1, end);
        if (at == end)
            return 0;
        if (number < 0) {
            at = skipped_value(at, end);
        } else {
            if (self->seen[number] == self->record + 1)
                return 0;
            self->seen[number] = self->record + 1;
            at = read_value(self, at, end, &self->columns[number]);
        }
        if (!at)
            return 0;
        at = after_space(at, end);
        if (at == end || (*at != ',' && *at != '}'))
            return 0;
        done = *at == '}';
        if (!done)
            at = after_space(at + 1, end);
    }
    return after_space(at + 1, end) == end;
}

static int is_ascii(cursor at, cursor end)
{
    uint64_t found = 0, word;
    for (; end - at >= 8; at += 8) {
        memcpy(&word, at, 8);
        found |= word;
    }
    for (; at < end; at++)
        found |= *at;
    return !(found & EACH(0x80));
}

/* UTF-8 without surrogates, overlong forms and what is behind U+10FFFF. */
static int is_utf8(cursor at, cursor end)
{
    while (at < end) {
        uint8_t head = *at++;
        if (head < 0x80)
            continue;
        int more = head >= 0xF0 ? 3 : head >= 0xE0 ? 2 : 1;
        if (head < 0xC2 || head > 0xF4 || end - at < more)
            return 0;
        uint8_t low = head == 0xE0 ? 0xA0 : head == 0xF0 ? 0x90 : 0x80;
        uint8_t high = head == 0xED ? 0x9F : head == 0xF4 ? 0x8F : 0xBF;
        if (*at < low || *at > high)
            return 0;
        for (at++; --more; at++)
            if ((*at & 0xC0) != 0x80)
                return 0;
    }
    return 1;
}

static void forget_record(parser *self)
{
    for (int32_t i = 0; i < self->column_count; i++) {
        column *one = &self->columns[i];
        one->valid[self->record] = 0;
        if (one->kind == STRING) {
            one->text_bytes -= one->lengths[self->record] & ~ESCAPED;
            one->lengths[self->record] = 0;
        }
    }
}

/* Reads records `ends[i]` to `ends[i + 1]` of the data. `lengths` and `valid` are zero before the call. Gives the number
 * of doubtful records, which are marked, and -1 if there is no memory. */
int64_t wp_parse_objects(cursor data, const int32_t *ends, int64_t count, column *columns, int32_t column_count,
                         uint8_t *doubtful)
{
    parser self = {.data = data, .columns = columns, .column_count = column_count};
    for (int i = 0; i < PREDICTED; i++)
        self.predicted[i].bytes = -1;
    self.seen = calloc((size_t)column_count + 1, sizeof *self.seen);
    self.locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    int64_t doubts = self.seen && self.locale ? 0 : -1;
    if (!doubts) {
        int ascii = is_ascii(data + ends[0], data + ends[count]);
        for (int64_t i = 0; i < count; i++) {
            cursor first = data + ends[i], end = data + ends[i + 1];
            self.record = i;
            if (!(ascii || is_utf8(first, end)) || !read_record(&self, first, end)) {
                forget_record(&self);
                doubtful[i] = 1;
                doubts++;
            }
        }
        for (int32_t i = 0; i < column_count; i++)
            for (int64_t record = 0; record < count; record++)
                columns[i].absent += !columns[i].valid[record];
    }
    free(self.seen);
    if (self.locale)
        freelocale(self.locale);
    return doubts;
}

static uint8_t *put_character(uint8_t *out, uint32_t code)
{
    if (code < 0x80) {
        *out++ = (uint8_t)code;
    } else if (code < 0x800) {
        *out++ = (uint8_t)(0xC0 | code >> 6);
        *out++ = (uint8_t)(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
        *out++ = (uint8_t)(0xE0 | code >> 12);
        *out++ = (uint8_t)(0x80 | (code >> 6 & 0x3F));
        *out++ = (uint8_t)(0x80 | (code & 0x3F));
    } else {
        *out++ = (uint8_t)(0xF0 | code >> 18);
        *out++ = (uint8_t)(0x80 | (code >> 12 & 0x3F));
        *out++ = (uint8_t)(0x80 | (code >> 6 & 0x3F));
        *out++ = (uint8_t)(0x80 | (code & 0x3F));
    }
    return out;
}

/* Writes a string that was checked, without its escapes. It is never longer than with them. */
static uint8_t *unescaped(uint8_t *out, cursor at, cursor end)
{
    static const char SIGNS[] = "\"\\/bfnrt", MEANT[] = "\"\\/\b\f\n\r\t";
    while (at < end) {
        if (*at != '\\') {
            *out++ = *at++;
        } else if (at[1] != 'u') {
            *out++ = (uint8_t)MEANT[strchr(SIGNS, at[1]) - SIGNS];
            at += 2;
        } else {
            uint32_t code = (uint32_t)code_unit(at + 2, end);
            at += 6;
            if (code >= 0xD800 && code <= 0xDBFF) {
                code = 0x10000 + ((code - 0xD800) << 10) + (uint32_t)code_unit(at + 2, end) - 0xDC00;
                at += 6;
            }
            out = put_character(out, code);
        }
    }
    return out;
}

/* Copies the strings of a column, as `wp_parse_objects` has found them, to an Arrow array. */
void wp_copy_strings(cursor data, int64_t count, const int32_t *places, const int32_t *lengths, int32_t *ends,
                     uint8_t *bytes)
{
    uint8_t *out = bytes;
    ends[0] = 0;
    for (int64_t i = 0; i < count; i++) {
        int32_t length = lengths[i] & ~ESCAPED;
        cursor from = data + places[i];
        if (lengths[i] < 0) {
            out = unescaped(out, from, from + length);
        } else {
            memcpy(out, from, (size_t)length);
            out += length;
        }
        ends[i + 1] = (int32_t)(out - bytes);
    }
}
