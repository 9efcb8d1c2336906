"""What the sweep published: read for pages and answers, and written by the sweep alone."""
