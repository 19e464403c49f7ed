#!/usr/bin/env python3
"""The rivals of a prediction: PyTorch in inference mode, ONNX Runtime and OpenVINO. Called by bench/step --predict.

rival_predict.py MODEL --export FILE.onnx [--batch 1]           writes the model for the two engines that read a file
rival_predict.py MODEL [--engine torch|onnxruntime|openvino] [--file FILE.onnx] [--batch 1] [--threads 2] [--steps 5]
                 [--warm 2] [--channels-last] [--compile] [--amp bf16]

Prints one line of JSON. An engine that reads a file runs without PyTorch in its process, whose memory is its own.
"""
import argparse
import inspect
import json
import resource
import statistics
import time


def torch_model(o):
    import torch

    from rival_models import MODELS, to_channels_last
    torch.set_num_threads(o.threads)
    torch.manual_seed(0)
    model, batch, _ = MODELS[o.model](o.batch)
    if o.channels_last:
        batch = to_channels_last(model, batch)
    return torch, model.eval(), {name: batch[name] for name in inspect.signature(model.forward).parameters}


def export(o):
    torch, model, inputs = torch_model(o)
    with torch.inference_mode():
        torch.onnx.export(model, tuple(inputs.values()), o.export, input_names=[*inputs], opset_version=18,
                          dynamo=False)


def by_torch(o):
    torch, model, inputs = torch_model(o)
    call = torch.compile(model) if o.compile else model
    low = torch.bfloat16 if o.amp == "bf16" else None

    def run():
        with torch.inference_mode(), torch.autocast("cpu", dtype=low or torch.bfloat16, enabled=low is not None):
            call(**inputs)

    return f"PyTorch {torch.__version__}", run


def noise(shape, kind):
    """Random numbers; whole ones are 0, which every table has."""
    import numpy
    whole = next((t for word, t in (("int64", "i8"), ("int32", "i4"), ("i64", "i8"), ("i32", "i4"), ("bool", "?"))
                  if word in kind), None)
    return numpy.zeros(shape, whole) if whole else numpy.random.default_rng(0).standard_normal(shape).astype("f4")


def by_onnxruntime(o):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = o.threads
    session = onnxruntime.InferenceSession(o.file, options, providers=["CPUExecutionProvider"])
    fed = {i.name: noise(i.shape, i.type) for i in session.get_inputs()}
    return f"ONNX Runtime {onnxruntime.__version__}", lambda: session.run(None, fed)


def by_openvino(o):
    import openvino
    core = openvino.Core()
    settings = {"INFERENCE_NUM_THREADS": o.threads, "PERFORMANCE_HINT": "LATENCY",
                "INFERENCE_PRECISION_HINT": "bf16" if o.amp == "bf16" else "f32"}
    model = core.compile_model(core.read_model(o.file), "CPU", settings)
    fed = {i: noise(tuple(of.shape), str(of.element_type)) for i, of in enumerate(model.inputs)}
    request = model.create_infer_request()
    return f"OpenVINO {openvino.__version__.split('-')[0]}", lambda: request.infer(fed)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("model")
    options.add_argument("--export", metavar="FILE")
    options.add_argument("--file")
    options.add_argument("--engine", choices=["torch", "onnxruntime", "openvino"], default="torch")
    for name, value in (("batch", 1), ("threads", 2), ("steps", 5), ("warm", 2)):
        options.add_argument(f"--{name}", type=int, default=value)
    for name in ("channels-last", "compile"):
        options.add_argument(f"--{name}", action="store_true")
    options.add_argument("--amp", choices=["bf16"])
    o = options.parse_args()
    if o.export:
        export(o)
        print(json.dumps({"exported": o.export}))
        return

    engine, run = {"torch": by_torch, "onnxruntime": by_onnxruntime, "openvino": by_openvino}[o.engine](o)

    def step():
        start, cpu = time.perf_counter(), time.process_time()
        run()
        return 1e3 * (time.perf_counter() - start), 1e3 * (time.process_time() - cpu)

    first = step()[0]
    for _ in range(o.warm - 1):
        step()
    runs = [step() for _ in range(o.steps)]
    print(json.dumps({
        "engine": engine, "step_ms": statistics.median(r[0] for r in runs), "step_ms_min": min(r[0] for r in runs),
        "step_cpu_ms_min": min(r[1] for r in runs), "first_ms": first,
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }))


main()
