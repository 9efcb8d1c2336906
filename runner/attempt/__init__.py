"""One commit of a search: what is asked of it, and how it is tried."""
