"""A checkout with a few of the real environments, and one case that is measured by signs."""

from __future__ import annotations

import contextlib
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
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from pathlib import Path

    from repromatrix.runner.model.cell import Cell
    from repromatrix.runner.model.observation import Failed, Observation, Provenance
    from repromatrix.runner.project import Project

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

    def _told(self, signs: Mapping[Precision, str], how: Failed | None = None) -> Toy:
        return self._stored(rows(project.load(self.places), self.name, signs, how))

    def _stored(self, rows: Iterable[Observation]) -> Toy:
        with contextlib.closing(Store(self.places.store, print)) as store:
            store.put(*rows)
        return self

    def on_main(self, version: str, bf16: str, fp16: str = "+", how: Failed | None = None) -> Toy:
        """Store what `main` does, which holds that version; `-` fails as `how` says."""
        loaded = project.load(self.places)
        newest = loaded.environments[MAIN]
        main = dataclasses.replace(newest, pins={**newest.pins, "transformers": version})
        ran = provenance(loaded.cases["toy_breaks"], main)
        signs = {Precision.FP32: "+", Precision.BF16: bf16, Precision.FP16: fp16}
        cells = ((sign, cell(MAIN, precision)) for precision, sign in signs.items())
        return self._stored(one for sign, at in cells for one in row(sign, at, ran, how))

    def repeated(self) -> Toy:
        """Store every cell again as repeated, as a run does with an unexpected result."""
        with contextlib.closing(Store(self.places.store, print)) as store:
            store.put(*(dataclasses.replace(row, repeats=3) for row in [*store.rows()]))
        return self

    def published(self) -> Toy:
        """Publish what is stored, so that the case is no new one."""
        publish_all(self.places, Console(quiet=True))
        return self

    def accept(self) -> str:
        options = AcceptOptions(cases=["toy_breaks"])
        rewrite(self.places, options, Console(quiet=True))
        return self.path.read_text()


def rows(
    loaded: Project, case: str, signs: Mapping[Precision, str], how: Failed | None = None
) -> Iterator[Observation]:
    """Yield a cell per precision and release, as the signs of a precision say."""
    for precision, line in signs.items():
        for release, sign in zip(RELEASES, line, strict=False):
            ran = provenance(loaded.cases[case], loaded.environments[release])
            yield from row(sign, cell(release, precision, name=case), ran, how)


_HOW = {"!": failed("KeyError", "'other'"), "0": failed("AssertionError", ""), **PLACES}


def row(sign: str, at: Cell, ran: Provenance, how: Failed | None = None) -> Iterator[Observation]:
    """Yield what a sign says; `-` fails as described, or as `how` says, and `~` is unstable."""
    if sign == "+":
        yield seen(Outcome.PASSES, at, ran=ran)
    elif sign in {"-", "~", *_HOW}:
        yield seen(Outcome.FAILS, at, how=_HOW.get(sign, how), unstable=sign == "~", ran=ran)
