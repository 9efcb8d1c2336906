"""`python -m repromatrix NAME …` is the program behind `nox -s NAME -- …`."""

import gc
import os
import signal


def main() -> None:
    """Run the program; before it answers signals itself, there is nothing that has to be ended."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupted)
    gc.disable()  # what is imported stays: a command that makes garbage turns it on again
    from repromatrix.runner.cli import program as run  # noqa: PLC0415 - it takes a while

    run()


def _interrupted(*_: object) -> None:
    os.write(2, b"Interrupted.\n")
    os._exit(130)


if __name__ == "__main__":
    main()
