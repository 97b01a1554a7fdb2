"""Numeric kernels that aggregates are made of: exact sums, order keys, ranges of rows. None is an aggregate itself."""
