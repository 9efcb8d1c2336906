"""One module per command: from what was typed to what is printed."""
