"""Releases between two that differ: only there, only those architectures, the newest first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from swept import RECIPES, record

from repromatrix.runner import files, project
from repromatrix.runner.evidence.swept.history import SweptRelease
from repromatrix.runner.evidence.swept.probes import PROBES
from repromatrix.runner.evidence.swept.published import read_findings, read_history, texts
from repromatrix.runner.evidence.swept.records import ProbeKey, ProbeStatus
from repromatrix.runner.paths import Paths
from repromatrix.sweep.between import lacking, new_probes, probes_between
from repromatrix.sweep.measure import releases_of
from repromatrix.sweep.publishing import history

if TYPE_CHECKING:
    from pathlib import Path

    from repromatrix.runner.evidence.swept.history import SweepHistory

RELEASES = ("4.50.0", "4.50.1", "4.50.2", "4.51.0", "4.51.1")


def swept(**failing: str) -> SweepHistory:
    """Return a line; a letter a release says what llama, then gptj does: h, f, or - for not run."""
    found = {}
    for name, text in failing.items():
        states = {"h": ProbeStatus.HOLDS, "f": ProbeStatus.FAILS}
        found[name.removeprefix("v").replace("_", ".")] = {
            one.key: one
            for kind, letter in zip(("llama", "gptj"), text, strict=True)
            if letter != "-"
            for one in [record(kind, "static", states[letter])]
        }
    return history(
        [
            SweptRelease(
                name,
                "e1",
                "x86_64",
                300,
                (),
                (),
                tuple(key.kind for key in some) if len(some) < len(RECIPES) else (),
            )
            for name, some in found.items()
        ],
        found,
        RECIPES,
    )


def test_only_what_differs_is_run_on_the_newest_release_between() -> None:
    known = swept(v4_50_0="hh", v4_51_0="fh")

    assert lacking(known, RELEASES, first=True) == {"4.50.2": ["llama"]}
    assert lacking(known, RELEASES) == {"4.50.1": ["llama"], "4.50.2": ["llama"]}


def test_a_gap_is_closed_where_the_newest_does_as_the_older_side() -> None:
    assert lacking(swept(v4_50_0="hh", v4_50_2="h-", v4_51_0="fh"), RELEASES, first=True) == {}


def test_a_gap_becomes_smaller_where_the_newest_does_as_the_newer_side() -> None:
    known = swept(v4_50_0="hh", v4_50_2="f-", v4_51_0="fh")

    assert lacking(known, RELEASES, first=True) == {"4.50.1": ["llama"]}


def test_what_was_not_run_between_is_taken_from_neither_side(tmp_path: Path) -> None:
    known = swept(v4_50_0="hh", v4_50_2="f-", v4_51_0="ff")
    files.write_all(texts(tmp_path, known, (), ()))
    again = read_history(tmp_path)

    assert again.releases == known.releases
    assert again.releases["4.50.2"].chosen == ("llama",)
    assert again.measured("gptj") == ("4.50.0", "4.51.0")
    assert again.record(ProbeKey("gptj", "static"), "4.50.2") is None
    assert lacking(again, RELEASES, first=True) == {"4.50.1": ["llama"], "4.50.2": ["gptj"]}


def test_an_architecture_is_whole_or_not_run() -> None:
    one = swept(v4_50_0="h-").releases["4.50.0"]

    assert (one.ran("llama"), one.ran("gptj")) == (True, False)
    assert one._replace(chosen=()).ran("gptj")


def test_every_published_change_stands_between_two_neighbours() -> None:
    published = read_history(Paths().published)

    assert lacking(published, releases_of(project.load(Paths(), []))) == {}


def test_nearly_every_published_change_is_told_by_a_confirmed_finding() -> None:
    """What was not measured and is taken for it changes there, which nothing confirms."""
    published = read_history(Paths().published)
    told = {
        (one.against, one.release, kind, probe)
        for one in read_findings(Paths().published)
        for kind in one.architectures.split()
        for probe in one.probes.split()
    }
    changed = [
        (against, release, kind, change.after.key.probe)
        for kind in published.architectures
        for against, release, change in published.changes_of(kind)
    ]

    assert len(changed) > 1000
    untold = [one for one in changed if one not in told]
    assert len(untold) < len(changed) / 20, untold


def asked(**lacking_: tuple[str, ...]) -> SweepHistory:
    """Return llama's line, with the probes that were not run on some of its releases."""
    known = swept(v4_50_0="hh", v4_50_2="h-", v4_51_0="fh")
    names = {name.removeprefix("v").replace("_", "."): some for name, some in lacking_.items()}
    releases = {
        name: one._replace(lacking=names.get(name, ())) for name, one in known.releases.items()
    }
    return replace(known, releases=releases)


def test_a_probe_that_both_whole_neighbours_were_asked_is_new_on_a_release_between() -> None:
    known = asked(v4_50_0=("lora",), v4_50_2=("lora", "static", "tied"), v4_51_0=("tied",))

    assert new_probes(known, RELEASES) == {"4.50.2": {"static"}}
    assert new_probes(asked(v4_50_0=("lora",), v4_50_2=("lora",)), RELEASES) == {}


def test_what_is_added_between_is_asked_as_the_release_was_and_as_those_around_it() -> None:
    every = {probe.name for probe in PROBES}
    known = asked(v4_50_0=("lora",), v4_50_2=("lora", "static", "tied"), v4_51_0=("tied",))

    assert probes_between(known, RELEASES, "4.50.2") == every - {"lora", "tied"}
    assert probes_between(known, RELEASES, "4.50.1") == every - {"lora", "tied"}
    assert probes_between(known, RELEASES, "4.51.1") == frozenset()
