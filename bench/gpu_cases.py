"""What bench/gpu runs: models at sizes. UNTIL is how long one program may take on a GPU before it counts as stuck, in
seconds."""
UNTIL = 400

MODES = {"bf16": ["--amp_mode=bf16"], "fp16": ["--amp_mode=fp16"], "tf32": ["--amp_mode=none"]}
F32 = ["--amp_mode=none", "--tf32=false"]

UNET = ["models/unet.dl", "--config=tiny", "--data_size=32"]
VIT_SMALL = ["models/vit.dl", "--config=base", "--img_size=[16,24]", "--n_in_channels=3", "--n_out_channels=3",
             "--patch_size=4", "--embed_dim=48",
             "--depth=2", "--num_heads=2"]
VIT_WIDE = ["models/vit.dl", "--config=base", "--img_size=[88,176]", "--depth=2"]  # its real width and head size
RESNET_SMALL = ["models/resnet.dl", "--small=true", "--widths=[16,24,32,48]", "--depths=[1,1,1,1]",
                "--strides=[2,2,2,2]", "--expand=1",
                "--n_classes=10", "--input_shape=[32,32,3]"]
RESNET_64 = ["models/resnet.dl", "--n_classes=100", "--input_shape=[64,64,3]"]
CLASSIFIER = ["models/cnn_classifier.dl", "--input_shape=[32,32,3]", "--dropout=0"]
FNO = ["models/field/fno.dl", "--size=16", "--width=8", "--modes=4", "--hidden=16"]
REGRESSOR = ["models/cnn_regressor.dl", "--config=test"]


def batch(n):
    return [f"--local_batch_size={n}"]


# name -> what `dlc verify` is given: every kernel next to the interpreter, in double precision on the host.
VERIFY_QUICK = {
    "unet 32^3 bf16": UNET + batch(1) + MODES["bf16"],
    "vit 16x24 fp16, dropout": VIT_SMALL + batch(2) + MODES["fp16"] + ["--dropout=0.1"],
    "vit 16x24 bf16": VIT_SMALL + batch(2) + MODES["bf16"],
    "resnet 32x32 bf16": RESNET_SMALL + batch(4) + MODES["bf16"],
    "cnn_classifier tf32": CLASSIFIER + batch(4) + MODES["tf32"],
}
VERIFY = {
    **VERIFY_QUICK,
    "unet 32^3 fp16": UNET + batch(1) + MODES["fp16"],
    "unet 32^3 tf32": UNET + batch(1) + MODES["tf32"],
    "unet 32^3 f32": UNET + batch(1) + F32,
    "vit 16x24 tf32": VIT_SMALL + batch(2) + MODES["tf32"],
    "vit 88x176 bf16": VIT_WIDE + batch(1) + MODES["bf16"],
    "vit 88x176 fp16": VIT_WIDE + batch(1) + MODES["fp16"],
    "vit 88x176 tf32": VIT_WIDE + batch(1) + MODES["tf32"],
    "resnet50 64x64 bf16": RESNET_64 + batch(2) + MODES["bf16"],
    "resnet50 64x64 fp16": RESNET_64 + batch(2) + MODES["fp16"],
    "resnet50 64x64 tf32": RESNET_64 + batch(2) + MODES["tf32"],
    "cnn_regressor tf32": REGRESSOR + batch(2) + MODES["tf32"],
    "convnext tiny bf16": ["models/convnext.dl", "--config=tiny"] + batch(2) + MODES["bf16"],
    "resunet tiny bf16": ["models/resunet.dl", "--config=tiny"] + batch(1) + MODES["bf16"],
    "fno 16^2 tf32": FNO + batch(2) + MODES["tf32"],
    "unet 64^3 bf16": ["models/unet.dl", "--config=base"] + batch(1) + MODES["bf16"],
}
VERIFY_TINY = {"cnn_classifier bf16": CLASSIFIER + batch(1) + MODES["bf16"]}

# name -> what dlrun is given, the shapes of a batch ("classes": numbers below that), how far losses may be apart: those
# of the same steps on the CPU, in the same mode. In 16 bits and TF32 it is what two orders of summation differ by;
# steps of Adam add to it.
CURVE_CLASSIFIER = (CLASSIFIER + batch(4), {"x": (4, 3, 32, 32), "t": (4,)}, 10)
CURVE_UNET = (UNET + batch(2), {"x": (2, 4, 32, 32, 32), "t": (2, 5, 32, 32, 32)}, None)
CURVE_VIT = (VIT_WIDE + batch(2), {"x": (2, 20, 88, 176), "t": (2, 20, 88, 176)}, None)
CURVE_RESNET = (RESNET_64 + batch(8), {"x": (8, 3, 64, 64), "t": (8,)}, 100)
CURVES_QUICK = {"unet 32^3 bf16": (*CURVE_UNET, MODES["bf16"], 1e-2),
                "vit 88x176 bf16": (*CURVE_VIT, MODES["bf16"], 1e-2)}
CURVES = {
    **{f"{name} {mode}": (*case, MODES[mode], 1e-2) for mode in MODES
       for name, case in (("unet 32^3", CURVE_UNET), ("vit 88x176", CURVE_VIT), ("resnet50 64x64", CURVE_RESNET),
                ("cnn_classifier", CURVE_CLASSIFIER))},
    "unet 32^3 f32": (*CURVE_UNET, F32, 1e-4), "vit 88x176 f32": (*CURVE_VIT, F32, 1e-4),
    "cnn_classifier f32": (*CURVE_CLASSIFIER, F32, 1e-4),
}
CURVES_TINY = {"cnn_classifier bf16": (CLASSIFIER + batch(1), {"x": (1, 3, 32, 32), "t": (1,)}, 10, MODES["bf16"],
                                       1e-2)}

# A run with data: how often its steps launch a graph, wait and allocate.
COUNTED = VIT_SMALL + batch(2) + ["--data_loader_config=synthetic", "--num_iters=6", "--limit_nsamples=12",
                                  "--limit_nsamples_val=4"]
COUNTED_TINY = CLASSIFIER + batch(1) + ["--data_loader_config=synthetic", "--num_epochs=1", "--Nsamples=6",
                                        "--Nsamples_val=1"] + MODES["bf16"]

# name -> what `dlc bench` is given, the rival's model (bench/rival_models.py), batch
SPEED = {
    "unet": (["models/unet.dl", "--config=base"], "unet", 64),
    "vit": (["models/vit.dl", "--config=base"], "vit_360x720", 16),
    "resnet50": (["models/resnet.dl", "--n_classes=100", "--input_shape=[224,224,3]"], "resnet50_224", 256),
}
SPEED_TINY = {"cnn_classifier": (CLASSIFIER, "cnn_classifier", 1)}

# name -> what bench/rival.py is given
RIVALS = {
    "eager": ["--fused"],
    "channels-last": ["--fused", "--channels-last"],
    "channels-last, CUDA graph": ["--fused", "--channels-last", "--graph"],
    "channels-last, torch.compile": ["--fused", "--channels-last", "--compile"],
}
RIVALS_QUICK = {name: RIVALS[name] for name in ("channels-last", "channels-last, CUDA graph")}
RIVALS_TINY = {"eager": []}
