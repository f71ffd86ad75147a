"""Step scores: rows of a table, put together by run."""
