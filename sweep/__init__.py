"""What changed for every architecture: tiny frozen models through a closed list of probes."""
