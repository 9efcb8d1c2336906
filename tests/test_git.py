"""A password in the address of a repository: git is given it, and it stands nowhere."""

from __future__ import annotations

import base64
import contextlib
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from checks.secrets import Secret
from repromatrix.runner.environments import uv
from repromatrix.runner.environments.building import UnbuildableError
from repromatrix.runner.environments.development import VARIABLE, Origin, origin
from repromatrix.runner.git import run_git, without_credentials

if TYPE_CHECKING:
    from collections.abc import Iterator

    from repromatrix.runner.model.matrix import Matrix

PYPROJECT = '[project]\nname = "transformers"\nversion = "4.99.0"\ndependencies = []\n'


class _Guarded(SimpleHTTPRequestHandler):
    """Serves a folder to who knows a password; looks at all command lines at each request."""

    def __init__(
        self, *arguments: object, key: str, given: Secret, seen: list[str], **more: object
    ) -> None:
        self.key, self.given, self.seen = key, given, seen
        super().__init__(*arguments, **more)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                line = (process / "cmdline").read_bytes()
                if self.given.is_in(line):
                    self.seen.append(line.decode(errors="replace"))
        if self.headers.get("Authorization") == f"Basic {self.key}":
            self.seen.append("let in")
            super().do_GET()
        else:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="here"')
            self.send_header("Content-Length", "0")
            self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def serving(folder: Path, secret: Secret, given: Secret) -> Iterator[tuple[str, list[str]]]:
    """Serve a folder to who knows one secret, while another is given; yield host and what is seen.

    That is each command line with what is given, and each request that was let in.
    """
    seen: list[str] = []
    key = base64.b64encode(f"me:{secret.word}".encode()).decode()
    handler = partial(_Guarded, key=key, given=given, seen=seen, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}", seen
        finally:
            server.shutdown()
            thread.join(10)


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
    with serving(repository.parent, secret, given) as (host, seen):
        monkeypatch.setenv(VARIABLE, f"git+http://me:{given.quoted}@{host}/t/.git@main")
        try:
            found = origin(matrix)
        except UnbuildableError as error:
            said = str(error)
        else:
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

    assert set(seen) <= {"let in"}
    assert bool(seen) == known
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
