"""What was measured: this machine's store, the published evidence, and the two read together."""
