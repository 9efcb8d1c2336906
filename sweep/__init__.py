"""The sweep: every architecture as a tiny frozen model through a list of probes."""
