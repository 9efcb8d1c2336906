"""Kinds of config fields, told by their names, and how each becomes small.

Works on the nested dictionary that a config writes; knows no model and imports no library.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Tree = dict[str, Any]

WIDTH, FEED_FORWARD, HEADS, HEAD_DIM, RANK = 64, 64, 4, 16, 16
VOCABULARY, POSITIONS, EXPERTS, TOP_K, GROUPS = 256, 512, 4, 2, 2
WINDOW, TOKENS, FRAMES, DEPTH, STAGE = 8, 8, 4, 2, 2
NARROWEST, IMAGE, GRID = 8, 64, 4
UNKNOWN = 256
"""From this size on, a field of unknown kind counts as a width where a model stays too large."""

# First match decides.
_KINDS: tuple[tuple[str, str], ...] = (
    ("index", r"^index_topk$"),
    (
        "topk",
        r"experts_per_tok|^(moe_(top_?k|k)|topk|k)$|topk$|_top_k$|num_selected_experts|moe_k$",
    ),
    ("keep", r"^(num_channels|in_channels|in_chans|n_channels|audio_channels|type_vocab_size)$"),
    (
        "keep",
        r"sampl(e|ing)_rate|frame_rate|kernel|stride|dilation|padding|dropout|_ratio|patch_size|size_per_stage",
    ),
    (
        "keep",
        r"keypoint_decoder|mel_bins|num_mel|n_mels|mel_dim|input_feat|feat(ure)?_extract|hop_length|_theta|tokenizer_",
    ),
    (
        "keep",
        r"^(groups|n_fft|num_labels|torch_|seed|temporal|spatial|factor|feature_size)|_factor",
    ),
    ("token", r"token_(id|index|ids|idx)$|_token$|^(pad|bos|eos|unk|mask|sep|cls)_(index|idx|id)$"),
    (
        "token",
        r"_(start|end|pad|delay|begin|eos|bos|placeholder)_(id|ids|index)$|^(bos|eos|pad)_id",
    ),
    ("vocabulary", r"vocab_size|vocab$|^vocab|codebook_size|num_embeddings$|_buckets_size"),
    ("groups", r"^n_group$|^num_expert_group|topk_group"),
    ("experts", r"expert(s|_num)$|experts_(num|count)|num_experts|n_routed_experts|^num_local_exp"),
    ("kv heads", r"(num|n)_(key_value|kv)_heads$|kv_heads$|_key_value_heads$|num_key_heads$"),
    ("heads", r"heads$|n_head$|num_head$|_heads_num$|^num_attention_heads"),
    (
        "head",
        r"head_?dim$|head_size$|^d_kv$|^d_head$|kv_channels|dim_head|head_channels|rotary_dim$",
    ),
    ("rank", r"_rank$|lora_rank|^rank"),
    ("interval", r"_interval$|_period$|_pattern$|_every_|_sparse_step$|_frequency$|_freq$|_step$"),
    ("offset", r"_offset$|first_k_dense|^num_dense_layers|num_moe_layers_start|moe_layer_start"),
    (
        "depth",
        r"num_hidden_layers$|^layers$|^n_layers?$|_layers$|^depth$|num_layers|_depth$|^num_.*blocks$",
    ),
    ("depths", r"depths$|layers_per_|num_blocks_per|numb_of_layers|num_blocks$"),
    ("image", r"image_size$|img_size|image_(height|width)$|^input_size$|_image_size|image_res"),
    ("positions", r"position_embeddings|n_positions|positions$|max_seq|_length_max"),
    ("window", r"sliding_window$|attention_window$|chunk_size$|local_window|local_attention$"),
    ("frames", r"^num_frames$|frames_per_clip|max_frames"),
    ("norm groups", r"^num_groups$"),
    ("filters", r"^(num|n)_filters$"),
    ("groups of norm", r"^base_channels$"),
    ("coordinate", r"^coordinate_size$"),
    ("shape", r"^shape_size$"),
    ("coefficient", r"^(width|depth)_(coefficient|multiplier)$"),
    ("tokens", r"num_quer|query_tokens|num_latents|image_tokens$|tokens_per_image|seq_length$"),
    ("tokens", r"num_.*tokens$|num_proposals|num_prefix|^num_.*_queries"),
    (
        "ffn",
        r"intermediate_size|ffn_dim|ffn_size|d_ff$|n_inner|mlp_dim|_ffn|ff_dim|inner_dim|linear_units",
    ),
    ("width", r"hidden_size|hidden_dim|d_model|_dim$|^dim$|n_embd|embedding_size|_width$|^width$"),
    (
        "width",
        r"_channels?$|^channels$|^flow_size$|upsample_groups|_size_per_|hidden$|_dims$|embd$|dim_per_stage",
    ),
    ("width", r"_sizes$|_features$|num_pos_feats|state_size$|_hidden_size|proj_size|latent_dim"),
)
_INDEX = re.compile(
    r"indexes$|indices$|_idxs?$|_index$|layer_ids?$|_layers?$|indexes|^layers_|_at$"
)
_STAGES = re.compile(r"label|kernel|stride|dilation|conv|channels|stage|sampl|scales|_rates")
# The library makes them again from what stays.
_OF_CONFIGS = {"model_type", "hidden_act", "hidden_size", "num_attention_heads"}
_RATES = re.compile(
    r"sampling_ratios$|blocks_per_stage|^upsample_(rates|scales)|^up_ratios|strides$"
)
_SKIP = re.compile(
    r"^(id2label|label2id|transformers_version|_name_or_path|architectures|stage_names|out_features)$"
)


def kind_of(name: str) -> str:
    """Return the kind of a field by its name; empty where no name is known."""
    return next((kind for kind, pattern in _KINDS if re.search(pattern, name)), "")


def is_config(value: object) -> bool:
    """Say whether a value is a nested config (a plain mapping such as of rotary ones is none)."""
    return isinstance(value, dict) and bool(_OF_CONFIGS & value.keys())


def nodes(tree: Tree, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Tree]]:
    """Yield a config and the configs inside it, outermost first, each with its path."""
    yield path, tree
    for name, value in tree.items():
        if is_config(value):
            yield from nodes(value, (*path, name))


def tiny(tree: Tree, strategy: str) -> Tree:
    """Return a small copy of a config's dictionary.

    Strategies: `names` (fixed small values by kind), `capped` (that, and unknown fields of 256 and
    more count as widths), `uniform` (all widths by one factor, heads kept), `layers` (depth,
    vocabulary and sizes of inputs alone).
    """
    return _tiny(tree, strategy, _factors(tree))


def _tiny(tree: Tree, strategy: str, factors: tuple[int, int]) -> Tree:
    made: Tree = {name: infinite(value) for name, value in tree.items() if not _SKIP.match(name)}
    for name, value in made.items():
        if is_config(value):
            made[name] = _tiny(value, strategy, factors)
    _cut_layers(made)
    _cut_images(made)
    _cut_windows(made)
    for name, value in list(made.items()):
        kind = kind_of(name)
        if kind == "topk" and value is None:
            made[name] = TOP_K
        if kind == "coefficient" and strategy != "layers" and isinstance(value, (int, float)):
            made[name] = min(float(value), 0.25)
        if not isinstance(value, (int, list)) or isinstance(value, bool):
            continue
        if (not kind and strategy == "capped" and _large(value)) or (
            name == "in_channels" and isinstance(value, list)
        ):
            kind = "width"
        made[name] = _each(kind, value, tree, strategy, factors)
    _mend_heads(made, tree, strategy)
    _mend_rotary(made)
    return made


def _large(value: object) -> bool:
    return isinstance(value, int) and value >= UNKNOWN


def _factors(tree: Tree) -> tuple[int, int]:
    """Return the powers of two that bring widths down, of single layers and of stages.

    The largest single width comes to about `WIDTH`, the smallest width of a stage to `NARROWEST`.
    One factor for all configs inside one another, as they share widths.
    """
    single, staged = [WIDTH], []
    for _, node in nodes(tree):
        for name, value in node.items():
            if kind_of(name) != "width" or isinstance(value, bool):
                continue
            if isinstance(value, int):
                single.append(value)
                staged += [value] if _has_stages(node) and value >= NARROWEST else []
            elif isinstance(value, list) and all(isinstance(one, int) for one in value):
                staged += [one for one in value if one >= NARROWEST]
    least = min(staged, default=NARROWEST)
    return _power(max(single) / WIDTH), _power(least / NARROWEST)


def _power(ratio: float) -> int:
    return int(2 ** max(0, math.floor(math.log2(ratio))))


def _has_stages(node: Tree) -> bool:
    return any(
        (kind_of(name) == "depths" or _RATES.search(name))
        and isinstance(value, list)
        and len(value) > DEPTH
        for name, value in node.items()
    )


_SMALL: dict[str, Callable[[int], int]] = {
    "vocabulary": lambda value: min(value, VOCABULARY),
    "topk": lambda value: min(value, TOP_K),
    "groups": lambda value: min(value, 1),
    "experts": lambda value: min(value, EXPERTS),
    "heads": lambda value: min(value, HEADS),
    "kv heads": lambda value: min(value, HEADS // 2),
    "head": lambda value: min(value, HEAD_DIM),
    "rank": lambda value: min(value, RANK),
    "interval": lambda value: min(value, DEPTH),
    "norm groups": lambda value: min(value, 4),
    "filters": lambda value: min(value, 4),
    "groups of norm": lambda value: min(value, 32),
    # Four of the one and two of the other make a width.
    "coordinate": lambda value: min(value, WIDTH // 8),
    "shape": lambda value: min(value, WIDTH // 4),
    "index": lambda value: min(value, 16),
    "offset": lambda value: min(value, 1),
    "window": lambda value: min(value, WINDOW),
    "frames": lambda value: min(value, FRAMES),
    "tokens": lambda value: min(value, TOKENS),
    "positions": lambda value: min(value, POSITIONS),
    "ffn": lambda value: min(value, FEED_FORWARD),
    "width": lambda value: min(value, WIDTH),
}
_OF_INPUTS = {"vocabulary", "frames", "positions"}
_OF_WIDTHS = {"width", "ffn", "head", "rank"}
_OF_HEADS = {"heads", "kv heads"}


def _each(kind: str, value: Any, tree: Tree, strategy: str, factors: tuple[int, int]) -> Any:
    single, staged = factors
    if isinstance(value, list):
        return _small_list(kind, value, strategy, single if strategy == "uniform" else staged)
    bound = kind == "positions" and "original_max_position_embeddings" in str(tree)
    kept = (strategy == "layers" and kind not in _OF_INPUTS) or (
        strategy == "uniform" and kind in _OF_HEADS
    )
    if kind not in _SMALL or value <= 0 or bound or kept:
        return value
    if strategy == "uniform" and kind in _OF_WIDTHS:
        return max(1, value // single)
    if kind == "width" and _has_stages(tree):
        return max(1, value // staged)
    return _SMALL[kind](value)


def _small_list(kind: str, value: list[Any], strategy: str, factor: int) -> list[Any]:
    """Return a list per stage made small: the ratios between its numbers stay."""
    if not value or not all(_is_number(one) and one > 0 for one in value):
        return value
    if kind == "depths":
        return [min(one, STAGE) for one in value]
    small = value
    if strategy != "layers" and kind in {"width", "ffn"}:
        small = [max(1, one // factor) if one >= NARROWEST else one for one in value]
    elif strategy not in {"layers", "uniform"} and kind in _OF_HEADS:
        least = min(value)
        small = [one // least for one in value] if not any(one % least for one in value) else value
    elif strategy != "layers" and kind in {"window", "tokens", "norm groups"}:
        small = [_SMALL[kind](one) for one in value]
    return small


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _cut_layers(node: Tree) -> None:
    """Cut the depth; of the layers, the first of each distinct kind stay."""
    depths = {name: value for name, value in node.items() if _is_depth(name, value)}
    for name, depth in depths.items():
        lists = {
            key: value
            for key, value in node.items()
            if _per_layer(key, value, depth) and len(value) == depth > DEPTH
        }
        special = _special_layers(node, depth)
        marks = _indices(node, depth, lists)
        rows = [*lists.values(), *special]
        if rows:
            rows += [[at in value for at in range(depth)] for value in marks.values()]
        kept = _first_of_kinds(rows, depth)
        for key, value in lists.items():
            cut = [value[at] for at in kept]
            node[key] = "".join(cut) if isinstance(value, str) else cut
        if special:
            node["per_layer_config"] = {
                str(at): special[0][old] for at, old in enumerate(kept) if special[0][old]
            }
        small = min(depth, max(len(kept), DEPTH, _cycle(node)))
        if not rows:
            small = min(depth, max([small, *(len(set(value)) for value in marks.values())]))
        for key, value in marks.items():
            inside = [kept.index(one) for one in value if one in kept]
            node[key] = inside if rows and inside else _moved(value, depth, small)
        node[name] = small


def _cycle(node: Tree) -> int:
    """Return the length of a list of kinds that layers repeat, where there is one."""
    lengths = [
        len(value)
        for name, value in node.items()
        if isinstance(value, list) and re.search(r"types?$|pattern$", name) and len(value) <= GRID
    ]
    return max(lengths, default=0)


def _special_layers(node: Tree, depth: int) -> list[list[Tree | None]]:
    """Return what a config says of single layers, made small in the ratio of the usual values."""
    given = node.get("per_layer_config")
    if not isinstance(given, dict):
        return []
    of_layer = {int(at): value for at, value in given.items()}
    return [[_in_ratio(of_layer.get(at), node) for at in range(depth)]]


def _in_ratio(special: Tree | None, node: Tree) -> Tree | None:
    if special is None:
        return None
    made = dict(special)
    for name, value in special.items():
        usual, small = node.get(name), _SMALL.get(kind_of(name))
        if _is_number(value) and _is_number(usual) and small and usual:
            made[name] = max(1, value * small(usual) // usual)
    heads, others = "num_attention_heads", "num_key_value_heads"
    if others in special and special.get(heads) == special[others]:
        made[others] = made[heads]
    return made


def _is_depth(name: str, value: object) -> bool:
    return kind_of(name) == "depth" and isinstance(value, int) and value > 1


def _per_layer(name: str, value: object, depth: int) -> bool:
    if isinstance(value, str):
        return "pattern" in name
    kinds = {"width", "depths"} if depth > 8 else {"width", "depths", "heads", "kv heads"}
    return isinstance(value, list) and kind_of(name) not in kinds and not _STAGES.search(name)


def _first_of_kinds(lists: list[Any], depth: int) -> list[int]:
    if not lists:
        return list(range(min(depth, DEPTH)))
    seen: dict[str, int] = {}
    for at, row in enumerate(zip(*lists, strict=True)):
        seen.setdefault(str(row), at)
    kept = sorted(seen.values())
    spare = [at for at in range(depth) if at not in kept]
    # All of one kind: two of them still pass something on.
    while len(kept) < DEPTH:
        kept.append(spare.pop(0))
    # Distinct in every row (a rate that grows, say): that says nothing of kinds.
    return sorted(kept) if len(kept) <= depth // 2 or len(kept) <= 2 * DEPTH else kept[:DEPTH]


def _indices(node: Tree, depth: int, lists: Tree) -> dict[str, list[int]]:
    return {
        key: value
        for key, value in node.items()
        if isinstance(value, list)
        and key not in lists
        and _INDEX.search(key)
        and kind_of(key) in {"", "depth"}
        and value
        and all(_is_number(one) for one in value)
        and all(-depth <= one <= depth for one in value)
    }


def _moved(value: list[int], depth: int, small: int) -> list[int]:
    """Return indices of layers in the small model: in the same order, the last one at the end."""
    order = sorted({one for one in value if one >= 0})
    last = small if depth in order else small - 1
    first = max(0, last + 1 - len(order))
    place = {one: min(first + at, last) for at, one in enumerate(order)}
    return [place[one] if one >= 0 else max(one, -small) for one in value]


def _cut_windows(node: Tree) -> None:
    """Make windows of a hierarchy fit into its last stage."""
    if _has_stages(node) and _is_number(node.get("window_size")):
        node["window_size"] = min(node["window_size"], STAGE)


def _cut_images(node: Tree) -> None:
    patch = _largest(node.get("patch_size")) or _largest(node.get("spatial_patch_size")) or 1
    grid = IMAGE if patch == 1 else GRID
    while grid * patch < IMAGE // 2:
        grid *= 2
    size = grid * patch
    for name, value in node.items():
        if kind_of(name) == "image" and value:
            node[name] = _like(value, size)
        if name == "image_embedding_size" and isinstance(value, int):
            node[name] = size // patch
        if name == "backbone_feature_sizes":
            node[name] = [[max(1, one // (1024 // IMAGE)) for one in pair] for pair in value]


def _like(value: Any, size: int) -> Any:
    if isinstance(value, (list, tuple)):
        return [_like(one, size) for one in value]
    if isinstance(value, dict):
        return {key: _like(one, size) for key, one in value.items()}
    return min(value, size) if isinstance(value, int) and value > 2 else value


def _largest(value: Any) -> int:
    if isinstance(value, (list, tuple)):
        return max((_largest(one) for one in value), default=0)
    return value if isinstance(value, int) else 0


def infinite(value: Any) -> Any:
    """Return what a config wrote for infinity as the number that it reads."""
    if isinstance(value, dict) and set(value) == {"__float__"}:
        return float(value["__float__"])
    return [infinite(one) for one in value] if isinstance(value, list) else value


def _mend_heads(node: Tree, old: Tree, strategy: str) -> None:
    """Keep heads that were equal equal, and heads and widths that belonged together together."""
    if strategy in {"uniform", "layers"}:
        return
    pairs = (("num_attention_heads", "num_key_value_heads"), ("num_heads", "num_kv_heads"))
    for heads, others in pairs:
        if isinstance(old.get(heads), int) and old.get(heads) == old.get(others):
            node[others] = node[heads]
    _mend_parts(node, old)
    _mend_state_space(node, old)


def _mend_parts(node: Tree, old: Tree) -> None:
    """Let a head be the sum of its parts again."""
    parts = ("qk_nope_head_dim", "qk_rope_head_dim")
    if all(_is_number(old.get(one)) for one in parts):
        for whole in ("qk_head_dim", "head_dim"):
            if old.get(whole) == sum(old[one] for one in parts):
                node[whole] = sum(node[one] for one in parts)
            elif old.get(whole) == old[parts[1]]:
                node[whole] = node[parts[1]]


def _mend_state_space(node: Tree, old: Tree) -> None:
    """Let the heads of a state-space layer fill its width again."""
    width = node.get("hidden_size") or node.get("d_model")
    if "mamba_d_ssm" in old and isinstance(width, int):
        node["mamba_d_ssm"] = 2 * width
    for heads, dim, expand in (
        ("mamba_n_heads", "mamba_d_head", "mamba_expand"),
        ("mamba_num_heads", "mamba_head_dim", "expand"),
        ("num_heads", "head_dim", "expand"),
        ("n_mamba_heads", "mamba_headdim", "mamba_expand"),
    ):
        if expand in old and heads in old and isinstance(width, int):
            node[dim] = HEAD_DIM
            node[heads] = int(width * old[expand]) // HEAD_DIM


def _mend_rotary(node: Tree) -> None:
    """Cut sections and factors of rotary embeddings with the head, in the same proportions."""
    half = rotary_half(node)
    for value in node.values():
        if not isinstance(value, dict) or not half:
            continue
        for each in (value, *(one for one in value.values() if isinstance(one, dict))):
            section = each.get("mrope_section")
            if isinstance(section, list) and section:
                each["mrope_section"] = shares(section, half)
            for name in ("long_factor", "short_factor"):
                if isinstance(each.get(name), list):
                    each[name] = each[name][:half]


def rotary_half(node: Tree) -> int:
    """Return half of what is turned of a head, 0 where a config does not tell."""
    heads, width = node.get("num_attention_heads"), node.get("hidden_size")
    head = node.get("head_dim") or node.get("qk_rope_head_dim")
    if not isinstance(head, int):
        if not isinstance(heads, int) or not isinstance(width, int):
            return 0
        head = width // heads
    share = node.get("partial_rotary_factor")
    for value in node.values():
        if isinstance(value, dict):
            share = value.get("partial_rotary_factor", share)
    return int(head * (share if isinstance(share, float) else 1.0)) // 2


def shares(section: list[int], whole: int) -> list[int]:
    """Return sections cut in proportion, so that they sum up to a whole."""
    total = sum(section)
    cut = [one * whole // total for one in section]
    cut[0] += whole - sum(cut)
    return cut
