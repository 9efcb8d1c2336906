"""Searches over an oracle that answers yes, no or unknown; they know nothing of releases. Pure."""
