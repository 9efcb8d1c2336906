"""The plain path of a case: what is folded, what goes, and that every case has one."""

from __future__ import annotations

import ast
import contextlib
import subprocess
import sys
from textwrap import dedent, indent
from typing import TYPE_CHECKING

import pytest
from factories import case

from repromatrix.runner.cases import case_files, load_case
from repromatrix.runner.errors import RunnerError
from repromatrix.runner.model.case import by_variant
from repromatrix.runner.model.outcomes import Precision
from repromatrix.runner.paths import Paths
from repromatrix.runner.scripts.plain import plain
from repromatrix.runner.scripts.python_text import Original, wrapped, written

if TYPE_CHECKING:
    from pathlib import Path

    from repromatrix.runner.model.case import Case

HEAD = """\
import os
import sys
from contextlib import nullcontext

import torch

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WORKAROUNDS = {"", "autocast", "cast"}
ATTENTION = {"": "flash", "cast": "eager"}
measured: dict[str, float] = {}


"""
MAIN = """\
def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
"""
FOOT = """

if __name__ == "__main__":
    main(*sys.argv[1:])
"""


def toy(body: str, helpers: str = "", toml: str = "") -> Case:
    """Return a case whose `main` goes on with some statements."""
    code = HEAD + dedent(helpers) + MAIN + indent(dedent(body), "    ") + FOOT
    return case(toml, code)


def plainly(body: str, helpers: str = "", precision: Precision = Precision.BF16) -> str:
    """Return the plain path of such a case, without the import of torch."""
    return plain(toy(body, helpers), precision).replace("import torch\n\n", "")


RULES = {
    "a dtype by its precision": ("use(dtype)", "use(torch.bfloat16)\n"),
    "a device that is that of torch": (
        'model(torch.ones(2, device=device)).to(device).to(device, dtype).to(device="cpu")',
        "model(torch.ones(2)).to(torch.bfloat16)\n",
    ),
    "a device that has to be named": (
        "with torch.autocast(device, dtype):\n    go()",
        'with torch.autocast("cpu", torch.bfloat16):\n    go()\n',
    ),
    "a workaround as a branch": (
        'if workaround == "cast":\n    go()\nelse:\n    stay()',
        "stay()\n",
    ),
    "a conditional expression": (
        'go("eager" if workaround == "cast" else "flash")',
        'go("flash")\n',
    ),
    "a name for a decision": (
        'mixed = precision != "fp32" and workaround != "cast"\ngo(mixed)',
        "go(True)\n",
    ),
    "a dtype that is asked for itself": (
        "go(dtype is torch.bfloat16, dtype is not torch.bfloat16, dtype is torch.float32)",
        "go(True, False, False)\n",
    ),
    "a condition that is decided behind something": (
        'if name.endswith("x") and workaround == "cast":\n    go()\nstay()',
        "stay()\n",
    ),
    "a condition that is asked for what it does": (
        'go(act() and workaround == "cast")',
        "go(act() and False)\n",
    ),
    "a context for nothing": (
        (
            'with torch.autocast(device, dtype) if workaround == "autocast" else nullcontext():\n'
            "    go()"
        ),
        "go()\n",
    ),
    "one context of two": (
        "with torch.no_grad(), nullcontext():\n    go()",
        "with torch.no_grad():\n    go()\n",
    ),
    "a value by the workaround": ("go(ATTENTION[workaround])", 'go("flash")\n'),
    "a value of what is written out": (
        'go(**{"": {}, "cast": {"dtype": dtype}}[workaround])',
        "go()\n",
    ),
    "a dict of workarounds": (
        'late = {"cast": model.config}\nif workaround in late:\n    late[workaround].x = 1\nstay()',
        "stay()\n",
    ),
    "a loop over nothing": (
        (
            'parts = {"": [], "cast": [model]}\n'
            "for part in parts[workaround]:\n    part.go()\nstay()"
        ),
        "stay()\n",
    ),
    "a loop that does nothing": (
        (
            "for name, module in model.named_modules():\n"
            '    if name.endswith("x") and workaround == "cast":\n        module.float()\nstay()'
        ),
        "stay()\n",
    ),
    "an f-string": ('go(f"{precision}_full_eval")', 'go("bf16_full_eval")\n'),
    "a part of an f-string": ('go(f"{workaround}{precision} {x}")', 'go(f"bf16 {x}")\n'),
    "keywords that were decided": (
        'flags = {"cpu": device == "cpu", precision: True}\ngo(1, **flags)',
        'flags = {"cpu": True, "bf16": True}\ngo(1, **flags)\n',
    ),
    "keywords that were filled in": (
        'plan = {"steps": 1}\nplan["every"] = 1 if workaround == "cast" else 2\ngo(**plan)',
        'plan = {"steps": 1}\nplan["every"] = 2\ngo(**plan)\n',
    ),
    "a seed": ('go(int(os.environ.get("REPRO_SEED", "0")))', "go(0)\n"),
    "what is only measured": ('measured["x"] = y.float().norm().item()\nstay()', "stay()\n"),
    "what is measured by doing something": ('measured["x"] = act()\nstay()', "act()\nstay()\n"),
    "what is measured and asserted": (
        'measured["largest-error"] = act()\nassert measured["largest-error"] < 1, "far"',
        'largest_error = act()\nassert largest_error < 1, "far"\n',
    ),
    "what is measured under a name that is taken": (
        'x = act()\nmeasured["x"] = x / 2\nassert measured["x"] < 1',
        "x = act()\nx_value = x / 2\nassert x_value < 1\n",
    ),
    "what is measured as a whole": (
        "measured.update(act())\nassert all(measured.values())",
        (
            "measured: dict[str, float] = {}\n\n"
            "measured.update(act())\nassert all(measured.values())\n"
        ),
    ),
    "an assertion that holds": ('assert workaround != "cast"\nstay()', "stay()\n"),
    "an elif that is left": (
        'if workaround == "cast":\n    go()\nelif ready():\n    stay()',
        "if ready():\n    stay()\n",
    ),
    "a name that means something else later": (
        'kind = "eager" if workaround == "cast" else "flash"\ngo(kind)\nkind = act()\ngo(kind)',
        'kind = "flash"\ngo(kind)\nkind = act()\ngo(kind)\n',
    ),
    "a name that means something else in a loop": (
        "kind = dtype\nfor x in act():\n    go(kind)\n    kind = x",
        "kind = torch.bfloat16\nfor x in act():\n    go(kind)\n    kind = x\n",
    ),
    "a name of a lambda": ("hook(lambda dtype: dtype)", "hook(lambda dtype: dtype)\n"),
    "a name of a comprehension": (
        "go([dtype for dtype in act()])",
        "go([dtype for dtype in act()])\n",
    ),
    "a comment": (
        "go()  # because of it\nuse(dtype)  # gone",
        "go()  # because of it\nuse(torch.bfloat16)\n",
    ),
    "a try": (
        'try:\n    act()\nfinally:\n    measured["x"] = y.item()\nassert measured["x"]',
        "try:\n    act()\nfinally:\n    x = y.item()\nassert x\n",
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_what_is_known_is_folded(rule: str) -> None:
    body, expected = RULES[rule]
    # These names are nobody's: they stand for whatever a case calls.
    actual = plainly(body)

    assert expected == actual.removeprefix("import torch\n").lstrip("\n")


def test_a_parameter_that_is_always_the_same_is_taken_away() -> None:
    helpers = """\
    def build(dtype: torch.dtype, kind: str, workaround: str = "") -> object:
        if workaround == "cast":
            return torch.ones(3)
        return torch.ones(len(kind), dtype=dtype)


    """
    body = 'a, b = build(dtype, "x", workaround), build(kind="y", dtype=dtype)'

    assert plainly(f"{body}\nassert a is b", helpers) == (
        "\ndef build(kind: str) -> object:\n"
        "    return torch.ones(len(kind), dtype=torch.bfloat16)\n\n\n"
        'a, b = (build("x"), build(kind="y"))\nassert a is b\n'
    )


def test_what_another_process_is_called_with_counts_as_a_call() -> None:
    helpers = """\
    def step(rank: int, dtype: torch.dtype, workaround: str) -> None:
        join(rank, torch.float32 if workaround == "cast" else dtype)


    """
    body = """\
    other = Process(target=step, args=(1, dtype, workaround), daemon=True)
    other.start()
    step(0, dtype, workaround)
    """
    started = "other = Process(target=step, args=(1,), daemon=True)\nother.start()\nstep(0)\n"

    assert plainly(body, helpers) == (
        f"\ndef step(rank: int) -> None:\n    join(rank, torch.bfloat16)\n\n\n{started}"
    )


def test_a_parameter_that_differs_stays() -> None:
    helpers = (
        "def build(dtype: torch.dtype) -> object:\n    return torch.ones(2, dtype=dtype)\n\n\n"
    )
    body = "assert build(dtype) is build(torch.float32)"

    assert "build(torch.bfloat16) is build(torch.float32)" in plainly(body, helpers)
    assert "return torch.ones(2, dtype=dtype)\n" in plainly(body, helpers)


def test_a_function_that_does_nothing_any_more_goes() -> None:
    helpers = """\
    def apply(workaround: str, model: object) -> None:
        for name, module in model.named_modules():
            if workaround == "cast" and name.endswith("norm"):
                module.float()


    """

    assert plainly("apply(workaround, model)\nstay()", helpers) == "stay()\n"


def test_what_a_library_asks_of_a_class_stays() -> None:
    helpers = """
    class Tagger(torch.nn.Module):
        \"\"\"A head of one's own.\"\"\"

        config_class = Config

        def forward(self, ids):
            \"\"\"Return what it gets.\"\"\"
            return ids


    """
    told = plainly("Tagger().to(dtype)(1)", helpers).lstrip()

    assert told == dedent("""\
        class Tagger(torch.nn.Module):
            \"\"\"A head of one's own.\"\"\"

            config_class = Config

            def forward(self, ids):
                \"\"\"Return what it gets.\"\"\"
                return ids


        Tagger().to(torch.bfloat16)(1)
        """)


def test_main_stays_where_a_name_would_mean_two_things() -> None:
    helpers = """\
    def size() -> int:
        return 2


    def twice() -> int:
        return 2 * size()


    """

    text = plainly("size = act()\ngo(size, twice)", helpers)

    assert text.endswith("def main() -> None:\n    size = act()\n    go(size, twice)\n\n\nmain()\n")


def test_main_stays_where_it_is_decorated() -> None:
    code = (HEAD + MAIN + "    go(dtype)\n" + FOOT).replace(
        "def main", "@torch.no_grad()\ndef main"
    )
    told = plain(case("", code), Precision.BF16)

    assert told == dedent("""\
        import torch


        @torch.no_grad()
        def main() -> None:
            go(torch.bfloat16)


        main()
        """)


def test_a_function_stays_as_its_author_wrote_it() -> None:
    helpers = """\
    def load(folder: str) -> Model:
        model = Model.load(folder)  # the smallest
        if folder:
            go()
        return model


    def keep(folder: str) -> None:
        return folder.std()


    """
    body = "keep(place)\nmodel = load(place)\ngo(model)"

    assert plainly(body, helpers) == (
        f"{dedent(helpers).partition('def keep')[0]}model = load(place)\ngo(model)\n"
    )


def test_a_case_for_a_gpu_is_folded_for_a_gpu() -> None:
    text = plain(toy("go(device)", toml='needs = ["cuda"]\n'), Precision.BF16)

    assert text == 'go("cuda")\n'


def test_a_precision_in_which_a_case_declines_is_refused() -> None:
    body = 'if precision == "fp32":\n    sys.exit(125)\ngo()'

    assert plainly(body) == "go()\n"
    with pytest.raises(RunnerError) as refused:
        plainly(body, precision=Precision.FP32)
    assert str(refused.value) == (
        "--precision: toy_breaks declines to judge in fp32. Choose bf16 or fp16."
    )


def test_a_script_without_a_main_is_refused() -> None:
    with pytest.raises(RunnerError, match=r"no function `main`"):
        plain(case(code="import torch\n"), Precision.BF16)


CORPUS = {path.stem: path for path in case_files(Paths().cases)}
SAMPLE = [*CORPUS][::10]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(SAMPLE, id="a tenth"),
        pytest.param([*CORPUS], id="all", marks=pytest.mark.whole),
    ],
)
def names(request: pytest.FixtureRequest) -> list[str]:
    """Return the cases that are looked at."""
    chosen: list[str] = request.param
    return chosen


@pytest.fixture(scope="module")
def scripts(names: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the plain scripts of the cases in every precision that they judge."""
    folder = tmp_path_factory.mktemp("plain")
    for name in names:
        path = CORPUS[name]
        read = load_case(path, str(path))
        for precision in Precision:
            with contextlib.suppress(RunnerError):  # it declines to judge
                (folder / f"{name}-{precision}.py").write_text(plain(read, precision))
    return folder


def test_every_case_of_the_corpus_has_a_plain_path(names: list[str], scripts: Path) -> None:
    told = {path.stem.rpartition("-")[0] for path in scripts.glob("*.py")}
    unfit = (
        "workaround",
        "WORKAROUND",
        "REPRO_",
        "repromatrix",
        "if __name__",
        "argv[",
    )
    bad = {
        f"{path.stem}: {word}"
        for path in scripts.glob("*.py")
        for word in unfit
        if word in path.read_text()
    }

    assert told == set(names)
    assert bad == set()


def test_no_name_of_a_plain_path_is_undefined_or_unused(scripts: Path) -> None:
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--quiet"]
    done = subprocess.run(
        [*command, "--select", "F,E9,PLW", "--line-length", "100", str(scripts)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout == ""


@pytest.mark.parametrize(
    "names", [pytest.param([*CORPUS], id="all", marks=pytest.mark.whole)], indirect=True
)
def test_most_plain_paths_are_short(names: list[str], scripts: Path) -> None:
    lengths = {
        path.stem: sum(bool(line.strip()) for line in path.read_text().splitlines())
        for path in scripts.glob("*-bf16.py")
    }

    assert len(lengths) == len(names)
    assert sum(length <= 20 for length in lengths.values()) >= 0.55 * len(names)
    assert sum(length <= 25 for length in lengths.values()) >= 0.8 * len(names)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in SAMPLE else pytest.mark.whole) for name in CORPUS],
)
def test_the_text_of_a_plain_path_is_its_tree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trees: list[ast.Module] = []

    def remembered(tree: ast.Module, before: Original) -> str:
        trees.append(ast.parse(ast.unparse(tree)))
        return written(tree, before)

    monkeypatch.setattr("repromatrix.runner.scripts.plain.written", remembered)
    text = plain(load_case(CORPUS[name], name), Precision.BF16)

    assert ast.dump(ast.parse(text)) == ast.dump(trees[0])
    assert max(map(len, text.splitlines())) <= 100


def test_the_plain_path_of_a_variant_builds_it_alone() -> None:
    one = toy(
        """
        name = os.environ.get("REPRO_VARIANT", "small")
        print(SIZES[name], dtype, device)
        """,
        helpers='SIZES = {"small": 1, "big": 2}\n\n\n',
        toml='variants = ["small", "big"]\n',
    )

    assert [plain(each, Precision.BF16).splitlines()[-1] for each in by_variant(one)] == [
        'print(1, torch.bfloat16, "cpu")',
        'print(2, torch.bfloat16, "cpu")',
    ]


def test_a_long_line_is_not_broken_within_an_f_string() -> None:
    many = "a, " * 40

    assert [*wrapped(f"go(f'{{first({many}b)}}', c)")] == [
        "go(",
        f'    f"{{first({many}b)}}",',
        "    c",
        ")",
    ]
