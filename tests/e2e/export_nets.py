"""What the oracles of `dlc export` share: a model's variables, random weights and inputs, and what `dlrun predict`
makes of them."""
import re
import subprocess

from oracle_tools import np, save_tensors, torch

OUTPUT = re.compile(r'^  output "(\S+)" = ')
DECLARED = re.compile(r"^  (input|target|param|state) \$(\S+)(?: by \S+)? = %\d+ : (\w+)\[([^\]]*)\]")
INTEGERS = {"i32": torch.int32, "i64": torch.int64}


class Net:
    """A model with its settings: names, types and axes of its inputs, parameters and states."""

    def __init__(self, place, model, *settings):
        self.place, self.model, self.settings = place, str(model), [*map(str, settings)]
        said = self.run("dlc", "compile", self.model, *self.settings, "--dump-after=lower", "--dump-filter=@eval")
        self.inputs, self.kept, self.outputs = {}, {}, []
        for line in said.splitlines():
            found, output = DECLARED.match(line), OUTPUT.match(line)
            if output:
                self.outputs.append(output.group(1))
            if found and not found[2].startswith("random."):
                role, name, dtype, axes = found.groups()
                axes = [(a.rpartition("=")[0], int(a.rpartition("=")[2])) for a in axes.split(", ") if a]
                if role == "input":
                    self.inputs[name] = (dtype, axes)
                elif role != "target":
                    self.kept[name] = (dtype, [size for _, size in axes])
        if not self.outputs:  # comparing none of them would find nothing
            raise RuntimeError(f"{model}: @eval has no output")

    def run(self, name, *args):
        r = subprocess.run([self.place.program(name), *map(str, args)], capture_output=True, text=True,
                           env=self.place.env,
                           stdin=subprocess.DEVNULL, cwd=self.place.dir)
        if r.returncode:
            raise RuntimeError(f"{name} {' '.join(map(str, args))[:200]}: exit {r.returncode}: "
                               f"{(r.stderr or r.stdout).strip()[-400:]}")
        return r.stdout

    def random_weights(self, path):
        """Weights of PyTorch's sizes: norms near 1, variances above 0."""
        weights = {}
        for name, (dtype, shape) in self.kept.items():
            if dtype in INTEGERS:
                weights[name] = torch.full(shape, 7, dtype=INTEGERS[dtype])
                continue
            if dtype == "bool":
                weights[name] = torch.rand(shape) < 0.5
                continue
            w = torch.randn(shape, dtype=torch.float64 if dtype == "f64" else torch.float32)
            if "var" in name.split(".")[-1]:
                w = 0.5 + torch.rand_like(w)
            elif len(shape) > 1:
                w = w / max(1.0, float(np.prod(shape[1:]))) ** 0.5
            else:
                w = 1 + 0.2 * w if name.endswith("weight") else 0.2 * w
            weights[name] = w
        save_tensors(path, weights)
        return weights

    def random_inputs(self, samples, names):
        """Of the inputs of these names: a prediction has those alone that its outputs are made of."""
        made = {}
        for name in names:
            dtype, axes = self.inputs[name]
            shape = [samples if axis == "N" else size for axis, size in axes]
            made[name] = torch.randint(0, 3, shape, dtype=INTEGERS[dtype]) if dtype in INTEGERS else torch.randn(shape)
            if dtype == "bool":
                made[name] = made[name] > 0
            if dtype == "f64":
                made[name] = made[name].double()
        return made

    def predict(self, weights, inputs, *more):
        """The outputs of `dlrun predict`, in the model's order."""
        import h5py
        args = []
        for name, x in inputs.items():
            np.save(self.place / f"in_{name}.npy", x.numpy())
            args.append(f"{name}={self.place / f'in_{name}.npy'}" if len(inputs) > 1 else self.place / f"in_{name}.npy")
        self.run("dlrun", "predict", weights, *args, "-o", self.place / "out.h5", *more)
        with h5py.File(self.place / "out.h5") as f:
            return [torch.from_numpy(np.asarray(f[name])) for name in self.outputs]
