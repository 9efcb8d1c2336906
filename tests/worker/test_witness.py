"""The precision witness: which operators compute, and what a cell therefore proved."""

from __future__ import annotations

import pytest

from repromatrix.runner.worker.witness import Witness, computes, exercised

COMPUTING = """
aten::mm aten::addmm aten::bmm aten::baddbmm aten::mv aten::dot aten::matmul aten::linear
aten::convolution aten::convolution_overrideable aten::mkldnn_convolution aten::conv2d
aten::_scaled_dot_product_flash_attention_for_cpu aten::scaled_dot_product_attention
aten::_scaled_dot_product_efficient_attention aten::_flash_attention_forward
aten::native_layer_norm aten::native_group_norm aten::_fused_rms_norm aten::native_batch_norm
aten::_softmax aten::_log_softmax aten::_safe_softmax aten::gelu aten::silu aten::silu_ aten::relu
aten::sigmoid aten::tanh aten::add.Tensor aten::add_.Tensor aten::sub.Tensor aten::mul.Scalar
aten::div.Tensor aten::pow.Tensor_Scalar aten::rsqrt aten::exp aten::sin aten::cos aten::erf
aten::sum.dim_IntList aten::mean.dim aten::cumsum aten::amax aten::var_mean.correction
aten::nll_loss_forward aten::mse_loss aten::binary_cross_entropy_with_logits
aten::native_layer_norm_backward aten::convolution_backward aten::gelu_backward
aten::threshold_backward aten::_foreach_add_.List aten::_foreach_mul_.Scalar aten::_fused_adamw_
aten::index_add aten::scatter_add aten::upsample_bilinear2d aten::_fft_r2c aten::linalg_vector_norm
aten::lerp_.Scalar aten::addcdiv_ aten::clamp_min aten::neg aten::_grouped_mm
"""
NOT_COMPUTING = """
aten::_to_copy aten::copy_ aten::clone aten::to.dtype aten::detach aten::alias aten::contiguous
aten::view aten::_unsafe_view aten::reshape aten::t aten::transpose.int aten::permute
aten::expand aten::unsqueeze aten::squeeze.dim aten::slice.Tensor aten::select.int
aten::empty.memory_format aten::zeros aten::ones_like aten::full aten::arange aten::zero_
aten::fill_.Scalar
aten::normal_ aten::uniform_ aten::bernoulli_.float aten::randn
aten::multinomial aten::native_dropout
aten::embedding aten::index.Tensor aten::index_select aten::gather aten::cat aten::stack
aten::index_copy_ aten::index_put_ aten::masked_fill.Scalar aten::where.self aten::triu aten::tril
aten::_foreach_copy_ aten::_foreach_zero_ aten::embedding_dense_backward aten::slice_backward
aten::select_backward aten::unfold_backward aten::diagonal_backward aten::index_select_backward
aten::value_selecting_reduction_backward
aten::eq.Tensor aten::lt.Scalar aten::isfinite aten::argmax aten::topk aten::sort aten::nonzero
aten::item aten::_local_scalar_dense aten::is_floating_point prims::convert_element_type
"""


@pytest.mark.parametrize("name", COMPUTING.split())
def test_an_operator_that_computes_counts(name: str) -> None:
    assert computes(name)


@pytest.mark.parametrize("name", NOT_COMPUTING.split())
def test_copies_casts_views_factories_and_fills_do_not_count(name: str) -> None:
    assert not computes(name)


def _witness(computed: str = "", loaded: str = "") -> Witness:
    witness = Witness()
    witness.computed = dict.fromkeys(computed.split(), 3)
    witness.loaded = dict.fromkeys(loaded.split(), 3)
    return witness


TABLE = """
precision device exercises failed computed       loaded   expected
fp32      cpu    compute   no     -              -        empty
fp32      cpu    compute   yes    float32        -        empty
bf16      cpu    compute   no     bfloat16       -        yes
bf16      cpu    compute   yes    bfloat16       -        yes
bf16      cpu    compute   no     float32        bfloat16 no
bf16      cpu    compute   no     -              -        no
bf16      cpu    compute   yes    -              -        empty
bf16      cpu    compute   yes    float32        -        no
fp16      cpu    compute   no     bfloat16       -        no
fp16      cpu    compute   no     float16        -        yes
fp16      cuda   compute   no     float16        -        no
fp16      cuda   compute   no     float16@cuda   -        yes
fp16      cpu    compute   no     float16@cuda   -        no
bf16      cpu    load      no     -              bfloat16 yes
bf16      cpu    load      yes    -              bfloat16 yes
bf16      cpu    load      no     -              float32  no
bf16      cpu    load      yes    -              -        no
bf16      cpu    load      no     bfloat16       -        yes
bf16      cuda   load      no     -              bfloat16 no
bf16      cuda   load      no     -              bfloat16@cuda yes
fp32      cuda   compute   no     float32@cuda   -        empty
fp32      cuda   compute   no     float32        -        no
fp32      cuda   compute   no     -              -        no
fp32      cuda   compute   yes    -              -        empty
fp32      cuda   compute   yes    float32        -        no
fp32      cuda   load      no     -              float32@cuda empty
fp32      cuda   load      no     -              float32  no
"""


@pytest.mark.parametrize("line", TABLE.strip().splitlines()[1:])
def test_a_cell_is_exercised_when_it_computed_in_its_precision(line: str) -> None:
    words = ["" if word in {"-", "empty"} else word for word in line.split()]
    precision, device, exercises, failed, computed, loaded, expected = words
    witness = _witness(computed, loaded)

    assert expected == exercised(precision, device, exercises, witness, failed=failed == "yes")
