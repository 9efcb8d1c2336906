"""Which release breaks a case and which heals it: searches over evidence and new runs."""
