"""A known bug as an issue for those who can mend it, in the form of their project. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from repromatrix.runner.markdown import fenced, plain
from repromatrix.runner.model.case import Case
from repromatrix.runner.model.frames import frames
from repromatrix.runner.model.observation import Observation
from repromatrix.runner.model.outcomes import Precision
from repromatrix.runner.model.packages import COMPANIONS, TRANSFORMERS
from repromatrix.runner.text import first_sentence, join, printable, printable_lines

_FRAMES = 4
"""So many of the last frames are shown."""
_PASSED_ON = ("torch.nn.modules.module:", "torch._compile:", "torch._dynamo.")
"""Places through which torch passes every call on."""
_LONG = 2000
"""Characters of a message."""
_NOBODY = ("Who can help?", "_No response_")
_OWN_SCRIPT = (
    "Information",
    "- [ ] The official example scripts\n- [x] My own modified scripts",
)


class _Form(NamedTuple):
    """What the form of a project asks for beside the system, a reproduction and the behaviour."""

    sections: tuple[tuple[str, str], ...]
    system_is_code: bool = False


def _tasks(official: str) -> tuple[str, str]:
    return "Tasks", f"- [ ] {official}\n- [x] My own task or dataset (give details below)"


_FORMS = {
    TRANSFORMERS: _Form(
        (
            _NOBODY,
            _OWN_SCRIPT,
            _tasks(
                "An officially supported task in the `examples` folder (such as GLUE/SQuAD, ...)"
            ),
        )
    ),
    "accelerate": _Form(
        (
            _OWN_SCRIPT,
            _tasks(
                "One of the scripts in the examples/ folder of Accelerate or an officially"
                " supported `no_trainer` script in the `examples` folder of the `transformers`"
                " repo (such as `run_no_trainer_glue.py`)"
            ),
        ),
        system_is_code=True,
    ),
}
_SHORT = _Form((_NOBODY,))
"""That of peft, and what is said to anybody else."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownBug:
    """What an issue says of a case that fails."""

    case: Case
    title: str
    package: str
    """The one at fault."""
    failing: Observation
    """The newest failure."""
    packages: Mapping[str, str]
    """What was installed there."""
    ranges: Sequence[str]
    """Where it fails, in words: the newest range last."""
    fixed: str = ""
    """Where the newest range ends; empty where it does not."""
    commits: Sequence[str] = ()
    """The commits that broke or fixed it, each as a sentence in Markdown."""
    also: Sequence[Precision] = ()
    """The other precisions in which it fails."""


def issue(bug: KnownBug, script: str) -> str:
    """Return an issue in Markdown: its title as a heading, then what the project's form asks for.

    `script` is the plain path of the case.
    """
    form, ran = _FORMS.get(bug.package, _SHORT), bug.failing.provenance
    beside = sorted(bug.case.packages - {TRANSFORMERS, "torch", *COMPANIONS})
    packages = dict.fromkeys([bug.package, TRANSFORMERS, *COMPANIONS, *beside])
    versions = {name: bug.packages[name] for name in packages if bug.packages.get(name)}
    versions |= {"PyTorch": ran.torch_build, "Python": ran.python}
    system = "".join(f"- {name} version: {version}\n" for name, version in versions.items())
    system += f"- Platform: {ran.hardware}, computed on {bug.failing.cell.device.upper()}"
    sections = (
        ("System Info", fenced(system, "Shell") if form.system_is_code else system),
        *form.sections,
        ("Reproduction", "\n\n".join(_reproduction(bug, script))),
        ("Expected behavior", "\n\n".join(_behaviour(bug))),
    )
    text = "".join(f"\n### {heading}\n\n{content}\n" for heading, content in sections)
    return f"# {printable(bug.title)}\n{text}"


def _reproduction(bug: KnownBug, script: str) -> Iterator[str]:
    failing = bug.failing
    ends = "ends with" if failing.failed else failing.outcome.verb
    yield fenced(script, "python")
    yield f"With the versions above, in {failing.cell.precision}, it {ends}:"
    yield fenced("\n".join(_last_lines(failing)))
    *earlier, newest = bug.ranges
    yield f"It fails with {newest}."
    if earlier:
        yield f"It failed before with {join(earlier)}."
    yield "Each version was run with the packages of its time and the torch named above."
    yield from bug.commits


def _behaviour(bug: KnownBug) -> Iterator[str]:
    sentence, _ = first_sentence(bug.case.docstring)
    yield plain(sentence) if sentence else "The script ends without an exception."
    yield f"Seen instead: {plain(bug.failing.headline)}."
    if bug.also:
        yield f"It also fails in {join(list(bug.also))}."
    if reports := bug.case.block.reports:
        yield f"Related: {join(list(reports))}"


def _last_lines(failing: Observation) -> Iterator[str]:
    """Yield the last frames of a failure in installed packages, and its message."""
    if failing.failed is None:
        yield failing.described
        return
    telling = [
        frame
        for frame in frames(failing.failed.traceback)
        if frame.is_in_library and not frame.place.startswith(_PASSED_ON)
    ]
    if telling:
        yield "Traceback (most recent call last):"
        yield from ["  ..."] if len(telling) > _FRAMES else []
    for frame in telling[-_FRAMES:]:
        path = frame.path.removeprefix("site-packages/")
        yield f'  File "{path}", line {frame.line}, in {frame.function}'
        yield from [f"    {frame.statement}"] if frame.statement else []
    message = printable_lines(failing.failed.message.strip())
    yield f"{failing.failed.error_class}: {message[:_LONG]}".removesuffix(": ")
