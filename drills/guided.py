"""One reader under atheris, which sees what an input reaches: `guided NAME FOLDER [options]`.

What is wrong is told and not raised, so that one find does not end the search for others.
"""

from __future__ import annotations

import sys

import atheris  # type: ignore[import-not-found]  # in an environment of its own

with atheris.instrument_imports(include=["repromatrix", "packaging", "tomllib"]):
    from drills.foreign import targets
    from drills.fuzz import trouble


def main() -> None:
    """Run until the time is over."""
    name, *options = sys.argv[1:]
    (target,) = [one for one in targets() if one.name == name]
    told: set[str] = set()

    def run(content: bytes) -> None:
        wrong = trouble(target, content)
        if wrong and wrong not in told:
            told.add(wrong)
            print(f"TROUBLE: {wrong} ({content[:20]!r})", file=sys.stderr)

    atheris.Setup([sys.argv[0], *options], run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
