"""A workflow of GitHub Actions run on this machine: the shell of its steps, in their order.

Expressions have the values that a test gives them; steps that use an action are played by a copy
where the action moves files, and do nothing else.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML

if TYPE_CHECKING:
    from collections.abc import Mapping

_EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
_EQUAL = re.compile(r"(\S+) == '([^']*)'")
# What people type is the runner's own command line behind nox; pip brings nox.
# A shell's, for the path of an interpreter may hold a space.
_NOX = """#!/bin/sh
if [ -n "$FAKE_CODE" ] && [ "$2" = matrix ]; then exit "$FAKE_CODE"; fi
[ "$1 $3" = "-s --" ] || exit 70
name=$2
shift 3
exec "{python}" -m repromatrix "$name" "$@"
"""
_PIP = '#!/bin/sh\n[ "$*" = "install nox" ]\n'
# Nothing of this machine is changed: what CI installs is there or not.
_SUDO = """#!/bin/sh
case "$*" in
    "apt-get update -qq" | "apt-get install -qq --yes bubblewrap") ;;
    "sysctl -q kernel.apparmor_restrict_unprivileged_userns=0") ;;
    *) exit 70 ;;
esac
"""
_GH = """#!/bin/sh
exec "{python}" "{program}" "{issues}" "$@"
"""


def read(path: Path) -> dict[str, Any]:
    """Return a workflow as it stands in its file."""
    content: dict[str, Any] = YAML(typ="safe").load(path)
    return content


@dataclass(kw_only=True, slots=True)
class Ended:
    """What became of a job."""

    result: str
    code: int
    said: str
    outputs: dict[str, str] = field(default_factory=dict)


@dataclass(kw_only=True, slots=True)
class Machine:
    """Where jobs run, each in a fresh copy of a checkout, and what they leave."""

    folder: Path
    checkout: Path
    workflow: Mapping[str, Any]
    given: dict[str, str]
    environ: dict[str, str] = field(default_factory=dict)
    tools: dict[str, str] = field(default_factory=dict)
    """Programs in place of the fakes, each as the text of its script."""
    results: dict[str, str] = field(default_factory=dict)

    @property
    def artifacts(self) -> Path:
        """What jobs uploaded, a folder each."""
        return self.folder / "artifacts"

    @property
    def site(self) -> Path:
        """What was deployed."""
        return self.folder / "deployed"

    @property
    def summary(self) -> Path:
        """What the run shows of itself."""
        return self.folder / "summary.md"

    @property
    def issues(self) -> Path:
        """The issues of the repository, a line of JSON each."""
        return self.folder / "issues.jsonl"

    def run(self, name: str, line: Mapping[str, str] | None = None) -> Ended:
        """Run a job, one of several with its line of the matrix."""
        job = self.workflow["jobs"][name]
        values = self.given | {f"matrix.{key}": value for key, value in (line or {}).items()}
        ended = Ended(result="skipped", code=0, said="")
        if self._is_wanted(job):
            ended = _Job(machine=self, job=job, values=values, name=name).run()
        for key, value in ended.outputs.items():
            self.given[f"needs.{name}.outputs.{key}"] = value
        self.results[name] = ended.result
        return ended

    def _is_wanted(self, job: Mapping[str, Any]) -> bool:
        needs = job.get("needs", [])
        wanted = [needs] if isinstance(needs, str) else needs
        terms = _EXPRESSION.sub(r"\1", job["if"]).split(" && ") if "if" in job else []
        if "!cancelled()" in terms:
            terms.remove("!cancelled()")
        elif any(self.results[one] != "success" for one in wanted):
            return False
        return all(self.holds(term, self.given) for term in terms)

    def holds(self, term: str, values: Mapping[str, str]) -> bool:
        """Return whether two things are equal: a result or a value, and a word."""
        found = _EQUAL.fullmatch(term)
        assert found, term
        results = {f"needs.{name}.result": result for name, result in self.results.items()}
        return (results | dict(values)).get(found[1], "") == found[2]


@dataclass(kw_only=True, slots=True)
class _Job:
    machine: Machine
    job: Mapping[str, Any]
    values: dict[str, str]
    name: str
    said: list[str] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return self.machine.folder / "work"

    def run(self) -> Ended:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.machine.checkout, self.folder)
        code = 0
        for step in self.job["steps"]:
            if self._is_wanted(step, code):
                code = self._step(step) or code
        outputs = {key: self._filled(text) for key, text in self.job.get("outputs", {}).items()}
        result = "failure" if code else "success"
        return Ended(result=result, code=code, said="".join(self.said), outputs=outputs)

    def _is_wanted(self, step: Mapping[str, Any], code: int) -> bool:
        if step.get("if") == "always()":
            return True
        term = _EXPRESSION.sub(r"\1", step.get("if", ""))
        return code == 0 and (not term or self.machine.holds(term, self.values))

    def _step(self, step: Mapping[str, Any]) -> int:
        if "run" not in step:
            self._use(step["uses"].partition("@")[0], step.get("with", {}))
            return 0
        told = self.machine.folder / "told"
        told.write_text("")
        done = subprocess.run(
            ["/bin/bash", "-e", "-c", self._filled(step["run"])],
            cwd=self.folder,
            env=self._environ(step)
            | {"GITHUB_OUTPUT": str(told), "GITHUB_STEP_SUMMARY": str(self.machine.summary)},
            capture_output=True,
            text=True,
            check=False,
        )
        self.said += [done.stdout, done.stderr]
        for line in told.read_text().splitlines():
            key, _, value = line.partition("=")
            self.values[f"steps.{step['id']}.outputs.{key}"] = value
        return done.returncode

    def _environ(self, step: Mapping[str, Any]) -> dict[str, str]:
        tools = self.machine.folder / "tools"
        tools.mkdir(exist_ok=True)
        nox = _NOX.format(python=sys.executable)
        program = Path(__file__).parent / "fake_gh.py"
        gh = _GH.format(python=sys.executable, program=program, issues=self.machine.issues)
        fakes = {"nox": nox, "pip": _PIP, "sudo": _SUDO, "gh": gh}
        for name, text in (fakes | self.machine.tools).items():
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)
        named = [self.machine.workflow.get("env", {}), self.job.get("env", {}), step.get("env", {})]
        own = {key: self._filled(str(text)) for each in named for key, text in each.items()}
        path = f"{tools}{os.pathsep}{os.environ['PATH']}"
        # A machine that is made for a job has a store only where the workflow names one.
        kept = {name: text for name, text in os.environ.items() if name != "REPROMATRIX_STORE"}
        return kept | {"PATH": path, "CI": "true"} | self.machine.environ | own

    def _filled(self, text: str) -> str:
        return _EXPRESSION.sub(lambda found: self._value(found[1]), text)

    def _value(self, expression: str) -> str:
        if re.fullmatch(r"steps\.\w+\.outputs\.\w+", expression):
            return self.values.get(expression, "")  # of a step that was not reached
        return self.values[expression]

    def _use(self, action: str, given: Mapping[str, str]) -> None:
        artifacts, folder = self.machine.artifacts, self.folder
        match action:
            case "actions/checkout" if "repository" in given:
                clone = self.machine.folder / "github" / given["repository"]
                shutil.copytree(clone, folder / given["path"])
            case "actions/upload-artifact":
                kept = artifacts / self._filled(given["name"])
                if (folder / given["path"]).exists():
                    shutil.copytree(folder / given["path"], kept)
            case "actions/download-artifact":
                for kept in sorted(artifacts.glob(given["pattern"])):
                    shutil.copytree(kept, folder / given["path"], dirs_exist_ok=True)
            case "actions/upload-pages-artifact":
                shutil.copytree(folder / given["path"], artifacts / "github-pages")
            case "actions/deploy-pages":
                shutil.rmtree(self.machine.site, ignore_errors=True)
                shutil.copytree(artifacts / "github-pages", self.machine.site)
            case _:
                assert action in _IDLE, action


_IDLE = frozenset(
    f"actions/{name}" for name in ("checkout", "setup-python", "cache", "configure-pages")
)
