"""`nox -s drills`: every fault that was thought of, tried on the real runner and counted; the
tables in `docs/reliability.md` are written anew. Ends 1 where something went wrong.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import time
from pathlib import Path
from types import ModuleType

# In place of this folder: a drill may be called as a module of the standard library is.
sys.path.pop(0)
sys.path.insert(0, str(Path(__file__).parents[1]))

from drills.tally import Tally
from repromatrix.runner.errors import ExitCode, Interrupted
from repromatrix.runner.signals import answering

# In the order in which they run: quick ones first. Each is a module here with `drill(tally)`.
DRILLS: tuple[str, ...] = (
    "upgrade",
    "places",
    "secrets",
    "network",
    "disk",
    "fuzz",
    "store",
    "concurrent",
    "hostile",
    "isolation",
    "bombs",
    "kill",
    "interrupt",
    "truth",
    "forged",
    "again",
    "plain",
    "bounds",
    "chance",
    "construction",
    "busy",
    "mutation",
)
SOAK = "soak"
"""Only where it is asked for, with its hours."""
OPTIONS = {
    "seed": "what is drawn at random is drawn by this number",
    "count": "how many mutants are drawn, or at how many moments a command is interrupted",
    "record": "where it stands which mutants were noticed, in place of drills/mutants.json",
}
"""Set as REPRO_SEED and so on, which is where drills look."""


def main() -> int:
    """Run the drills that were asked for, all where none was; tell which did not pass."""
    modules = {name: importlib.import_module(f"drills.{name}") for name in (*DRILLS, SOAK)}
    arguments = argparse.ArgumentParser(description=__doc__)
    for name, module in modules.items():
        about = (module.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
        kind = {"metavar": "HOURS"} if name == SOAK else {"action": "store_true"}
        arguments.add_argument(f"--{name.replace('_', '-')}", help=about, **kind)
    for name, about in OPTIONS.items():
        arguments.add_argument(f"--{name}", help=about)
    chosen = vars(arguments.parse_args())
    os.environ |= {f"REPRO_{name.upper()}": chosen[name] for name in OPTIONS if chosen[name]}
    os.environ["REPRO_HOURS"] = chosen[SOAK] or ""
    # In the background of a script it is ignored, and so it would be in what we start.
    with answering(signal.SIGINT):
        asked = [name for name in modules if chosen[name]] or DRILLS
        failed = [name for name in asked if not _passes(name, modules[name])]
    print(f"failed: {', '.join(failed)}" if failed else "all passed")
    return 1 if failed else 0


def _passes(name: str, drill: ModuleType) -> bool:
    tally = Tally(name)
    begin = time.perf_counter()
    print(f"# {name}", flush=True)
    drill.drill(tally)
    written = "written into docs/reliability.md" if tally.write() else "not in the document"
    print(f"{time.perf_counter() - begin:.0f} s, {written}", flush=True)
    return tally.passed


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Interrupted:
        print("interrupted: tables that were not finished stay as they were")
        sys.exit(ExitCode.INTERRUPTED)
