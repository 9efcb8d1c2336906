"""`python -m repromatrix NAME …` is the program behind `nox -s NAME -- …`."""

from repromatrix.runner.cli import main

main()
