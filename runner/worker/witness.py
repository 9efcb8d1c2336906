"""The precision witness: counts what computing operators yield, by dtype and device.

A cell that never computed in the precision that it stands for proves nothing, and on a CPU
`TrainingArguments(fp16=True)` does exactly that. Copies, casts, views, factories and random fills
do not count: they say where numbers lie, not what was computed with them.
"""

from __future__ import annotations

import functools
import re
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

# Base names of ATen operators, without overload and without the underscore of in-place variants.
# A list of what counts, not of what does not: an operator that is missing here makes a cell
# "not exercised", which is seen, while one too many would prove what was never computed.
_COMPUTING = re.compile(
    r"""^(_?)(
      mm|addmm|bmm|baddbmm|addbmm|mv|addmv|dot|vdot|matmul|linear|einsum|outer|ger
    | grouped_mm|scaled_mm|int_mm|addr|cdist|bilinear|mkldnn_linear.*|weight_.*mm.*
    | convolution\w*|conv\d?d?|conv_transpose\w*|mkldnn_convolution|slow_conv\w*|thnn_conv\w*
    | scaled_dot_product\w*|flash_attention\w*|efficient_attention\w*|flex_attention\w*
    | native_layer_norm|layer_norm|native_group_norm|group_norm|rms_norm|fused_rms_norm
    | native_batch_norm\w*|batch_norm\w*|native_norm|norm|linalg_\w+
    | softmax|log_softmax|safe_softmax|gelu|silu|relu|relu6|elu|celu|selu|leaky_relu|mish|hardswish
    | hardsigmoid|hardtanh|softplus|softshrink|glu|sigmoid|log_sigmoid\w*|tanh|prelu|threshold
    | add|sub|rsub|mul|div|true_divide|floor_divide|remainder|fmod|pow|square|sqrt|rsqrt|reciprocal
    | exp|exp2|expm1|log|log2|log10|log1p|erf|erfc|erfinv|sin|cos|tan|asin|acos|atan|atan2|sinh|cosh
    | abs|neg|sign|clamp\w*|maximum|minimum|lerp|addcmul|addcdiv|hypot|logaddexp\w*|logsumexp
    | sum|mean|prod|var|var_mean|std|std_mean|cumsum|cumprod|amax|amin|nansum
    | nll_loss\w*|cross_entropy\w*|mse_loss|l1_loss|smooth_l1_loss|huber_loss|kl_div
    | binary_cross_entropy\w*|cosine_similarity|pairwise_distance
    | avg_pool\w*|adaptive_avg_pool\w*|upsample\w*|grid_sampler\w*|fft_\w+
    | index_add|scatter_add|scatter_reduce|lstm\w*|gru\w*|thnn_fused\w*|foreach_\w+|fused_adam\w*
    | fused_sgd\w*|\w+_backward
    )(_?)$""",
    re.VERBOSE,
)
_CASTING = re.compile(
    r"""^_?(
      foreach_(copy|zero|clone) | to_copy | embedding_\w*backward
    | (slice|select|diagonal|unfold|index_select|masked_select|value_selecting_reduction)_backward
    )_?$""",
    re.VERBOSE,
)

Counts = dict[str, int]


@functools.cache
def computes(name: str) -> bool:
    """Say whether an operator, named as in `aten::mm`, computes its result."""
    base = name.rpartition("::")[2].partition(".")[0]
    return bool(_COMPUTING.match(base)) and not _CASTING.match(base)


class Witness:
    """What was computed so far in this process, all threads together."""

    def __init__(self, *, loads: bool = False) -> None:
        """Begin with nothing seen; `loads` is whether it matters which parameters are used."""
        self.computed: Counts = {}
        self.loaded: Counts = {}
        self.compiles = False
        self.loads = loads
        self.keys: dict[tuple[Any, Any], str] = {}

    def watch(self) -> None:
        """See everything from here on: at once where torch is loaded, else when it is."""
        torch = sys.modules.get("torch")
        if torch is None:
            sys.meta_path.insert(0, _OnImport(self._attach))
        else:
            self._attach(torch)

    def _attach(self, torch: ModuleType) -> None:
        mode = _mode(torch, self)
        mode.__enter__()  # for the rest of the process: it ends without tearing anything down
        begin = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]  # noqa: SLF001
        compiling = torch.compile

        def _bootstrap_inner(thread: threading.Thread) -> None:
            with _mode(torch, self):  # torch keeps its modes per thread
                begin(thread)

        # A mode switches compilation off, silently: no graph is captured, and a case whose
        # compilation fails passes. Such a case is judged by a second run without witness.
        @functools.wraps(compiling)
        def noticed(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            self.compiles = True
            return compiling(*args, **kwargs)

        threading.Thread._bootstrap_inner = _bootstrap_inner  # type: ignore[attr-defined]  # noqa: SLF001
        torch.compile = noticed  # type: ignore[attr-defined]

    def see(self, result: Any) -> None:  # noqa: ANN401 - torch is not importable here
        """Count what an operator returned; whole numbers are not what a precision is about."""
        if isinstance(result, (tuple, list)):
            for part in result:
                self.see(part)
            return
        dtype = getattr(result, "dtype", None)
        if dtype is None:  # no tensor
            return
        key = self.keys.get((dtype, result.device))
        if key is None:  # naming it takes longer than all the rest
            key = self.keys[dtype, result.device] = _key(dtype, result.device)
        if key:
            self.computed[key] = self.computed.get(key, 0) + 1


def _key(dtype: Any, device: Any) -> str:  # noqa: ANN401
    if not dtype.is_floating_point:
        return ""
    name = str(dtype).removeprefix("torch.")
    return name if device.type == "cpu" else f"{name}@{device.type}"


def _mode(torch: ModuleType, witness: Witness) -> Any:  # noqa: ANN401
    from torch.utils._python_dispatch import TorchDispatchMode  # noqa: PLC0415

    parameter = torch.nn.Parameter
    counted: dict[Any, bool] = {}
    see, loads = witness.see, witness.loads

    class Mode(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self,
            func: Any,  # noqa: ANN401
            types: Sequence[type],
            args: tuple[Any, ...] = (),
            kwargs: dict[str, Any] | None = None,
        ) -> Any:  # noqa: ANN401
            result = func(*args, **kwargs) if kwargs else func(*args)
            counts = counted.get(func)
            if counts is None:
                counts = counted[func] = computes(func._schema.name)  # noqa: SLF001
            if counts:
                see(result)
            if loads:
                for part in args:
                    if isinstance(part, parameter) and (key := _key(part.dtype, part.device)):
                        witness.loaded[key] = witness.loaded.get(key, 0) + 1
            return result

    return Mode()


class _OnImport:
    """A finder that runs a callback once torch has been imported, then takes itself away."""

    def __init__(self, then: Callable[[ModuleType], None]) -> None:
        self.then = then

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Let the other finders find torch, and wrap how it is executed."""
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                _wrap(spec.loader, self.then)
                return spec
        return None


def _wrap(loader: Any, then: Callable[[ModuleType], None]) -> None:  # noqa: ANN401
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        del loader.exec_module  # the instance's: the class's own is back
        execute(module)
        then(module)

    loader.exec_module = exec_module


def exercised(
    precision: str, device: str, exercises: str, witness: Witness, *, failed: bool
) -> str:
    """Say `yes`, `no` or nothing: whether the cell computed in its precision.

    Nothing for fp32, and for a cell that failed before its first computation. On a GPU a cell of
    any precision that computed only elsewhere proves nothing.
    """
    dtype = {"bf16": "bfloat16", "fp16": "float16"}.get(precision)
    seen = {*witness.computed, *(witness.loaded if exercises == "load" else ())}
    if failed and not witness.computed and (exercises != "load" or dtype is None):
        return ""
    if dtype is None:
        return "" if device == "cpu" or any(key.endswith(f"@{device}") for key in seen) else "no"
    return "yes" if (dtype if device == "cpu" else f"{dtype}@{device}") in seen else "no"
