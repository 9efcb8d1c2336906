"""How each probe is written in plain PyTorch: one table, by the names of the probes.

In the lines, `CLASS` stands for the class of the model and `.OUT` for the output that is compared;
`HALF` is a line that casts the inputs in floating point to `dtype`, `FULL` one that casts them
back, and `PADS` the inputs with token ids beside their masks; `SPECIAL` are the ids of special
tokens, `PLAIN` is another.
"""

from __future__ import annotations

from typing import NamedTuple

from repromatrix.runner.evidence.swept.probes import BUILD

HALF, FULL, PADS, OUT = "HALF", "FULL", "PADS", ".OUT"
SPECIAL, PLAIN = "SPECIAL", "PLAIN"
_SEED = 'torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))'
_SAVE = 'model.save_pretrained("saved")'
_LOADED = 'CLASS.from_pretrained("saved", torch_dtype=dtype).eval()'
_LONG = (
    'ids = inputs["input_ids"]',
    "ids = ids.masked_fill(torch.isin(ids, torch.tensor(SPECIAL)), PLAIN)",
    'inputs = {"input_ids": torch.cat([ids, ids.flip(0)], 1).repeat(1, 5)[:, :40]}',
)
_MASK = ('mask = torch.ones_like(inputs["input_ids"])', "mask[0, :3] = 0")
_LOADS = (_SAVE, 'model = CLASS.from_pretrained("saved", attn_implementation="sdpa").eval()')
_AUTOCAST = 'with torch.autocast("cpu", dtype, enabled=precision != "fp32"):'
_ASKED = 'asked = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False}'
_STATIC = ', cache_implementation="static"'
_LOSS = "model(**inputs).OUT.float().square().mean().backward()"
_CHECKPOINTED = 'model.gradient_checkpointing_enable({"use_reentrant": False})'
_UNWRITTEN = (
    "torch.use_deterministic_algorithms(True, warn_only=True)",
    "torch.utils.deterministic.fill_uninitialized_memory = True  # with NaN",
)
_WRITTEN = (
    'config.save_pretrained("saved")',
    "weights = {name: values(name, shape) for name, shape in WEIGHTS.items()}",
    'save_file(weights, "saved/model.safetensors", metadata={"format": "pt"})',
)
_ADAPTED = (
    'lora = LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False)',
    "adapted = get_peft_model(model, lora).eval()",
)


class ScriptWay(NamedTuple):
    """What a script does with its model, and how a case calls that."""

    act: tuple[str, ...]
    """What raises, where a probe ends in an exception."""
    trigger: tuple[str, ...]
    oracle: tuple[str, ...] = ()
    """The same with what must hold, where a probe finds that it does not."""
    symptom: str = "wrong-numbers"
    """What a user sees when no exception is raised."""
    backward: bool = False
    """Whether it needs gradients."""
    labelled: bool = False
    """Whether its inputs are those of a Trainer: tensors, with labels."""


def compared(limit: float) -> tuple[str, ...]:
    """Return what holds two outputs against each other."""
    return (
        "assert found.shape == wanted.shape",
        'measured["output_relative_error"] = float((found - wanted).norm() / wanted.norm())',
        f'assert measured["output_relative_error"] < {limit}',
    )


def named(act: tuple[str, ...], name: str = "found", kept: str = "") -> tuple[str, ...]:
    """Return lines of which the last, a forward pass, gets a name for its output."""
    *first, last = act
    call = last.lstrip()
    return (*first, f"{last.removesuffix(call)}{name} = {call}{OUT}{kept}")


def _agreeing(
    *act: str,
    limit: float,
    trigger: tuple[str, ...],
    kept: str = "",
    before: tuple[str, ...] = ("wanted = model(**inputs).OUT",),
) -> ScriptWay:
    """Return a way whose last line computes what the model computed `before`."""
    return ScriptWay(act, trigger, (*before, *named(act, kept=kept), *compared(limit)))


def _generating(
    more: str, *trigger: str, cast: str = "", plain: str = ", use_cache=False"
) -> ScriptWay:
    call = f"model.generate(**inputs, **asked{more})"
    match cast:
        case "":
            act: tuple[str, ...] = (_ASKED, call)
        case "autocast":
            act = (_ASKED, _AUTOCAST, f"    {call}")
        case _:
            act = (_ASKED, HALF, "model.to(dtype)", call)
    oracle = (
        _ASKED,
        f"wanted = model.generate(**inputs, **asked{plain})",
        f"found = {call}",
        "assert found.shape == wanted.shape",
        'measured["tokens_changed"] = float((found != wanted).double().mean())',
        'assert measured["tokens_changed"] == 0',
    )
    triggers = (*((cast,) if cast else ()), "generate", *trigger)
    return ScriptWay(act, triggers, () if cast else oracle)


def _none_lost(condition: str, act: tuple[str, ...], *trigger: str, symptom: str) -> ScriptWay:
    """Return a way that looks for what is wrong among the `tensors` of a model."""
    oracle = (
        *act,
        f"lost = [name for name, value in tensors if {condition}]",
        "assert not lost, lost[:3]",
    )
    return ScriptWay(act, trigger, oracle, symptom)


def _reloading() -> ScriptWay:
    act = (
        'model.to(dtype).save_pretrained("saved")',
        'loaded = dict(CLASS.from_pretrained("saved", torch_dtype="auto").named_parameters())',
    )
    oracle = (
        *act,
        "lost = [",
        "    name",
        "    for name, value in model.named_parameters()",
        "    if name in loaded and not torch.equal(loaded[name].to(dtype), value)",
        "]",
        "assert not lost, lost[:3]",
    )
    return ScriptWay(act, ("save", "load"), oracle)


def _padding(ids: str, mask: str, kept: str, *more: str) -> ScriptWay:
    act = (
        'ids = inputs["input_ids"]',
        'mask = inputs.get("attention_mask", torch.ones_like(ids))',
        "filler = ids[:, :1].repeat(1, 3)",
        f'inputs["input_ids"] = torch.cat({ids}, 1)',
        f'inputs["attention_mask"] = torch.cat({mask}, 1)',
        *more,
        "model(**inputs)",
    )
    return _agreeing(*act, limit=5e-4, trigger=("forward",), kept=kept)


def _lengthened(way: ScriptWay, *before: str) -> ScriptWay:
    """Return a way whose texts have 40 tokens."""
    before = (*_LONG, *before)
    return way._replace(act=(*before, *way.act), oracle=(*before, *way.oracle))


_PADDED = (
    "for name, mask in PADS:",
    "    ids = inputs[name]",
    "    filler = ids[:, :1].repeat(1, 3)",
    "    real = inputs.get(mask, torch.ones_like(ids))",
    "    inputs[name] = torch.cat([filler, ids], 1)",
    "    inputs[mask] = torch.cat([torch.zeros_like(filler), real], 1)",
)
_PADDED_LOSS = (
    "model.train()",
    "model.to(dtype)",
    "model(**inputs).OUT[:, 3:].float().square().mean().backward()",
)


def _padded(*act: str, trigger: str) -> ScriptWay:
    oracle = _agreeing(
        *act,
        limit=0.5,
        trigger=(trigger, "forward"),
        kept="[:, 3:]",
        before=(*_PADDED, "wanted = model(**inputs).OUT[:, 3:]"),
    )
    return oracle._replace(act=(*_PADDED, *act))


_MASKED = (
    'rows, length = inputs["input_ids"].shape',
    "empty = torch.full((rows, 1, length, length), torch.finfo(torch.float32).min)",
    'inputs["attention_mask"] = empty.triu(1)',
)


def _masking() -> ScriptWay:
    act = (
        _SAVE,
        'asked = {"torch_dtype": dtype, "attn_implementation": "eager"}',
        'CLASS.from_pretrained("saved", **asked).eval()(**inputs)',
    )
    before = (*_MASKED, "wanted = model(**inputs).OUT")
    way = _agreeing(*act, limit=0.5, trigger=("load", "forward"), before=before)
    return way._replace(act=(*_MASKED, *act))


def _checkpointing(trigger: tuple[str, ...], *cast: str) -> ScriptWay:
    oracle = (
        *cast,
        "model.train()",
        "gradients = []",
        "for enable in (lambda _: None, model.gradient_checkpointing_enable):",
        '    enable({"use_reentrant": False})',
        f"    {_SEED}",
        "    model.zero_grad()",
        f"    {_LOSS}",
        "    named = [(name, value.grad) for name, value in model.named_parameters()]",
        "    gradients.append({name: value for name, value in named if value is not None})",
        "wanted, found = gradients",
        "assert wanted.keys() == found.keys(), sorted(wanted.keys() ^ found.keys())[:3]",
    )
    errors = (
        "apart = [found[name] - wanted[name] for name in wanted]",
        "norms = [value.norm().clamp(min=1e-6) for value in wanted.values()]",
        "errors = [one.norm() / norm for one, norm in zip(apart, norms)]",
        'measured["gradient_relative_error"] = float(torch.stack(errors).max())',
        'assert measured["gradient_relative_error"] < 0.002',
    )
    act = (*cast, _CHECKPOINTED, "model.train()", _LOSS)
    found = oracle if cast else oracle + errors
    return ScriptWay(act, trigger, found, "not-trained", backward=True)


def _backward(trigger: str, *act: str) -> ScriptWay:
    oracle = (
        "model.train()",
        _LOSS,
        "wanted = [name for name, value in model.named_parameters() if value.grad is not None]",
        "model.zero_grad()",
        *act[1:],
        "found = {name: value.grad for name, value in model.named_parameters()}",
        "lost = [name for name in wanted if found[name] is None]",
        "assert not lost, lost[:3]",
        "broken = [name for name in wanted if not found[name].isfinite().all()]",
        "assert not broken, broken[:3]",
    )
    return ScriptWay(act, (trigger, "backward"), oracle, "not-trained", backward=True)


def _training(*act: str, more: str, oracle: tuple[str, ...] = ()) -> ScriptWay:
    made = (
        "samples = [dict(zip(inputs, row)) for row in zip(*inputs.values())]",
        'settings = {"use_cpu": True, "report_to": [], "disable_tqdm": True}',
        f"settings |= {{{more}}}",
        'arguments = TrainingArguments("trained", max_steps=2, **settings)',
        "trainer = Trainer(model, arguments, train_dataset=samples, eval_dataset=samples)",
    )
    finite = 'assert trainer.evaluate().get("eval_loss", float("nan")) < float("inf")'
    told = tuple(finite if line == _EVALUATE else line for line in act)
    return ScriptWay(
        (*made, *act),
        ("trainer",),
        (*made, *told, *oracle),
        "not-trained",
        backward=True,
        labelled=True,
    )


_EVALUATE = "trainer.evaluate()"
_BF16 = '"bf16": precision == "bf16"'
_NOT_A_NUMBER = "value.is_floating_point() and value.isnan().any()"
_PARAMETERS = "tensors = [*model.named_parameters()]"
_TENSORS = "tensors = [*model.named_parameters(), *model.named_buffers()]"

_RELOADED = _agreeing(
    _SAVE,
    f"model = {_LOADED}",
    "model(**inputs)",
    limit=1e-4,
    trigger=("save", "load", "forward"),
)


def _eager_sdpa(*masked: str, kept: str = "") -> ScriptWay:
    load = '{0} = CLASS.from_pretrained("saved", attn_implementation="{0}").eval()'.format
    before = (*masked, _SAVE, load("eager"), f"wanted = eager(**inputs).OUT{kept}")
    act, trigger = (load("sdpa"), "sdpa(**inputs)"), ("load", "forward")
    return _agreeing(*act, limit=2e-4, trigger=trigger, kept=kept, before=before)


_PADDED_LEFT = _padding(
    "[filler, ids]",
    "[torch.zeros_like(filler), mask]",
    "[:, 3:]",
    'inputs["position_ids"] = (inputs["attention_mask"].cumsum(1) - 1).clamp(min=0)',
)
_LOADED_HALF = _agreeing(
    HALF, _SAVE, f"model = {_LOADED}", "model(**inputs)", limit=0.5, trigger=("load", "forward")
)
WAYS = {
    "outputs-fp32": ScriptWay(
        ("model(**inputs)",),
        ("forward",),
        (
            "found = model(**inputs).OUT",
            'measured["nonfinite_share"] = float(found.isnan().double().mean())',
            'assert measured["nonfinite_share"] == 0',
        ),
        "nan-or-inf",
    ),
    "outputs-bf16": _agreeing(
        HALF, "model.to(dtype)(**inputs)", limit=0.5, trigger=("cast", "forward")
    ),
    "cast-fp16": _agreeing(
        HALF, "model.to(dtype)(**inputs)", limit=0.5, trigger=("cast", "forward")
    ),
    "raw-bf16": _agreeing("model.to(dtype)(**inputs)", limit=0.5, trigger=("cast", "forward")),
    "loaded-bf16": _LOADED_HALF,
    "loaded-fp16": _LOADED_HALF,
    "autocast-bf16": _agreeing(
        _AUTOCAST, "    model(**inputs)", limit=0.5, trigger=("autocast", "forward")
    ),
    "autocast-fp16": _agreeing(
        _AUTOCAST, "    model(**inputs)", limit=0.5, trigger=("autocast", "forward")
    ),
    "cast-back": _agreeing(
        HALF,
        "model.to(dtype)(**inputs)",
        FULL,
        "model.float()(**inputs)",
        limit=0.5,
        trigger=("cast", "forward"),
    ),
    "twice": _agreeing("model(**inputs)", limit=1e-4, trigger=("forward",)),
    "overflow-fp16": ScriptWay(
        (HALF, "model.to(dtype)(**inputs)"),
        ("cast", "forward"),
        (
            HALF,
            "for name, value in model.named_parameters():",
            '    if value.ndim == 2 and "embed" in name:',
            "        value.mul_(64)",
            "found = model.to(dtype)(**inputs).OUT",
            'measured["nonfinite_share"] = float((~found.isfinite()).double().mean())',
            'assert measured["nonfinite_share"] == 0',
        ),
        "nan-or-inf",
    ),
    "eager-sdpa": _eager_sdpa(),
    "settings-eager-sdpa": _eager_sdpa(),
    "batch": _agreeing(
        "alone = {name: value[:1] for name, value in inputs.items()}",
        "model(**alone)",
        limit=5e-4,
        trigger=("forward",),
        before=("wanted = model(**inputs).OUT[:1]",),
    ),
    "padding-right": _padding(
        "[ids, filler]", "[mask, torch.zeros_like(filler)]", "[:, : ids.shape[1]]"
    ),
    "padding-left": _PADDED_LEFT,
    "long-padded": _lengthened(_PADDED_LEFT, *_LOADS),
    "long-cached": _lengthened(_generating(", use_cache=True"), *_LOADS),
    "long-static": _lengthened(_generating(_STATIC, "static-cache"), *_LOADS),
    "long-eager-sdpa": _lengthened(
        _eager_sdpa(*_MASK, 'inputs["attention_mask"] = mask', kept="[mask.bool()]")
    ),
    "padded-bf16": _padded("model.to(dtype)(**inputs)", trigger="cast"),
    "padded-autocast": _padded(_AUTOCAST, "    model(**inputs)", trigger="autocast"),
    "padded-fp16": _padded("model.to(dtype)(**inputs)", trigger="cast"),
    "wide-fp16": _agreeing(
        HALF,
        "model.to(dtype)(**inputs)",
        limit=0.5,
        trigger=("cast", "forward"),
        before=(
            "embeddings = model.get_input_embeddings().weight",
            "embeddings.mul_(1024 / float(embeddings.abs().max()))",
            "wanted = model(**inputs).OUT",
        ),
    ),
    "default-dtype": _agreeing(
        'model.to(dtype).save_pretrained("saved")',
        'CLASS.from_pretrained("saved").eval()(**inputs)',
        limit=0.5,
        trigger=("load", "forward"),
    ),
    "norms-fp32": _agreeing(
        "for part in model.to(dtype).modules():",
        '    if "Norm" in type(part).__name__:',
        "        part.float()",
        _AUTOCAST,
        "    model(**inputs)",
        limit=0.5,
        trigger=("cast", "autocast", "forward"),
    ),
    "mask-4d": _masking(),
    "trainable-tokens": _agreeing(
        "names = {id(part): name for name, part in model.named_modules()}",
        "layer = names[id(model.get_input_embeddings())]",
        "tokens = TrainableTokensConfig(token_indices=[5, 6, 7], target_modules=[layer])",
        "get_peft_model(model, tokens).eval()(**inputs)",
        limit=1e-4,
        trigger=("adapter", "forward"),
    ),
    "prepared": _agreeing(
        'mixed = "no" if precision == "fp32" else precision',
        "accelerator = Accelerator(mixed_precision=mixed, cpu=True)",
        HALF,
        "accelerator.prepare_model(model.to(dtype))(**inputs)",
        limit=0.5,
        trigger=("cast", "autocast", "forward"),
    ),
    "cached": _generating(", use_cache=True"),
    "static": _generating(_STATIC, "static-cache"),
    "sliding": _generating(', cache_implementation="sliding_window"'),
    "quantised": _generating(', cache_implementation="quantized"'),
    "generate-bf16": _generating("", cast="cast"),
    "generate-autocast": _generating("", cast="autocast"),
    "static-bf16": _generating(_STATIC, "static-cache", cast="cast"),
    "static-autocast": _generating(_STATIC, "static-cache", cast="autocast"),
    "backward-bf16": _backward("cast", "model.train()", HALF, "model.to(dtype)", _LOSS),
    "backward-autocast": _backward("autocast", "model.train()", _AUTOCAST, f"    {_LOSS}"),
    "backward-padded-fp16": ScriptWay(
        (*_PADDED, *_PADDED_LOSS),
        ("cast", "backward"),
        (
            *_PADDED,
            *_PADDED_LOSS,
            "named = [(name, value.grad) for name, value in model.named_parameters()]",
            "kept = [(name, grad) for name, grad in named if grad is not None]",
            "broken = [name for name, grad in kept if not grad.isfinite().all()]",
            "assert not broken, broken[:3]",
        ),
        "nan-or-inf",
        backward=True,
    ),
    "checkpointing": _checkpointing(("backward",)),
    "checkpointing-bf16": _checkpointing(("cast", "backward"), HALF, "model.to(dtype)"),
    "initialised": _none_lost(
        _NOT_A_NUMBER,
        (*_UNWRITTEN, "model = CLASS(config)", _TENSORS),
        "load",
        symptom="nan-or-inf",
    ),
    "initialised-bf16": _none_lost(
        "not value.isfinite().all()",
        ("torch.set_default_dtype(dtype)", "model = CLASS(config)", _PARAMETERS),
        "load",
        symptom="nan-or-inf",
    ),
    "missing-initialised": _none_lost(
        _NOT_A_NUMBER,
        (
            'tied = tuple(getattr(model, "_tied_weights_keys", None) or ())',
            "matrices = [name for name, value in model.named_parameters() if value.ndim > 1]",
            "lacking = [name for name in matrices if not name.endswith(tied)][-1]",
            "kept = {**model.state_dict()}",
            "del kept[lacking]",
            'model.save_pretrained("saved", state_dict=kept)',
            *_UNWRITTEN,
            'model = CLASS.from_pretrained("saved", torch_dtype=dtype)',
            _TENSORS,
        ),
        "load",
        symptom="nan-or-inf",
    ),
    "reload-fp32": _RELOADED,
    "settings-reloaded": _RELOADED,
    "reload-bf16": _reloading(),
    "reload-fp16": _reloading(),
    "keep-fp32": _none_lost(
        'value.dtype == dtype and kept & {*name.split(".")}',
        (
            "kept = {*(model._keep_in_fp32_modules or ())}",
            'kept |= {*(getattr(model, "_keep_in_fp32_modules_strict", None) or ())}',
            _SAVE,
            f"model = {_LOADED}",
            _PARAMETERS,
        ),
        "load",
        symptom="wrong-dtype",
    ),
    "tied": ScriptWay(
        (_SAVE, f"model = {_LOADED}"),
        ("save", "load"),
        (
            _SAVE,
            f"model = {_LOADED}",
            "first, last = model.get_input_embeddings(), model.get_output_embeddings()",
            "assert first.weight.data_ptr() == last.weight.data_ptr()",
        ),
    ),
    "resized": ScriptWay(
        (
            "size = model.get_input_embeddings().weight.shape[0]",
            "model.resize_token_embeddings(size + 8)",
            "model(**inputs)",
        ),
        ("forward",),
        (
            "wanted = model(**inputs).logits",
            "size = wanted.shape[-1]",
            "model.resize_token_embeddings(size + 8)",
            "found = model(**inputs).logits",
            "assert found.shape[-1] == size + 8",
            "found = found[..., :size]",
            *compared(1e-4),
        ),
    ),
    "trainer": _training(
        "trainer.train()",
        _EVALUATE,
        "arguments.max_steps = 3",
        "again = Trainer(model, arguments, train_dataset=samples)",
        'again.train(resume_from_checkpoint="trained/checkpoint-1")',
        more='"save_strategy": "steps", "save_steps": 1',
    ),
    "trainer-bf16": _training("trainer.train()", _EVALUATE, more=f'"save_strategy": "no", {_BF16}'),
    "evaluated-half": _training("trainer.model.to(dtype)", _EVALUATE, more=_BF16),
    "trainer-leaks": _training(
        "trainer.train()",
        more=f'"save_strategy": "no", {_BF16}',
        oracle=(
            "assert torch.get_default_dtype() is torch.float32",
            'assert not torch.is_autocast_enabled("cpu")',
            'left = [name for name in os.environ if name.startswith("ACCELERATE_")]',
            "assert not left, left",
        ),
    ),
    "lora": ScriptWay(
        (*_ADAPTED, "adapted(**inputs)"),
        ("adapter", "forward"),
        (
            "wanted = model(**inputs).OUT",
            *_ADAPTED,
            "found = adapted(**inputs).OUT",
            "assert found.shape == wanted.shape",
            'measured["effect"] = float((found - wanted).norm() / wanted.norm())',
            'assert measured["effect"] > 1e-6',
        ),
    ),
    "lora-everywhere": ScriptWay(
        (*_ADAPTED, _LOSS.replace("model", "adapted")),
        ("adapter", "backward"),
        (
            _LOSS,
            "plain = [(name, value.grad) for name, value in model.named_parameters()]",
            "trained = {name for name, grad in plain if grad is not None and grad.any()}",
            *_ADAPTED,
            _LOSS.replace("model", "adapted"),
            "idle = []",
            "for name, value in adapted.named_parameters():",
            '    layer = name.removeprefix("base_model.model.").replace("lora_B.default.", "")',
            "    if layer in trained and (value.grad is None or not value.grad.any()):",
            "        idle.append(name)",
            "assert not idle, idle[:3]",
        ),
        "not-trained",
        backward=True,
    ),
    "lora-merged": _agreeing(
        "merged = adapted.merge_and_unload()",
        "merged(**inputs)",
        limit=1e-3,
        trigger=("adapter", "forward"),
        before=(*_ADAPTED, "wanted = adapted(**inputs).OUT"),
    ),
    "lora-reloaded": _agreeing(
        'adapted.save_pretrained("adapter")',
        'PeftModel.from_pretrained(base, "adapter").eval()(**inputs)',
        limit=1e-4,
        trigger=("adapter", "save", "load", "forward"),
        before=(
            "base = copy.deepcopy(model)",
            *_ADAPTED,
            "wanted = adapted(**inputs).OUT",
        ),
    ),
    BUILD: ScriptWay((), ("load",)),
    "checkpoint": ScriptWay(
        (*_WRITTEN, f"model = {_LOADED}", "model(**inputs)"),
        ("load", "forward"),
        (
            *_WRITTEN,
            '_, told = CLASS.from_pretrained("saved", output_loading_info=True)',
            'assert not told["unexpected_keys"], told["unexpected_keys"]',
        ),
    ),
}
"""By the name of the probe; where a finding has several, the first of them that it has is taken."""
LACKING = ScriptWay(
    (),
    ("load",),
    (
        "kept = {**model.state_dict()}",
        "kept.pop(LACKING, None)",
        'model.save_pretrained("saved", state_dict=kept)',
        '_, told = CLASS.from_pretrained("saved", output_loading_info=True)',
        'assert LACKING not in told["missing_keys"]',
    ),
)
"""A checkpoint without a weight of which its release needed none."""
