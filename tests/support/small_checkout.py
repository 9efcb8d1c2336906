"""A checkout with a few of the real environments, and one case that is measured by signs."""

from __future__ import annotations

import dataclasses
import shutil
from typing import TYPE_CHECKING

from factories import PLACES, cell, failed, provenance, seen
from rich.console import Console

from repromatrix.runner import project
from repromatrix.runner.cli.accept import AcceptOptions, rewrite
from repromatrix.runner.cli.publish import publish_all
from repromatrix.runner.evidence.store import Store
from repromatrix.runner.model.matrix import MAIN
from repromatrix.runner.model.outcomes import Outcome, Precision
from repromatrix.runner.paths import ROOT, Paths

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from repromatrix.runner.model.observation import Failed, Observation

RELEASES = ("4.49.0", "4.50.0", "4.50.1", "4.50.2", "4.50.3", "4.51.0")


def environments(folder: Path, names: Collection[str] = RELEASES) -> None:
    """Copy the axes and the locks of a few releases, and of all torches, into a checkout."""
    locks = folder / "environments" / "locks"
    locks.mkdir(parents=True)
    lines = (ROOT / "environments" / "matrix.toml").read_text().splitlines(keepends=True)
    kept = [line for line in lines if "{ name =" not in line or line.split('"')[1] in names]
    (folder / "environments" / "matrix.toml").write_text("".join(kept))
    for name in names:
        shutil.copy(ROOT / "environments" / "locks" / f"{name}.txt", locks)
    for path in (ROOT / "environments" / "locks").glob("torch[0-9]*.txt"):
        shutil.copy(path, locks)


def checkout(folder: Path, names: Collection[str] = RELEASES) -> Paths:
    """Return a checkout with the real environments of these releases, no case and no evidence."""
    environments(folder, names)
    (folder / "cases").mkdir()
    (folder / "reports").mkdir()
    return Paths(root=folder)


@dataclasses.dataclass(frozen=True, slots=True)
class Toy:
    """One case file in a checkout, and what is measured on it."""

    places: Paths
    text: str
    variant: str = ""

    @property
    def name(self) -> str:
        return f"toy_breaks[{self.variant}]" if self.variant else "toy_breaks"

    @property
    def path(self) -> Path:
        return self.places.cases / "toy_breaks.py"

    def measured(self, bf16: str, fp16: str = "++++++", fp16_how: Failed | None = None) -> Toy:
        """Store a cell a release: `+` passes, `-` breaks as described, `!` breaks otherwise.

        A letter of `PLACES` breaks as described, in that place.
        """
        self.path.write_bytes(self.text.encode())
        self._told({Precision.FP32: "++++++", Precision.BF16: bf16})
        return self._told({Precision.FP16: fp16}, fp16_how)

    def _told(self, outcomes: Mapping[Precision, str], how: Failed | None = None) -> Toy:
        loaded = project.load(self.places)
        rows = []
        for precision, signs in outcomes.items():
            for release, sign in zip(RELEASES, signs, strict=False):
                ran = provenance(loaded.cases[self.name], loaded.environments[release])
                at = cell(release, precision, name=self.name)
                rows.append(row(sign, at, how, ran=ran))
        store = Store(self.places.store, print)
        store.put(*(row for row in rows if row))
        store.close()
        return self

    def on_main(self, version: str, bf16: str, fp16: str = "+", how: Failed | None = None) -> Toy:
        """Store what `main` does, which holds that version; `-` fails as `how` says."""
        loaded = project.load(self.places)
        newest = loaded.environments[MAIN]
        main = dataclasses.replace(newest, pins={**newest.pins, "transformers": version})
        ran = provenance(loaded.cases["toy_breaks"], main)
        signs = {Precision.FP32: "+", Precision.BF16: bf16, Precision.FP16: fp16}
        rows = (row(sign, cell(MAIN, one), how, ran=ran) for one, sign in signs.items())
        store = Store(self.places.store, print)
        store.put(*(one for one in rows if one))
        store.close()
        return self

    def repeated(self) -> Toy:
        """Store every cell again as repeated, as a run does with an unexpected result."""
        store = Store(self.places.store, print)
        store.put(*(dataclasses.replace(row, repeats=3) for row in [*store.rows()]))
        store.close()
        return self

    def published(self) -> Toy:
        """Publish what is stored, so that the case is no new one."""
        publish_all(self.places, Console(quiet=True))
        return self

    def accept(self) -> str:
        options = AcceptOptions(cases=["toy_breaks"])
        rewrite(self.places, options, Console(quiet=True))
        return self.path.read_text()


def row(sign: str, at: object, how: Failed | None, *, ran: object) -> Observation | None:
    match sign:
        case "+":
            return seen(Outcome.PASSES, at, ran=ran)  # type: ignore[arg-type]
        case "-":
            return seen(Outcome.FAILS, at, how=how, ran=ran)  # type: ignore[arg-type]
        case _ if sign in PLACES:
            return seen(Outcome.FAILS, at, how=PLACES[sign], ran=ran)  # type: ignore[arg-type]
        case "!":
            return seen(Outcome.FAILS, at, how=failed("KeyError", "'other'"), ran=ran)  # type: ignore[arg-type]
        case "~":
            return seen(Outcome.FAILS, at, unstable=True, ran=ran)  # type: ignore[arg-type]
        case _:
            return None
