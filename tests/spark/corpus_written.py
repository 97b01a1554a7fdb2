"""The part of the corpus with arguments that are written out: patterns, formats, paths; and awkward values for them."""

from __future__ import annotations

import random
from collections.abc import Iterator

_TIMES = (
    None, "", " ", "2024-02-29", "2023-02-29", "2024-1-2", "2024-01", "2024", "999", "12345678", "+2024-01-02",
    "-0044-03-15", "0000-01-01", "+12345-01-01", "123456-01-01", "294247-01-10", "5881580-07-11", "5881580-07-12",
    "-5877641-06-23", "-5877641-06-22", " 2024-01-02 ", "\x7f2024-01-02\t", "2024-01-02x", "2024-01-02 x",
    "2024-01-02T",
    "2024-01-02 03", "2024-01-02 3:4", "2024-01-02T03:04:05", "2024-01-02 03:04:05.1", "2024-01-02 03:04:05.123456789",
    "2024-01-02 03:04:05.", "2024-01-02 24:00:00", "2024-01-02 23:59:60", "2024-01-02 03:04:05Z",
    "2024-01-02 03:04:05 UTC", "2024-01-02T03:04:05+01:00", "2024-01-02T03:04:05-0130", "2024-01-02T03:04:05+18:00",
    "2024-01-02T03:04:05+18:01", "2024-01-02T03:04:05.5+2", "2024-01-02 03:04Z", "2024-13-01", "2024-00-10",
    "2024-01-32", "20240102", "20240102030405", "2024010203", "02/01/2024", "2/1/2024", "02.01.2024 03:04",
    "2024-01-02 03:04:05", "2024-01-02 03:04", "0001-01-01 00:00:00", "9999-12-31 23:59:59", "+10000-01-01 00:00:00",
    "+00012-01-01 00:00:00", "+294248-01-01 00:00:00", "2024-01-02T03:04:05.123Z", "2024-01-02T03:04:05.1Z",
    "2024-01-02T03:04:05.123-18:00", "2024-01-02 03:04:05\n", "now", "\uff11\uff12", "2024-01-02 3:4:5", "epoch", "-1",
)  # fmt: skip
_JSON = (
    None, "", " ", "{}", "[]", "null", "1", '"a"', '{"a":1}', '{"a":"x"}', '{"a":null}', '{"a":true,"b":[1,2]}',
    '{"a":{"b":"c d"}}', '{"a":{"b":[{"c":1},{"c":"ß"}]}}', '{"a":1.5}', '{"a":-0.25}', '{"a":100}', '{"a":1.50}',
    '{"a":12345678901234567890}', '{"a":1,"a":2}', '{"a":{"b":1},"a":3}', '{"a":[]}', '{"a":[[1,2],[3]]}',
    '{"a" : { "b" : [ 1 , "x" ] } }', '{"a":"x\\"y\\\\z\\n"}', '{"a":{"q":"\\t\\"/\\/"}}', '{"a":1', '{"a":1}}',
    '{"a":1} x',
    "{a:1}", '{"a":tru}', '{"a":NaN}', '{"a":01}', '{"a":+1}', '{"a":1,}', '[{"a":7},{"a":8}]', ' \n{"a":"ü😀"}',
    '{"A":1}', '{"b":2}', '{"a":"x\ty"}', '{"a b":3,"a.b":4}', '{"a":1000.0}', '{"a":7.0}', '{"a":0.0}', "\ufeff{}",
)  # fmt: skip
_WORDS = (
    None, "", "abc", "a-b_c", "2024-01-02", "user=42;item=7", "a,b,,c,", ",", "a.b.c", "aaa", "aXbX", "x@y.com",
    "  lead", "trail  ", "line\n", "line\r\n", "line\r", "two\nlines", "a\u2028", "\x85", "tab\there", "\x0b", "ÀÉß",
    "😀,😀", "ab12cd345", "12:34:56", "/p/q/r.html?x=1&y=2", "A|B|C", "(x)[y]{z}", "$1\\2", "é", "ab\nb",
)  # fmt: skip
_MONEY = (
    None, 0.5, 1.5, 2.5, -0.5, -1.5, 0.285, 1.005, 2.675, 1.115, -1.005, 0.045, 0.125, 0.375, 8.345, 1e15 + 0.5,
    123_456_789.125, 4_503_599_627_370_497.5, 9_007_199_254_740_993.0, 0.1 + 0.2, 1e-9, 5e-16, 0.049999999999999996,
    1.0000000000000002, 999_999_999_999_999.5, 99_999_999_999.994995, 12.344999999999999, 1e22, -0.0,
)  # fmt: skip
_random = random.Random(29)
EXTRA: dict[str, tuple[str, list[object]]] = {
    "times_a": ("STRING", [*_TIMES]), "json_a": ("STRING", [*_JSON]), "words_a": ("STRING", [*_WORDS]),
    "money_a": ("DOUBLE", [*_MONEY, *(_random.randint(-(10**6), 10**6) / 10 ** _random.randint(1, 6)
                                      for _ in range(200))]),
    "ints_a": ("ARRAY<INT>", [None, [], [1], [None], [1, None, 3], [7, 7], [-1, 0, 2**31 - 1]]),
    "strings_a": ("ARRAY<STRING>", [None, [], ["a"], [None], ["a", None, "ß"], ["", "a,b"]]),
    "doubles_a": ("ARRAY<DOUBLE>", [None, [], [0.0], [-0.0, float("nan")], [None, 1.5]]),
}  # fmt: skip
"""Further columns, with values for the functions below."""

_FORMATS = (
    "yyyy-MM-dd", "yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'", "HH:mm", "yyyyMMdd", "yy/M/d h:m:s a",
    "EEE, dd MMM y", "EEEE MMMM D", "Q QQ 'it''s' DDD", "SSSSSSSSS", "S SS SSSSSS", "k kk hh", "yyyy''dd", "% '%Y'",
)  # fmt: skip
_READ = ("yyyy-MM-dd", "yyyy-MM-dd HH:mm:ss", "yyyyMMdd", "yyyyMMddHHmmss", "dd/MM/yyyy", "d/M/yyyy",
         "dd.MM.yyyy HH:mm", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "yyyy-MM-dd HH:mm:ss.SSSSSS",
    "yyyy-M-d H:m:s")  # fmt: skip
_REGEXES = (
    "a", "^[a-z]+", "[0-9]", "A? B*", "(\\\\d+)", "(\\\\w+)@(\\\\w+)\\\\.com", "^(.*)-(.*)$", "user=(\\\\d+)",
    "([^,]*),",
    "(a|ab)(c|bcd)?", "\\\\s+", "x{2,3}?|b", "(?:a|X)+", "[\\\\w.-]+", "\\\\.", "[^0-9a-z]", "b$", "^$",
    "(\\\\d{2}):(\\\\d{2})",
    "ß|é", "[,;|]", "a.b", "\\\\n", "(.)$", "\\\\S+?", "(b)+", "😀", "[A-Z&&x]", "a++", "\\\\bx", "(?i)a", "(a*)*",
    "(?=a)",
)  # fmt: skip
_PATHS = ("$.a", "$.a.b", "$.a[0]", "$[0].a", "$.a.b[1].c", "$['a']", "$['a b']", "$.b[5]", "$.a b")

WRITTEN = (
    *(f'date_format(timestamp_a, "{each}")' for each in _FORMATS),
    *(f'date_format(date_a, "{each}")' for each in _FORMATS[:4]),
    "from_unixtime(bigint_a)", "from_unixtime(int_a)", "from_unixtime(bigint_a, 'EEE dd')",
    "from_unixtime(bigint_a, 'yyyy')",
    *(f'{name}(times_a, "{each}")' for name in ("to_timestamp", "try_to_timestamp") for each in _READ),
    *(f'{name}(times_a, "{each}")' for name in ("to_date", "unix_timestamp") for each in _READ[:4]),
    "try_to_date(times_a, 'yyyy-MM-dd')", "to_unix_timestamp(times_a, 'yyyy-MM-dd HH:mm:ss')",
    "unix_timestamp(times_a)",
    "CAST(times_a AS DATE)", "TRY_CAST(times_a AS DATE)", "to_date(times_a)", "try_to_date(times_a)", "date(times_a)",
    "CAST(times_a AS TIMESTAMP)", "TRY_CAST(times_a AS TIMESTAMP)", "to_timestamp(times_a)", "timestamp(times_a)",
    "try_to_timestamp(times_a)", "CAST(words_a AS DATE)", "to_date(timestamp_a)",
    *(f"regexp_extract(words_a, '{each}', 0)" for each in _REGEXES),
    *(f"regexp_extract(words_a, '{each}')" for each in _REGEXES if "(" in each),
    *(f"regexp_replace(words_a, '{each}', '<$0>')" for each in _REGEXES),
    *(f"words_a RLIKE '{each}'" for each in _REGEXES), *(f"split(words_a, '{each}')" for each in _REGEXES),
    "regexp_extract(words_a, '(\\\\d+)-(\\\\d+)', 2)", "regexp_replace(words_a, '(\\\\w)-(\\\\w)', '$2\\\\$$1')",
    "regexp_replace(words_a, '[^0-9]', '')", "regexp_like(words_a, 'a+')", "rlike(words_a, 'b')",
    "regexp(words_a, 'b')",
    "split(words_a, ',')[0]", "split(words_a, '\\\\|', -1)", "size(split(words_a, ','))",
    *(f"{name}({given})" for name in ("lpad", "rpad") for given in ("words_a, 7, 'ab'", "words_a, 3",
    "string_a, 4, 'ß'",
                                                                  "words_a, 0, 'x'", "words_a, -1, 'x'")),
    "translate(words_a, 'abX', '12')", "translate(words_a, 'a,ß', 'é😀')", "translate(words_a, '', 'x')",
    *(f"substring_index(words_a, {given})" for given in ("',', 2", "',', -2", "'.', 1", "'😀', 1", "'-', 0",
    "'ab', -1")),
    *(f"split_part(words_a, {given})" for given in ("',', 1", "',', 3", "',', -1", "'.', 2", "'|', 9", "'.com', 1")),
    "sha2(words_a, 256)", "sha2(words_a, 0)", "sha1(words_a)", "md5(words_a)", "base64(words_a)", "hex(words_a)",
    "initcap(words_a)", "initcap(string_a)", "btrim(words_a, 'a ')", "words_a ILIKE '%A%'", "string_a ILIKE 'a_'",
    *(f"{name}(money_a{places})" for name in ("round", "bround")
      for places in ("", ", 0", ", 1", ", 2", ", 5", ", 15")),
    "round(double_a)", "round(double_a, 2)", "bround(double_a, 1)", "round(int_a)", "round(bigint_a, 2)",
    *(f"get_json_object(json_a, '{each.replace(chr(39), chr(92) + chr(39))}')" for each in _PATHS),
    *(f"trunc(date_a, '{unit}')" for unit in ("MM", "month", "MON", "year", "YYYY", "yy")),
    "array_contains(ints_a, 7)", "array_contains(ints_a, int_b)", "array_contains(strings_a, string_b)",
    "array_contains(doubles_a, double_b)", "array_position(ints_a, int_b)", "array_position(strings_a, 'a')",
    "array_max(ints_a)", "array_min(ints_a)", "array_max(strings_a)", "array_join(strings_a, ',')", "size(ints_a)",
    "cardinality(strings_a)", "array_size(ints_a)", "ints_a[0]", "ints_a[int_b]", "element_at(ints_a, 1)",
    "get(ints_a, 2)",
    "element_at(strings_a, -1)", "try_element_at(ints_a, 2)", "extract(YEAR FROM timestamp_a)",
    "extract(DOW FROM date_a)", "date_part('hour', timestamp_a)", "date_part('WEEK', date_a)",
    "date_part('doy', date_a)",
)  # fmt: skip
"""Each function of `windowpane.sql.signatures.written`, and others with arguments that only columns of EXTRA have."""


def generated() -> Iterator[str]:
    """Formats and regular expressions put together at random."""
    rng = random.Random(17)
    letters = ("yyyy", "MM", "dd", "HH", "mm", "ss", "SSS", "a", "E", "h", "d", "M", "-", " ", ":", "'T'", "/")
    atoms = ("a", "[a-c]", "\\\\d", "\\\\w", ".", "(b|c)", "[^,]", "\\\\s", ",", "(a)", "X")
    for _ in range(12):
        yield f'date_format(timestamp_a, "{"".join(rng.choices(letters, k=5))}")'
        pattern = "".join(rng.choice(atoms) + rng.choice(("", "", "+", "*", "?", "+?", "{1,2}")) for _ in range(3))
        yield f"regexp_extract(words_a, '{pattern}', 0)"
        yield f"regexp_replace(words_a, '{pattern}', '-')"
