"""A password in the address of a repository: git is given it, and it stands nowhere."""

from __future__ import annotations

import base64
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from toy_index import serving

from checks.secrets import Secret
from repromatrix.runner.environments import uv
from repromatrix.runner.environments.building import UnbuildableError
from repromatrix.runner.environments.development import VARIABLE, Origin, origin
from repromatrix.runner.git import run_git, without_credentials

if TYPE_CHECKING:
    from repromatrix.runner.model.matrix import Matrix

PYPROJECT = '[project]\nname = "transformers"\nversion = "4.99.0"\ndependencies = []\n'


def telling(secret: Secret) -> list[str]:
    """Return the command lines of this moment in which a secret stands."""
    lines = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            lines.append((process / "cmdline").read_bytes())
    return [line.decode(errors="replace") for line in lines if secret.is_in(line)]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository of a transformers, such as a plain server of files can serve."""
    folder = tmp_path / "served" / "t"
    folder.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(PYPROJECT)
    own = ["-c", "user.name=someone", "-c", "user.email=someone@example.org"]
    for command in (
        ["init", "--quiet", "--initial-branch=main"],
        ["add", "."],
        [*own, "commit", "--quiet", "--message=begin"],
        ["update-server-info"],
    ):
        assert run_git(folder, command, seconds=60).code == 0
    return folder


@pytest.mark.parametrize("known", [True, False])
def test_a_password_of_main_stands_on_no_command_line_and_in_no_log(
    repository: Path,
    matrix: Matrix,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    known: bool,
) -> None:
    secret = Secret(VARIABLE)
    given = secret if known else Secret(VARIABLE)
    trace = tmp_path / "trace"
    monkeypatch.setenv("GIT_TRACE", str(trace))  # names all that git starts
    commit = run_git(repository, ["rev-parse", "HEAD"], seconds=60).out.strip()
    said = ""
    key = base64.b64encode(f"me:{secret.word}".encode()).decode()
    seen: list[str] = []
    asked = serving(repository.parent, f"Basic {key}", lambda: seen.extend(telling(given)))
    with asked as address:
        host = address.split("/")[2]
        monkeypatch.setenv(VARIABLE, f"git+http://me:{given.quoted}@{host}/t/.git@main")
        try:
            found = origin(matrix)
        except UnbuildableError as error:
            assert not known
            said = str(error)
        else:
            assert known
            assert found == Origin(
                requirement=f"transformers @ git+http://{host}/t/.git@{commit}",
                commit=commit,
                told=found.told,
            )
            done = uv.call(
                *("pip", "install", "--dry-run", "--no-deps", "--target", tmp_path / "target"),
                *("--cache-dir", tmp_path / "cache", found.requirement),
                told=found.told,
                seconds=60,
            )
            assert done.code == 0, done.err
            said = f"{done.out}{done.err}{found}"

    assert seen == []
    assert "; f get" in trace.read_text()
    assert not given.is_in(said.encode())
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert trace in left
    assert [str(path) for path in left if given.is_in(path.read_bytes())] == []


@pytest.mark.parametrize(
    ("address", "without", "variables"),
    [
        ("https://example.org/x", "https://example.org/x", {}),
        ("ssh://git@example.org/x", "ssh://git@example.org/x", {}),
        ("https://me@[::1/x", "https://me@[::1/x", {}),
        (
            "https://to%40ken@example.org:8443/x",
            "https://example.org:8443/x",
            {
                "GIT_CONFIG_COUNT": "2",
                "GIT_CONFIG_KEY_1": "credential.https://example.org:8443.username",
                "GIT_CONFIG_VALUE_1": "to@ken",
            },
        ),
    ],
)
def test_an_address_is_parted_from_its_user_beside_your_own_settings(
    address: str, without: str, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")

    assert without_credentials(address) == (without, variables)
