"""What to run and when: cells selected, compared with evidence, by environment. Pure."""
