"""A case as a script: its plain path, to paste into an issue."""
