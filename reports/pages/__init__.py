"""The contexts of the pages beside the first one and those of cases."""
