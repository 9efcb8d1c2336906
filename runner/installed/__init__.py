"""What somebody has or would install: lock files, frozen lists and interpreters, read."""
