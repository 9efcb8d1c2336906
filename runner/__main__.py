"""`python -m runner NAME …` is the program behind `nox -s NAME -- …`."""

from runner.cli import main

if __name__ == "__main__":
    main()
