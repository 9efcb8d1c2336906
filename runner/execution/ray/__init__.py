"""Units run on a Ray cluster: what is sent to its nodes, what they do there, what comes back."""
