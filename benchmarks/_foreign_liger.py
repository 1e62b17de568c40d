"""Launches of kernels of Liger-Kernel (linkedin/Liger-Kernel), which Triton compiles to PTX.

Each launch has the block, the warps and the grid that the project's own wrapper gives it on an H200; where
the project tunes, one of the choices that it tries. Kernels that write over what they read are left out,
since what is measured must compute the same at each launch.
"""

from __future__ import annotations

from typing import Any

from _foreign import array
from _foreign_triton import Made

__all__ = ["FOLDER", "checks", "launches"]

#: Its folder among the sources.
FOLDER = "Liger-Kernel/src/liger_kernel/ops"
#: Stages where a wrapper does not say: Triton's default.
STAGES = 3
#: Casting modes of the norms: a reduction in single precision, a product with the weights in the array's.
LLAMA = 0


def _block(n: int, most: int = 65536) -> int:
    """Return the next power of two, if it is not above the most."""
    return min(most, 1 << (n - 1).bit_length())


def _warps(block: int) -> int:
    """Return the warps of ``calculate_settings`` and of ``get_num_warps``."""
    return 32 if block >= 32768 else 16 if block >= 8192 else 8 if block >= 2048 else 4


def _tolerance(type: str) -> dict[str, float]:
    bound = 1e-4 if type == "f32" else 2e-2
    return {"rtol": bound, "atol": bound}


def _made(
    name: str,
    file: str,
    function: str,
    arrays: dict[str, Any],
    arguments: dict[str, Any],
    constants: dict[str, Any],
    more: dict[str, Any],
    *,
    warps: int | None = None,
    stages: int = STAGES,
    grid: tuple[int, int, int] | None = None,
    floats: tuple[str, ...] = (),
) -> Made:
    """Return a launch; without a grid, of a program for each row of the first array."""
    rows = next(iter(arrays.values()))["shape"][0]
    warps = _warps(constants["BLOCK_SIZE"]) if warps is None else warps
    grid = (rows, 1, 1) if grid is None else grid
    return Made(
        f"liger {name}",
        file,
        function,
        arguments,
        constants,
        arrays,
        warps,
        stages,
        grid,
        more,
        floats,
        FOLDER,
    )


# --- norms ----------------------------------------------------------------------------------------


def rms_norm(rows: int, columns: int) -> Made:
    arrays = {
        "x": array("bf16", rows, columns),
        "w": array("bf16", columns),
        "y": array("bf16", rows, columns, role="out"),
        "rstd": array("f32", rows, role="out"),
    }
    arguments = {"Y_ptr": "y", "X_ptr": "x", "W_ptr": "w", "RSTD_ptr": "rstd", "n_cols": columns}
    arguments |= {"Y_row_stride": columns, "X_row_stride": columns, "W_row_stride": 1, "RSTD_row_stride": 1}
    arguments |= {"eps": 1e-6, "offset": 0.0}
    return _made(
        f"rms_norm {rows}x{columns}",
        "rms_norm.py",
        "_rms_norm_forward_kernel",
        arrays,
        arguments,
        {"casting_mode": LLAMA, "elementwise_affine": True, "BLOCK_SIZE": _block(columns)},
        {"reference": "rms norm", "parameters": {"eps": 1e-6}, **_tolerance("bf16")},
        floats=("eps", "offset"),
    )


def fused_add_rms_norm(rows: int, columns: int) -> Made:
    arrays = {
        "x": array("bf16", rows, columns),
        "residual": array("bf16", rows, columns),
        "w": array("bf16", columns),
        "y": array("bf16", rows, columns, role="out"),
        "s": array("bf16", rows, columns, role="out"),
        "rstd": array("f32", rows, role="out"),
    }
    arguments = {"Y_ptr": "y", "S_ptr": "s", "X_ptr": "x", "R_ptr": "residual", "W_ptr": "w"}
    arguments |= {f"{name}_row_stride": columns for name in "YSXR"}
    arguments |= {"W_row_stride": 1, "RSTD_ptr": "rstd", "RSTD_row_stride": 1, "n_cols": columns}
    arguments |= {"eps": 1e-6, "offset": 0.0}
    return _made(
        f"fused_add_rms_norm {rows}x{columns}",
        "fused_add_rms_norm.py",
        "_fused_add_rms_norm_forward_kernel",
        arrays,
        arguments,
        {"casting_mode": LLAMA, "BLOCK_SIZE": _block(columns)},
        {"reference": "fused add rms norm", "parameters": {"eps": 1e-6}, **_tolerance("bf16")},
        stages=2,
        floats=("eps", "offset"),
    )


def layer_norm(rows: int, columns: int) -> Made:
    arrays = {
        "x": array("f32", rows, columns),
        "w": array("f32", columns),
        "b": array("f32", columns),
        "y": array("f32", rows, columns, role="out"),
        "mean": array("f32", rows, role="out"),
        "rstd": array("f32", rows, role="out"),
    }
    arguments = {"Y_ptr": "y", "X_ptr": "x", "W_ptr": "w", "B_ptr": "b", "Mean_ptr": "mean"}
    arguments |= {"RSTD_ptr": "rstd", "Y_row_stride": columns, "X_row_stride": columns, "n_cols": columns}
    arguments |= {f"{name}_row_stride": 1 for name in ("W", "B", "Mean", "RSTD")}
    return _made(
        f"layer_norm {rows}x{columns}",
        "layer_norm.py",
        "_layer_norm_forward_kernel",
        arrays,
        {**arguments, "eps": 1e-5},
        {"BLOCK_SIZE": _block(columns)},
        {"reference": "layer norm", **_tolerance("f32")},
        floats=("eps",),
    )


def group_norm(images: int, channels: int, groups: int, pixels: int) -> Made:
    """The norm of each group of channels, of images that have so many pixels."""
    hidden = channels // groups * pixels
    arrays = {
        "x": array("f32", images, groups, hidden),
        "w": array("f32", channels),
        "b": array("f32", channels),
        "y": array("f32", images, groups, hidden, role="out"),
        "mean": array("f32", images, groups, role="out"),
        "rstd": array("f32", images, groups, role="out"),
    }
    arguments = {
        "Y_ptr": "y",
        "X_ptr": "x",
        "Mean_ptr": "mean",
        "RSTD_ptr": "rstd",
        "W_ptr": "w",
        "B_ptr": "b",
    }
    for name in ("Y", "X"):
        arguments |= {f"{name}_row_stride": groups * hidden, f"{name}_col_stride": hidden}
    for name in ("Mean", "RSTD"):
        arguments |= {f"{name}_row_stride": groups, f"{name}_col_stride": 1}
    arguments |= {"hidden_size": hidden, "channels_per_group": channels // groups, "eps": 1e-6}
    return _made(
        f"group_norm {images}x{channels}x{pixels}",
        "group_norm.py",
        "_group_norm_forward_kernel",
        arrays,
        arguments,
        {"BLOCK_SIZE": _block(hidden)},
        {"reference": "group norm", "parameters": {"eps": 1e-6}, **_tolerance("f32")},
        warps=4,
        grid=(images, groups, 1),
        floats=("eps",),
    )


def poly_norm(rows: int, columns: int) -> Made:
    arrays = {
        "x": array("f32", rows, columns),
        "w": array("f32", 3),
        "b": array("f32", 1),
        "y": array("f32", rows, columns, role="out"),
        "rstd": array("f32", rows, 3, role="out"),
    }
    arguments = {"Y_ptr": "y", "X_ptr": "x", "W_ptr": "w", "B_ptr": "b", "RSTD_ptr": "rstd"}
    arguments |= {"Y_row_stride": columns, "X_row_stride": columns, "RSTD_row_stride": 3}
    return _made(
        f"poly_norm {rows}x{columns}",
        "poly_norm.py",
        "_poly_norm_forward_kernel",
        arrays,
        {**arguments, "n_cols": columns, "eps": 1e-6},
        {"BLOCK_SIZE": _block(columns)},
        {"reference": "poly norm", "parameters": {"eps": 1e-6}, **_tolerance("f32")},
        floats=("eps",),
    )


def dyt(rows: int, columns: int) -> Made:
    """The dynamic tanh, which stands for a norm, with one of the choices that the project tries.

    Whether an argument is small decides which way the function goes.
    """
    arrays = {
        "x": array("f32", rows, columns, drawn=True),
        "alpha": array("f32", 1, data=[0.5]),
        "gamma": array("f32", columns),
        "beta": array("f32", columns),
        "y": array("f32", rows, columns, role="out"),
    }
    block = 2048
    return _made(
        f"dyt {rows}x{columns}",
        "dyt.py",
        "_dyt_fwd_kernel",
        arrays,
        {"X": "x", "Y": "y", "Alpha": "alpha", "Gamma": "gamma", "Beta": "beta"},
        {"HAVE_BETA": True, "N": columns, "BLOCK_N": block},
        {"reference": "dynamic tanh", **_tolerance("f32")},
        warps=8,
        stages=1,
        grid=(-(-columns // block), rows, 1),
    )


# --- functions of each element, and softmax -------------------------------------------------------


def swiglu(rows: int, columns: int) -> Made:
    arrays = {name: array("bf16", rows, columns) for name in "ab"}
    arrays["c"] = array("bf16", rows, columns, role="out")
    return _made(
        f"swiglu {rows}x{columns}",
        "swiglu.py",
        "_swiglu_forward_kernel",
        arrays,
        {"a_ptr": "a", "b_ptr": "b", "c_ptr": "c", "stride": columns, "gate_multiplier": 1.0},
        {"n_cols": columns, "BLOCK_SIZE": _block(columns)},
        {"reference": "swiglu", **_tolerance("bf16")},
        floats=("gate_multiplier",),
    )


def geglu(rows: int, columns: int) -> Made:
    """The product with the approximate GELU, of whose arguments the small ones go another way."""
    arrays = {"a": array("bf16", rows, columns, drawn=True), "b": array("bf16", rows, columns)}
    arrays["c"] = array("bf16", rows, columns, role="out")
    return _made(
        f"geglu {rows}x{columns}",
        "geglu.py",
        "_geglu_tanh_forward_kernel",
        arrays,
        {"a": "a", "b": "b", "c": "c", "stride": columns},
        {"n_cols": columns, "BLOCK_SIZE": _block(columns)},
        {"reference": "geglu", **_tolerance("bf16")},
    )


def relu_squared_backward(rows: int, columns: int) -> Made:
    arrays = {"dy": array("bf16", rows, columns), "x": array("bf16", rows, columns)}
    arrays["dx"] = array("bf16", rows, columns, role="out")
    arguments = {"dX_ptr": "dx", "dY_ptr": "dy", "X_ptr": "x"}
    return _made(
        f"relu_squared-backward {rows}x{columns}",
        "relu_squared.py",
        "_relu_squared_backward_kernel",
        arrays,
        {**arguments, **{f"{name}_stride": columns for name in ("dX", "dY", "X")}},
        {"n_cols": columns, "BLOCK_SIZE": _block(columns)},
        {"reference": "relu squared backward", **_tolerance("bf16")},
    )


def softmax(rows: int, columns: int) -> Made:
    arrays = {"x": array("f32", rows, columns), "y": array("f32", rows, columns, role="out")}
    arguments = {"Y_ptr": "y", "X_ptr": "x", "Y_row_stride": columns, "X_row_stride": columns}
    return _made(
        f"softmax {rows}x{columns}",
        "softmax.py",
        "_softmax_single_block_forward_kernel",
        arrays,
        {**arguments, "n_cols": columns},
        {"BLOCK_SIZE": _block(columns)},
        {"reference": "softmax", "rtol": 1e-4, "atol": 1e-6},
    )


def softmax_backward(rows: int, columns: int) -> Made:
    arrays = {"dy": array("f32", rows, columns), "y": array("f32", rows, columns)}
    arrays["dx"] = array("f32", rows, columns, role="out")
    arguments = {"dy_ptr": "dy", "y_ptr": "y", "dx_ptr": "dx", "n_cols": columns}
    return _made(
        f"softmax-backward {rows}x{columns}",
        "softmax.py",
        "_softmax_single_block_backward_kernel",
        arrays,
        {**arguments, **{f"{name}_stride": columns for name in ("dy", "y", "dx")}},
        {"BLOCK_SIZE": _block(columns)},
        {"reference": "softmax backward", "rtol": 1e-3, "atol": 1e-2},
    )


# --- losses ---------------------------------------------------------------------------------------


def cross_entropy(rows: int, columns: int) -> Made:
    """The loss alone, as of logits without gradients: the kernel would write these over them."""
    arrays = {
        "x": array("bf16", rows, columns),
        "target": array("s64", rows, data=[row * 7919 % columns for row in range(rows)]),
        "loss": array("bf16", rows, role="out"),
    }
    arguments = {"X_ptr": "x", "X_stride": columns, "Y_ptr": "target", "Y_stride": 1, "loss_ptr": "loss"}
    arguments |= {"loss_stride": 1, "token_accuracy_stride": 0, "predicted_tokens_stride": 0}
    arguments |= {"n_cols": columns, "n_non_ignore": rows, "sum_non_ignore_weight": rows}
    arguments |= {"weight_sum": 0.0, "ignore_index": -100}
    constants: dict[str, Any] = {"weight_ptr": None, "z_loss_ptr": None, "token_accuracy_ptr": None}
    constants |= {"predicted_tokens_ptr": None, "softcap": None, "lse_square_scale": 0.0}
    constants |= {"label_smoothing": 0.0, "reduction": "mean", "BLOCK_SIZE": _block(columns, 32768)}
    flags = ("RETURN_Z_LOSS", "RETURN_TOKEN_ACCURACY", "RETURN_PREDICTED_TOKENS", "HAS_WEIGHT")
    flags += ("HAS_SOFTCAPPING", "HAS_GRADIENTS")
    return _made(
        f"cross_entropy {rows}x{columns}",
        "cross_entropy.py",
        "liger_cross_entropy_kernel",
        arrays,
        arguments,
        {**constants, **dict.fromkeys(flags, False)},
        {"reference": "cross entropy", "rtol": 2e-2, "atol": 2e-2 / rows},
        warps=32,
        floats=("weight_sum",),
    )


def kl_div(rows: int, columns: int) -> Made:
    """The sum of each row, of which the project makes the mean of the batch.

    Whether a target's logarithm is finite decides which way it goes.
    """
    arrays = {
        "y": array("f32", rows, columns),
        "target": array("f32", rows, columns, drawn=True),
        "loss": array("f32", rows, role="out"),
    }
    arguments = {"y_ptr": "y", "y_stride": columns, "gt_ptr": "target", "gt_stride": columns}
    arguments |= {"loss_ptr": "loss", "loss_stride": 1, "n_cols": columns, "eps": 1e-10}
    return _made(
        f"kl_div {rows}x{columns}",
        "kl_div.py",
        "_kldiv_kernel_forward",
        arrays,
        arguments,
        {"log_target": False, "reduction": 3, "BLOCK_SIZE": _block(columns, 16384)},
        {"reference": "kl divergence", "parameters": {"eps": 1e-10}, "rtol": 1e-3, "atol": 1e-2},
        floats=("eps",),
    )


def tvd(rows: int, columns: int) -> Made:
    """The total variation, with its gradients; the losses' address stands for that of labels."""
    arrays = {
        "p": array("f32", rows, columns),
        "q": array("f32", rows, columns),
        "loss": array("f32", rows, role="out"),
        "grads": array("f32", rows, columns, role="out"),
    }
    arguments = {f"{name}_ptr": name for name in ("p", "q", "loss", "grads")} | {"label_ptr": "loss"}
    arguments |= {f"{name}_stride": columns for name in ("p", "q", "grads")} | {"loss_stride": 1}
    constants = {"ignore_index": -100, "HAS_LABEL": False, "reduction": 3}
    return _made(
        f"tvd {rows}x{columns}",
        "tvd.py",
        "_tv_distance_kernel",
        arrays,
        {**arguments, "n_cols": columns, "scale": 1.0 / rows},
        {**constants, "BLOCK_SIZE": _block(columns, 16384)},
        {"reference": "total variation", "rtol": 1e-3, "atol": 1e-3 / rows},
        floats=("scale",),
    )


# --- the set --------------------------------------------------------------------------------------


def launches() -> list[Made]:
    """Return the launches that are predicted."""
    return [
        rms_norm(8192, 4096),
        rms_norm(16384, 2048),
        fused_add_rms_norm(8192, 4096),
        layer_norm(8192, 4096),
        group_norm(256, 512, 32, 256),
        poly_norm(8192, 4096),
        dyt(8192, 4096),
        swiglu(8192, 11008),
        geglu(4096, 14336),
        relu_squared_backward(4096, 11008),
        softmax(8192, 4096),
        softmax(2048, 32000),
        softmax_backward(4096, 8192),
        cross_entropy(4096, 32000),
        kl_div(2048, 32000),
        tvd(1024, 32000),
    ]


def checks() -> list[Made]:
    """Return small launches of the same kernels, for the simulator."""
    return [
        rms_norm(4, 4096),
        rms_norm(4, 2048),
        fused_add_rms_norm(4, 4096),
        layer_norm(4, 4096),
        group_norm(2, 32, 2, 256),
        poly_norm(4, 4096),
        dyt(4, 4096),
        swiglu(4, 11008),
        geglu(4, 14336),
        relu_squared_backward(4, 11008),
        softmax(4, 4096),
        softmax(4, 32000),
        softmax_backward(4, 8192),
        cross_entropy(4, 32000),
        kl_div(4, 32000),
        tvd(4, 32000),
    ]
