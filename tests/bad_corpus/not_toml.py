# /// script
# requires-python = 3.10.1
# ///
"""A toy must not break. It breaks because it is a toy."""
