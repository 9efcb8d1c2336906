"""What to run, in which order: cells selected, compared with evidence, grouped by environment. Pure."""
