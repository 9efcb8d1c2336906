"""One cell in one process: run the case as `python case.py` would, and report how it ended."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
import traceback
import types
from typing import TYPE_CHECKING, Any, TypedDict

from runner.inside.witness import Witness, exercised

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.inside.tree import Front

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep  # noqa: PTH100, PTH120 - bound early
_MESSAGE = 20_000
_TRACEBACK = 20_000


class Request(TypedDict):
    """What the runner asks of the zygote."""

    id: int
    case: str
    precision: str
    workaround: str
    device: str
    exercises: str
    fresh: bool
    witness: bool
    seconds: float
    memory: int
    threads: int
    front: Front | None


class Report(TypedDict, total=False):
    """What a child says before it ends; a missing one is an outcome too."""

    exit: int | None
    error_class: str
    message: str
    traceback: str
    seconds: float
    cpu: float
    exercised: str
    computed: dict[str, int]
    measured: dict[str, float]
    compiles: bool
    imported: dict[str, str]
    claimed: dict[str, str]
    threads_left: int


_own: list[str] = []


def remember_own_modules() -> None:
    """List our modules before a fork: going through all names makes a child copy their pages."""
    _own[:] = [name for name in sys.modules if name.partition(".")[0] == "runner"]


def run(request: Request, send: Callable[[bytes], None]) -> None:
    """Run the case of a request in this process, report, and end the process."""
    # Bound before the case runs: it may replace attributes of json and os.
    dumps, leave, say = json.dumps, os._exit, send
    witness = Witness()
    _prepare(request)
    if request["witness"]:
        witness.watch()
    report = _observe(request, witness)
    say(dumps(report).encode())
    leave(0)


def _prepare(request: Request) -> None:
    os.environ["REPRO_DEVICE"] = request["device"]
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(request["threads"])
    if not _own:
        remember_own_modules()
    for name in _own:
        del sys.modules[name]
    sys.argv = [request["case"], request["precision"]]
    if request["workaround"]:
        sys.argv.append(request["workaround"])


def _observe(request: Request, witness: Witness) -> Report:
    module = types.ModuleType("__main__")
    module.__file__ = request["case"]
    sys.modules["__main__"] = module
    report: Report = {"exit": None}
    begin, used = time.perf_counter(), time.process_time()
    try:
        with open(request["case"], "rb") as file:  # noqa: PTH123
            # dont_inherit: the case decides itself about `from __future__ import …`.
            code = compile(file.read(), request["case"], "exec", dont_inherit=True)
        exec(code, module.__dict__)  # noqa: S102 - running the case is the purpose
        report["exit"] = 0
    except SystemExit as end:
        report.update(_exit(end))
    except BaseException as error:  # noqa: BLE001 - whatever a case raises is its outcome
        report.update(_raised(error))
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - as the interpreter does at its end
    _flush()
    report["seconds"] = time.perf_counter() - begin
    report["cpu"] = time.process_time() - used
    report.update(_seen(request, witness, module, failed=report["exit"] != 0))
    return report


def _seen(request: Request, witness: Witness, module: types.ModuleType, *, failed: bool) -> Report:
    where = exercised(
        request["precision"], request["device"], request["exercises"], witness, failed=failed
    )
    return {
        "exercised": where if request["witness"] else "",
        "computed": dict(witness.computed),
        "compiles": witness.compiles,
        "measured": _numbers(module.__dict__.get("measured")),
        "imported": _about("__file__"),
        "claimed": _about("__version__"),
    }


def _flush() -> None:
    """Let go of what was printed: the process ends without the interpreter's own clean-up."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BaseException):  # a case may have put anything there
            stream.flush()


def _exit(end: SystemExit) -> Report:
    match end.code:
        case None:
            return {"exit": 0}
        case int(code):
            return {"exit": code, "error_class": "SystemExit", "message": str(code)}
        case other:
            return {"exit": 1, "error_class": "SystemExit", "message": _text(other)}


def _raised(error: BaseException) -> Report:
    return {
        "exit": 1,
        "error_class": type(error).__name__,
        "message": _text(error),
        "traceback": _traceback(error),
    }


def _text(value: object) -> str:
    try:
        return _valid(str(value)[:_MESSAGE])
    except BaseException as error:  # noqa: BLE001 - a hostile __str__ is part of the outcome
        return f"<its message cannot be read: {type(error).__name__}>"


def _traceback(error: BaseException) -> str:
    """Return the frames without the message, as they would be without us.

    The witness stands between torch and its operator, which adds a frame of its own behind it.
    """
    kept: list[traceback.FrameSummary] = []
    ours = False
    for frame in traceback.extract_tb(error.__traceback__):
        behind, ours = ours, frame.filename.startswith(_HERE)
        if not ours and not (behind and frame.filename.endswith("/torch/_ops.py")):
            kept.append(traceback.FrameSummary(frame.filename, frame.lineno, frame.name))
    return _valid("".join(traceback.format_list(kept))[-_TRACEBACK:])


def _valid(text: str) -> str:
    """Write out what no file and no database takes: the undecodable bytes of a file name."""
    return text.encode("utf-8", "backslashreplace").decode()


def _numbers(found: object) -> dict[str, float]:
    if not isinstance(found, dict):
        return {}
    numbers: dict[str, float] = {}
    for name, value in found.items():
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            with contextlib.suppress(OverflowError):
                numbers[_text(name)] = float(value)
    return numbers


def _about(attribute: str) -> dict[str, str]:
    """Return an attribute of the packages under test that were really imported."""
    found: dict[str, str] = {}
    for name in ("torch", "transformers", "accelerate", "peft"):
        value: Any = getattr(sys.modules.get(name), attribute, None)
        if value:
            found[name] = str(value)
    return found
