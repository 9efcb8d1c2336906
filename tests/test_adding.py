"""What it takes to add an outcome, and an option that changes how cells run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from factories import case_text
from programs import finished
from toys import copied

from repromatrix.runner.paths import ROOT, Paths

if TYPE_CHECKING:
    from pathlib import Path

ASKED = ("runner/model/outcomes.py", "reports/marks.py")
"""What mypy names. Beside these there is whatever makes the outcome, mostly
`runner/worker/cell_process.py`; and a mark of its own needs `style.css` and `query.js`."""
AT_MOST = 5
LAST = '    NOT_RUN = "not-run"\n'
ARM = re.compile(r"(?<=\| )Outcome\.NOT_RUN|(?<=case )Outcome\.NOT_RUN")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a copy of the source to which an outcome was added."""
    copied(tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    outcomes = tmp_path / ASKED[0]
    before = outcomes.read_text(encoding="utf-8")
    assert LAST in before
    outcomes.write_text(before.replace(LAST, f'{LAST}    SKIPPED = "skipped"\n'), encoding="utf-8")
    return tmp_path


@pytest.fixture
def cache(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that is there in the next run: without it mypy takes ten seconds."""
    kept = getattr(pytestconfig, "cache", None)  # not with `-p no:cacheprovider`, as mutants run
    name = "mypy-of-an-added-outcome"
    return kept.mkdir(name) if kept is not None else tmp_path_factory.mktemp(name)


@pytest.mark.whole
def test_mypy_asks_in_two_files_for_an_added_outcome_and_nowhere_else(
    source: Path, cache: Path
) -> None:
    assert set(_faulty(source, cache)) == {*ASKED}
    assert len(ASKED) + len(("the producer", "style.css", "query.js")) <= AT_MOST

    for where in ASKED:
        path = source / where
        text = ARM.sub("Outcome.NOT_RUN | Outcome.SKIPPED", path.read_text(encoding="utf-8"))
        path.write_text(text, encoding="utf-8")

    assert _faulty(source, cache) == []


def _faulty(source: Path, cache: Path) -> list[str]:
    """Return the files in which mypy finds errors."""
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(cache), "repromatrix"]
    done = subprocess.run(
        command, cwd=source, capture_output=True, text=True, timeout=150, check=False
    )
    found = re.findall(r"^repromatrix/(\S+?):\d+: error: ", done.stdout, re.MULTILINE)
    assert bool(found) == bool(done.returncode), done.stdout + done.stderr
    return found


RERUN = "    rerun: cli.Rerun = False\n"
THREADS = '            "threads": self.terms.threads,\n'
PREPARE = "def _prepare(request: Request) -> None:\n"
NICE = {
    "runner/cli/matrix.py": {
        RERUN: f'    nice: Annotated[int, typer.Option("--nice", help="Be nice.")] = 0\n{RERUN}',
        "jobs=options.workers)": "jobs=options.workers, nice=options.nice)",
    },
    "runner/execution/events.py": {
        "    threads: int = 1\n": "    threads: int = 1\n    nice: int = 0\n"
    },
    "runner/execution/pool.py": {THREADS: f'{THREADS}            "nice": self.terms.nice,\n'},
    "runner/worker/cell.py": {
        "    threads: int\n": "    threads: int\n    nice: int\n",
        PREPARE: f'{PREPARE}    os.nice(request["nice"])\n',
    },
}
"""What `--nice N` changes: the option, what a run hands on, what a worker is told, what it does."""
NICER = '"""A cell has a low priority. It is a toy."""\n\nimport os\n\nassert os.nice(0) == 7\n'


@pytest.fixture
def nicer(tmp_path: Path) -> Path:
    """Return a copy of the checkout to which an option was added that changes how cells run."""
    copied(tmp_path)
    (tmp_path / "environments").symlink_to(ROOT / "environments")
    (tmp_path / "cases").mkdir()
    (tmp_path / "mine.py").write_text(case_text(code=NICER, dependencies=["transformers"]))
    for where, changes in NICE.items():
        path = tmp_path / where
        text = path.read_text(encoding="utf-8")
        for before, after in changes.items():
            assert text.count(before) == 1, (where, before)
            text = text.replace(before, after)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def test_contributing_names_the_files_of_an_option_that_changes_how_cells_run() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.partition("### Add an option that changes how cells run")[2].partition("###")[0]

    assert [name for name in re.findall(r"`([\w/]+\.py)`", section) if "test" not in name] == [
        *NICE
    ]
    assert len(NICE) <= 4


@pytest.mark.builds
def test_an_option_that_was_added_in_four_files_reaches_the_cell(
    nicer: Path, tmp_path: Path
) -> None:
    command = (sys.executable, "-m", "repromatrix", "matrix", "--case", "./mine.py")
    chosen = ("--release", "4.50.0", "--precision", "fp32", "--no-sandbox", "--nice", "7")
    paths = {
        "REPROMATRIX_ENVIRONMENTS": str(Paths().built),
        "REPROMATRIX_STORE": str(tmp_path / "store.sqlite"),
        "REPROMATRIX_SITE": str(tmp_path / "pages"),
    }

    done = finished([*command, *chosen], cwd=nicer, env={**os.environ, **paths})

    assert "Of 1 selected cell: 1 passes" in done.stderr, done.stderr
    assert done.returncode == 0
