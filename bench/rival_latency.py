#!/usr/bin/env python3
"""One call of a small network from Python, for bench/latency: in ONNX Runtime, in libtorch, and by our own package.

rival_latency.py onnx|torch|dlc NETWORK THREADS CALLS PAUSE_US DUMP

NETWORK: JSON of bench/latency: layers, shape of the input, parameters, our model file. DUMP: the numbers that
latency_run wrote: inputs, parameters, outputs. Prints {"call": median microseconds, "empty": those of a rival's network
that returns its input, "error": the largest difference from our outputs, relative to the largest output, "version":
...}.
"""
import json
import statistics
import sys
import time

import numpy

BLOCK = 100


def arrays_of(network, path):
    """(input, parameters by name, outputs) of the dump."""
    numbers = numpy.fromfile(path, dtype="f4")
    at, found = 0, []
    for shape in [network["input"], *[s for _, s in network["parameters"]], network["output"]]:
        count = int(numpy.prod(shape))
        found.append(numbers[at:at + count].reshape(shape))
        at += count
    assert at == numbers.size, (at, numbers.size)
    return found[0], {n: a for (n, _), a in zip(network["parameters"], found[1:-1])}, found[-1]


def onnx_model(network, weights, empty):
    """The layers as nodes of ONNX; `empty`: the input as the output."""
    from onnx import TensorProto, helper, numpy_helper
    nodes, y = [], "x"
    for i, (kind, *rest) in enumerate([] if empty else network["layers"]):
        out = f"y{i}"
        if kind == "linear":
            nodes.append(helper.make_node("Gemm", [y, f"{rest[0]}.weight", f"{rest[0]}.bias"], [out], transB=1))
        elif kind == "conv":
            nodes.append(helper.make_node("Conv", [y, f"{rest[0]}.weight", f"{rest[0]}.bias"], [out],
                                          kernel_shape=[3, 3],
                                          pads=[1, 1, 1, 1], strides=[rest[1]] * 2))
        elif kind == "relu":
            nodes.append(helper.make_node("Relu", [y], [out]))
        else:
            nodes.append(helper.make_node("ReduceMean", [y, "axes"], [out], keepdims=0))
        y = out
    nodes.append(helper.make_node("Identity", [y], ["y"]))
    held = [] if empty else [numpy_helper.from_array(w, n) for n, w in weights.items()]
    held.append(numpy_helper.from_array(numpy.array([2, 3], "i8"), "axes"))
    shape = network["input"] if empty else network["output"]
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, network["input"])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()


def onnx_call(network, weights, x, threads, empty):
    """A call into arrays that stay where they are, and those arrays."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(onnx_model(network, weights, empty), options,
                                           providers=["CPUExecutionProvider"])
    given, out = onnxruntime.OrtValue.ortvalue_from_numpy(x), numpy.zeros(x.shape if empty else network["output"], "f4")
    result = onnxruntime.OrtValue.ortvalue_from_numpy(out)
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", given)
    binding.bind_ortvalue_output("y", result)
    return lambda: session.run_with_iobinding(binding), lambda: result.numpy()


def torch_call(network, weights, x, threads, empty):
    """The frozen graph of TorchScript, called in inference mode."""
    import torch
    torch.set_num_threads(threads)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for name, w in weights.items():
                self.register_parameter(name.replace(".", "_"), torch.nn.Parameter(torch.from_numpy(w.copy())))

        def forward(self, y):
            for kind, *rest in [] if empty else network["layers"]:
                w = [getattr(self, f"{rest[0]}_{part}") for part in ("weight", "bias")] if rest else []
                if kind == "linear":
                    y = torch.nn.functional.linear(y, *w)
                elif kind == "conv":
                    y = torch.nn.functional.conv2d(y, *w, stride=rest[1], padding=1)
                elif kind == "relu":
                    y = torch.relu(y)
                else:
                    y = y.mean((2, 3))
            return y

    given = torch.from_numpy(x)
    with torch.inference_mode():
        frozen = torch.jit.freeze(torch.jit.trace(Net().eval(), given))
        result = [frozen(given)]
    guard = torch.inference_mode()
    guard.__enter__()

    def call():
        result[0] = frozen(given)
    return call, lambda: result[0].numpy()


def dlc_call(network, weights, x, threads, _empty):
    """Our package, into an array that stays where it is."""
    import dlc
    net = dlc.open(network["model"], device="cpu", threads=threads, batch=network["input"][0], raw=True,
                   settings=dict(s.split("=") for s in network["settings"]))
    net.parameters.update(weights)
    out = numpy.zeros(network["output"], "f4")
    return lambda: net.predict(x, out=out), lambda: out


def median_us(call, calls, pause):
    took = []
    for i in range(calls + BLOCK):
        begin = time.perf_counter_ns()
        while time.perf_counter_ns() < begin + pause * 1000:
            pass
        begin = time.perf_counter_ns()
        call()
        took.append(time.perf_counter_ns() - begin)
    return statistics.median(took[BLOCK:]) / 1000


def main():
    engine, network, threads, calls, pause, path = sys.argv[1:]
    network, threads, calls, pause = json.loads(network), int(threads), int(calls), int(pause)
    x, weights, y = arrays_of(network, path)
    make, module = {"onnx": (onnx_call, "onnxruntime"), "torch": (torch_call, "torch"),
                    "dlc": (dlc_call, "dlc")}[engine]
    call, result = make(network, weights, x, threads, False)
    found = {"call": median_us(call, calls, pause)}
    found["error"] = float(abs(result() - y).max() / abs(y).max())
    if engine != "dlc":
        empty, _ = make(network, weights, x, threads, True)
        found["empty"] = median_us(empty, calls, pause)
    found["version"] = __import__(module).__version__
    print(json.dumps(found))


main()
