"""SBOMs and what `pip inspect` prints: made by tools, small ones of each version, and bad ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from repromatrix.runner.audit.inputs import read
from repromatrix.runner.audit.packages import Other
from repromatrix.runner.errors import ExitCode, RunnerError

LOCKS = Path(__file__).parent.parent / "fixtures" / "locks"
HELD = {
    "transformers": "4.50.0",
    "torch": "2.6.0",
    "numpy": "2.2.4",
    "peft": "0.15.1",
    "tokenizers": "0.21.1",
    "huggingface-hub": "0.29.3",
}


@pytest.mark.parametrize(
    ("name", "form", "more"),
    [
        ("uv/bom.json", "SBOM of CycloneDX", {"pytest": "8.3.5"}),
        ("cyclonedx/environment.cdx.json", "SBOM of CycloneDX", {"pip": "26.3"}),
        ("spdx/requirements.spdx.json", "SBOM of SPDX", {}),
        ("pip/inspect.json", "output of pip inspect", {"pip": "26.3"}),
    ],
)
def test_what_a_tool_listed_is_read(name: str, form: str, more: dict[str, str]) -> None:
    found = read(str(LOCKS / name))

    assert (found.form, found.pins, found.whole) == (form, HELD | more, True)


def test_what_uv_lists_for_another_platform_is_kept_apart() -> None:
    found = read(str(LOCKS / "uv" / "bom.json"))

    assert found.conditional
    assert [(one.package, one.version) for one in found.others] == [
        ("colorama", "0.4.6"),
        ("numpy", "1.26.0"),
    ]


def test_the_python_that_pip_inspected_is_told() -> None:
    found = read(str(LOCKS / "pip" / "inspect.json"))

    assert (found.python, found.markers["python_full_version"]) == ("3.11", "3.11.7")


PURLS = [
    "pkg:pypi/Transformers@4.50.0",
    "pkg:conda/conda-forge/pytorch@2.6.0?subdir=linux-64",
    "pkg:pypi/trl@0.16.0?vcs_url=git%2Bhttps://example.org/trl",
    "pkg:npm/left-pad@1.3.0",
]


def _cyclonedx(version: str, purls: list[str]) -> str:
    inner = [{"purl": purls[1]}]
    components = [{"name": "x", "purl": purls[0], "components": inner}]
    components += [{"name": "y", "purl": purl} for purl in purls[2:]]
    return json.dumps({"bomFormat": "CycloneDX", "specVersion": version, "components": components})


def _spdx_2(version: str, purls: list[str]) -> str:
    packages = [
        {"externalRefs": [{"referenceType": "purl", "referenceLocator": purl}]} for purl in purls
    ]
    return json.dumps({"sbom": {"spdxVersion": version, "packages": packages}})


def _spdx_3(version: str, purls: list[str]) -> str:
    graph = [{"type": "CreationInfo", "specVersion": version}]
    graph += [{"type": "software_Package", "software_packageUrl": purl} for purl in purls]
    return json.dumps({"@graph": graph})


@pytest.mark.parametrize(
    "text",
    [
        *(_cyclonedx(f"1.{number}", PURLS) for number in range(2, 8)),
        *(_spdx_2(f"SPDX-2.{number}", PURLS) for number in (1, 2, 3)),
        _spdx_3("3.0.1", PURLS),
    ],
)
def test_every_version_of_an_sbom_is_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "sbom.json").write_text(text)
    found = read(str(tmp_path / "sbom.json"))

    assert found.pins == {"transformers": "4.50.0", "torch": "2.6.0"}
    assert found.loose == {"trl": "an address (vcs_url), not a version"}
    assert not found.whole


def test_a_component_may_have_its_version_beside_its_address(tmp_path: Path) -> None:
    text = _cyclonedx("1.5", ["pkg:pypi/transformers", "pkg:pypi/torch"])
    (tmp_path / "sbom.json").write_text(text.replace('"name": "x"', '"version": "4.50.0"'))
    found = read(str(tmp_path / "sbom.json"))

    assert (found.pins, found.loose) == (
        {"transformers": "4.50.0"},
        {"torch": "any version, not a pin"},
    )


AGAIN = "The file may be cut off: make it again."
INSPECTED = (LOCKS / "pip" / "inspect.json").read_text()
BAD = {
    "cut off": (INSPECTED[:500], ": line "),
    "another pip": (
        INSPECTED.replace('"version": "1"', '"version": "2"', 1),
        ": `version` is 2; 1 can be read. Make it with pip 22.2 or newer.",
    ),
    "no names": (
        '{"pip_version": "1", "version": "1", "installed": [{}]}',
        f": installed[0]: it has no name or no version. {AGAIN}",
    ),
    "nothing installed": (
        '{"pip_version": "1", "version": "1", "installed": []}',
        f": it has no packages. {AGAIN}",
    ),
    "an odd Python": (
        INSPECTED.replace('"python_version": "3.11"', '"python_version": "x"'),
        ": environment.python_version: invalid value 'x'; expected a version.",
    ),
    "another CycloneDX": (
        _cyclonedx("2.0", PURLS),
        ": `specVersion` is 2.0; 1.x can be read. Write it as one of these.",
    ),
    "another SPDX": (
        _spdx_2("SPDX-9.1", PURLS),
        ": `spdxVersion` is SPDX-9.1; SPDX-2 and 3.0 can be read. Write it as one of these.",
    ),
    "a version that is a list": (
        '{"bomFormat": "CycloneDX", "specVersion": [[]]}',
        ": it has no `specVersion`; 1.x can be read. Write it as one of these.",
    ),
    "no address of a package": (
        _cyclonedx("1.5", ["pkg:\x1b[31m", *PURLS]),
        f": 'pkg:�[31m' is not a package URL. {AGAIN}",
    ),
    "two environments": (
        _cyclonedx("1.5", [*PURLS, "pkg:pypi/transformers@4.9.0"]),
        ": it holds transformers 4.9.0 and 4.50.0: several environments in one. Make a file for",
    ),
    "nothing of transformers": (
        _cyclonedx("1.5", PURLS[1:]),
        ": it lists 2 packages, but not transformers. ",
    ),
    "something else": ('{"a": 1}', ": it is JSON, and not of a tool that is known (it starts with"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_list_that_cannot_be_read_is_refused(tmp_path: Path, kind: str) -> None:
    text, said = BAD[kind]
    path = tmp_path / "sbom.json"
    path.write_text(text)

    with pytest.raises(RunnerError) as error:
        read(str(path))
    assert str(error.value).startswith(f"{path}{said}")
    assert error.value.code is ExitCode.BAD_INPUT


def test_components_that_lie_in_each_other_are_walked_to_their_end(tmp_path: Path) -> None:
    inner = '{"components": [' * 200 + "]}" * 200
    text = f'{{"bomFormat": "CycloneDX", "specVersion": "1.5", "components": [{inner}]}}'
    (tmp_path / "sbom.json").write_text(text)

    with pytest.raises(RunnerError, match="it lists 0 packages"):
        read(str(tmp_path / "sbom.json"))


def test_what_is_listed_for_nobody_here_is_told(tmp_path: Path) -> None:
    document = json.loads(_cyclonedx("1.5", PURLS[:2]))
    marker = "sys_platform == 'mars'"
    document["components"][0]["properties"] = [{"name": "uv:package:marker", "value": marker}]
    document["components"].append({"purl": "pkg:pypi/transformers@4.51.0"})
    (tmp_path / "bom.json").write_text(json.dumps(document))
    found = read(str(tmp_path / "bom.json"))

    assert (found.version("transformers"), found.others) == (
        "4.51.0",
        (Other("transformers", "4.50.0", marker),),
    )
