"""Answers in words: for a terminal, to paste, and for programs. Pure."""
