"""What is published of a release that was measured in part."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from swept import LINE, line, record
from tiny_recipes import CONTENT

from repromatrix.runner.evidence.swept.history import SweptRelease
from repromatrix.runner.evidence.swept.probes import DTYPES, PROBES
from repromatrix.runner.evidence.swept.published import PublishedFinding
from repromatrix.runner.evidence.swept.records import ProbeKey, ProbeStatus
from repromatrix.sweep.cells import probe_cases
from repromatrix.sweep.publishing import MeasuredRelease, history, merged, told
from repromatrix.sweep.recipe_files import ModelRecipe

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from repromatrix.runner.evidence.swept.history import SweepHistory
    from repromatrix.sweep.findings import SweepFinding
    from repromatrix.sweep.measure import SweepRunner

HOLDS, FAILS = ProbeStatus.HOLDS, ProbeStatus.FAILS
EARLIER = line(
    *([record("llama", "static", one), record("gptj", "static", HOLDS)] for one in (HOLDS, FAILS))
)
"""4.49.0, then 4.50.0, which breaks llama."""
NAMES = ("4.49.0", "4.49.1", *LINE[1:])


def measured(name: str, *kinds: str, lacking: int) -> dict[str, MeasuredRelease]:
    """Return a release on which architectures hold, with cells that are still to be measured."""
    found = {one.key: one for kind in kinds for one in [record(kind, "static", HOLDS)]}
    release = SweptRelease(name, "e1", "x86_64", 300, (), (), kinds if lacking else ())
    ran = frozenset(ProbeKey(kind, name) for kind in kinds for name in DTYPES)
    return {name: MeasuredRelease(release, found, lacking, found, ran)}


def published(mine: dict[str, MeasuredRelease], *, gaps: bool = False) -> tuple[list[str], object]:
    found = merged(mine, NAMES, {}, EARLIER, gaps=gaps)
    return [*found.history.releases], found.incomplete


def test_a_release_between_is_published_once_it_has_what_its_neighbours_differ_on() -> None:
    assert published(measured("4.49.1", "llama", lacking=1)) == (["4.49.0", "4.49.1", "4.50.0"], {})
    assert published(measured("4.49.1", "gptj", lacking=1)) == (["4.49.0", "4.50.0"], {"4.49.1": 1})
    assert published(measured("4.49.1", "gptj", lacking=1), gaps=True)[0][1] == "4.49.1"


def test_what_was_measured_of_a_release_that_is_published_whole_takes_its_place() -> None:
    line_ = merged(measured("4.50.0", "gptj", lacking=2), NAMES, {}, EARLIER)
    states = {
        kind: one.status
        for kind in ("llama", "gptj")
        if (one := line_.history.record(ProbeKey(kind, "static"), "4.50.0"))
    }

    assert (line_.incomplete, states) == ({}, {"llama": FAILS, "gptj": HOLDS})
    assert line_.history.releases["4.50.0"].chosen == ()


UNRUN = [probe for probe in PROBES if probe.name != "lora"]
PART = SweptRelease("4.50.0", "e1", "avx2", 300, tuple(probe.name for probe in UNRUN), ())
LLAMA = ModelRecipe(content=CONTENT)
LORA = {
    one.key: one
    for one in (record("llama", "lora", FAILS, "nothing is adapted"), record("gptj", "lora", HOLDS))
}


BOTH = ("llama", "gptj")


def lora(release: SweptRelease = PART, kinds: tuple[str, ...] = BOTH) -> dict[str, MeasuredRelease]:
    """Return a release on which one probe was run."""
    found = {key: one for key, one in LORA.items() if key.kind in kinds}
    ran = frozenset(ProbeKey(kind, probe) for kind in kinds for probe in ("build", "lora"))
    return {"4.50.0": MeasuredRelease(release, found, 0, found, ran, (LLAMA,))}


def test_what_is_published_of_other_probes_stays_beside_what_was_measured() -> None:
    found = merged(lora(), NAMES, {}, EARLIER)
    release = found.history.releases["4.50.0"]
    states = {
        probe: one.status
        for probe in ("static", "lora")
        if (one := found.history.record(ProbeKey("llama", probe), "4.50.0"))
    }

    assert states == {"static": FAILS, "lora": FAILS}
    assert (release.lacking, release.hardware) == ((), "x86_64 and avx2")
    assert found.fresh == {"4.50.0": frozenset({"lora"})}


def test_what_another_environment_found_is_not_joined_with_it() -> None:
    found = merged(lora(PART._replace(environment="e2")), NAMES, {}, EARLIER)

    assert found.history.record(ProbeKey("llama", "lora"), "4.50.0") == (
        EARLIER.record(ProbeKey("llama", "lora"), "4.50.0")
    )
    assert found.history.releases["4.50.0"].environment == "e1"
    assert found.incomplete == {"4.50.0": len(probe_cases([LLAMA], UNRUN))}


def test_a_new_probe_is_published_once_it_was_run_on_all_that_the_release_builds() -> None:
    found = merged(lora(kinds=("llama",)), NAMES, {}, _without_lora())

    assert (found.fresh, found.incomplete) == ({}, {"4.50.0": 1})


def test_on_a_release_between_a_new_probe_is_published_once_all_of_its_architectures_ran_it() -> (
    None
):
    earlier = _without_lora()
    partial = earlier.releases["4.50.0"]._replace(chosen=("gptj", "llama"))
    earlier = replace(earlier, releases={**earlier.releases, "4.50.0": partial})
    part, whole = (merged(lora(kinds=some), NAMES, {}, earlier) for some in (("llama",), BOTH))

    assert (part.fresh, part.incomplete) == ({}, {"4.50.0": 1})
    assert (whole.fresh, whole.incomplete) == ({"4.50.0": frozenset({"lora"})}, {})


def _without_lora() -> SweepHistory:
    both = [[record(kind, "static", HOLDS) for kind in ("llama", "gptj")] for _ in range(2)]
    return line(*both, lacking=("lora",))


def test_a_recipe_that_was_made_anew_is_published_once_the_whole_line_was_measured() -> None:
    earlier = history(
        [*EARLIER.releases.values()],
        {name: EARLIER.found(name) for name in EARLIER.releases},
        [("gptj", "GPTJForCausalLM", "4.49.0"), ("llama", "Llama", "4.49.0", "0" * 16)],
    )
    both = measured("4.49.0", "llama", "gptj", lacking=0) | (
        last := measured("4.50.0", "llama", "gptj", lacking=0)
    )
    parts = [merged(some, NAMES, {"llama": LLAMA}, earlier).history for some in (last, both)]
    found = [
        (one.architectures["llama"].recipe, record_.status)
        for one in parts
        if (record_ := one.record(ProbeKey("llama", "static"), "4.50.0"))
    ]

    assert found == [("0" * 16, FAILS), (LLAMA.digest, HOLDS)]


def confirming(monkeypatch: pytest.MonkeyPatch, confirm: Callable[..., list[SweepFinding]]) -> None:
    """Let nothing be measured again, and findings be confirmed by a function."""
    monkeypatch.setattr("repromatrix.sweep.publishing.measure_again", lambda *_: None)
    monkeypatch.setattr("repromatrix.sweep.publishing.confirmed", confirm)


def test_findings_about_probes_that_were_not_run_stay_as_they_were_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def all_of_them(found: list[SweepFinding], *_: object) -> list[SweepFinding]:
        return found

    confirming(monkeypatch, all_of_them)
    line_ = merged(lora(), NAMES, {}, EARLIER)
    here = ("4.50.0", "4.49.0")
    known = [
        PublishedFinding(*here, "broken-1", "broken", "llama", "static", "it fails", "m:f"),
        PublishedFinding(*here, "broken-2", "broken", "gptj", "lora static", "it fails", "m:g"),
        PublishedFinding(*here, "broken-3", "broken", "gptj", "lora", "it fails", "m:h"),
    ]
    rows = told(_NOBODY, {}, line_, known)

    assert [(row.name, row.probes) for row in rows if row.against][:2] == [
        ("broken-1", "static"),
        ("broken-2", "static"),
    ]
    assert {row.probes for row in rows if row.name not in {"broken-1", "broken-2"}} == {"lora"}
    assert "broken-3" not in {row.name for row in rows}


def test_findings_that_only_an_earlier_recipe_shows_stay_as_they_were_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none_of_them(*_: object) -> list[SweepFinding]:
        return []

    confirming(monkeypatch, none_of_them)
    here = ("4.50.0", "4.49.0")
    known = [
        PublishedFinding(*here, "numbers-1", "numbers", "llama", "lora", "differs", ""),
        PublishedFinding(*here, "numbers-2", "numbers", "gptj llama", "lora", "differs", ""),
    ]
    both = merged(lora(), NAMES, {}, EARLIER)
    remade = replace(both, old=frozenset({"llama"}))

    assert told(_NOBODY, {}, remade, known) == known[:1]
    assert told(_NOBODY, {}, both, known) == []


def test_between_releases_that_were_not_measured_nothing_is_confirmed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nothing(*_: object) -> list[SweepFinding]:
        raise AssertionError

    confirming(monkeypatch, nothing)
    here = ("4.50.0", "4.49.0")
    known = [PublishedFinding(*here, "broken-1", "broken", "llama", "build", "it fails", "m:f")]

    assert told(_NOBODY, {}, merged({}, NAMES, {}, EARLIER), known) == known


def test_what_is_built_again_is_no_finding_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_of_them(found: list[SweepFinding], *_: object) -> list[SweepFinding]:
        return found

    confirming(monkeypatch, all_of_them)
    here = ("4.50.0", "4.49.0")
    known = [PublishedFinding(*here, "broken-1", "broken", "llama", "build", "it fails", "m:f")]
    rows = told(_NOBODY, {}, merged(lora(), NAMES, {}, EARLIER), known)

    assert "broken-1" not in {row.name for row in rows}


_NOBODY: SweepRunner = None  # type: ignore[assignment]  # nothing is run
