"""Locks of mixtures: what is bound, what is asked for, and what is kept of a resolution."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from repromatrix.runner.bisect.package_runs import UnresolvableError, mixed
from repromatrix.runner.bisect.packages import difference
from repromatrix.runner.environments import locks
from repromatrix.runner.environments.locks import environment
from repromatrix.runner.errors import Problem, RunnerError
from repromatrix.runner.model.lock import read_lock
from repromatrix.runner.paths import Paths

if TYPE_CHECKING:
    from pathlib import Path

    from repromatrix.runner.model.lock import Lock
    from repromatrix.runner.model.matrix import Matrix

CONFLICT = (
    "error: No solution found when resolving dependencies cause: Because a==1 depends on b>=2"
    " and c==1 depends on b==1, we can conclude that your requirements are unsatisfiable."
)


def lock(name: str, *pins: str) -> Lock:
    return read_lock("".join(f"{pin} --hash=sha256:aa\n" for pin in pins), name, "")


OLD = lock(
    "4.50.3",
    *("transformers==4.50.3", "peft==0.15.1", "numpy==2.2.4", "requests==2.32.3"),
    *("colorama==0.4.6 ; sys_platform == 'win32'", "pywin32==1 ; sys_platform == 'win32'"),
)
NEW = lock(
    "4.51.0",
    *("transformers==4.51.0", "peft==0.15.2", "numpy==2.2.4", "httpx==0.28.1"),
    *("colorama==0.4.6 ; sys_platform == 'win32'", "pywin32==2 ; sys_platform == 'win32'"),
)


class Resolver:
    """Stands in for the resolver; remembers what it was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, matrix: Matrix, root: Path) -> None:
        self.asked: list[tuple[list[str], list[str]]] = []
        self.refuses = ""
        self.matrix = matrix
        self.places = Paths(root=root)
        self.between = difference(environment(matrix, NEW), environment(matrix, OLD))
        monkeypatch.setattr(locks, "compile_lock", self.compiled)

    def compiled(self, _: Matrix, wanted: list[str], *, bound: list[str], **__: object) -> str:
        self.asked.append((wanted, bound))
        if self.refuses:
            raise RunnerError([Problem("", self.refuses)])
        return "".join(f"{line} --hash=sha256:aa\n" for line in bound)

    def mixed(self, *taken: str) -> Lock:
        return mixed(self.places, self.matrix, (NEW, OLD), self.between, frozenset(taken))


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch, matrix: Matrix, tmp_path: Path) -> Resolver:
    return Resolver(monkeypatch, matrix, tmp_path)


def test_everything_that_either_end_has_is_bound_and_only_the_named_packages_move(
    resolver: Resolver,
) -> None:
    made = resolver.mixed("transformers")

    assert made.name == "4.51.0+transformers4.50.3"
    assert resolver.asked == [
        (
            ["transformers", "accelerate", "peft"],
            [
                *("transformers==4.50.3", "peft==0.15.2", "numpy==2.2.4", "httpx==0.28.1"),
                *('colorama==0.4.6; sys_platform == "win32"', "requests==2.32.3"),
            ],
        )
    ]


def test_a_mixture_is_resolved_once(resolver: Resolver) -> None:
    first, second = resolver.mixed("peft"), resolver.mixed("peft")

    assert first == second
    assert len(resolver.asked) == 1
    assert resolver.mixed("transformers") != first


def test_what_packages_forbid_is_kept_and_what_an_index_does_not_answer_is_asked_again(
    resolver: Resolver,
) -> None:
    for refuses, expected, times in [
        ("the index does not answer", "the index does not answer", 2),
        (CONFLICT, "a==1 depends on b>=2 and c==1 depends on b==1", 1),
    ]:
        resolver.asked.clear()
        resolver.refuses = refuses
        reasons = []
        for _ in range(2):
            with pytest.raises(UnresolvableError) as caught:
                resolver.mixed("peft")
            reasons.append(str(caught.value))

        assert reasons == [expected] * 2
        assert len(resolver.asked) == times


def test_an_extra_that_one_end_asks_for_is_asked_for_where_it_is_taken(
    resolver: Resolver,
) -> None:
    bad = lock("4.50.3+timm", *map(str, OLD.pins), "timm==1.0.0")
    between = difference(
        environment(resolver.matrix, NEW), environment(resolver.matrix, bad), ["timm"]
    )
    for taken in ({"timm"}, {"peft"}):
        mixed(resolver.places, resolver.matrix, (NEW, bad), between, frozenset(taken))

    assert [wanted[3:] for wanted, _ in resolver.asked] == [["timm"], []]
    assert ["timm==1.0.0" in bound for _, bound in resolver.asked] == [True, False]
