# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers>=4.56"]
#
# [tool.repromatrix]
# title = "SAM 2 video in fp16: mat1 and mat2 must have the same dtype at the second frame"
# reports = ["https://github.com/huggingface/transformers/pull/43268"]
# area = "vision-tower"
# models = ["sam2_video"]
# trigger = ["load", "cast", "forward"]
# symptom = ["error"]
#
# [tool.repromatrix.workarounds]
# bf16 = { says = "Run the model and the session in bf16.", skips = true }
#
# [tool.repromatrix.snippets]
# bf16 = '''
# model.to(device, torch.bfloat16)
# session = Sam2VideoInferenceSession(video, height, width, dtype=model.dtype)'''
#
# [[tool.repromatrix.fails]]
# when = ["transformers>=4.56.0,<5.0.0"]
# precisions = ["fp16"]
# raises = "RuntimeError"
# match = "mat1 and mat2 must have the same dtype, but got Float and Half"
# where = "transformers.models.sam2_video.modeling_sam2_video:Sam2VideoRoPEAttention.forward"
# fixed-by = "https://github.com/huggingface/transformers/pull/43268"
#
# [[tool.repromatrix.fails]]
# title = "SAM 2 video in 5.0 cannot track: no attribute 'fpn_position_embeddings'"
# when = ["transformers>=5.0.0,<5.1.0"]
# workarounds = ["*"]
# raises = "AttributeError"
# match = "'Sam2VisionEncoderOutput' object has no attribute 'fpn_position_embeddings'"
# where = "transformers.models.sam2_video.modeling_sam2_video:Sam2VideoModel._prepare_vision_features"
# fixed-by = "https://github.com/huggingface/transformers/pull/43487"
# note = "Another bug: 5.0 tracks in no precision."
#
# [[tool.repromatrix.claims]]
# report = "https://github.com/huggingface/transformers/pull/43268"
# says = "SAM 2 can track in fp16 from then on."
# when = ["transformers>=5.0"]
# precisions = ["fp16"]
# outcome = "passes"
# ///
"""SAM 2 must track an object from one frame of a video to the next, in the dtype of its weights.

The memory of a frame is kept in bf16 and joined with pointers in the dtype of the model. In fp16
both together become fp32, and the next projection has weights in fp16.
"""

import os
import sys

import torch
from transformers import Sam2VideoInferenceSession, Sam2VideoMaskDecoderConfig, Sam2VideoModel

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZE, WIDTH = 64, 128
STAGES = {"embed_dim_per_stage": [8, 16, 24, 32], "num_attention_heads_per_stage": [1, 1, 1, 1]}
BLOCKS = {"blocks_per_stage": [1, 1, 1, 1]}
BACKBONE = {"hidden_size": 8, "image_size": [SIZE, SIZE], "global_attention_blocks": []}
VISION = {
    "backbone_config": {**BACKBONE, **STAGES, **BLOCKS, "model_type": "sam2_hiera_det_model"},
    "fpn_hidden_size": WIDTH,
}
LEVELS = {
    "backbone_channel_list": [32, 24, 16, 8],
    "backbone_feature_sizes": [[16] * 2, [8] * 2, [4] * 2],
}
PROMPT = {"hidden_size": WIDTH, "image_size": SIZE, "mask_input_channels": 4}
DECODER = {"hidden_size": WIDTH, "mlp_dim": WIDTH, "iou_head_hidden_dim": WIDTH}
ATTENTION = {"hidden_size": WIDTH, "num_layers": 1, "feed_forward_hidden_size": WIDTH}
ENCODER = {"memory_encoder_hidden_size": WIDTH, "mask_downsampler_embed_dim": WIDTH}
FUSER = {"memory_fuser_embed_dim": WIDTH, "memory_fuser_intermediate_dim": WIDTH}
WORKAROUNDS = {"", "bf16"}
measured: dict[str, float] = {}


def tiny() -> Sam2VideoModel:
    attention = {f"memory_attention_{name}": value for name, value in ATTENTION.items()}
    config = Sam2VideoModel.config_class(
        vision_config={**VISION, **LEVELS, "model_type": "sam2_vision_model"},
        prompt_encoder_config=PROMPT,
        mask_decoder_config=Sam2VideoMaskDecoderConfig(**DECODER),
        image_size=SIZE,
        memory_encoder_output_channels=64,
        memory_attention_rope_feat_sizes=[4, 4],
        **{**attention, **ENCODER, **FUSER},
    )
    return Sam2VideoModel(config).eval()


def main(precision: str, workaround: str = "") -> None:
    assert workaround in WORKAROUNDS, f"unknown workaround {workaround}"
    torch.manual_seed(int(os.environ.get("REPRO_SEED", "0")))
    device, dtype = os.environ.get("REPRO_DEVICE", "cpu"), DTYPES[precision]
    model = tiny().to(device, torch.bfloat16 if workaround == "bf16" else dtype)
    video = torch.randn(2, 3, SIZE, SIZE)
    session = Sam2VideoInferenceSession(
        video, SIZE, SIZE, inference_device=device, dtype=model.dtype
    )
    points = torch.full((1, 1, 1, 2), 20.0)
    labels = torch.ones(1, 1, 1, dtype=torch.int32)
    first = {"point_coords": points, "point_labels": labels}
    session.add_point_inputs(session.obj_id_to_idx(1), 0, first)
    session.obj_with_new_inputs = [1]
    masks = [model(session, frame_idx=frame).pred_masks for frame in (0, 1)]
    assert torch.stack(masks).isfinite().all(), "a mask is not finite"


if __name__ == "__main__":
    main(*sys.argv[1:])
