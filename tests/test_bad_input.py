"""What is wrong is said whole: the file, the key, what was found, what is allowed, what to do."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from runner import project
from runner.commands.check import examine
from runner.errors import ExitCode, RunnerError
from runner.model.outcomes import Precision
from runner.places import ROOT, Places
from runner.planning.selection import Wish, select

BAD = Path(__file__).parent / "bad_corpus"
RELEASES = ("4.49.0", "4.50.0")

KEYS = (
    "area, claims, environments, exercises, fails, found-by, isolation, kind, models, needs,"
    " reports, simulates, timeout, title, workarounds"
)
BLOCK = "exactly one block between `# /// script` and `# ///`"
HALF_OPEN = "half-open ranges of >= and <, or ==; not {}"
BEHAVIOUR = "behaviour, not versions: expectations say which versions, the case does not"
REQUIRED = "found nothing; allowed: this key is required."

FILES = {
    "no_block": f"found no script block; allowed: {BLOCK}.",
    "two_blocks": f"found 2 script blocks; allowed: {BLOCK}.",
    "not_toml": (
        "script block: found Expected newline or end of document after a statement"
        " (at line 1, column 23); allowed: TOML 1.0."
    ),
    "not_utf8": "found byte 0xe9 at offset 250; allowed: UTF-8 text. Save it as UTF-8.",
    "no_table": (
        "tool.repromatrix: found no such table;"
        " allowed: a table [tool.repromatrix] in the script block."
    ),
    "reads_version": (f"line 15: found it reads a version (__version__); allowed: {BEHAVIOUR}."),
    "raises_its_message": (
        "line 17: found it raises the message 'the cache has no dtype' itself;"
        " allowed: an exception of the library, or an assert on something measured."
    ),
    "sets_environment_late": (
        "line 16: found it sets environment variables before its imports;"
        ' allowed: `isolation = "process"` for such a case.'
    ),
    "not_python": "line 13: found '(' was never closed; allowed: Python that can be parsed.",
}
"""Per file of `bad_corpus/`, what is said about it behind its name."""

SOUND = """\
# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers"]
#
# [tool.repromatrix]
# title = "A toy breaks"
# reports = ["https://example.org/1"]
# area = "toys"
# models = ["toy"]
# {more}
# ///
\"\"\"A toy must not break. It breaks because it is a toy.\"\"\"
"""
ENTRY = '[[tool.repromatrix.fails]]\n# raises = "ValueError"\n# match = "it breaks"\n# '
CLAIM = '[[tool.repromatrix.claims]]\n# says = "It breaks."\n# '

ROWS: dict[str, tuple[tuple[str, str], list[str]]] = {
    "an unknown key": (
        ("area = ", "aera = "),
        [
            "tool.repromatrix.area: " + REQUIRED,
            (
                f"tool.repromatrix.aera: found the unknown key 'aera'; allowed: {KEYS}."
                " Did you mean 'area'?"
            ),
        ],
    ),
    "an unknown key of an entry": (
        ("{more}", ENTRY + 'rases = "ValueError"'),
        [
            (
                "tool.repromatrix.fails[0].rases: found the unknown key 'rases'; allowed: devices,"
                " fixed-by, match, note, outcome, precisions, raises, when, workarounds."
                " Did you mean 'raises'?"
            )
        ],
    ),
    "no title": (('title = "A toy breaks"', ""), ["tool.repromatrix.title: " + REQUIRED]),
    "an empty title": (
        ('"A toy breaks"', '""'),
        ["title: found nothing; allowed: what fails, and on what, as the title of an issue."],
    ),
    "no reports": (
        ('reports = ["https://example.org/1"]', ""),
        ["tool.repromatrix.reports: " + REQUIRED],
    ),
    "empty reports": (
        ('["https://example.org/1"]', "[]"),
        [
            (
                "reports: found an empty list; allowed: the address of a report, or"
                ' `found-by = "measurement"`.'
            )
        ],
    ),
    "a when that is no requirement": (
        ("{more}", ENTRY + 'when = ["transformers four"]'),
        [
            (
                "tool.repromatrix.fails[0].when[0]: found 'transformers four'; allowed: Expected"
                " semicolon (after name with no version specifier) or end."
            )
        ],
    ),
    "a when with !=": (
        ("{more}", ENTRY + 'when = ["transformers!=4.50.0"]'),
        [
            (
                "tool.repromatrix.fails[0].when: found ['transformers!=4.50.0'];"
                f" allowed: {HALF_OPEN.format('!=')}."
            )
        ],
    ),
    "a when with ~=": (
        ("{more}", ENTRY + 'when = ["transformers~=4.50"]'),
        [
            (
                "tool.repromatrix.fails[0].when: found ['transformers~=4.50'];"
                f" allowed: {HALF_OPEN.format('~=')}."
            )
        ],
    ),
    "a package that no environment has": (
        ("{more}", ENTRY + 'when = ["unslooth>=2"]'),
        [
            (
                "fails[0].when: found 'unslooth', which no environment has;"
                " allowed: a package that some environment has."
            )
        ],
    ),
    "overlapping entries": (
        (
            "{more}",
            ENTRY + 'when = ["transformers>=4.49"]\n# ' + ENTRY + 'when = ["transformers<4.50"]',
        ),
        ["fails[0] and fails[1]: found both hold for fp32 on 4.49.0; allowed: one entry per cell."],
    ),
    "an entry that describes nothing": (
        ("{more}", '[[tool.repromatrix.fails]]\n# raises = "ValueError"'),
        [
            (
                "tool.repromatrix.fails[0]: found {'raises': 'ValueError'}; allowed: an entry"
                " that fails names `raises` and `match`."
            )
        ],
    ),
    "a claim without a report": (
        ("{more}", CLAIM + 'precisions = ["bf16"]'),
        ["tool.repromatrix.claims[0].report: " + REQUIRED],
    ),
    "a claim whose report is no address": (
        ("{more}", CLAIM + 'report = "somebody said"'),
        ["claims[0].report: found 'somebody said'; allowed: the https:// address of a report."],
    ),
    "an unknown precision": (
        ("{more}", ENTRY + 'precisions = ["fp8"]'),
        [
            (
                "tool.repromatrix.fails[0].precisions[0]: found 'fp8'; allowed: Input should be"
                " 'fp32', 'bf16' or 'fp16'."
            )
        ],
    ),
    "an unknown workaround": (
        ("{more}", ENTRY + 'workarounds = ["pray"]'),
        ["fails[0].workarounds: found 'pray'; allowed: none: the case has no workarounds."],
    ),
    "a dependency with an address": (
        ('["torch", ', '["torch @ https://example.org/torch.whl", '),
        [
            (
                "script.dependencies: found ['torch @ https://example.org/torch.whl',"
                " 'transformers']; allowed: names and versions; an address cannot be"
                " judged against an environment."
            )
        ],
    ),
}
"""Per fault, what is changed in a sound case, and every line that is said about it."""


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """Return a checkout with two releases and no case."""
    return checkout(tmp_path / "checkout")


def checkout(root: Path) -> Places:
    locks = root / "environments" / "locks"
    locks.mkdir(parents=True)
    (root / "cases").mkdir()
    for name in RELEASES:
        shutil.copy(ROOT / "environments" / "locks" / f"{name}.txt", locks)
    text = (ROOT / "environments" / "matrix.toml").read_text()
    kept = [line for line in text.splitlines() if "{ name" not in line or named(line)]
    (root / "environments" / "matrix.toml").write_text("\n".join([*kept, ""]))
    return Places(root=root)


def named(line: str) -> bool:
    return any(f'"{name}"' in line for name in RELEASES)


def faults(places: Places) -> list[str]:
    """Check a checkout that is not sound and return what is said."""
    with pytest.raises(RunnerError) as caught:
        examine(places, [], Console(stderr=True))
    assert caught.value.code is ExitCode.BAD_INPUT
    return [str(fault) for fault in caught.value.faults]


def test_the_sound_case_that_the_others_are_made_from_is_sound(places: Places) -> None:
    (places.cases / "toy_breaks.py").write_text(SOUND.replace("{more}", ""))

    expected = ExitCode.AS_EXPECTED
    actual = examine(places, [], Console(stderr=True))

    assert expected is actual


@pytest.mark.parametrize("name", FILES)
def test_a_bad_file_is_told_with_its_place(places: Places, name: str) -> None:
    shutil.copy(BAD / f"{name}.py", places.cases / f"toy_{name}.py")

    expected = [f"cases/toy_{name}.py: {FILES[name]}"]
    actual = faults(places)

    assert expected == actual


def test_every_bad_file_has_its_message() -> None:
    expected = sorted(FILES)
    actual = sorted(path.stem for path in BAD.glob("*.py"))

    assert expected == actual


@pytest.mark.parametrize("name", ROWS)
def test_a_bad_block_is_told_with_its_key(places: Places, name: str) -> None:
    change, messages = ROWS[name]
    old, new = change
    assert SOUND.count(old) == 1
    text = SOUND.replace(old, new).replace("{more}", "")
    (places.cases / "toy_breaks.py").write_text(text)

    expected = [f"cases/toy_breaks.py: {message}" for message in messages]
    actual = faults(places)

    assert expected == actual


def test_all_faults_of_all_files_are_told_at_once(places: Places) -> None:
    for name in FILES:
        shutil.copy(BAD / f"{name}.py", places.cases / f"toy_{name}.py")
    (places.locks / "4.50.0.txt").unlink()

    expected = {"environments/locks/4.50.0.txt", *(f"cases/toy_{name}.py" for name in FILES)}
    actual = {line.partition(":")[0] for line in faults(places)}

    assert expected == actual


def test_two_cases_with_one_name_are_told_with_both_places(places: Places) -> None:
    for folder in ("one", "two"):
        (places.cases / folder).mkdir()
        (places.cases / folder / "toy_breaks.py").write_text(SOUND.replace("{more}", ""))

    expected = [
        (
            "cases/two/toy_breaks.py: found the name 'toy_breaks', which cases/one/toy_breaks.py"
            " has too; allowed: each name once."
        )
    ]
    actual = faults(places)

    assert expected == actual


def test_a_missing_lock_is_told_with_the_command_that_makes_it(places: Places) -> None:
    (places.locks / "4.50.0.txt").unlink()

    expected = [
        (
            "environments/locks/4.50.0.txt: found no such file; allowed: a lock."
            " Make it with `nox -s lock -- 4.50.0`."
        )
    ]
    actual = faults(places)

    assert expected == actual


def test_a_lock_made_from_other_inputs_is_stale(places: Places) -> None:
    path = places.locks / "4.50.0.txt"
    fresh = re.findall(r"(?m)^# input: (\w+)$", path.read_text())[0]
    path.write_text(path.read_text().replace(fresh, "0123456789abcdef"))

    expected = [
        (
            "environments/locks/4.50.0.txt: input: found a lock resolved from other inputs"
            f" (0123456789abcdef); allowed: {fresh}. Make it with `nox -s lock -- 4.50.0`."
        )
    ]
    actual = faults(places)

    assert expected == actual


def test_a_lock_that_pins_another_release_is_refused(places: Places) -> None:
    path = places.locks / "4.50.0.txt"
    path.write_text(path.read_text().replace("transformers==4.50.0", "transformers==4.50.1"))

    expected = [
        (
            "environments/locks/4.50.0.txt: found transformers==4.50.1; allowed:"
            " transformers==4.50.0. Make it with `nox -s lock -- 4.50.0`."
        )
    ]
    actual = faults(places)

    assert expected == actual


def test_a_lock_without_a_release_is_refused(places: Places) -> None:
    shutil.copy(places.locks / "4.50.0.txt", places.locks / "4.50.9.txt")

    expected = [
        (
            "environments/locks/4.50.9.txt: found a lock for 4.50.9; allowed: a lock per release"
            " and stack of environments/matrix.toml. Add it there or remove the file."
        )
    ]
    actual = faults(places)

    assert expected == actual


def test_lines_of_a_lock_that_pin_nothing_are_told_each(places: Places) -> None:
    path = places.locks / "4.50.0.txt"
    path.write_text(path.read_text() + "rich>=13\nplain==1\ntorch==2.13.0 --hash=sha256:0\n")

    allowed = "allowed: lines of the form name==version with a hash, none of them torch's."
    expected = [
        f"environments/locks/4.50.0.txt: rich>=13: found rich without an exact version; {allowed}",
        f"environments/locks/4.50.0.txt: plain==1: found plain without a hash; {allowed}",
        (
            "environments/locks/4.50.0.txt: torch==2.13.0 --hash=sha256:0: found torch, which"
            f" matrix.toml chooses; {allowed}"
        ),
    ]
    actual = faults(places)

    assert expected == actual


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('precisions = ["fp32"', 'precisions = ["fp8"', "matrix.precisions[0]: found 'fp8'"),
        ("seconds = ", "secs = ", "matrix.limits.seconds: found nothing"),
        ('"4.50.0"', '"4.48.0"', "releases: found 4.48.0 after 4.49.0"),
        ("[limits]", "[limits", "found Expected ']' at the end of a table declaration"),
    ],
)
def test_a_bad_matrix_is_told_with_its_key(
    places: Places, old: str, new: str, message: str
) -> None:
    text = places.matrix.read_text()
    places.matrix.write_text(text.replace(old, new))

    actual = faults(places)

    assert actual[0].startswith(f"environments/matrix.toml: {message}"), actual


CASES = "toy_breaks"
CHOICES = {
    "--case": (
        {"case": ["toy_brakes"]},
        "--case: found 'toy_brakes'; allowed: toy_breaks. Did you mean 'toy_breaks'?",
    ),
    "--release": (
        {"release": ["4.50"]},
        "--release: found '4.50'; allowed: 4.49.0, 4.50.0, main. Did you mean '4.50.0'?",
    ),
    "--release, a specifier": (
        {"release": [">=four"]},
        (
            "--release: found '>=four'; allowed: a release, a comma list, or a specifier like"
            ' ">=4.50,<4.52".'
        ),
    ),
    "--precision": (
        {"precision": ["fp8"]},
        "--precision: found 'fp8'; allowed: bf16, fp16, fp32. Did you mean 'fp32'?",
    ),
    "--workaround": (
        {"workaround": ["pray"]},
        "--workaround: found 'pray'; allowed: none.",
    ),
}
EMPTY = {
    "--case": (
        {"case": ["none*"]},
        "--case: found 'none*', which selects nothing; allowed: a match.",
    ),
    "--area": (
        {"area": ["toys"], "case": ["other*"]},
        "--case: found 'other*', which selects nothing; allowed: a match.",
    ),
    "--release": (
        {"release": [">=5"]},
        "--release: found '>=5', which selects nothing; allowed: a match.",
    ),
}


def refused(places: Places, wish: dict[str, list[str]]) -> tuple[ExitCode, str]:
    (places.cases / "toy_breaks.py").write_text(SOUND.replace("{more}", ""))
    loaded = project.load(places)
    with pytest.raises(RunnerError) as caught:
        select(Wish(**wish), loaded.cases, loaded.names)  # type: ignore[arg-type]
    return caught.value.code, str(caught.value)


@pytest.mark.parametrize("option", CHOICES)
def test_a_choice_that_does_not_exist_is_told_with_the_nearest(places: Places, option: str) -> None:
    wish, message = CHOICES[option]

    expected = (ExitCode.BAD_INPUT, message)
    actual = refused(places, wish)

    assert expected == actual


@pytest.mark.parametrize("option", EMPTY)
def test_a_choice_that_selects_nothing_is_told(places: Places, option: str) -> None:
    wish, message = EMPTY[option]

    expected = (ExitCode.NOTHING_SELECTED, message)
    actual = refused(places, wish)

    assert expected == actual


def run(*arguments: str, store: Path) -> tuple[int, str, str]:
    """Run the program on this checkout, with a store of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "runner", *arguments],
        cwd=ROOT,
        env={**os.environ, "REPROMATRIX_STORE": str(store)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ["check", str(BAD / "no_block.py")],
            2,
            f"tests/bad_corpus/no_block.py: {FILES['no_block']}",
        ),
        (["check", "absent.py"], 2, "absent.py: found no such file; allowed: a case."),
        (["results", "--precision", "fp8"], 2, CHOICES["--precision"][1]),
        (["results", "--case", "none*"], 3, EMPTY["--case"][1]),
        (["matrix", "--plan", "--release", ">=99"], 3, EMPTY["--release"][1].replace("5", "99")),
        (
            ["matrix", "--case", str(BAD / "not_toml.py")],
            2,
            "tests/bad_corpus/not_toml.py: " + FILES["not_toml"],
        ),
        (["matrix", "--only", "sometimes"], 2, "--only: found 'sometimes'; allowed: unexpected."),
        (
            ["matrix", "--budget", ""],
            2,
            "--budget: found nothing; allowed: a value as 90s|10m|2h, or no --budget.",
        ),
        (
            ["matrix", "--shard="],
            2,
            "--shard: found nothing; allowed: a value as I/N, or no --shard.",
        ),
        (
            ["matrix", "--ray", ""],
            2,
            "--ray: found nothing; allowed: a value as ADDRESS, or no --ray.",
        ),
    ],
)
def test_the_program_says_it_on_stderr_and_ends_with_its_code(
    tmp_path: Path, arguments: list[str], code: int, message: str
) -> None:
    expected = (code, "", f"{message}\n")
    actual = run(*arguments, store=tmp_path / "evidence.sqlite")

    assert expected == actual


def test_a_damaged_store_is_said_and_the_answer_comes_all_the_same(tmp_path: Path) -> None:
    store = tmp_path / "evidence.sqlite"
    store.write_text("not a database at all, " * 99)
    code, out, err = run("results", "--case", "blip2*", "--release", "4.50.0", store=store)

    expected = (
        0,
        (
            "evidence.sqlite is damaged (file is not a database); it is kept as"
            " evidence.sqlite.kept-1 and a new store is begun.\n"
        ),
    )
    actual = (code, err)

    assert expected == actual
    assert out.count("\n") > len(Precision)
    assert store.with_name("evidence.sqlite.kept-1").read_text() == "not a database at all, " * 99
