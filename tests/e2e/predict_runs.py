"""Runs of `dlrun predict` for oracle_predict.py, and PyTorch's result on the whole field."""
import json
import re
import subprocess
import sys

from oracle_tools import Workplace, check, finish, np, relative, save_tensors, torch

try:
    import h5py
except ImportError as missing:
    print(f"SKIP: {missing} (scripts/install-packages test)")
    sys.exit(77)


place = Workplace(sys.argv[1])
DLRUN = place.program("dlrun")
torch.manual_seed(3)


def predict(*args, status=0, says=""):
    """Standard output of a prediction; with a status that is not 0, what it says must match."""
    r = subprocess.run([DLRUN, "predict", *map(str, args)], capture_output=True, text=True, env=place.env,
                       stdin=subprocess.DEVNULL,
                       cwd=place.dir)
    good = r.returncode == status and re.search(says, r.stderr if status else r.stdout + r.stderr)
    if not good or status:
        check(good,
              f"predict {' '.join(map(str, args))[:150]}: exit {r.returncode}, wanted {status}, /{says}/: "
              f"{(r.stderr or r.stdout).strip()[-300:]}")
    return r.stdout


def result(name, *args):
    """What was predicted into NAME.h5, and the JSON of it."""
    out = predict(*args, "-o", place / f"{name}.h5", "--json")
    return (h5py.File(place / f"{name}.h5", "r"), json.loads(out)) if out else finish()


def write(name, **arrays):
    with h5py.File(place / name, "w") as f:
        for key, value in arrays.items():
            f[key] = value
    return place / name


def model_of(net, name):
    """Its text and weights as files: options for predict."""
    with open(place / f"{name}.dl", "w") as f:
        f.write(net.text)
    save_tensors(place / f"{name}.safetensors", dict(net.state_dict()))
    return [place / f"{name}.safetensors"], [f"--model={place / (name + '.dl')}"]


def whole(net, x):
    with torch.no_grad():
        return net.eval()(torch.from_numpy(x))


def near(what, got, want, bound=1e-5):
    error = relative(torch.from_numpy(np.asarray(got)), want)
    check(error < bound, f"{what}: {error:.1e} from PyTorch on the whole field (at most {bound:.0e})")
