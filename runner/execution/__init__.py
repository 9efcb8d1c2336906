"""Running cells: an environment's worker, and the pool that keeps several busy."""
