"""Figures: what is measured as lines and bars, worked out before any template draws it."""
