# /// script
# dependencies = ["torch"]
# ///
"""A toy must not break. It breaks because it is a toy."""
