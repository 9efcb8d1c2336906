"""The probes: what must hold of every architecture, each with an oracle that needs no release."""
