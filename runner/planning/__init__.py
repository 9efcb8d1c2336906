"""What to run and when: cells selected, held against evidence, by environment. Pure."""
