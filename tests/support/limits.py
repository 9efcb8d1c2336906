"""How long tests may take."""

LONGER = {"browser": 900, "builds": 1800, "door": 1800, "whole": 5400}
"""Seconds for tests with a marker. The longest that builds took ten minutes on a busy machine, and
the first that needs an environment builds it besides."""
SLOW = {"browser", "builds", "cluster", "door", "whole"}
"""The markers of the tests that `--quick` leaves out."""
