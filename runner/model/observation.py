"""What one cell did, with its provenance: the row that is stored, published and read back.

A failure has a signature, which stays the same when only sizes and places change.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from repromatrix.runner.model.cell import Cell
from repromatrix.runner.model.frames import place_of, telling_frame
from repromatrix.runner.model.outcomes import Exercised, Outcome, Reading, reading_of
from repromatrix.runner.text import shorten

NOISE = (
    (re.compile(r"0x[0-9a-fA-F]+"), "<address>"),
    (re.compile(r"(?:[A-Za-z]:)?(?:/[\w.+@~-]+){2,}/?"), "<path>"),
    (re.compile(r"\bline \d+"), "line <n>"),
    (re.compile(r"\b\d+(?:\.\d+)?\s?(?:ms|s|seconds?|minutes?|[KMGT]i?B|bytes)\b"), "<amount>"),
    (re.compile(r"(?:torch\.Size\()?\[\s*\d+(?:\s*[,x]\s*\d+)*\s*\]\)?"), "<shape>"),
    (re.compile(r"\(\s*\d+(?:\s*[,x]\s*\d+)+,?\s*\)"), "<shape>"),
    (re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.]*\w)"), "<n>"),
)
_LIMIT = 300


def signature(error_class: str, message: str) -> str:
    """Return class and message without sizes, addresses, paths, line numbers and times.

    Names of dtypes and operators stay: `float16` and `index_copy_` tell one bug from another.
    """
    text = " ".join(message.split())
    before = ""
    while text != before:  # what is taken out may uncover more
        before = text
        for pattern, replacement in NOISE:
            text = pattern.sub(replacement, text)
    return f"{error_class}: {text}"[:_LIMIT].rstrip()


LOCAL = "this machine"
"""The source of what this machine measured; published evidence names its publication."""

MERGED = "merged evidence"
"""The source of what this machine's store holds of others; the row itself says on what it ran."""

UNPUBLISHED = frozenset({LOCAL, MERGED})
"""The sources that no publication names."""

_LONG = 200
"""Characters of an error in a sentence."""


@dataclass(frozen=True, kw_only=True)
class Failed:
    """How a cell failed: class and message of the exception, its signature and its traceback."""

    # Many cells share one, so that what is read from it is kept.

    error_class: str
    message: str
    signature: str
    traceback: str = ""

    @cached_property
    def headline(self) -> str:
        """`Class: first line of the message`."""
        lines = self.message.strip().splitlines()
        return f"{self.error_class}: {lines[0]}" if lines else self.error_class

    @cached_property
    def place(self) -> str:
        """Where it happened, as `module:function`; nothing where the traceback does not say it."""
        return place_of(self.traceback)

    @property
    def statement(self) -> str:
        """The line of code at that place."""
        frame = telling_frame(self.traceback)
        return frame.statement if frame else ""

    @cached_property
    def is_of_cpu_kernel(self) -> bool:
        """Whether only a kernel of the CPU says this: a GPU runs another, and may pass."""
        return _OF_CPU_KERNEL.search(self.message) is not None


_OF_CPU_KERNEL = re.compile(
    r"\(CPU\)|_cpu\" not implemented for|^Unsupported dtype Half$", re.MULTILINE
)
"""Messages of kernels that exist on a CPU only: the last is that of MKL's Fourier transform,
which says of BFloat16 what CUDA's says as well."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryUse:
    """What the processes of a cell held at most beyond its worker, and were allowed, in MiB."""

    peak: int
    limit: int

    @property
    def is_over(self) -> bool:
        """Whether it held more than it was allowed."""
        return self.peak > self.limit


@dataclass(frozen=True, kw_only=True, slots=True)
class Provenance:
    """What a cell ran on. `packages` maps canonical names to installed versions."""

    case_digest: str
    environment_digest: str
    packages: Mapping[str, str]
    python: str
    torch_build: str
    hardware: str
    protocol: int
    run: str
    imported: Mapping[str, str] = field(default_factory=dict)
    """Package to the file that was really imported, relative to the environment."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """One cell, measured."""

    cell: Cell
    outcome: Outcome
    provenance: Provenance
    source: str
    failed: Failed | None = None
    reason: str = ""
    """Why the cell was not run or could not be judged, in words."""
    exercised: Exercised = Exercised.EMPTY
    computed: Mapping[str, int] = field(default_factory=dict)
    """Results of computing operators by dtype, `bfloat16` or `bfloat16@cuda` to their number."""
    measured: Mapping[str, float] = field(default_factory=dict)
    unstable: bool = False
    repeats: int = 1
    seconds: float | None = None
    output: str = ""
    memory: MemoryUse | None = None
    """Where it was looked at; what is published does not have it."""
    sides: tuple[Observation, ...] = ()
    """All that was seen of the very same cell, where machines deny each other; this one first."""

    @property
    def reading(self) -> Reading:
        """What it says of the code under test."""
        return reading_of(self.outcome, self.exercised, unstable=self.unstable)

    @property
    def headline(self) -> str:
        """The first line of its error, cut where it is long; without one, the outcome."""
        if self.failed is None:
            return str(self.outcome)
        return shorten(self.failed.headline.rstrip("."), _LONG)

    @property
    def described(self) -> str:
        """What happened, in words: `fails: KeyError: 'x'`, `cannot be built (no such wheel)`."""
        if self.failed is not None:
            return f"{self.outcome.verb}: {self.headline}"
        return f"{self.outcome.verb} ({self.reason})" if self.reason else self.outcome.verb

    @property
    def kind(self) -> tuple[Outcome, str]:
        """What repeats of a stable cell have in common: outcome and signature."""
        return self.outcome, self.failed.signature if self.failed else ""

    @property
    def hit_limit(self) -> bool:
        """Whether it ran out of the memory that we allow, not out of what the machine has."""
        over = self.memory is not None and self.memory.is_over
        return over and self.outcome is Outcome.OUT_OF_MEMORY

    @property
    def is_confirmed(self) -> bool:
        """Whether the cell was repeated, and it was the case that decided, not the machine."""
        return self.repeats > 1 and self.outcome.is_evidence
