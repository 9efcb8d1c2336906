"""Programs for maintainers that measure elsewhere; nobody imports them."""
