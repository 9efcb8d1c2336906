"""Inputs of a forward pass, guessed from the names of its arguments and the config's fields.

Works on the config's dictionary and on names alone; gives the specifications of a recipe.
"""

from __future__ import annotations

import dataclasses
import random
import zlib
from typing import TYPE_CHECKING, Any

from repromatrix.sweep.child.fields import nodes
from repromatrix.sweep.child.tokens import special_tokens, vocabulary_of

if TYPE_CHECKING:
    from collections.abc import Callable

BATCH, LENGTH, DECODED = 2, 12, 6
FRAMES, SAMPLES, MEL_FRAMES = 4, 4000, 64
VISION = ("vision", "image", "visual", "vit", "backbone", "video", "encoder")
AUDIO = ("audio", "speech", "sound", "encoder", "acoustic")
TEXT = ("text", "language", "llm", "decoder", "thinker")
MODALITIES = ("image", "video", "audio")

# Given whenever a forward pass takes them; all others only where an error asks for them.
USUAL = (
    *("input_ids", "attention_mask", "decoder_input_ids", "pixel_values", "input_features"),
    *("input_values", "image_grid_thw", "grid_thw", "past_values", "bbox", "spatial_shapes"),
    *("qformer_input_ids", "flattened_patches", "inputs", "task_inputs", "image_sizes"),
    *("states", "actions", "rewards", "returns_to_go", "timesteps"),
    *("visual_feats", "visual_pos", "aspect_ratio_ids", "aspect_ratio_mask", "feature_lens"),
    *("image_patches", "image_position_ids", "pixel_position_ids", "mm_token_type_ids"),
    *("image_attention_mask", "image_pixel_values", "target_sizes", "image", "labels_of_none"),
    *("pixel_values_videos_only", "image_token_pooling", "image_grids", "image_num_crops"),
    *("past_time_features", "past_observed_mask", "input_audio_embeds", "image_grid_hw"),
    *("global_attention_mask", "image_embeds_position_mask", "return_loss_of_none"),
)


@dataclasses.dataclass
class Guess:
    """What is known of an architecture when inputs are guessed, and what errors taught."""

    tree: dict[str, Any]
    arguments: list[str]
    required: list[str]
    tokens: dict[str, int] = dataclasses.field(default_factory=dict)
    """How many tokens of a modality each row holds."""
    sizes: dict[str, int] = dataclasses.field(default_factory=dict)
    """Sizes that an error named: `image`, `height`, `width`, `channels`, `frames`, `length`, …"""
    dimensions: dict[tuple[str, int], int] = dataclasses.field(default_factory=dict)
    """Sizes of an argument's axes that an error named."""
    wanted: list[str] = dataclasses.field(default_factory=list)
    refused: list[str] = dataclasses.field(default_factory=list)

    def number(self, *names: str, near: tuple[str, ...] = (), default: int = 0) -> int:
        """Return the first number that a field of one of these names has, nearest config first."""
        value = self.field(*names, near=near)
        while isinstance(value, (list, tuple)) and value:
            value = value[0]
        if isinstance(value, dict):
            value = next(iter(value.values()))
        return value if isinstance(value, int) and not isinstance(value, bool) else default

    def field(self, *names: str, near: tuple[str, ...] = ()) -> Any:
        """Return the first value of a field that one of the configs has, None where none has."""
        ordered = sorted(nodes(self.tree), key=lambda one: _distance(one[0], near))
        for _, node in ordered:
            for name in names:
                if node.get(name) is not None:
                    return node[name]
        return None

    def batch(self, rest: list[int]) -> list[int]:
        """Return a shape with the rows in front."""
        return [self.sizes.get("batch", BATCH), *rest]


def _distance(path: tuple[str, ...], near: tuple[str, ...]) -> tuple[int, int]:
    joined = "/".join(path)
    return next((at for at, word in enumerate(near) if word in joined), len(near)), len(path)


def inputs(guess: Guess) -> dict[str, Any]:
    """Return a specification for each argument that is wanted, required, or usual."""
    names = [
        name
        for name in guess.arguments
        if (name in guess.required or name in guess.wanted or name in USUAL)
        and name not in guess.refused
    ]
    made = {}
    for name in names:
        spec = _MAKERS[name](guess) if name in _MAKERS else _by_suffix(guess, name)
        if spec is not None:
            made[name] = _resized(guess, name, spec)
    return made


def _resized(guess: Guess, name: str, spec: Any) -> Any:
    shape = _shape(spec)
    if shape is None:
        return spec
    return {
        next(iter(spec)): [guess.dimensions.get((name, at), one) for at, one in enumerate(shape)]
    }


def _shape(spec: Any) -> list[int] | None:
    if not isinstance(spec, dict):
        return None
    return spec.get("normal") or spec.get("uniform")


def resize(guess: Guess, made: dict[str, Any], have: int, want: int) -> bool:
    """Let the last axis of that size, of the inputs that are drawn, have another size."""
    for name, spec in made.items():
        shape = _shape(spec) or []
        for at in range(len(shape) - 1, 0, -1):
            if shape[at] == have and guess.dimensions.get((name, at)) != want:
                guess.dimensions[name, at] = want
                if have == guess.sizes.get("frames", MEL_FRAMES):
                    guess.sizes["frames"] = want
                return True
    return False


def _by_suffix(guess: Guess, name: str) -> Any:
    if name.endswith(("features_mask", "feature_attention_mask", "audio_attention_mask")):
        return _mask_of_frames(guess)
    if name.endswith(("attention_mask", "padding_mask")):
        return _mask(guess)
    if name.endswith("input_ids"):
        return _ids(guess, name, LENGTH)
    return None


def words(guess: Guess, salt: str, rows: int, length: int, vocabulary: int) -> list[list[int]]:
    """Return random ids that hold no special token; the same ones at every call."""
    special = special_tokens(guess.tree)
    allowed = [one for one in range(vocabulary) if one not in special]
    middle = [one for one in allowed if 10 <= one < vocabulary - 20] or allowed or [0]
    drawn = random.Random(zlib.crc32(salt.encode()))  # noqa: S311
    return [[drawn.choice(middle) for _ in range(length)] for _ in range(rows)]


def length_of(guess: Guess) -> int:
    """Return how many tokens a row has: the text, and those of the other modalities."""
    text = guess.sizes.get("length", LENGTH)
    return text + len(_placed(guess))


def _placed(guess: Guess) -> list[tuple[int, str]]:
    """Return the tokens that stand in the text for features, each with its modality.

    Those that open and close an image have none.
    """
    found: list[tuple[int, str]] = []
    for modality in present(guess):
        tokens = [(token_of(guess, modality) or 0, modality)] * guess.tokens.get(modality, 0)
        ends = [guess.field(f"vision_{end}_token_id") for end in ("start", "end")]
        if modality == "image" and all(isinstance(one, int) for one in ends):
            tokens = [(ends[0], ""), *tokens, (ends[1], "")]
        found += tokens
    return found


def present(guess: Guess) -> list[str]:
    """Return the modalities whose tokens stand in the text."""
    return [one for one in MODALITIES if token_of(guess, one) is not None and guess.tokens.get(one)]


def token_of(guess: Guess, modality: str) -> int | None:
    """Return the id of the token that stands for a feature of a modality."""
    if not {*_CARRIERS[modality]} & {*guess.arguments} - {*guess.refused}:
        return None
    names = [
        *(f"{modality}_token_id", f"{modality}_token_index", f"{modality}_token"),
        *(f"{modality}_pad_token_id", f"{modality}_patch_id", f"{modality}_placeholder_id"),
        *(f"special_{modality}_token_id", f"boi_token_{modality}", f"{modality}_soft_token_id"),
        *(f"{modality}_context_token_id", f"{modality}_context_token", "img_context_token_id"),
    ]
    if modality == "image":
        names += ["media_token_id", "im_token_id", "image_patch_token_id", "img_token_id"]
    if modality == "audio":
        names += ["sound_token_id", "speech_token_id", "audio_token_ids"]
    value = guess.field(*names)
    return value if isinstance(value, int) else None


_CARRIERS = {
    "image": ("pixel_values", "image_patches", "image_pixel_values", "pixel_values_images"),
    "video": ("pixel_values_videos_only",),
    "audio": ("input_features", "input_values", "audio_input_features", "input_audio_embeds"),
}


def _ids(guess: Guess, salt: str = "input_ids", length: int = 0) -> dict[str, Any]:
    rows = guess.sizes.get("batch", BATCH)
    vocabulary = guess.sizes.get("vocabulary") or vocabulary_of(guess.tree) or 32
    text = words(guess, salt, rows, length or guess.sizes.get("length", LENGTH), vocabulary)
    if salt == "input_ids":
        for row in text:
            row[1:1] = [token for token, _ in _placed(guess)]
    return {"ids": text}


def _decoder_ids(guess: Guess) -> Any:
    if not ("decoder_input_ids" in guess.required or "decoder_input_ids" in guess.wanted) and not (
        guess.tree.get("is_encoder_decoder") or guess.field("decoder_start_token_id") is not None
    ):
        return None
    size = guess.number("decoder_vocab_size", "vocab_size", near=("decoder", "text"), default=32)
    rows = guess.sizes.get("batch", BATCH)
    codebooks = guess.number("num_codebooks", near=("decoder",))
    tracks = guess.number("num_channels", near=("decoder",)) if guess.field("delay_pattern") else 0
    if tracks:
        ids = words(guess, "decoder_input_ids", rows * DECODED, tracks, size)
        return {"ids": [ids[at * DECODED : (at + 1) * DECODED] for at in range(rows)]}
    return {"ids": words(guess, "decoder_input_ids", rows * max(1, codebooks), DECODED, size)}


def _mask(guess: Guess) -> Any:
    rows = guess.sizes.get("batch", BATCH)
    if "input_ids" not in guess.arguments or "input_ids" in guess.refused:
        if "attention_mask" not in guess.required + guess.wanted:
            return None
        frames = guess.sizes.get("mask", guess.sizes.get("frames", MEL_FRAMES))
        return {"ids": [[1] * frames for _ in range(rows)]}
    return {"ids": [[1] * length_of(guess) for _ in range(rows)]}


def _mask_of_frames(guess: Guess) -> Any:
    shape = _features(guess)["normal"]
    frames = shape[1] if guess.sizes.get("time first") else shape[-1]
    return {"ids": [[1] * frames for _ in range(shape[0])]}


def _zeros(guess: Guess) -> Any:
    return {"ids": [[0] * length_of(guess) for _ in range(BATCH)]}


def _types_of_tokens(guess: Guess) -> Any:
    kinds = ["", *MODALITIES]
    row = [0, *(kinds.index(modality) for _, modality in _placed(guess))]
    return {"ids": [row + [0] * (length_of(guess) - len(row)) for _ in range(BATCH)]}


def image_size(guess: Guess) -> tuple[int, int]:
    """Return height and width of images in pixels."""
    size = guess.sizes.get("image", 0)
    if not size:
        value = guess.field("image_size", "img_size", "input_size", near=VISION)
        if isinstance(value, dict):
            value = [value.get("height", 0), value.get("width", 0)]
        if isinstance(value, (list, tuple)) and len(value) == 2:
            return int(value[0]), int(value[1])
        size = value if isinstance(value, int) and value > 8 else 0
    if not size:
        patch = guess.number("patch_size", near=VISION, default=16)
        size = max(64, 4 * patch) // patch * patch
    return guess.sizes.get("height", size), guess.sizes.get("width", size)


def channels(guess: Guess) -> int:
    """Return the number of channels of an image."""
    names = ("num_channels", "in_channels", "in_chans", "n_channels", "num_input_channels")
    return guess.sizes.get("channels") or guess.number(*names, near=VISION, default=3)


def _grid(guess: Guess) -> tuple[int, int, int]:
    """Return the patches of an image along time, height and width."""
    merge = guess.number("spatial_merge_size", "merge_size", near=VISION, default=2)
    return 1, 2 * merge, 2 * merge


def _pixels(guess: Guess) -> Any:
    if "image_grid_thw" in guess.arguments or "grid_thw" in guess.arguments:
        return {"normal": _flat(guess)}
    if {"pixel_position_ids", "image_position_ids"} & {*guess.arguments}:
        patch = guess.number("patch_size", near=VISION, default=16)
        return {"normal": guess.batch([_side(guess) ** 2, channels(guess) * patch * patch])}
    height, width = image_size(guess)
    shape = [channels(guess), height, width]
    if "spatial_shapes" in guess.arguments:
        patch = guess.number("patch_size", near=VISION, default=16)
        return {"normal": guess.batch([16, shape[0] * patch * patch])}
    dimensions = guess.sizes.get("pixel dimensions", 0)
    video = guess.field("num_frames", "frames_per_clip", "tubelet_size", near=VISION)
    if dimensions == 5 or (not dimensions and video and not guess.field("image_token_id")):
        frames = guess.number("num_frames", default=1)
        shape = [guess.sizes.get("images", frames), *shape]
    if dimensions == 6:
        shape = [1, guess.sizes.get("images", 1), *shape]
    return {"normal": shape[-3:] if dimensions == 3 else guess.batch(shape)}


def _flat(guess: Guess) -> list[int]:
    grid = _grid(guess)
    patch = guess.number("patch_size", near=VISION, default=14)
    time = guess.number("temporal_patch_size", near=VISION, default=1)
    if guess.sizes.get("patch axes"):
        return [BATCH * grid[0] * grid[1] * grid[2], channels(guess), patch, patch]
    per_patch = guess.sizes.get("patch") or channels(guess) * time * patch * patch
    return [BATCH * grid[0] * grid[1] * grid[2], per_patch]


def _spatial_shapes(guess: Guess) -> Any:
    return {"ids": [[4, 4]] * guess.sizes.get("batch", BATCH)}


def _features(guess: Guess) -> Any:
    """Return mel frames: bins before time where the model convolves, else time before bins."""
    bins = guess.sizes.get("mel") or guess.number(
        *("num_mel_bins", "mel_bins", "n_mels", "feature_size", "num_mel_channels", "mel_dim"),
        *("input_feat_per_channel", "input_dim", "input_feat_size", "feature_projection_input_dim"),
        near=AUDIO,
        default=80,
    )
    frames = guess.sizes.get("frames") or 2 * guess.number(
        "max_source_positions", near=AUDIO, default=MEL_FRAMES // 2
    )
    frames = min(frames, 3000)
    shape = [frames, bins] if guess.sizes.get("time first") else [bins, frames]
    if guess.sizes.get("mel dimensions") == 4:
        shape = [1, *shape]
    return {"normal": guess.batch(shape)}


def _values(guess: Guess) -> Any:
    """Return raw audio, or a spectrogram where the config knows of bins."""
    bins = guess.number("num_mel_bins", near=AUDIO)
    if guess.sizes.get("mel dimensions") != 1 and bins and guess.field("max_length"):
        return {"normal": guess.batch([guess.number("max_length"), bins])}
    samples = guess.sizes.get("samples", SAMPLES)
    count = 1 if guess.sizes.get("mono") else guess.number("audio_channels", near=AUDIO)
    return {"normal": guess.batch([count, samples] if count else [samples])}


def _past(guess: Guess) -> Any:
    context = guess.number("context_length", "prediction_length", default=32)
    lags = guess.field("lags_sequence")
    length = context + (max(lags) if isinstance(lags, list) and lags else 0)
    size = guess.number("num_input_channels", "input_size", default=1)
    return {
        "normal": guess.batch(
            [guess.sizes.get("past", length), *([size] if size > 1 or lags is None else [])]
        )
    }


def _sizes_of_images(guess: Guess) -> Any:
    return {"ids": [list(image_size(guess))] * guess.sizes.get("batch", BATCH)}


def _boxes(guess: Guess) -> Any:
    if guess.field("max_2d_position_embeddings", "max_2d_position_embedding") is None:
        return {"uniform": [BATCH, length_of(guess), 8]} if guess.field("dim_bbox") else None
    rows = [[10 + at, 10, 40 + at, 50] for at in range(length_of(guess))]
    return {"ids": [rows, rows]}


def _grids(guess: Guess) -> Any:
    return {"ids": [list(_grid(guess))] * BATCH}


def _queries(guess: Guess) -> Any:
    return {"normal": guess.batch([8, guess.number("hidden_size", default=64)])}


def _hidden(guess: Guess) -> Any:
    """Return what a bare vision model with a grid takes: patches one after another."""
    return {"normal": _flat(guess)} if "grid_thw" in guess.arguments else None


def _images_seen(guess: Guess) -> Any:
    """Return which images each token sees, where images have an axis of their own."""
    if guess.sizes.get("pixel dimensions") != 5:
        return None
    return {"ids": [[[1]] * length_of(guess)] * BATCH}


def _with_places(guess: Guess) -> Any:
    """Return patches with row and column in front: zero once they are made integers."""
    patch = guess.number("patch_size", near=VISION, default=16)
    values = guess.number("patch_embed_hidden_size", default=channels(guess) * patch * patch)
    return {"uniform": [BATCH, 16, 2 + values]}


def _clip(guess: Guess) -> Any:
    frames = guess.number("num_frames", "frames_per_clip", near=VISION, default=2)
    return {"normal": guess.batch([frames, channels(guess), *image_size(guess)])}


def _side(guess: Guess) -> int:
    """Return the patches along one side where a model takes patches and their places."""
    return 2 * guess.number("pooling_kernel_size", near=VISION, default=2)


def _places(guess: Guess) -> Any:
    side = _side(guess)
    return {"ids": [[[at % side, at // side] for at in range(side * side)]] * BATCH}


def _encoded(guess: Guess) -> Any:
    width = guess.number("encoder_hidden_size", "cross_attention_dim", "hidden_size", default=64)
    return {"normal": guess.batch([8, width])}


def _times(guess: Guess) -> Any:
    rest = guess.number("num_time_features") + guess.number("num_dynamic_real_features")
    return {"normal": [*_past(guess)["normal"][:2], rest]}


def _observed(guess: Guess) -> Any:
    shape = _past(guess)["normal"]
    row = [1] * shape[1] if len(shape) == 2 else [[1] * shape[2]] * shape[1]
    return {"ids": [row] * shape[0]}


def _along(*names: str, default: int = 1) -> Callable[[Guess], Any]:
    """Return a maker of floats with one vector per step."""
    return lambda guess: {"normal": guess.batch([LENGTH, guess.number(*names, default=default)])}


def _steps(guess: Guess) -> Any:
    return {"ids": [list(range(LENGTH)) for _ in range(guess.sizes.get("batch", BATCH))]}


_MAKERS: dict[str, Callable[[Guess], Any]] = {
    "input_ids": _ids,
    "decoder_input_ids": _decoder_ids,
    "attention_mask": _mask,
    "token_type_ids": _zeros,
    "mm_token_type_ids": _types_of_tokens,
    "pixel_values": _pixels,
    "image": _pixels,
    "high_res_pixel_values": _pixels,
    "image_sizes": _sizes_of_images,
    "image_grid_thw": _grids,
    "grid_thw": _grids,
    "spatial_shapes": _spatial_shapes,
    "pixel_attention_mask": lambda _guess: {"ids": [[1] * 16 for _ in range(BATCH)]},
    "input_features": _features,
    "input_values": _values,
    "past_values": _past,
    "bbox": _boxes,
    "query_embeds": _queries,
    "hidden_states": _hidden,
    "states": _along("state_dim"),
    "actions": _along("act_dim"),
    "rewards": _along(),
    "returns_to_go": _along(),
    "timesteps": _steps,
    "audio_mel": _features,
    "image_attention_mask": _images_seen,
    "audio_mel_mask": lambda _guess: {"bools": [[0] * MEL_FRAMES for _ in range(BATCH)]},
    "flattened_patches": _with_places,
    "visual_feats": lambda guess: {"normal": [BATCH, 4, guess.number("visual_feat_dim")]},
    "visual_pos": lambda _guess: {"uniform": [BATCH, 4, 4]},
    "pixel_values_videos": _clip,
    "pixel_position_ids": _places,
    "image_position_ids": _places,
    "encoder_hidden_states": _encoded,
    "past_time_features": _times,
    "past_observed_mask": _observed,
    "latents": lambda guess: {"normal": [BATCH, guess.number("hidden_size"), 16]},
    "merge_sizes": lambda _guess: {"ids": [1] * BATCH},
    "inputs_embeds": lambda guess: {"normal": [BATCH, LENGTH, guess.number("hidden_size")]},
    "noise_embeds": lambda guess: {"normal": [BATCH, LENGTH, guess.number("hidden_size")]},
    "context_hidden_states": lambda guess: {"normal": [BATCH, LENGTH, guess.number("hidden_size")]},
    "state": lambda guess: {"normal": [BATCH, guess.number("max_state_dim", default=32)]},
}


def targets(guess: Guess, made: dict[str, Any], name: str) -> dict[str, Any]:
    """Return what a loss needs beside the inputs, empty where that is not known."""
    if "labels" not in guess.arguments or "labels" in made:
        return {}
    rows = guess.sizes.get("batch", BATCH)
    if name.endswith(("ForCausalLM", "ForMaskedLM", "LMHeadModel", "ForConditionalGeneration")):
        ids = made.get("decoder_input_ids") or made.get("input_ids")
        return {"labels": {"ids": ids["ids"]}} if isinstance(ids, dict) and "ids" in ids else {}
    if name.endswith("ForCTC"):
        size = guess.number("vocab_size", default=32)
        return {"labels": {"ids": words(guess, "labels", rows, 4, size)}}
    if "Classification" in name and "Token" not in name:
        return {"labels": {"ids": [at % 2 for at in range(rows)]}}
    ids = made.get("input_ids")
    if "TokenClassification" in name and isinstance(ids, dict):
        return {"labels": {"ids": [[at % 2 for at in range(len(row))] for row in ids["ids"]]}}
    return {}


def later(guess: Guess, made: dict[str, Any]) -> dict[str, Any]:
    """Return inputs that the architecture takes on later releases only.

    A model that is told the grid of its images is told of each token what it stands for, since 5.3.
    """
    name = "mm_token_type_ids"
    if name in guess.arguments or not {"image_grid_thw", "pixel_values", "input_ids"} <= {*made}:
        return {}
    return {name: _MAKERS[name](guess)} if present(guess) else {}


def known(name: str) -> bool:
    """Say whether an argument can be made at all."""
    return name in _MAKERS or name.endswith(("_mask", "input_ids"))


def layouts(guess: Guess) -> list[tuple[dict[str, int], list[str]]]:
    """Return other layouts to try, and with each the arguments to leave out."""
    takes = {*guess.arguments}
    found: list[tuple[dict[str, int], list[str]]] = []
    if "input_features" in takes:
        found += [({"time first": 1}, []), ({"mel dimensions": 4}, [])]
    if "input_values" in takes:
        found += [({"mel dimensions": 1}, []), ({"mono": 1}, [])]
    if "grid_thw" in takes:
        found.append(({"patch axes": 1}, []))
    if "pixel_values" in takes:
        found += [({"pixel dimensions": 5}, []), ({"pixel dimensions": 4}, [])]
    carriers = {one: [*takes & {*names}] for one, names in _CARRIERS.items()}
    if "input_ids" in takes:
        found += [({}, carriers[one]) for one in ("audio", "image") if carriers[one]]
        if carriers["audio"] and carriers["image"]:
            found.append(({}, [*carriers["audio"], *carriers["image"]]))
        found.append(({"batch": 1}, []))
    return found
