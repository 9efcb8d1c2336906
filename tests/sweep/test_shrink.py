"""What the names of fields and the messages of errors say, without torch."""

from __future__ import annotations

from typing import Any

import pytest

from repromatrix.sweep.child import amend, fields, guess_inputs, repairs, tokens


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("vocab_size", "vocabulary"),
        ("type_vocab_size", "keep"),
        ("num_hidden_layers", "depth"),
        ("num_attention_heads", "heads"),
        ("num_key_value_heads", "kv heads"),
        ("qk_rope_head_dim", "head"),
        ("hidden_size", "width"),
        ("encoder_ffn_dim", "ffn"),
        ("num_experts_per_tok", "topk"),
        ("n_routed_experts", "experts"),
        ("q_lora_rank", "rank"),
        ("image_token_id", "token"),
        ("conv_kernel_size", "keep"),
        ("nothing_known", ""),
    ],
)
def test_a_name_tells_the_kind_of_a_field(name: str, kind: str) -> None:
    assert fields.kind_of(name) == kind


def test_of_the_layers_the_first_of_each_kind_stay() -> None:
    kinds = ["linear", "linear", "full", "linear", "linear", "full"]
    tree = {
        "num_hidden_layers": 6,
        "layer_types": kinds,
        "mlp_layer_types": ["dense", *["sparse"] * 5],
    }

    small = fields.tiny(tree, "names")

    assert small["num_hidden_layers"] == 3
    assert small["layer_types"] == ["linear", "linear", "full"]
    assert small["mlp_layer_types"] == ["dense", "sparse", "sparse"]


def test_indices_of_layers_point_into_the_small_model() -> None:
    tree = {"num_hidden_layers": 12, "out_indices": [3, 6, 9, 12]}

    small = fields.tiny(tree, "names")

    assert small == {"num_hidden_layers": 4, "out_indices": [1, 2, 3, 4]}


def test_lists_of_stages_keep_their_ratios_through_all_configs() -> None:
    tree = {
        "backbone_config": {
            "model_type": "resnet",
            "depths": [3, 4, 6, 3],
            "hidden_sizes": [256, 512, 1024, 2048],
            "embedding_size": 64,
        },
        "encoder_in_channels": [512, 1024, 2048],
    }

    small = fields.tiny(tree, "names")

    assert small["backbone_config"]["hidden_sizes"] == [32, 64, 128, 256]
    assert small["backbone_config"]["embedding_size"] == 8
    assert small["encoder_in_channels"] == [64, 128, 256]


def test_heads_that_were_equal_stay_equal() -> None:
    equal = {"num_attention_heads": 32, "num_key_value_heads": 32, "hidden_size": 4096}
    fewer = {"num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096}

    assert fields.tiny(equal, "names")["num_key_value_heads"] == 4
    assert fields.tiny(fewer, "names")["num_key_value_heads"] == 2


def test_a_plain_token_is_none_of_those_that_mean_something() -> None:
    tree = {"pad_token_id": 0, "eos_token_id": [5, 7], "image_token_id": 6}

    assert tokens.plain_token(tree) == ([0, 5, 6, 7], 8)
    assert tokens.plain_token({}) == ([], 5)


def test_special_tokens_move_to_the_end_the_same_ones_together() -> None:
    tree = {
        "image_token_id": 151655,
        "bos_token_id": 1,
        "text_config": {"model_type": "x", "vocab_size": 256, "image_token_id": 151655},
    }

    tokens.move_tokens(tree)

    assert tree["image_token_id"] == 255
    assert tree["bos_token_id"] == 1
    assert tree["text_config"] == {"model_type": "x", "vocab_size": 256, "image_token_id": 255}


def test_the_uniform_strategy_divides_all_widths_and_keeps_heads() -> None:
    tree = {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12}

    assert fields.tiny(tree, "uniform") == {
        "hidden_size": 96,
        "intermediate_size": 384,
        "num_attention_heads": 12,
    }


def test_open_rotary_settings_are_filled_and_cut_where_the_model_cuts_them() -> None:
    config = {"rope_scaling": None, "head_dim": 16, "hidden_size": 64}
    tree: dict[str, Any] = {"text_config": {**config}, "vision_config": {**config}}

    assert amend.open_rotary(tree, cut=True)
    assert tree["text_config"]["rope_scaling"] == {
        "rope_type": "default",
        "mrope_section": [2, 3, 3],
    }
    assert tree["vision_config"] == config
    assert not amend.open_rotary(tree, cut=True)


def test_an_open_size_is_filled_where_the_failing_line_names_it() -> None:
    tree = {"num_attention_heads": 4, "hidden_size": 64, "head_dim": None, "n_group": None}

    assert amend.fill_open(tree, "self.scaling = self.head_dim**-0.5")
    assert tree["head_dim"] == 16
    assert tree["n_group"] is None


@pytest.mark.parametrize(
    ("message", "line", "change"),
    [
        (
            "Image features and image tokens do not match, tokens: 0, features: 8",
            "",
            ("tokens", ("image", 8)),
        ),
        (
            "Audio features and audio tokens do not match, tokens: 4, features: 32",
            "",
            ("tokens", ("audio", 32)),
        ),
        (
            "X.forward() missing 1 required positional argument: 'query_embeds'",
            "",
            ("wanted", "query_embeds"),
        ),
        (
            "Got 0 image tokens in the text but 32 tokens from image embeddings.",
            "",
            ("tokens", ("image", 32)),
        ),
        (
            "value tensor of shape [9, 64] cannot be broadcast to indexing result of shape [0, 64]",
            "",
            ("tokens", ("image", 9)),
        ),
        (
            "VisionModel.forward() got an unexpected keyword argument 'query_embeds'",
            "",
            ("refused", "query_embeds"),
        ),
        ("You have to specify pixel_values", "", ("wanted", "pixel_values")),
        (
            "'NoneType' object has no attribute 'sum'",
            "lengths = input_features_mask.sum(-1)",
            ("wanted", "input_features_mask"),
        ),
        (
            "Whisper expects the mel input features to be of length 3000, but found 64.",
            "",
            ("sizes", ("frames", 3000)),
        ),
        (
            "not enough values to unpack (expected 5, got 4)",
            "batch_size, num_images, channels, height, width = pixel_values.shape",
            ("layout", {"pixel dimensions": 5}),
        ),
        (
            "split_sizes to sum exactly to 8 (dimension -1), but got split_sizes=[16, 24, 24]",
            "",
            ("sections", ([16, 24, 24], 8)),
        ),
        (
            "Cannot handle batch sizes > 1 if no padding token is defined.",
            "",
            ("field", "pad_token_id"),
        ),
        ("All examples must have the same number of <eos> tokens.", "", ("sizes", ("end", 1))),
        (
            "'NoneType' object is not subscriptable",
            'cos, sin, self.rope_scaling["mrope_section"]',
            ("rotary", True),
        ),
        (
            "self.model.config.decoder_start_token_id has to be defined. In T5 it is",
            "",
            ("field", "decoder_start_token_id"),
        ),
    ],
)
def test_an_error_tells_what_is_wanted(message: str, line: str, change: object) -> None:
    arguments = ["input_ids", "pixel_values", "input_features_mask", "query_embeds"]

    assert repairs.changes(message, line, arguments)[0] == change


def test_an_error_that_says_nothing_changes_nothing() -> None:
    assert repairs.changes("mat1 and mat2 shapes cannot be multiplied", "", ["input_ids"]) == []


def test_random_text_holds_no_special_token_and_as_many_image_tokens_as_features() -> None:
    tree = {"vocab_size": 40, "image_token_id": 39, "eos_token_id": 12}
    guess = guess_inputs.Guess(tree, ["input_ids", "attention_mask", "pixel_values"], [])
    guess.tokens["image"] = 4

    made = guess_inputs.inputs(guess)

    rows = made["input_ids"]["ids"]
    assert [row.count(39) for row in rows] == [4, 4]
    assert all(12 not in row for row in rows)
    assert [len(row) for row in rows] == [len(row) for row in made["attention_mask"]["ids"]]
    assert made == guess_inputs.inputs(guess)


def test_tokens_open_and_close_an_image_and_later_releases_are_told_what_each_stands_for() -> None:
    tree = {"vocab_size": 40, "image_token_id": 39}
    tree |= {"vision_start_token_id": 38, "vision_end_token_id": 37}
    arguments = ["input_ids", "attention_mask", "pixel_values", "image_grid_thw"]
    guess = guess_inputs.Guess(tree, arguments, [])
    guess.tokens["image"] = 2

    made = guess_inputs.inputs(guess)
    later = guess_inputs.later(guess, made)

    rows = made["input_ids"]["ids"]
    assert [row[1:5] for row in rows] == [[38, 39, 39, 37]] * 2
    assert len(rows[0]) == len(made["attention_mask"]["ids"][0])
    assert [row[:6] for row in later["mm_token_type_ids"]["ids"]] == [[0, 0, 1, 1, 0, 0]] * 2
    guess.arguments.append("mm_token_type_ids")
    assert guess_inputs.later(guess, made) == {}
