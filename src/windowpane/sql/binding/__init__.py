"""A parsed statement to a bound query: names and types resolved, every clause placed or refused."""
