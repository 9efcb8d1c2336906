"""Changes to a small config that an error message asks for.

Works on the nested dictionary that a config writes, as `fields` does.
"""

from __future__ import annotations

import re

from repromatrix.sweep.child.fields import (
    DEPTH,
    EXPERTS,
    FEED_FORWARD,
    HEAD_DIM,
    HEADS,
    RANK,
    TOP_K,
    VOCABULARY,
    WIDTH,
    WINDOW,
    Tree,
    kind_of,
    nodes,
    rotary_half,
    shares,
)
from repromatrix.sweep.child.tokens import special_tokens, vocabulary_of


def cut_sections(tree: Tree, section: list[int], whole: int) -> bool:
    """Write the sections of multimodal rotary embeddings that fit a head, in place."""
    changed = False
    for path, node in nodes(tree):
        if any(word in "/".join(path) for word in ("vision", "audio")):
            continue
        for name in ("rope_parameters", "rope_scaling"):
            if name not in node:
                continue
            before = node[name] if isinstance(node[name], dict) else {"rope_type": "default"}
            node[name] = {**before, "mrope_section": shares(section, whole)}
            changed = changed or node[name] != before
    return changed


def open_rotary(tree: Tree, *, cut: bool) -> bool:
    """Write the usual rotary settings where a config leaves them open, in place.

    `cut` says that the model cuts heads into sections of time, height and width, as 2 to 3 to 3.
    """
    changed = False
    for path, node in nodes(tree):
        if any(word in "/".join(path) for word in ("vision", "audio")):
            continue
        for name in ("rope_parameters", "rope_scaling"):
            if name in node and node[name] is None:
                node[name] = {"rope_type": "default"}
                if cut and (half := rotary_half(node)):
                    node[name]["mrope_section"] = shares([2, 3, 3], half)
                changed = True
    return changed


def fill_open(tree: Tree, line: str) -> bool:
    """Give sizes that a config leaves open a value, in place; say whether any was open.

    Those that a failing line names; where it names none, the counts that a model cannot do without.
    """
    named = set(re.findall(r"\w+", line))
    opened = [(node, name) for _, node in nodes(tree) for name in node if _open(node, name)]
    chosen = [one for one in opened if one[1] in named] or [
        one for one in opened if kind_of(one[1]) in _NEEDED
    ]
    for node, name in chosen:
        node[name] = _filled(node, name)
    return bool(chosen)


_NEEDED = {"vocabulary", "heads", "kv heads", "head", "experts", "topk"}
_FULL = {"vocabulary": VOCABULARY, "experts": EXPERTS, "topk": TOP_K, "groups": 1, "rank": RANK}


def _open(node: Tree, name: str) -> bool:
    return node[name] is None and kind_of(name) in {*_NEEDED, "width", "ffn", "groups", "token"}


def _filled(node: Tree, name: str) -> int:
    kind = kind_of(name)
    heads = node.get("num_attention_heads")
    if kind == "kv heads" and isinstance(heads, int):
        return heads
    width = node.get("hidden_size")
    if kind == "head" and isinstance(heads, int) and isinstance(width, int):
        return width // heads
    if kind == "kv heads":
        return HEADS
    return {**_FULL, "width": WIDTH, "ffn": FEED_FORWARD, "heads": HEADS, "head": HEAD_DIM}.get(
        kind, 0
    )


def set_field(tree: Tree, name: str, owner: tuple[str, ...] | None = None) -> bool:
    """Give a field that a config lacks or leaves open a small value; say whether it was given."""
    changed = False
    for path, node in nodes(tree):
        if (path == owner or (owner is None and name in node)) and node.get(name) is None:
            kind = kind_of(name)
            if kind == "token":
                free = set(range(vocabulary_of(tree))) - special_tokens(tree)
                node[name] = max(free, default=0)
            elif "dropout" in name:
                node[name] = 0.0
            else:
                node[name] = (
                    {"depth": DEPTH, "window": WINDOW}.get(kind) or _filled(node, name) or 8
                )
            changed = True
    return changed


def swap_backbone(tree: Tree) -> bool:
    """Put a tiny ResNet where a backbone wants a package of its own; say whether one did."""
    changed = False
    for _, node in list(nodes(tree)):
        inner = node.get("backbone_config")
        wrapped = isinstance(inner, dict) and inner.get("model_type") == "timm_backbone"
        if not wrapped and not node.get("use_timm_backbone"):
            continue
        several = (node.get("num_feature_levels") or 1) > 1
        node["backbone_config"] = {
            "model_type": "resnet",
            "embedding_size": 16,
            "hidden_sizes": [16, 32, 64, 128],
            "depths": [1, 1, 1, 1],
            "layer_type": "basic",
            "out_indices": [2, 3, 4] if several else [4],
        }
        for name in ("backbone", "backbone_kwargs", "dilation"):
            node.pop(name, None)
        for name in ("use_timm_backbone", "use_pretrained_backbone"):
            if name in node:
                node[name] = False
        node["backbone"] = None
        changed = True
    return changed
