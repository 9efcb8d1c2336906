"""Locks and lists as tools made them, and small ones: what is read of each, and what is refused."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from repromatrix.runner.audit.inputs import platform, read
from repromatrix.runner.errors import ExitCode, RunnerError

if TYPE_CHECKING:
    from kept import Expected

    from repromatrix.runner.audit.packages import Installed

FIXTURES = Path(__file__).parents[1] / "fixtures"
FILES = {
    path.relative_to(FIXTURES).as_posix(): path
    for folder in ("locks/*", "small_locks")
    for path in sorted(FIXTURES.glob(f"{folder}/*.*"))
}
SMALL = FIXTURES / "small_locks"


@pytest.fixture(autouse=True)
def _on_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    here = platform() | {"sys_platform": "linux", "platform_machine": "x86_64", "os_name": "posix"}
    here |= {"python_version": "3.11", "python_full_version": "3.11.7"}
    monkeypatch.setattr("repromatrix.runner.audit.inputs.platform", lambda: here)


def told(found: Installed) -> str:
    """Return all that was read of a file."""
    markers = [found.markers[name] for name in ("sys_platform", "os_name", "python_full_version")]
    lines = [
        f"{found.form}{'' if found.whole else ', in part'}; Python {found.python or 'not known'}",
        f"read for {' '.join(markers)}{', as one of several' if found.conditional else ''}",
        *(f"{name} {version}" for name, version in found.pins.items()),
        *(f"{name}: {why}" for name, why in found.loose.items()),
        *(f"for {other.marker}: {other.package} {other.version}" for other in found.others),
    ]
    return "\n".join(lines) + "\n"


def variant(folder: Path, name: str, old: str, new: str | None) -> Path:
    """Return a small file with something else in place of a text, or that is cut off there."""
    text = (SMALL / name).read_text()
    assert old in text
    path = folder / name
    path.write_text(text.partition(old)[0] if new is None else text.replace(old, new))
    return path


def test_every_file_is_read_as_expected(tmp_path: Path, expected: Expected) -> None:
    read_files = {name: read(str(path)) for name, path in FILES.items() if path.stem != "more"}
    for_mac = variant(tmp_path, "conda-lock.yml", "linux-64", "osx-arm64")
    for_mac.write_text(for_mac.read_text().replace("2.5.1", "2.6.0"))

    expected(
        "locks",
        {name: told(found) for name, found in read_files.items()}
        | {
            "an environment of a pixi.lock": told(read(str(SMALL / "pixi-6.yml"), "gpu")),
            "the only platform of a conda-lock.yml": told(read(str(for_mac))),
        },
    )


@pytest.mark.parametrize(
    ("name", "old", "versions"),
    [
        ("pixi-5.yml", "version: 5\n", ["version: 4\n"]),
        ("pdm.lock", "4.5.0", ["3.1", "4.0", "4.4.2"]),
        ("cyclonedx.json", '"1.5"', ['"1.2"', '"1.7"']),
        ("spdx-2.json", "SPDX-2.3", ["SPDX-2.1"]),
    ],
)
def test_other_versions_of_a_format_are_read_alike(
    tmp_path: Path, name: str, old: str, versions: list[str]
) -> None:
    for version in versions:
        assert told(read(str(variant(tmp_path, name, old, version)))) == told(
            read(str(SMALL / name))
        )


REFUSED: dict[str, tuple[str, str, str | None]] = {
    "another conda-lock": ("conda-lock.yml", "version: 1\n", "version: 9\n"),
    "a conda-lock cut off": ("conda-lock.yml", "8.10, manager: conda", None),
    "other platforms": ("conda-lock.yml", "linux-64", "win-64"),
    "another pixi": ("pixi-6.yml", "version: 6\n", "version: 3\n"),
    "a pixi.lock cut off between packages": ("pixi-6.yml", "- pypi: ./\n  name", None),
    "several environments": ("pixi-6.yml", "  default:\n", "  cpu:\n"),
    "aliases": ("environment.yml", "dependencies:\n", "a: &a [x]\ndependencies: [*a]\nb:\n"),
    "two documents": ("environment.yml", "channels:", "---\nchannels:"),
    "no dependencies": ("environment.yml", "channels", None),
    "a dependency that is none": ("environment.yml", "- pip\n", "- =1\n"),
    "YAML nested too deeply": ("environment.yml", "- pip\n", f"- {'[' * 500}"),
    "YAML of nobody": ("pixi-6.yml", "environments:", "jobs:"),
    "a list without a version": ("conda-list.json", '"version": "4.50.0"', '"build": "0"'),
    "no JSON": ("conda-list.json", "[", None),
    "another version of pdm": ("pdm.lock", "4.5.0", "5.0"),
    "no version of pdm": ("pdm.lock", "lock_version", "version"),
    "pdm without packages": ("pdm.lock", "[[package]]", None),
    "another version of pipenv": ("Pipfile.json", '"pipfile-spec": 6', '"pipfile-spec": 7'),
    "a Pipfile.lock cut off": ("Pipfile.json", '"editable"', None),
    "an odd package of pipenv": ("Pipfile.json", '"peft": {"version": "*"}', '"\\u001b[31m": 3'),
    "JSON nested too deeply": ("Pipfile.json", '{"version": "*"}', "[" * 100_000),
    "half a character": ("Pipfile.json", "trl", "\\ud800"),
    "a hostile marker": ("Pipfile.json", "os_name == 'nt'", "(" * 9000),
    "another CycloneDX": ("cyclonedx.json", '"1.5"', '"2.0"'),
    "a version that is a list": ("cyclonedx.json", '"1.5"', "[[]]"),
    "no address of a package": ("cyclonedx.json", "pkg:npm/left-pad@1.3.0", "pkg:\\u001b[31m"),
    "two environments": ("cyclonedx.json", "pkg:npm/left-pad@", "pkg:pypi/transformers@4."),
    "nothing of transformers": ("cyclonedx.json", "ransformers", "errors"),
    "JSON of nobody": ("cyclonedx.json", "bomFormat", "format"),
    "another SPDX": ("spdx-2.json", "SPDX-2.3", "SPDX-9.1"),
}


def refusal(path: Path, environment: str = "") -> str:
    """Return why a file is refused, in our words."""
    with pytest.raises(RunnerError) as error:
        read(str(path), environment)
    assert error.value.code is ExitCode.BAD_INPUT
    said = re.sub(r"(?<=: line )(\d+: invalid \w+): [^.]*", r"\1", str(error.value))
    said = re.sub(r" \(maximum .*\)", "", said)
    return f"{said}\n".replace(f"{path.parent}/", "")


def test_a_file_that_cannot_be_read_is_refused_in_a_sentence(
    tmp_path: Path, expected: Expected
) -> None:
    inspected = (FIXTURES / "locks" / "pip" / "inspect.json").read_text()
    changed = {
        "another pip": inspected.replace('"version": "1"', '"version": "2"', 1),
        "an odd Python": inspected.replace('"python_version": "3.11"', '"python_version": "x"'),
        "a Pipfile.lock without packages": '{"_meta": {"pipfile-spec": 6}, "default": {}}',
        "an empty list": "[]",
        "nothing installed": '{"pip_version": "1", "version": "1", "installed": []}',
        "no names": '{"pip_version": "1", "version": "1", "installed": [{}]}',
    }
    told = {title: refusal(variant(tmp_path, *how)) for title, how in REFUSED.items()}
    for title, text in changed.items():
        (tmp_path / "inspect.json").write_text(text)
        told[title] = refusal(tmp_path / "inspect.json")
    several = variant(tmp_path, "pixi-6.yml", "  default:\n", "  cpu:\n")
    told["an environment that there is not"] = refusal(several, "tpu")
    told["an environment of a list"] = refusal(SMALL / "pdm.lock", "gpu")

    expected("refused_locks", told)


def test_components_that_lie_in_each_other_are_walked_to_their_end(tmp_path: Path) -> None:
    inner = '{"components": [' * 200 + "]}" * 200
    (tmp_path / "sbom.json").write_text(
        f'{{"bomFormat": "CycloneDX", "specVersion": "1.5", "components": [{inner}]}}'
    )

    assert "it lists 0 packages" in refusal(tmp_path / "sbom.json")


def test_a_file_of_many_values_is_refused_in_seconds(tmp_path: Path) -> None:
    (tmp_path / "environment.yml").write_text("[" + "a," * 3_000_000 + "a]")
    begin = time.process_time()

    assert "more than 1,500,000 values" in refusal(tmp_path / "environment.yml")
    assert time.process_time() - begin < 10
