"""What people told pip, handed on to uv."""

from __future__ import annotations

import os
import zipfile
from typing import TYPE_CHECKING

import pytest
from uv import find_uv_bin

from repromatrix.runner.environments import uv
from repromatrix.runner.environments.uv import configured, for_uv, options_for_uv, parse
from repromatrix.runner.subprocesses import finish

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ALWAYS = {"UV_INDEX_STRATEGY": "unsafe-best-match", "UV_NO_PROGRESS": "1"}
_METADATA = {
    "METADATA": "Metadata-Version: 2.1\nName: toy\nVersion: {version}\n",
    "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "RECORD": "",
}
PIP_CONF = """
[global]
index-url = https://user:p%40ss@example.org/simple
extra-index-url =
    https://one.example.org/simple
    https://two.example.org/simple
find-links = /wheels
cert = /etc/cert.pem
proxy = http://proxy.example.org:3128
timeout = 5
no-index = false

[install]
find-links = /other-wheels /more-wheels
trusted-host = one.example.org

[freeze]
timeout = 99
"""


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {}),
        ({"client-cert": "/c.pem"}, {"SSL_CLIENT_CERT": "/c.pem"}),
        ({"default-timeout": "180"}, {"UV_HTTP_TIMEOUT": "180"}),
        ({"keyring-provider": "subprocess"}, {"UV_KEYRING_PROVIDER": "subprocess"}),
        ({"user": "true", "disable-pip-version-check": "1"}, {}),
    ],
)
def test_a_setting_of_pip_becomes_uvs(settings: dict[str, str], expected: dict[str, str]) -> None:
    assert ALWAYS | expected == for_uv(settings, {})


@pytest.mark.parametrize(
    ("value", "expected"),
    [("Yes", ("--no-index",)), ("false", ())],
)
def test_what_has_no_variable_becomes_an_option(value: str, expected: tuple[str, ...]) -> None:
    assert expected == options_for_uv({"no-index": value})


def test_what_uv_was_told_itself_is_left_alone() -> None:
    environ = {
        "UV_DEFAULT_INDEX": "https://mine/simple",
        "UV_INDEX_STRATEGY": "first-index",
        "ALL_PROXY": "http://mine:1",
        "UV_NO_PROGRESS": "0",
    }
    settings = {"index-url": "https://pips/simple", "proxy": "http://pips:1"}

    assert environ == for_uv(settings, environ)


def test_bytecode_is_kept_whatever_the_image_says() -> None:
    assert for_uv({}, {"PYTHONDONTWRITEBYTECODE": "1", "A": "b"}) == ALWAYS | {"A": "b"}


def test_the_section_nearest_to_the_command_wins() -> None:
    listing = (
        ":env:.index-url='https://env/simple'\n"
        "download.index-url='https://download/simple'\n"
        "global.index-url='https://global/simple'\n"
        "global.find-links='/global'\n"
        "global.extra-index-url='https://a/?x=1\\nhttps://b'\n"
        "install.find-links='/install'\n"
        "install.index-url='https://install/simple'\n"
    )
    expected = {
        "index-url": "https://env/simple",
        "find-links": "/install",
        "extra-index-url": "https://a/?x=1\nhttps://b",
    }

    assert expected == parse(listing)


def test_pips_own_file_and_variables_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pip.conf").write_text(PIP_CONF)
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_CERT", "/env/cert.pem")
    expected = {
        "UV_DEFAULT_INDEX": "https://user:p%40ss@example.org/simple",
        "UV_INDEX": "https://one.example.org/simple https://two.example.org/simple",
        "UV_FIND_LINKS": "/other-wheels,/more-wheels",
        "UV_INSECURE_HOST": "one.example.org",
        "UV_HTTP_TIMEOUT": "5",
        "SSL_CERT_FILE": "/env/cert.pem",
        "ALL_PROXY": "http://proxy.example.org:3128",
    }

    assert ALWAYS | expected == for_uv(configured(), {})


def test_uv_understands_what_it_is_told(tmp_path: Path) -> None:
    """Two indexes and a folder of wheels: the best version of all of them is taken."""
    settings = {
        "index-url": _index(tmp_path / "one", "1.0"),
        "extra-index-url": "\n".join(
            [_index(tmp_path / "two", "2.0"), _index(tmp_path / "three", "1.5")]
        ),
        "find-links": f"{_wheels(tmp_path / 'wheels', '3.0')} {_wheels(tmp_path / 'more', '2.5')}",
    }
    expected = {
        "": "3.0",
        "find-links": "2.0",
        "extra-index-url": "3.0",
    }
    for left_out, version in expected.items():
        told = {name: value for name, value in settings.items() if name != left_out}

        assert f"toy=={version}" == _resolved(told, tmp_path)


def test_without_an_index_uv_takes_folders_alone(tmp_path: Path) -> None:
    settings = {
        "index-url": _index(tmp_path / "one", "9.0"),
        "find-links": str(_wheels(tmp_path / "wheels", "3.0")),
        "no-index": "true",
    }

    assert _resolved(settings, tmp_path) == "toy==3.0"


def _resolved(settings: dict[str, str], folder: Path) -> str:
    """Return what uv makes of the requirement `toy` with these settings of pip."""
    environ = {"PATH": os.environ["PATH"], "UV_CACHE_DIR": str(folder / "cache")}
    wanted = folder / "toy.in"
    wanted.write_text("toy")
    plain = ("--no-config", "--no-header", "--no-annotate", "--quiet")
    done = finish(
        [find_uv_bin(), "pip", "compile", *plain, wanted, *options_for_uv(settings)],
        environ=for_uv(settings, environ),
    )
    return done.out.strip() or done.err


def _wheels(folder: Path, version: str) -> Path:
    """Make a folder with one wheel of `toy`, as pip's find-links wants it."""
    info = f"toy-{version}.dist-info"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / f"toy-{version}-py3-none-any.whl", "w") as wheel:
        for name, content in _METADATA.items():
            wheel.writestr(f"{info}/{name}", content.format(version=version))
    return folder


def _index(folder: Path, version: str) -> str:
    """Make a package index of `toy` alone, and return its address."""
    [wheel] = _wheels(folder / "toy", version).iterdir()
    (folder / "toy" / "index.html").write_text(f'<a href="{wheel.name}">{wheel.name}</a>')
    return folder.as_uri()


def test_an_older_spelling_of_uvs_own_variables_is_left_alone() -> None:
    environ = {"UV_INDEX_URL": "https://mine.example.org", "UV_EXTRA_INDEX_URL": "https://b.c"}
    settings = {"index-url": "https://pips.example.org", "extra-index-url": "https://d.e"}

    assert ALWAYS | environ == for_uv(settings, environ)


def test_a_home_that_cannot_be_written_is_no_place_for_the_installers_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forget_index: Callable[[], None]
) -> None:
    for name in ("UV_CACHE_DIR", "UV_NO_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("REPROMATRIX_ENVIRONMENTS", str(tmp_path / "built"))
    (tmp_path / "file").touch()
    kept = {}
    for home in ("home", "file"):
        monkeypatch.setenv("HOME", str(tmp_path / home))
        forget_index()
        kept[home] = uv.call("cache", "dir").out.strip()

    assert kept == {
        "home": str(tmp_path / "home" / ".cache" / "uv"),
        "file": str(tmp_path / "built" / ".uv"),
    }
