"""What the environment's own Python executes of the sweep; needs torch and transformers alone."""
