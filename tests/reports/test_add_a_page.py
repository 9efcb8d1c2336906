"""Adding a page touches three files: the example of CONTRIBUTING.md, done in a copy."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
REPORTS = ROOT / "reports"
PLACES = {"pages/areas.py", "templates/areas.html.jinja", "build.py"}


def _section() -> str:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return text.split("### Add a page\n")[1].split("\n## ")[0]


def _example() -> tuple[str, str, str]:
    """Return the module, the template and the route of the example."""
    blocks = re.findall(r"^   ```\w+\n(.*?)^   ```$", _section(), re.DOTALL | re.MULTILINE)
    module, template, route = map(textwrap.dedent, blocks)
    return module, template, route


def _copy(folder: Path) -> Path:
    """Return a copy of the package in which `reports` can be edited."""
    package = folder / "repromatrix"
    package.mkdir()
    shutil.copy(ROOT / "repromatrix" / "__init__.py", package)
    (package / "runner").symlink_to(ROOT / "runner")
    ignored = shutil.ignore_patterns("site", "published", "__pycache__")
    shutil.copytree(REPORTS, package / "reports", ignore=ignored)
    return package / "reports"


def _add_page(reports: Path) -> None:
    module, template, route = _example()
    (reports / "pages" / "areas.py").write_text(module)
    (reports / "templates" / "areas.html.jinja").write_text(template)
    build = reports / "build.py"
    imported = "from repromatrix.reports.pages.areas import areas\n"
    text = build.read_text().replace("ROUTES = (\n", f"ROUTES = (\n    {route.strip()},\n", 1)
    build.write_text(text.replace("from repromatrix", f"{imported}from repromatrix", 1))


def _changed(reports: Path) -> set[str]:
    """Return the files that are not as in the checkout."""
    return {
        str(name)
        for path in reports.rglob("*")
        if path.is_file()
        for name in [path.relative_to(reports)]
        if not (REPORTS / name).is_file() or (REPORTS / name).read_bytes() != path.read_bytes()
    }


def test_a_page_is_added_by_three_files(tmp_path: Path) -> None:
    reports = _copy(tmp_path)
    _add_page(reports)
    changed = _changed(reports)
    support = ROOT / "tests" / "support"
    program = (
        f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(support)!r}]\n"
        "import pathlib, small_site\n"
        f"small_site.draw(pathlib.Path({str(tmp_path / 'site')!r}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-P", "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    site = tmp_path / "site"

    assert changed == PLACES
    assert all(Path(place).name in _section() for place in PLACES)
    assert done.returncode == 0, done.stderr
    assert "<li>norms <small>1</small></li>" in (site / "areas.html").read_text()
    link = 'areas.html">Areas</a>'
    pages = [path for path in site.rglob("*.html") if link not in path.read_text()]
    assert pages == []
