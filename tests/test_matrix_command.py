"""Options of the main job that exclude each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from runner.commands.matrix import measure
from runner.commands.measuring import Options
from runner.errors import ExitCode, RunnerError
from runner.evidence.store import Store
from runner.model.outcomes import Device
from runner.places import Places
from runner.planning.selection import Wish


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (
            {"only": "surprising"},
            "--only: found 'surprising'; allowed: unexpected.",
        ),
        (
            {"plan": "bounderies"},
            (
                "--plan: found 'bounderies'; allowed: all, boundaries, or nothing behind it to"
                " print the plan. Did you mean 'boundaries'?"
            ),
        ),
        *(
            (
                {"budget": text},
                (
                    f"--budget: found {text!r}; allowed: a time above zero in s, m or h:"
                    " 90s, 10m, 2h."
                ),
            )
            for text in ("0", "0s", "-1m", "nonsense", "10", "1e3s", "inf", "5d", " ")
        ),
        (
            {"python": Path("python3"), "wish": Wish(release=["4.50.0"])},
            "--python: found --release beside it; allowed: either an interpreter or releases.",
        ),
        *(
            ({"shard": text}, f"--shard: found {text!r}; allowed: i/N with i from 1 to N, as 1/4.")
            for text in ("0/4", "5/4", "x/y", "1", "1/0", "-1/4", "1/4/4", "1.0/4", "\u0661/\u0664")
        ),
        *(
            (
                {"shard": "1/4", option.removeprefix("--"): value},
                (
                    f"--shard: found {option} beside it;"
                    " allowed: cells that every machine works out alike."
                ),
            )
            for option, value in (("--only", "unexpected"), ("--python", Path("python3")))
        ),
        (
            {"wish": Wish(case=["./mine.py", "gemma3*"])},
            "--case: found ./mine.py gemma3*; allowed: either files of yours or cases by name.",
        ),
        (
            {"wish": Wish(case=[str(Places().cases / "blip2_load_half.py")])},
            (
                f"--case: found {Places().cases / 'blip2_load_half.py'}; allowed: a name, or a file"
                " outside `cases/`. Say `--case blip2_load_half`."
            ),
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(changed: dict[str, Any], expected: str) -> None:
    options: dict[str, Any] = {
        "wish": Wish(device=Device.CPU),
        "only": "",
        "jobs": 1,
        "python": None,
        "rerun": False,
        "plan": "",
        "budget": "",
        "dry_run": False,
        "strict": False,
        "trust_published": False,
    }
    with pytest.raises(RunnerError) as caught:
        measure(Places(), Options(**(options | changed)), Console(stderr=True))

    assert expected == str(caught.value)


def test_a_shard_without_environments_says_so_and_counts_as_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("REPROMATRIX_STORE", str(tmp_path / "evidence.sqlite"))
    console = Console(record=True, stderr=True, width=200)
    options = Options(
        wish=Wish(release=["4.50.0"]),
        only="",
        jobs=1,
        python=None,
        rerun=False,
        plan="",
        budget="",
        dry_run=False,
        strict=False,
        trust_published=False,
        shard="2/2",
    )
    code = measure(Places(), options, console)
    store = Store(Places().store, print)
    ended = {shard for shard, _ in store.shards()}
    store.close()

    assert (code, ended) == (ExitCode.AS_EXPECTED, {"2/2"})
    assert console.export_text() == (
        "Shard 2/2 has no environment to run: there are fewer than shards.\n"
    )
