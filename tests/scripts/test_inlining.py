"""Functions that are called once: which are put where they are called, and which stay."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from repromatrix.runner.scripts.inlining import inline


def inlined(text: str) -> str:
    """Return a program with its functions where they are called."""
    tree = ast.parse(text)
    inline(tree)
    return ast.unparse(tree)


PUT = {
    "a function whose result has one name inside and outside": (
        """
        def load():
            model = build()
            model.half()
            return model
        model = load()
        go(model)
        """,
        """
        model = build()
        model.half()
        go(model)
        """,
    ),
    "a function whose result has another name": (
        """
        def load():
            model = build()
            return model
        fresh = load()
        """,
        """
        model = build()
        fresh = model
        """,
    ),
    "a function that returns nothing": (
        """
        def prepare():
            act()
            return
        prepare()
        go()
        """,
        """
        act()
        go()
        """,
    ),
    "arguments that are names and constants": (
        """
        def run(net, count, kind):
            state = net(count)
            return net(state, count, kind)
        found = run(model, kind=torch.float16, count=2)
        """,
        """
        state = model(2)
        found = model(state, 2, torch.float16)
        """,
    ),
    "arguments that are computed, and a parameter that changes": (
        """
        def save(folder, count):
            count += 1
            write(folder, folder, count)
        save(Path("tiny"), 2)
        """,
        """
        folder = Path('tiny')
        count = 2
        count += 1
        write(folder, folder, count)
        """,
    ),
    "a call that comes first in its statement": (
        """
        def build(config):
            parts = make(config)
            return Model(parts)
        models[0] = build(config).to(act()).eval()
        """,
        """
        parts = make(config)
        models[0] = Model(parts).to(act()).eval()
        """,
    ),
    "a call that comes first, of a result that has one name": (
        """
        def load():
            model = build()
            return model
        model = load().eval()
        """,
        """
        model = build()
        model = model.eval()
        """,
    ),
    "a call within a context": (
        """
        def save(folder):
            write(folder)
        with act() as folder:
            save(folder)
            go()
        """,
        """
        with act() as folder:
            write(folder)
            go()
        """,
    ),
    "a function that is called by another": (
        """
        def inner(x):
            return act(x)
        def outer(x):
            y = inner(x)
            return y
        y = outer(1)
        """,
        """
        y = act(1)
        """,
    ),
    "a name that only a parameter of another function has": (
        """
        def write(folder):
            act(folder)
        def load(folder):
            return build(folder)
        folder = go()
        folder = load(folder)
        write(folder)
        """,
        """
        folder = go()
        folder = build(folder)
        act(folder)
        """,
    ),
}


@pytest.mark.parametrize("what", PUT)
def test_what_is_called_once_is_put_where_it_is_called(what: str) -> None:
    text, expected = map(dedent, PUT[what])

    assert inlined(text) == expected.strip()


STAYS = {
    "a function with a name that is taken": """
        def load():
            config = make()
            return build(config)
        config = act()
        model = load()
        go(config)
        """,
    "a parameter with a name that is taken": """
        def save(folder):
            write(folder)
        with act() as folder:
            save(Path(folder))
        """,
    "a name that hides a builtin": """
        def load():
            input = act()
            return build(input)
        model = load()
        go(input())
        """,
    "a call in a loop": """
        def step():
            act()
        for _ in range(2):
            step()
        """,
    "a call in a condition": """
        def step():
            act()
        if ready():
            step()
        """,
    "a call in a comprehension": """
        def step(x):
            return act(x)
        found = [step(x) for x in go()]
        """,
    "a call behind something else": """
        def load():
            act()
            return build()
        go(load())
        """,
    "a call where an exception goes on": """
        def load():
            model = build()
            model.half()
            return model
        model = None
        with contextlib.suppress(ValueError):
            model = load()
        go(model)
        """,
    "a function that returns early": """
        def load(kind):
            if kind:
                return act()
            return build()
        model = load(kind)
        """,
    "a function that returns within a context": """
        def load():
            with act():
                return build()
        model = load()
        """,
    "a function that is called twice": """
        def load():
            return build()
        one = load()
        two = load()
        """,
    "a function that is given away": """
        def hook(x):
            act(x)
        model.register(hook)
        hook(1)
        """,
    "a function that calls itself": """
        def load(count):
            return load(count - 1)
        load(2)
        """,
    "a function with a decorator": """
        @torch.no_grad()
        def load():
            return build()
        model = load()
        """,
    "a function with another inside": """
        def load():

            def hook(x):
                act(x)
            return build(hook)
        model = load()
        """,
    "a name that a pattern binds": """
        def load(found):
            match found:
                case kind:
                    build(kind)
        kind = act()
        load(kind)
        go(kind)
        """,
    "a generator": """
        def parts():
            yield act()
        parts()
        """,
    "a function that asks for its names": """
        def load():
            x = act()
            return locals()
        found = load()
        """,
    "parameters that are spread": """
        def load(*names):
            return build(names)
        model = load()
        """,
    "arguments that are spread": """
        def load(one):
            return build(one)
        model = load(*act())
        """,
    "a default": """
        def load(count=act()):
            return build(count)
        model = load(1)
        """,
    "a program with names that functions change": """
        def change():
            global model
            model = act()
        def run(net):
            change()
            return net
        model = build()
        found = run(model)
        change()
        """,
    "a name with a type": """
        def load():
            parts: list[Part] = []
            return build(parts)
        model = load()
        """,
    "an argument that is another one when it is asked for": """
        def watch(net):
            hook(lambda: net)
        model = build()
        watch(model)
        model = go(model)
        """,
    "an argument that another argument changes": """
        def load(one, two):
            return build(one, two)
        kind = act()
        model = load(kind, (kind := go()))
        """,
    "a result with the name of an argument": """
        def load(net):
            model = build()
            model.use(net)
            return model
        model = act()
        model = load(model)
        """,
    "a result that there is not": """
        def prepare():
            act()
        prepare().go()
        """,
    "a result that is asked for before it is another one": """
        def load():
            model = build()
            act()
            return model
        model = None
        hook(lambda: model)
        model = load()
        """,
    "a name that a comprehension has, too": """
        def run(net):
            return [net(model) for model in go()]
        model = act()
        found = run(model)
        """,
}


@pytest.mark.parametrize("what", STAYS)
def test_what_may_become_another_program_stays(what: str) -> None:
    text = dedent(STAYS[what]).strip()

    assert inlined(text) == ast.unparse(ast.parse(text))
