"""Pinned virtualenvs: where they are, what they hold, how they come about."""
