"""What is known of Spark's functions by name: which the engine cannot run, and what types others have."""

from __future__ import annotations


def words(*lines: str) -> frozenset[str]:
    return frozenset(word for line in lines for word in line.split())


NONDETERMINISTIC = words(
    "rand random randn randstr uniform uuid shuffle monotonically_increasing_id spark_partition_id",
    "now current_timestamp current_date curdate localtimestamp current_time unix_timestamp",
    "input_file_name input_file_block_start input_file_block_length",
    "current_user session_user user current_catalog current_database current_schema version",
)
"""Another value at each evaluation (unix_timestamp without arguments): a replayed batch would give other rows."""

GENERATORS = words("explode explode_outer posexplode posexplode_outer inline inline_outer stack json_tuple")
"""Several rows of one."""

RANKING = words("row_number rank dense_rank percent_rank cume_dist ntile lag lead nth_value")
"""Functions that need OVER."""

SPARK_AGGREGATES = words(
    "any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate",
    "approx_top_k_combine array_agg avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg bitmap_or_agg",
    "bool_and bool_or collect_list collect_set collect_union corr count count_if count_min_sketch covar_pop",
    "covar_samp every first first_value grouping grouping_id histogram_numeric hll_sketch_agg hll_union_agg",
    "kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double",
    "kll_sketch_agg_float kurtosis last last_value listagg max max_by mean measure median min min_by mode",
    "percentile percentile_approx percentile_cont percentile_disc regr_avgx regr_avgy regr_count regr_intercept",
    "regr_r2 regr_slope regr_sxx regr_sxy regr_syy skewness some std stddev stddev_pop stddev_samp string_agg sum",
    "theta_intersection_agg theta_sketch_agg theta_union_agg try_avg try_sum tuple_intersection_agg_double",
    "tuple_intersection_agg_integer tuple_sketch_agg_double tuple_sketch_agg_integer tuple_union_agg_double",
    "tuple_union_agg_integer var_pop var_samp variance",
)
"""Spark's aggregates. Those that the registry of aggregates has are run, the others refused by name."""

INSTEAD = {
    "approx_top_k_accumulate": "use approx_top_k(x, k)",
    "approx_top_k_combine": "use approx_top_k(x, k)",
    "try_sum": "use sum: an overflow becomes an error row and stops nothing",
    "try_avg": "use avg: an overflow becomes an error row and stops nothing",
    "collect_union": "use collect_set",
    **dict.fromkeys(("hll_sketch_agg", "theta_sketch_agg"), "use approx_count_distinct(x) for the estimate itself"),
    **{f"kll_sketch_agg_{kind}": "use approx_percentile(x, 0.5)" for kind in ("bigint", "double", "float")},
}
"""For aggregates that are refused: what is near. The others get the list of aggregates."""

IGNORING_NULLS = words("first first_value last last_value any_value")
"""Aggregates that take IGNORE NULLS: the same as a second argument TRUE."""

UNIT_FUNCTIONS = words("timestampadd timestampdiff dateadd date_add datediff date_diff")
"""Functions whose first of three arguments is a bare unit and no column."""

UNITS = words(
    "MICROSECOND MILLISECOND SECOND MINUTE HOUR DAY DAYOFYEAR WEEK MONTH QUARTER YEAR",
    "MICROSECONDS MILLISECONDS SECONDS MINUTES HOURS DAYS WEEKS MONTHS QUARTERS YEARS",
)

_BY_TYPE = {
    "BOOLEAN": words(
        "isnull isnotnull isnan startswith endswith contains array_contains exists forall like ilike rlike",
        "regexp_like boolean equal_null",
    ),
    "STRING": words(
        "upper ucase lower lcase concat_ws regexp_replace regexp_extract replace initcap repeat lpad rpad ltrim rtrim",
        "btrim translate date_format from_unixtime to_json md5 sha1 sha sha2 hex base64 format_string printf",
        "substring_index split_part get_json_object left right string char chr soundex typeof format_number space",
        "array_join dayname monthname",
    ),
    "INT": words(
        "length char_length character_length len year month day dayofmonth dayofweek dayofyear hour minute second",
        "quarter weekofyear weekday instr locate size cardinality ascii levenshtein bit_length octet_length int hash",
        "unix_date",
    ),
    "BIGINT": words(
        "bigint xxhash64 unix_timestamp to_unix_timestamp unix_micros unix_millis unix_seconds crc32 timestampdiff",
        "array_position",
    ),
    "DOUBLE": words(
        "sqrt cbrt exp expm1 ln log log10 log2 log1p pow power sin cos tan asin acos atan atan2 sinh cosh tanh",
        "degrees radians double pi e hypot months_between rint sign signum",
    ),
    "FLOAT": words("float"),
    "DATE": words(
        "to_date date date_sub last_day next_day trunc make_date add_months date_from_unix_date", "try_to_date"
    ),
    "TIMESTAMP": words(
        "date_trunc timestamp timestamp_micros timestamp_millis timestamp_seconds to_utc_timestamp from_utc_timestamp",
        "to_timestamp try_to_timestamp",
    ),
}
RETURN_TYPES = {name: kind for kind, names in _BY_TYPE.items() for name in names}
"""Types of functions that do not depend on their arguments."""

SAME_AS_ARGUMENTS = words("coalesce nvl ifnull greatest least")
SAME_AS_FIRST = words("nullif abs positive negative reverse nanvl array_distinct array_sort sort_array slice filter")
