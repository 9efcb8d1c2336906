"""Measuring where there is no network: what is carried there, and what is done with it there."""
