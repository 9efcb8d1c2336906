"""Which release breaks a case and which fixes it: searches over evidence and new runs."""
