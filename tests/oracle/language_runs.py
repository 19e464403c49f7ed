"""For check_language.py: a run of a model's text, and the list of cases, which the modules of cases fill."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from oracle_tools import Workplace, load_tensors, save_tensors, torch

F = torch.nn.functional
N = 4
torch.manual_seed(5)
place = Workplace(sys.argv[1])
inf, nan = float("inf"), float("nan")


def replay(text, weights, batches, *more, status=0):
    """Lines by step, the first gradients, the weights at the end; only the output of a run that ends with another
    status."""
    path = place / "model.dl"
    path.write_text(text)
    (place / "m.yaml").write_text("base: {}\n")
    save_tensors(place / "w.safetensors", weights)
    save_tensors(place / "b.safetensors", {f"{k}.{i}": v for i, b in enumerate(batches) for k, v in b.items()})
    for name in ("g.safetensors", "end.safetensors"):
        (place / name).unlink(missing_ok=True)
    out = place.run("dlrun", path, f"--yaml_config={place / 'm.yaml'}", "--config=base", f"--local_batch_size={N}",
                    f"--expdir={place / 'run'}", f"--init_weights={place / 'w.safetensors'}",
                    f"--replay={place / 'b.safetensors'}", f"--save_grads={place / 'g.safetensors'}",
                    f"--save_weights={place / 'end.safetensors'}", *more, status=status)
    if status:
        return out
    lines = [json.loads(x) for x in out.splitlines() if x.startswith("{") and '"step"' in x]
    return lines, load_tensors(place / "g.safetensors"), load_tensors(place / "end.safetensors")


# Cases: parameters and inputs with their axes, an expression of each language.
cases = []


def case(name, dl, expect, params, inputs=()):
    """params, inputs: {name: (axes, tensor)}; in `dl` they are written {name}."""
    cases.append((name, dl, expect, params, dict(inputs)))


def P(axes, *shape, scale=1.0):
    return axes, torch.randn(shape) * scale


def whole(axes, high, *shape):
    return axes, torch.randint(0, high, shape, dtype=torch.int32)
