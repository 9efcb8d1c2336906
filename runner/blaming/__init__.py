"""Which packages make the difference, asked of real environments: evidence first, then trials."""
