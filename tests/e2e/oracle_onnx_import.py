#!/usr/bin/env python3
"""Nodes of ONNX as a file may have them: `dlrun predict` with what `dlc import` makes of them, against ONNX Runtime.

oracle_onnx_import.py BUILD     needs scripts/install-oracle onnx; SKIP (77) without it

Recurrent layers in all of their forms, and the rows of imports/onnx/ops.def with their attributes, for several opsets.
"""
import os
import pathlib
import subprocess
import sys

PYTHON = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "dlc-onnx/bin/python"
try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    if PYTHON.exists() and pathlib.Path(sys.prefix) != PYTHON.parent.parent:
        os.execv(PYTHON, [str(PYTHON), *sys.argv])
    print(f"SKIP: {missing} (scripts/install-oracle onnx)")
    sys.exit(77)

from checks import ENV, TMP, check, finish, takes

BUILD = pathlib.Path(sys.argv[1]).resolve()
DLC, DLRUN = (BUILD / "cli" / name for name in ("dlc", "dlrun"))
rng = np.random.default_rng(7)
TOLERANCE = 1e-5


def run(*args):
    return subprocess.run([*map(str, args)], capture_output=True, text=True, env={**ENV, "NO_COLOR": "1"},
                          stdin=subprocess.DEVNULL)


def node(op, inputs, outputs="y", **attributes):
    return helper.make_node(op, inputs.split(" ") if isinstance(inputs, str) else inputs, outputs.split(), **attributes)


def compare(name, nodes, inputs, opset=17, outputs=None, batch=3, **stored):
    """inputs: {name: shape after the batch, or with the batch as 'N'}; stored: arrays, which the nodes read."""
    nodes = nodes if isinstance(nodes, list) else [nodes]
    outputs = outputs or [o for o in nodes[-1].output if o]
    shapes = {k: list(s) if "N" in s else ["N", *s] for k, s in inputs.items()}
    values = [helper.make_tensor_value_info(k, TensorProto.FLOAT, s) for k, s in shapes.items()]
    graph = helper.make_graph(nodes, "g", values, [helper.make_empty_tensor_value_info(o) for o in outputs],
                              [numpy_helper.from_array(np.asarray(v), k) for k, v in stored.items()])
    file = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    try:  # ONNX Runtime wants the types of outputs
        inferred = onnx.shape_inference.infer_shapes(file, strict_mode=True)
    except Exception as fault:
        return check(False, f"{name}: {fault}")
    path, model, weights = (f"{TMP}/{name}.{end}" for end in ("onnx", "dl", "safetensors"))
    onnx.save(inferred, path)
    r = run(DLC, "import", path, "-o", model, f"--weights={weights}", "--loss=mse", "--report")
    if not check(r.returncode == 0, f"{name}: import: {(r.stdout + r.stderr)[-400:]}"):
        return None
    feeds = {k: rng.standard_normal([batch if d == "N" else d for d in s]).astype("f4") for k, s in shapes.items()}
    want = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(outputs, feeds)
    for k, x in feeds.items():
        np.save(f"{TMP}/{k}.npy", x if shapes[k][0] == "N" else np.moveaxis(x, shapes[k].index("N"), 0))
    files = [f"{TMP}/{k}.npy" if len(feeds) == 1 else f"{k}={TMP}/{k}.npy" for k in feeds]
    out = f"{TMP}/y.{'npy' if len(want) == 1 else 'h5'}"
    r = run(DLRUN, "predict", weights, f"--model={model}", *files, "-o", out, f"--local_batch_size={batch}",
            "--threads=1")
    if not check(r.returncode == 0, f"{name}: predict: {r.stderr[-500:]}\n{pathlib.Path(model).read_text()}"):
        return None
    if len(want) == 1:
        got = [np.load(out)]
    else:
        import h5py
        with h5py.File(out) as f:
            got = [f[f"y{i + 1}" if i else "y"][...] for i in range(len(want))]
    for i, (a, b) in enumerate(zip(got, want)):
        off = np.abs(a - b).max() / max(np.abs(b).max(), 1e-30) if a.shape == b.shape else np.inf
        check(off <= TOLERANCE, f"{name}, output {i}: {off:.1e}, {a.shape}, {b.shape}\n"
                                f"{pathlib.Path(model).read_text()}")
    return None


# ---- recurrent layers ----

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
FORMS = {  # of the ops' attributes; "p": peepholes, "b": no biases, "h": first states
    "lstm": ("LSTM", "", {}),
    "lstm_both": ("LSTM", "h", {"direction": "bidirectional"}),
    "lstm_back": ("LSTM", "b", {"direction": "reverse"}),
    "lstm_peepholes": ("LSTM", "p", {}),
    "lstm_peepholes_both": ("LSTM", "ph", {"direction": "bidirectional"}),
    "lstm_clip": ("LSTM", "", {"clip": 0.3}),
    "lstm_coupled": ("LSTM", "", {"input_forget": 1}),
    "lstm_other": ("LSTM", "h", {"activations": ["Sigmoid", "Softsign", "Relu"]}),
    "gru": ("GRU", "", {"linear_before_reset": 1}),
    "gru_reset_first": ("GRU", "", {}),
    "gru_reset_first_both": ("GRU", "h", {"direction": "bidirectional"}),
    "gru_reset_first_back": ("GRU", "b", {"direction": "reverse"}),
    "gru_other": ("GRU", "", {"linear_before_reset": 1, "activations": ["Sigmoid", "Relu"]}),
    "gru_clip": ("GRU", "", {"clip": 0.5}),
    "rnn": ("RNN", "h", {}),
    "rnn_relu": ("RNN", "", {"activations": ["Relu"]}),
    "rnn_softsign": ("RNN", "", {"activations": ["Softsign", "Tanh"], "direction": "bidirectional"}),
}


def recurrent(name, op, more, attributes, h=5, e=4, steps=6):
    d, g = 1 + (attributes.get("direction") == "bidirectional"), GATES[op]
    stored = {"w": rng.standard_normal((d, g * h, e)) * 0.4, "r": rng.standard_normal((d, g * h, h)) * 0.4,
              "b": rng.standard_normal((d, 2 * g * h)) * 0.3, "p": rng.standard_normal((d, 3 * h)) * 0.3}
    names = ["x", "w", "r", "" if "b" in more else "b", "", "h0" if "h" in more else "",
             "c0" if "h" in more and op == "LSTM" else "", "p" if "p" in more else ""]
    while not names[-1]:
        names.pop()
    inputs = {"x": [steps, "N", e]}
    inputs.update({k: [d, "N", h] for k in names if k in ("h0", "c0")})
    turn = [helper.make_node("Transpose", [f"{k}_given"], [k], perm=[1, 0, 2]) for k in inputs]
    given = {f"{k}_given": ["N", s[0], s[2]] for k, s in inputs.items()}  # the batch is an input's first axis
    ends = [helper.make_node("Transpose", ["states"], ["y"], perm=[2, 0, 1, 3]),
            helper.make_node("Transpose", ["last"], ["y2"], perm=[1, 0, 2])]
    layer = helper.make_node(op, names, ["states", "last"], name="layer", hidden_size=h, **attributes)
    compare(name, turn + [layer] + ends, given, outputs=["y", "y2"],
            **{k: v.astype("f4") for k, v in stored.items() if k in names})


for i, (name, form) in enumerate(FORMS.items()):
    if takes(i):
        recurrent(name, *form)


# ---- the other rows ----

def f4(*shape):
    return rng.standard_normal(shape).astype("f4")


def i8(*numbers):
    return np.array(numbers, "i8")


UNARY = ("Relu Sigmoid Tanh Exp Abs Neg Sin Cos Tan Sinh Cosh Erf Floor Ceil Round Sign Softsign Softplus Selu "
         "LeakyRelu Elu Celu HardSigmoid HardSwish Mish Identity ThresholdedRelu Shrink Atan Asinh")
POSITIVE = "Log Sqrt Reciprocal Acosh"
BOUNDED = "Asin Acos Atanh"
REDUCE = "ReduceMean ReduceMax ReduceMin ReduceProd ReduceLogSumExp ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum"
image, row, cube = {"x": [4, 6, 8]}, {"x": [6]}, {"x": [3, 5]}
# exporters count out the samples of an open batch, where the program has indices along its axis
SAMPLES = [node("Shape", "x", "n1", end=1), node("Squeeze", "n1", "n"), node("Range", "0 n 1", "samples")]
COUNTS = {"0": np.array(0, "i8"), "1": np.array(1, "i8")}


def own_rows(of, index, to, axes):
    """GatherND with each sample's own row: OF[samples, INDEX], where INDEX has an axis of size 1 for the batch."""
    return [node("Unsqueeze", f"samples {axes}", f"{to}_n"), node("Add", f"{to}_n {index}", f"{to}_s"),
            node("Shape", f"{to}_s", f"{to}_shape"), node("Expand", f"{to}_n {to}_shape", f"{to}_a"),
            node("Expand", f"{index} {to}_shape", f"{to}_b"), node("Unsqueeze", f"{to}_a last", f"{to}_a1"),
            node("Unsqueeze", f"{to}_b last", f"{to}_b1"), node("Concat", f"{to}_a1 {to}_b1", f"{to}_i", axis=-1),
            node("GatherND", f"{of} {to}_i", to)]


CASES = [(op.lower(), node(op, "x"), row, 18) for op in UNARY.split()]
CASES += [(op.lower(), [node("Abs", "x", "a"), node("Add", "a one", "b"), node(op, "b")], row, 17,
           {"one": np.float32([1])}) for op in POSITIVE.split()]
CASES += [(op.lower(), [node("Tanh", "x", "a"), node(op, "a")], row, 17) for op in BOUNDED.split()]
CASES += [(op.lower(), [node("Abs", "x", "a"), node(op, "a", axes=[1], keepdims=0)], cube, 13) for op in REDUCE.split()]
CASES += [
    ("reduce_sum", node("ReduceSum", "x k", keepdims=1), cube, 13, {"k": i8(-1)}),
    ("reduce_all", node("ReduceMean", "x k", keepdims=0), cube, 18, {"k": i8(1, 2)}),
    ("mod", node("Mod", "x k", fmod=1), row, 17, {"k": np.float32([0.7])}),
    ("pow", [node("Abs", "x", "a"), node("Pow", "a k")], row, 17, {"k": np.float32([1.5])}),
    ("clip", node("Clip", "x a b"), row, 17, {"a": np.float32(-0.5), "b": np.float32(0.4)}),
    ("where", [node("Greater", "x k", "c"), node("Where", "c x k")], row, 17, {"k": np.float32([0.1])}),
    ("sum", node("Sum", "x x x"), row, 17),
    ("mean", node("Mean", "x z"), {"x": [6], "z": [6]}, 17),
    ("mean_of_three", node("Mean", "x z k"), {"x": [6], "z": [6], "k": [6]}, 17),
    ("max", node("Max", "x k"), row, 17, {"k": f4(6)}),
    ("gemm", node("Gemm", "x w b", transB=1), row, 17, {"w": f4(5, 6), "b": f4(5)}),
    ("gemm_scaled", node("Gemm", "x w b", alpha=0.5, beta=2.0), row, 17, {"w": f4(6, 5), "b": f4(5)}),
    ("gemm_turned", node("Gemm", "x w", transB=1, alpha=0.5), row, 17, {"w": f4(6, 6)}),
    ("matmul", node("MatMul", "x w"), cube, 17, {"w": f4(5, 7)}),
    ("einsum", node("Einsum", "x w", equation="...ij,jk->...ik"), cube, 17, {"w": f4(5, 7)}),
    ("conv", node("Conv", "x w b", pads=[1, 1, 1, 1], strides=[2, 1]), image, 17, {"w": f4(5, 4, 3, 3), "b": f4(5)}),
    ("conv_same", node("Conv", "x w", auto_pad="SAME_UPPER", strides=[2, 2]), image, 17, {"w": f4(5, 4, 3, 3)}),
    ("conv_lower", node("Conv", "x w", auto_pad="SAME_LOWER", strides=[2, 2]), image, 17, {"w": f4(5, 4, 2, 2)}),
    ("conv_lower_odd", node("Conv", "x w", auto_pad="SAME_LOWER"), image, 17, {"w": f4(5, 4, 2, 2)}),
    ("conv_uneven", node("Conv", "x w", pads=[0, 1, 2, 0]), image, 17, {"w": f4(4, 1, 3, 3)[:, :1].repeat(4, 1)}),
    ("conv_depth", node("Conv", "x w", group=4, dilations=[2, 2]), image, 17, {"w": f4(8, 1, 2, 2)}),
    ("conv_transpose", node("ConvTranspose", "x w b", strides=[2, 2], output_padding=[1, 1]), image, 17,
     {"w": f4(4, 3, 3, 3), "b": f4(3)}),
    ("batch_norm", node("BatchNormalization", "x s b m v", momentum=0.75), image, 17,
     {"s": f4(4), "b": f4(4), "m": f4(4), "v": np.abs(f4(4)) + 0.5}),
    ("layer_norm", node("LayerNormalization", "x s b"), cube, 17, {"s": f4(5), "b": f4(5)}),
    ("layer_norm_2", node("LayerNormalization", "x s b", axis=-2), cube, 17, {"s": f4(3, 5), "b": f4(3, 5)}),
    ("group_norm", node("GroupNormalization", "x s b", num_groups=2), image, 21, {"s": f4(4), "b": f4(4)}),
    ("instance_norm", node("InstanceNormalization", "x s b"), image, 17, {"s": f4(4), "b": f4(4)}),
    ("lp_norm", node("LpNormalization", "x", axis=-1, p=2), cube, 17),
    ("lp_norm_of_sums", node("LpNormalization", "x", axis=-1, p=1), cube, 17),
    ("lrn", node("LRN", "x", size=3), image, 17),
    ("max_pool", node("MaxPool", "x", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1), image, 17),
    ("max_pool_end", node("MaxPool", "x", kernel_shape=[2, 2], strides=[3, 3], pads=[1, 1, 1, 1], ceil_mode=1), image,
     17),
    ("avg_pool", node("AveragePool", "x", kernel_shape=[2, 3], strides=[2, 2], pads=[1, 1, 1, 1]), image, 17),
    ("avg_pool_all", node("AveragePool", "x", kernel_shape=[3, 3], count_include_pad=1, pads=[1, 1, 1, 1]), image, 17),
    ("global_max", node("GlobalMaxPool", "x"), image, 17),
    ("lp_pool", node("LpPool", "x", kernel_shape=[2, 3], strides=[2, 1], pads=[0, 1, 0, 1]), image, 17),
    ("lp_pool_cube", node("LpPool", "x", kernel_shape=[3, 2], p=3), image, 17),
    ("lp_pool_sum", node("LpPool", "x", kernel_shape=[2, 2], pads=[0, 0, 1, 1], p=1), image, 17),
    ("mean_variance", node("MeanVarianceNormalization", "x", axes=[2, 3]), image, 13),
    ("hardmax", [node("Floor", "x", "a"), node("Hardmax", "a")], cube, 17),
    ("hardmax_axis", node("Hardmax", "x", axis=1), cube, 17),
    ("center", node("CenterCropPad", "x k", axes=[-1, -2]), image, 18, {"k": i8(5, 9)}),
    ("center_back", node("CenterCropPad", "x k", axes=[1, 2]), {"x": [6, 8]}, 18, {"k": i8(9, 3)}),
    ("eye_like", [node("EyeLike", "k", "e", k=1), node("MatMul", "x e")], cube, 17, {"k": np.zeros((5, 4), "f4")}),
    ("eye_like_typed", [node("EyeLike", "k", "e", dtype=int(TensorProto.INT64)),
                        node("Cast", "e", "f", to=TensorProto.FLOAT), node("Add", "x f")], cube, 17, {"k": f4(3, 5)}),
    ("dft", [node("Unsqueeze", "x k", "u"), node("DFT", "u", axis=2)], cube, 17, {"k": i8(3)}),
    ("dft_half", [node("Unsqueeze", "x k", "u"), node("DFT", "u", axis=1, onesided=1)], cube, 17, {"k": i8(3)}),
    ("dft_back", node("DFT", ["x", "", "a"], inverse=1), {"x": [6, 2]}, 20, {"a": np.array(-2, "i8")}),
    ("dft_length", node("DFT", "x n", axis=1), {"x": [6, 2]}, 17, {"n": np.array(8, "i8")}),
    ("dft_standard", node("DFT", "x"), {"x": [3, 6, 2]}, 20),
    ("stft", [node("Abs", "w0", "w"), node("STFT", ["x", "hop", "w", ""])], {"x": [20]}, 17,
     {"hop": np.array(3, "i8"), "w0": f4(8)}),
    ("stft_whole", [node("Unsqueeze", "x k", "u"), node("STFT", ["u", "hop", "", "n"], onesided=0)], {"x": [20]}, 17,
     {"hop": np.array(4, "i8"), "n": np.array(7, "i8"), "k": i8(2)}),
    ("nearest", node("Resize", ["x", "", "k"], mode="nearest", coordinate_transformation_mode="asymmetric",
                     nearest_mode="floor"), image, 17, {"k": np.float32([1, 1, 2, 2])}),
    ("linear", node("Resize", ["x", "", "k"], mode="linear"), image, 17, {"k": np.float32([1, 1, 1.5, 1.375])}),
    ("corners", node("Resize", ["x", "", "k"], mode="linear", coordinate_transformation_mode="align_corners"),
     image, 17, {"k": np.float32([1, 1, 1.5, 1.375])}),
    ("cubic", node("Resize", ["x", "", "k"], mode="cubic"), image, 17, {"k": np.float32([1, 1, 1.5, 1.375])}),
    ("axes", node("Resize", ["x", "", "", "k"], mode="linear", axes=[3, 2]), image, 18, {"k": i8(11, 9)}),
    ("depth_to_space", node("DepthToSpace", "x", blocksize=2), image, 17),
    ("depth_to_space_crd", node("DepthToSpace", "x", blocksize=2, mode="CRD"), image, 17),
    ("space_to_depth", node("SpaceToDepth", "x", blocksize=2), image, 17),
    ("slice", node("Slice", "x a b c d"), image, 17, {"a": i8(1, -1), "b": i8(6, -9), "c": i8(2, 3), "d": i8(2, -1)}),
    ("slice_before", node("Slice", "x a b c"), cube, 17, {"a": i8(-9), "b": i8(3), "c": i8(2)}),
    ("gather", node("Gather", "x k", axis=2), cube, 17, {"k": i8(4, 0, -2)}),
    ("gather_rows", SAMPLES + own_rows("x", "k", "y", "a"), cube, 17,
     {**COUNTS, "k": np.array([[2, 0]], "i8"), "a": i8(1), "last": i8(-1)}),
    ("gather_rows_batch", [node("ArgMax", "x", "i", axis=2, keepdims=1), node("GatherND", "x i", batch_dims=2)], cube,
     17),
    ("gather_samples", [*SAMPLES, node("Mul", "samples fifteen", "m"), node("Unsqueeze", "m a", "u"),
                        node("Add", "u k", "i"), node("Reshape", "x all", "flat"), node("Gather", "flat i")], cube, 17,
     {**COUNTS, "fifteen": np.array(15, "i8"), "a": i8(1, 2), "k": np.arange(15).reshape(1, 3, 5), "all": i8(-1)}),
    ("mask_of_samples", [*SAMPLES, node("Concat", "n1 three", "shape", axis=0), node("Expand", "k shape", "p"),
                         node("CumSum", "p one", "sums"), *own_rows("sums", "rows", "q", "a"),
                         *own_rows("p", "columns", "r", "a"), node("LessOrEqual", "r q", "c"),
                         node("And", "true c", "both"), node("Where", "both x low", "s"), node("Softmax", "s", axis=2)],
     {"x": [3, 3]}, 17,
     {**COUNTS, "k": np.array([[2, 0, 3]], "i8"), "three": i8(3), "a": i8(1, 2), "last": i8(-1),
      "one": np.array(1, "i8"), "rows": np.arange(3).reshape(1, 3, 1), "columns": np.arange(3).reshape(1, 1, 3),
      "true": np.array(True), "low": np.float32(-1e30)}),
    ("and_known", [node("Greater", "x k", "c"), node("And", "c yes", "d"), node("Or", "d mask", "e"),
                   node("Where", "e x k")], row, 17,
     {"k": np.float32([0.1]), "yes": np.array(True), "mask": np.arange(6) % 3 == 0}),
    ("scatter_rows", [node("ReduceMean", "x", "m", axes=[0], keepdims=0), node("Mul", "m zero", "n"),
                      node("ScatterND", "n k v", "p", reduction="add"), node("Add", "x p")], cube, 17,
     {"k": np.array([[2], [0], [2]], "i8"), "v": f4(3, 5), "zero": np.float32([0])}),
    ("gather_elements", [node("Sign", "x", "s"), node("Abs", "s", "a"), node("Cast", "a", "i", to=TensorProto.INT64),
                         node("GatherElements", "x i", axis=1)], cube, 17),
    ("pad", node("Pad", "x k v"), cube, 17, {"k": i8(0, 1, 2, 0, 0, 1), "v": np.float32(0.5)}),
    ("pad_edge", node("Pad", "x k", mode="edge"), cube, 17, {"k": i8(0, 0, 2, 0, 0, 1)}),
    ("pad_wrap", node("Pad", "x k", mode="wrap"), cube, 19, {"k": i8(0, 0, 2, 0, 0, 1)}),
    ("tile", node("Tile", "x k"), cube, 17, {"k": i8(1, 2, 3)}),
    ("split", node("Split", "x k", "y y2", axis=2), cube, 17, {"k": i8(2, 3)}),
    ("split_uneven", node("Split", "x", "y y2", axis=2, num_outputs=2), cube, 18),
    ("cumsum", node("CumSum", "x k"), cube, 17, {"k": np.array(1, "i8")}),
    ("cumsum_back", node("CumSum", "x k", reverse=1, exclusive=1), cube, 17, {"k": np.array(2, "i8")}),
    ("cumsum_known", [node("CumSum", "k a", "s", reverse=1, exclusive=1), node("Cast", "s", "f", to=TensorProto.FLOAT),
                      node("Add", "x f")], cube, 17, {"k": np.arange(15).reshape(3, 5), "a": np.array(1, "i8")}),
    ("trilu", node("Trilu", "x k", upper=0), {"x": [4, 5]}, 17, {"k": np.array(1, "i8")}),
    ("top_k", node("TopK", "x k", "y i", axis=2), cube, 17, {"k": i8(2)}),
    ("softmax", node("Softmax", "x", axis=1), cube, 17),
    ("argmax", [node("ArgMax", "x", "i", axis=2, keepdims=0), node("Cast", "i", to=TensorProto.FLOAT)], cube, 17),
    ("one_hot", [node("ArgMax", "x", "i", axis=2, keepdims=0), node("OneHot", "i d v")], cube, 17,
     {"d": np.array(5, "i8"), "v": np.float32([0, 1])}),
    ("one_hot_values", [node("ArgMax", "x", "i", axis=2, keepdims=0), node("OneHot", "i d v")], cube, 17,
     {"d": np.array(5, "i8"), "v": np.float32([0.5, 2])}),
    ("prelu", node("PRelu", "x w"), image, 17, {"w": f4(4, 1, 1)}),
    ("gelu", node("Gelu", "x", approximate="tanh"), row, 20),
    ("grid", node("GridSample", "x g", mode="linear", padding_mode="border"), {"x": [3, 4, 5], "g": [6, 7, 2]}, 20),
    ("attention", node("Attention", "q k v"), {"q": [2, 5, 4], "k": [2, 6, 4], "v": [2, 6, 3]}, 23),
    ("attention_scaled", node("Attention", "q k v", scale=0.3), {k: [2, 5, 4] for k in "qkv"}, 23),
    ("attention_causal", node("Attention", "q k v", is_causal=1, scale=0.3), {k: [2, 5, 4] for k in "qkv"}, 23),
    ("attention_flat", node("Attention", "q k v", q_num_heads=4, kv_num_heads=2),
     {"q": [5, 8], "k": [6, 4], "v": [6, 6]}, 23),
    ("attention_bias", node("Attention", "q k v m"), {"q": [2, 5, 4], "k": [2, 6, 4], "v": [2, 6, 4]}, 23,
     {"m": f4(2, 5, 6)[None]}),
    ("attention_mask", node("Attention", "q k v m", q_num_heads=2, kv_num_heads=2), {"q": [5, 4], "k": [6, 4],
     "v": [6, 4]}, 23, {"m": (np.arange(30).reshape(5, 6) % 7 != 3)}),
    ("attention_capped", node("Attention", "q k v", softcap=0.7), {k: [2, 5, 4] for k in "qkv"}, 23),
    ("rms_norm", node("RMSNormalization", "x s", axis=-1), cube, 23, {"s": f4(5)}),
    ("scatter", [node("ReduceMean", "x", "m", axes=[0], keepdims=0), node("Mul", "m zero", "n"),
                 node("ScatterElements", "n k v", "p", axis=0, reduction="add"), node("Add", "x p")], cube, 17,
     {"k": np.array([[0, 2, 2, 1, 0], [1, 0, 2, 0, 1]], "i8"), "v": f4(2, 5), "zero": np.float32([0])}),
]
for name, nodes, inputs, opset, *stored in CASES:  # each is a row, or an attribute, of its own: none stands for others
    compare(name, nodes, inputs, opset, outputs=["y"] if "y" in str(nodes) and name == "top_k" else None,
            **(stored[0] if stored else {}))
# `dlrun predict` predicts each sample as if it were alone: a count of them is in the text
compare("count_samples", [*SAMPLES, node("Mul", "samples two", "m"), node("Sub", "m one", "s"), node("Cast", "s", "f",
                          to=TensorProto.FLOAT), node("Unsqueeze", "f a", "u"), node("Add", "x u")], row, 17, batch=1,
        **COUNTS, two=np.array(2, "i8"), one=np.array(1, "i8"), a=i8(1))
text = pathlib.Path(f"{TMP}/count_samples.dl").read_text()
check("(range(N) as [N]) * 2 - 1" in text, f"count_samples: another count: {text}")
# the share of the old statistics, in ONNX and in the language
text = pathlib.Path(f"{TMP}/batch_norm.dl").read_text()
check("momentum=0.75" in text, f"batch_norm: another momentum: {text}")
finish()
