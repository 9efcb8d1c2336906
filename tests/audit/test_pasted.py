"""What people paste in place of a lock: the output of `env` commands, tables, lines of an issue."""

from __future__ import annotations

import io
import time
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repromatrix.runner.audit.inputs import read
from repromatrix.runner.audit.packages import Gathering, Installed
from repromatrix.runner.audit.pasted import is_pasted, read_pasted
from repromatrix.runner.audit.torches import public
from repromatrix.runner.errors import RunnerError

ENV = """\
Copy-and-paste the text below in your GitHub issue and FILL OUT the two last points.

- `transformers` version: 5.13.0.dev0 (4.57.6 works)
- Platform: Linux-6.8.0-1058-gcp-x86_64-with-glibc2.39
- Python version: 3.12.13
- Huggingface_hub version: 1.23.0
- DeepSpeed version: not installed
- PyTorch version (accelerator?): 2.12.1+cu130 (CUDA)
- Using GPU in script?: <fill in>
"""
TABLE = """\
(work) user@host:~$ pip list
Package                   Version
------------------------- --------------
huggingface-hub           0.32.2
tokenizers                0.21.1
torch                     2.6.0+cu126
transformers              4.52.3          /home/user/transformers
"""
ISSUE = """\
> ### System Info
>
> * transformers: 5.9.0  (also fails on main; works on 5.8.0)
> * torch 2.13.0+cu130, Python 3.10.12
> * peft from the main branch, after 0.19.1
"""
UV = " - transformers==5.8.0\n + transformers==5.9.0\n + torch==2.13.0\n"
SHOWN = "Name: transformers\nVersion: 5.9.0\n\nName: torch\nVersion: 2.13.0\n"
WORDS = """The library worked for me with these versions:
```
transformers==5.9.0
```
Torch v2.13.0, and peft is 0.19.1
"""
PIPES = "| package | version |\n|---|---|\n| transformers | 5.9.0 |\n| torch | 2.13.0 |\n"
LOGGED = "2026-11-02T10:11:12.123Z - transformers==5.1.0\n2026-11-02T10:11:12.124Z - torch==2.9.1\n"


def told(text: str, monkeypatch: pytest.MonkeyPatch) -> Installed:
    stdin = SimpleNamespace(buffer=io.BytesIO(text.encode()))
    monkeypatch.setattr("sys.stdin", stdin)
    return read("-")


DUMPS = Path(__file__).parent / "dumps"
HELD = tomllib.loads((DUMPS / "versions.toml").read_text("utf-8"))
LEFT_OUT = 2
"""Versions that the reader leaves out of all dumps; never one more."""


def test_no_dump_of_a_public_thread_is_read_wrongly(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong, left_out = dict[str, Installed](), dict[str, str]()
    for name, held in HELD.items():
        found = told((DUMPS / f"{name}.txt").read_text("utf-8"), monkeypatch)
        pins = dict(pin.split(" ") for pin in held["pins"].split(", "))
        said = {package: pins.get(package) for package in found.pins}
        rest = found.python, ", ".join(sorted(found.absent))
        if found.pins != said or rest != (held.get("python", ""), held.get("absent", "")):
            wrong[name] = found
        left_out |= {f"{name}: {pin}": pins[pin] for pin in pins.keys() - found.pins.keys()}

    print(f"left out of {len(HELD)} dumps: {left_out}")  # noqa: T201 - what could still be read
    assert len(HELD) >= 20
    assert wrong == {}
    assert len(left_out) <= LEFT_OUT, left_out


NAMES = ["env", "pip list", "an issue", "uv", "pip show", "words", "pipes", "a log"]


@pytest.mark.parametrize(
    ("text", "pins", "python"),
    [
        (ENV, "huggingface-hub 1.23.0, torch 2.12.1+cu130, transformers 5.13.0", "3.12"),
        (
            TABLE,
            "huggingface-hub 0.32.2, tokenizers 0.21.1, torch 2.6.0+cu126, transformers 4.52.3",
            "",
        ),
        (ISSUE, "torch 2.13.0+cu130, transformers 5.9.0", "3.10"),
        (UV, "torch 2.13.0, transformers 5.9.0", ""),
        (SHOWN, "torch 2.13.0, transformers 5.9.0", ""),
        (WORDS, "peft 0.19.1, torch 2.13.0, transformers 5.9.0", ""),
        (PIPES, "torch 2.13.0, transformers 5.9.0", ""),
        (LOGGED, "torch 2.9.1, transformers 5.1.0", ""),
    ],
    ids=NAMES,
)
def test_what_tools_print_and_people_write_is_read(
    text: str, pins: str, python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = told(text, monkeypatch)

    assert found.form == "pasted text"
    assert ", ".join(f"{name} {version}" for name, version in sorted(found.pins.items())) == pins
    assert found.python == python


def test_what_is_not_installed_is_absent_and_a_development_version_what_it_becomes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = told(ENV, monkeypatch)

    assert (set(found.absent), found.whole) == ({"deepspeed"}, False)
    assert found.notes == (
        "Also read: huggingface-hub 1.23.0 and Python 3.12.",
        "Not installed: deepspeed.",
        "transformers 5.13.0.dev0 is taken to be 5.13.0.",
    )


def test_a_line_about_a_package_without_a_version_of_it_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert told(ISSUE, monkeypatch).notes[1:] == (
        "Not read: 1 line, such as 'peft from the main branch, after 0.19.1'.",
    )


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (TABLE + ENV, "it holds transformers 4.52.3 and 5.13.0: several environments in one"),
        ("Traceback (most recent call last):\n  File 1\n", "a traceback, without versions"),
        ("- torch==2.1.0\n", "it lists 1 package, but not transformers"),
    ],
)
def test_what_names_no_one_environment_is_refused(
    text: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RunnerError, match=what):
        told(text, monkeypatch)


@pytest.mark.parametrize(
    "text",
    [
        "transformers==5.1.0\n# torch  2.1.0\n-e .\n",
        "transformers==5.1.0 \\\n    --hash=sha256:aa  \n    # via  peft\n",
        "--extra-index-url https://example.org/simple\ntorch>=2.1\n",
    ],
)
def test_a_requirements_file_stays_one(text: str) -> None:
    assert not is_pasted(text)


LEADS = st.sampled_from(
    ["", "- ", "* ", "> ", "> - ", "[rank1]: ", "$ ", "2026-01-02 03:04:05 ", "  "]
)
LINES = st.sampled_from(
    [
        "{} version: {}",
        "`{}` version: {}",
        "{} version (GPU?): {} (True)",
        "{}      {}",
        "| {} | {} |",
    ]
)
NOISE = st.sampled_from(
    ["", "Some words.", "GPU type: Tesla T4", "```shell", "CUDA: 12.4", "- ", "1.2.3"]
)
VERSION = st.from_regex(r"[1-9]\.[1-9][0-9]?\.[0-9](\+cu12[0-9])?", fullmatch=True)


@pytest.mark.parametrize("text", ["\n", "- ", "a" + "\t" * 99, "torch ", "a version (", "\n+"])
def test_a_long_text_takes_time_by_its_length(text: str) -> None:
    begun = time.process_time()
    for longer in (text * (200_000 // len(text)), f"a{text * (200_000 // len(text))}b"):
        assert not is_pasted(longer, typed=True)
        read_pasted(longer, Gathering("pasted", {}))

    assert time.process_time() - begun < 20


@given(st.data())
def test_any_mixture_of_layouts_gives_the_versions_that_it_names(data: st.DataObject) -> None:
    pins = {name: data.draw(VERSION) for name in ("transformers", "torch", "peft", "trl")}
    lines = [
        data.draw(LEADS) + data.draw(LINES).format(name, version) for name, version in pins.items()
    ]
    noise = data.draw(st.lists(NOISE, max_size=4))
    text = "\n".join(data.draw(st.permutations([*lines, *noise])))
    gathered = Gathering("pasted", {})
    read_pasted(text, gathered)

    assert is_pasted(text)
    assert {name: {public(each) for each in read} for name, read in gathered.versions.items()} == {
        name: {public(version)} for name, version in pins.items()
    }
