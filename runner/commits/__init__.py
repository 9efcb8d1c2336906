"""Which commit made the difference between two environments."""
