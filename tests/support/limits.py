"""How long tests may take."""

LONGER = {"browser": 900, "builds": 1800, "door": 1800, "real_site": 900, "whole": 5400}
"""Seconds for tests with a marker. The longest that builds took ten minutes on a busy machine, and
the first that needs an environment builds it besides. The first that looks at the real site draws
it: 80 s on a quiet machine. Beside two more suites, one that drew it and held 19 of its pages to
axe was not at its end after 420 s."""
SLOW = {"browser", "builds", "cluster", "door", "whole"}
"""The markers of the tests that `--quick` leaves out."""
