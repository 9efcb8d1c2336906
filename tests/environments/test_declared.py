from __future__ import annotations

import pytest

from repromatrix.runner.environments.commits import UndeclaredError, read_requirements

TABLE = """
from setuptools import setup
_deps = ["Pillow>=10", "huggingface-hub>=1.5.0,<2.0", "tokenizers>=0.22", "tqdm>=4.60"]
deps = {b: a for a, b in make(_deps)}
"""
LISTED = """install_requires = [
    deps["huggingface-hub"],
    deps["tokenizers"],  # fast
]
setup(install_requires=list(install_requires))
"""
GIVEN = 'setup(name="x", install_requires=["torch>=2.0", "numpy>=1.17"], extras_require=extras)\n'
NEEDS = ("huggingface-hub<2.0,>=1.5.0", "tokenizers>=0.22")


def read(**texts: str) -> tuple[str, ...]:
    """Return what is declared; `setup` and `pyproject` are the texts of the two files."""
    files = {"setup.py": texts.get("setup"), "pyproject.toml": texts.get("pyproject")}
    return tuple(map(str, read_requirements(files.__getitem__)))


@pytest.mark.parametrize(
    ("texts", "needs"),
    [
        ({"setup": TABLE + LISTED}, NEEDS),
        ({"setup": TABLE + LISTED, "pyproject": "[tool.ruff]\nline-length = 119\n"}, NEEDS),
        ({"setup": GIVEN}, ("numpy>=1.17", "torch>=2.0")),
        ({"pyproject": '[project]\ndependencies = ["safetensors>=0.4"]\n'}, ("safetensors>=0.4",)),
        ({"setup": "setup(install_requires=[])"}, ()),
    ],
)
def test_what_a_package_needs_is_read_from_its_sources(
    texts: dict[str, str], needs: tuple[str, ...]
) -> None:
    assert read(**texts) == needs


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        ({}, "setup.py does not say what it needs: install_requires is not a list"),
        ({"setup": "setup(install_requires=computed())"}, "install_requires is not a list"),
        ({"setup": 'setup(install_requires=[deps["x"]])'}, r"install_requires holds deps\['x'\]"),
        ({"setup": "setup(install_requires=['a b c'])"}, "list of requirements"),
        ({"setup": "setup("}, "setup.py does not say what it needs: '\\(' was never closed"),
        ({"pyproject": "[project"}, "pyproject.toml does not say"),
    ],
)
def test_what_only_running_it_would_say_is_not_guessed(texts: dict[str, str], why: str) -> None:
    with pytest.raises(UndeclaredError, match=why):
        read(**texts)


def test_a_setup_is_never_run(tmp_path: object) -> None:
    run = f'open("{tmp_path}/was run", "w")\n'

    assert read(setup=run + GIVEN) == ("numpy>=1.17", "torch>=2.0")
    assert list(tmp_path.iterdir()) == []  # type: ignore[attr-defined]
