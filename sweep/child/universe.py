"""Which architectures a release has."""

from __future__ import annotations

import re
from typing import Any

# What a model does that is asked for first: generation, then other heads, then the bare model.
ORDER = (
    *("IMAGE_TEXT_TO_TEXT", "MULTIMODAL_LM", "VISION_2_SEQ", "SPEECH_SEQ_2_SEQ"),
    *(
        "SEQ_TO_SEQ_CAUSAL_LM",
        "CAUSAL_LM",
        "TEXT_TO_WAVEFORM",
        "TEXT_TO_SPECTROGRAM",
        "RNNT",
        "CTC",
    ),
    *("MASKED_LM", "OBJECT_DETECTION", "ZERO_SHOT_OBJECT_DETECTION", "UNIVERSAL_SEGMENTATION"),
    *("INSTANCE_SEGMENTATION", "IMAGE_SEGMENTATION", "SEMANTIC_SEGMENTATION", "DEPTH_ESTIMATION"),
    *("IMAGE_CLASSIFICATION", "VIDEO_CLASSIFICATION", "ZERO_SHOT_IMAGE_CLASSIFICATION"),
    *("IMAGE_TO_IMAGE", "KEYPOINT_DETECTION", "KEYPOINT_MATCHING", "POSE_ESTIMATION"),
    *("MASK_GENERATION", "VISUAL_QUESTION_ANSWERING", "DOCUMENT_QUESTION_ANSWERING"),
    *("TABLE_QUESTION_ANSWERING", "QUESTION_ANSWERING", "AUDIO_CLASSIFICATION"),
    *("TIME_SERIES_PREDICTION", "SEQUENCE_CLASSIFICATION", "TOKEN_CLASSIFICATION"),
    *("MASKED_IMAGE_MODELING", "CAUSAL_IMAGE_MODELING", "PRETRAINING", "RETRIEVAL"),
)
LAST = ("", "AUDIO_TOKENIZATION", "BACKBONE", "TEXT_ENCODING", "IMAGE")


def types() -> dict[str, Any]:
    """Return the types of config that have a model class, with their classes by mapping.

    `{"types": {type: {"classes": {mapping: class}, "every": [class]}}}`; of several classes in one
    mapping, `classes` has the first. Mappings are called by what stands between `MODEL_FOR_` and
    `_MAPPING_NAMES`.
    """
    from transformers import CONFIG_MAPPING

    found: dict[str, dict[str, Any]] = {}
    for mapping, classes in _mappings().items():
        for kind, named in classes.items():
            names = [named] if isinstance(named, str) else [*named]
            one = found.setdefault(kind, {"classes": {}, "every": []})
            one["classes"][mapping] = names[0]
            one["every"] = sorted({*one["every"], *names})
    known = set(CONFIG_MAPPING.keys())
    return {"types": {kind: found[kind] for kind in sorted(found) if kind in known}}


def _mappings() -> dict[str, dict[str, Any]]:
    from transformers.models.auto import modeling_auto

    found = {}
    for name in sorted(vars(modeling_auto)):
        if match := re.fullmatch(r"MODEL_(?:FOR_|WITH_)?(?:(\w+)_)?MAPPING_NAMES", name):
            found[match[1] or ""] = dict(getattr(modeling_auto, name))
    return found


def ranked(classes: dict[str, str]) -> list[str]:
    """Return the classes of a type, the one that is asked for first at the front."""
    order = [*ORDER]
    if {"CAUSAL_LM", "MASKED_LM"} <= classes.keys():  # an encoder, which may be made a decoder
        order.remove("CAUSAL_LM")
    first = [classes[one] for one in order if one in classes]
    last = [classes[one] for one in LAST if one in classes]
    others = [classes[one] for one in sorted(classes) if one not in {*ORDER, *LAST}]
    return list(dict.fromkeys([*first, *others, *last]))
