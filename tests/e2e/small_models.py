"""The models of models/ in the least sizes that hold every kind of layer, for checks that run all of them."""
import pathlib

from checks import TMP, narrowed

ROOT = pathlib.Path(__file__).resolve().parents[2]
BATCHES = ("--data_loader_config=synthetic", "--batch_size=2")
WEATHER = (*BATCHES, "--config=tiny", "--n_in_channels=3", "--n_out_channels=3", "--img_size=[16,24]", "--depth=2")
# Name: file, by how much its channels are divided, settings: every kind of layer, in the least sizes that hold it.
MODELS = {
    "unet": ("unet.dl", 32, (*BATCHES, "--config=tiny", "--data_size=32")),
    "resunet": ("resunet.dl", 1, (*BATCHES, "--config=tiny", "--data_size=8", "--widths=[8,16]", "--heads=2")),
    "vit": ("vit.dl", 1, (*WEATHER, "--embed_dim=32")),
    "convnext": ("convnext.dl", 1, (*WEATHER, "--embed_dim=16")),
    "resnet": ("resnet.dl", 8,
               (*BATCHES, "--input_shape=[32,32,3]", "--widths=[8,8,16,16]", "--depths=[1,2,1,1]", "--n_classes=10")),
    "cnn_classifier": ("cnn_classifier.dl", 1, (*BATCHES, "--h1=4", "--h2=8", "--h3=8", "--h4=16")),
    "cnn_regressor": ("cnn_regressor.dl", 1,
                      (*BATCHES, "--config=test", "--log_to_wandb=false", "--hidden=8", "--depth=3", "--data_size=12")),
}


def model_file(name):
    """The model's file: that of models/, or, with fewer channels, one in TMP with the configuration next to it."""
    file, divisor, _ = MODELS[name]
    if divisor == 1:
        return ROOT / "models" / file
    config = pathlib.Path("config", file.replace(".dl", ".yaml"))
    (TMP / config).parent.mkdir(exist_ok=True)
    (TMP / config).write_bytes((ROOT / "models" / config).read_bytes())
    path = pathlib.Path(TMP, file)
    path.write_text(narrowed((ROOT / "models" / file).read_text(), divisor))
    return path
