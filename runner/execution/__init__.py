"""Running cells: an environment's zygote, and the pool that keeps several busy."""
