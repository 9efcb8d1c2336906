"""Show in numbers what must hold: `nox -s checks -- NAME [options]`, and `nox -s bench` for times.

A check ends with 1 if anything went wrong or nothing was tried. `--write` puts its table into
docs/reliability.md or docs/performance.md.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
# In place of this folder: a check may be called as a module of the standard library is.
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "tests" / "support")]
sys.path[:] = [path for path in sys.path if path != str(HERE)]

from checks.table import Table  # noqa: E402 - where it is found is said above
from repromatrix.runner.errors import ExitCode, Interrupted  # noqa: E402
from repromatrix.runner.signals import answering  # noqa: E402

CHECKS = (
    *("kill", "interrupt", "hostile", "store", "secrets", "fuzz", "truth", "forged"),
    *("construction", "chance", "bounds", "same-answers", "recall", "precision", "mutation"),
)
BENCHES = ("first-hour", "corpus", "all", "replay", "commits", "sweep")
"""What `nox -s bench` measures; a module each, as the checks are, with `check(table, options)`."""

_COUNT: dict[str, Any] = {"type": int, "metavar": "N", "default": 0}
_PATH: dict[str, Any] = {"type": Path, "metavar": "PATH"}
_NAMES: dict[str, Any] = {"metavar": "A,B", "default": ""}
_FLAG: dict[str, Any] = {"action": "store_true"}
OPTIONS: dict[str, tuple[tuple[str, ...], str, dict[str, Any]]] = {
    "before": (("same-answers",), "the checkout as it was", _PATH),
    "after": (("same-answers",), "the checkout as it is", _PATH),
    "quick": (("same-answers",), "ask a tenth of the questions, drawn at random", _FLAG),
    "release": (("truth", "corpus", "all"), "these releases", _NAMES),
    "against": (("corpus", "all"), "another checkout, which is run as well", _PATH),
    "readme": (("first-hour",), "also run the linters and the tests in the fresh clone", _FLAG),
    "only": (("interrupt", "same-answers"), "these commands", _NAMES),
    "seed": (
        (*("kill", "interrupt", "store", "fuzz", "forged", "mutation"), "same-answers"),
        "what is drawn at random",
        _COUNT,
    ),
    "count": (
        ("kill", "interrupt", "store", "fuzz", "mutation"),
        "how many kills, moments for each command, stores, inputs for each reader, mutants",
        _COUNT,
    ),
    "since": (
        ("mutation",),
        "the commit since which modules have changed",
        {"metavar": "COMMIT", "default": "HEAD~1"},
    ),
}
"""By name: the checks that have it, its help, and its arguments for argparse."""


def main(words: Sequence[str] | None = None) -> int:
    """Run the checks that were asked for, and return the exit code."""
    options = _parsed(sys.argv[1:] if words is None else [*words])
    # In the background of a script SIGINT is ignored, and so it would be in what we start.
    with answering(signal.SIGINT, signal.SIGTERM):
        failed = [name for name in options.names if not _passes(name, options)]
    print(f"failed: {', '.join(failed)}" if failed else "all passed")
    return 1 if failed else 0


def _parsed(words: list[str]) -> argparse.Namespace:
    is_bench = words[:1] == ["bench"]
    parser = argparse.ArgumentParser(
        prog=f"nox -s {'bench' if is_bench else 'checks'} --",
        description=(__doc__ or "").partition(":")[0] + ".",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="" if is_bench else "\n".join(["checks:", *map(_line, CHECKS)]),
    )
    some = BENCHES if is_bench else CHECKS
    if is_bench:
        for name in BENCHES:
            parser.add_argument(
                f"--{name}", dest="names", action="append_const", const=name, help=_about(name)
            )
    else:
        parser.add_argument("names", metavar="NAME", nargs="+", choices=CHECKS, help="see below")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/")
    for option, (of, about, how) in OPTIONS.items():
        if {*of} & {*some}:
            told = f"of {', '.join(name for name in of if name in some)}: {about}"
            parser.add_argument(f"--{option}", help=told, **how)
    options = parser.parse_args(words[is_bench:])
    options.names = options.names or BENCHES
    if "same-answers" in options.names and not (options.before and options.after):
        parser.error("same-answers needs --before PATH and --after PATH")
    for option, (of, *_) in OPTIONS.items():
        given = getattr(options, option, None) not in {None, parser.get_default(option)}
        if given and not {*of} & {*options.names}:
            parser.error(f"--{option} is an option of {', '.join(of)}")
    return options


def _line(name: str) -> str:
    return f"  {name:<14}{_about(name)}"


def _about(name: str) -> str:
    """Return the first sentence of a check's module, without importing it."""
    text = (HERE / f"{name.replace('-', '_')}.py").read_text(encoding="utf-8")
    said = (ast.get_docstring(ast.parse(text)) or "").partition("\n\n")[0]
    return said.replace("\n", " ").replace("%", "%%")


def _passes(name: str, options: argparse.Namespace) -> bool:
    table, begin = Table(name), time.perf_counter()
    print(f"# {name}", flush=True)
    importlib.import_module(f"checks.{name.replace('-', '_')}").check(table, options)
    written = options.write and table.write()
    print(
        f"{time.perf_counter() - begin:.0f} s{', written into docs/' if written else ''}",
        flush=True,
    )
    return table.passed


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Interrupted:
        print("interrupted: tables that were not finished are not written", file=sys.stderr)
        sys.exit(ExitCode.INTERRUPTED)
