"""Aggregations on the workers of a Dask cluster: shards go out, partial results come back and are combined exactly."""
