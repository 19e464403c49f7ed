"""The models of models/field: where their PyTorch forms are, sizes at which tests compare, sizes that bench/step times.

A row has a module and a class of this folder, which take the model's arguments; the arguments of a test, at which
every axis has another size where it may, and its batch; and the arguments of a measurement (the model's own where they
are left out) and its batch. Without PyTorch this file can be read, and no network made.
"""
import dataclasses
import importlib
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent


@dataclasses.dataclass
class Row:
    net: str
    small: dict
    bench: dict
    batch: int  # of a measurement
    samples: int = 3  # of a test
    # relative, of outputs, losses and gradients in float32 next to float64; batch norms of few values lose digits,
    # and PyTorch's float32 as many
    bound: float = 2e-5
    lacks: tuple = ()  # arguments that the PyTorch form has not: they switch dropout off

    def network(self, sizes):
        """The PyTorch form at these sizes."""
        if str(HERE) not in sys.path:
            sys.path.insert(0, str(HERE))
        module, name = self.net.split(".")
        return getattr(importlib.import_module(module), name)(**sizes)

    def words(self, sizes):
        """The sizes as words of a command line."""
        said = {**sizes, **{name: 0.0 for name in self.lacks}}
        return [f"--{name}={value}".replace(" ", "") for name, value in said.items()]


TABLE = {
    "nanogpt": Row("sequences.NanoGPT", dict(length=11, vocabulary=13, layers=2, heads=3, width=24), {}, 16),
    "swin": Row("images.Swin", dict(size=48, patch=4, window=3, width=12, depths=[2, 2], heads=[2, 3], classes=7), {},
                4, lacks=("drop_path_rate", )),
    "ddpm": Row("images.DDPM",
                dict(size=12, channels=2, width=8, widths=[1, 2], blocks=1, attended=6, norm_groups=4), {}, 8,
                lacks=("drop", )),
    "segresnet": Row("images.SegResNet",
                     dict(size=16, channels=2, classes=3, width=8, down=[1, 2, 1], up=[1, 1], norm_groups=4),
                     dict(size=64), 1, samples=2, lacks=("drop", )),
    "cnextunet": Row("physics.CNextUNet",
                     dict(size=12, channels=3, targets=2, width=6, stages=2, blocks=1, neck=1), {}, 4),
    "afno": Row("physics.AFNO", dict(size=[12, 20], channels=3, patch=2, width=12, depth=2, num_blocks=3),
                dict(size=[176, 352], depth=4), 1, lacks=("drop_path_rate", )),
    "sfno": Row("physics.SFNO", dict(size=[9, 16], channels=3, width=6, layers=2), {}, 4, bound=1e-4),
    "vae": Row("images.VAE", dict(points=30, hidden=17, code=5), {}, 128),
    "deeponet": Row("points.DeepONet", dict(sensors=13, points=7, dimensions=2, width=11, depth=3, basis=9), {}, 64),
    "pinn": Row("points.PINN", dict(width=9, depth=3), {}, 1024),
    "schnet": Row("points.SchNet",
                  dict(atoms=7, kinds=9, width=12, filters=10, interactions=2, gaussians=8, cutoff=5.0), {}, 16,
                  samples=4),
    "meshgraphnet": Row("points.MeshGraphNet",
                        dict(nodes=11, edges=19, node_features=4, edge_features=3, width=12, steps=2, outputs=2), {}, 2,
                        samples=4),
    "mobilenetv2": Row("images.MobileNetV2",
                       dict(size=32, classes=7, first=8, last=24, expand=[1, 3, 3], widths=[8, 12, 12],
                            repeats=[1, 2, 1], strides=[1, 2, 1]), {}, 16, bound=3e-4, lacks=("drop", )),
    "climax": Row("physics.ClimaX",
                  dict(size=[8, 12], variables=3, patch=2, width=24, depth=2, decoder_depth=1, heads=3),
                  dict(variables=20, width=384), 2, lacks=("drop", "drop_path_rate")),
    "fastmri_unet": Row("mri.FastMRI", dict(size=16, channels=1, width=4, pools=2), {}, 1, lacks=("drop", )),
    "varnet": Row("mri.VarNet",
                  dict(size=[16, 12], coils=3, centre=4, cascades=2, width=4, pools=2, sens_width=3, sens_pools=2),
                  dict(size=[160, 160], coils=8, cascades=4), 1),
    "pdebench_unet": Row("physics.PDEBenchUNet", dict(size=16, channels=5, targets=2, width=4), {}, 8,
                         bound=3e-4),
    "cosmoflow": Row("images.CosmoFlow", dict(size=8, channels=2, width=4, layers=2, targets=3), dict(size=64), 4,
                     lacks=("drop", )),
    "transolver": Row("points.Transolver",
                      dict(points=13, dimensions=2, features=1, width=12, depth=2, heads=3, slices=5, ratio=2,
                           targets=2), {}, 8),
    "rotary": Row("sequences.Rotary",
                  dict(length=11, vocabulary=13, layers=2, heads=4, kv_heads=2, width=24, hidden=20), {}, 16),
    "convlstm": Row("physics.ConvLSTM", dict(frames=4, size=8, channels=1, hidden=[5, 3], kernel=3), {}, 4),
    "fno": Row("physics.FNO", dict(width=6, modes=3, layers=2, hidden=16, size=14), {}, 16),
    "lstm": Row("sequences.LSTM", dict(days=9, forcings=3, attributes=2, hidden=5, layers=2), {}, 64,
                lacks=("dropout", )),
    "mamba": Row("sequences.Mamba", dict(width=32, layers=2, states=5, taps=4, vocabulary=11, length=19), {}, 8),
}
