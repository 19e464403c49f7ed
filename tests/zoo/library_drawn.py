"""A fourth list, which chance makes: models of public libraries drawn by SEED (of the environment, 1 by default), none
of the other lists. Importing it adds them to LIBRARIES; those that cannot be made small are left out.

DRAWS is how many of each library are drawn.
"""
import os
import random

import torch

import library_more  # noqa: F401 (the other lists)
from library_models import First, LIBRARIES

SEED = int(os.environ.get("SEED", "1"))
DRAWS = {"timm": 12, "segmentation_models": 6, "transformers": 10, "torchvision": 4}
MOST = 8_000_000  # parameters
SMALL = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 48, "d_model": 24,
         "n_embd": 24, "n_layer": 2, "n_head": 3, "n_layers": 2, "n_heads": 3, "dim": 24, "hidden_dim": 48,
         "num_layers": 2, "num_heads": 3, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 3,
         "decoder_attention_heads": 3, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "d_ff": 48, "d_kv": 8,
         "ffn_dim": 48, "vocab_size": 40, "max_position_embeddings": 32, "num_key_value_heads": 3, "head_dim": 8,
         "image_size": 32, "patch_size": 8, "embedding_size": 24, "n_positions": 32, "num_decoder_layers": 2,
         "pad_token_id": 0, "word_embed_proj_dim": 24, "use_cache": False, "n_inner": 48, "type_vocab_size": 2,
         "num_buckets": 8, "kv_channels": 8, "num_labels": 4}


def small(m):
    return sum(p.numel() for p in m.parameters()) <= MOST


def of_timm(rng):
    import timm
    known = {n.split("_")[0] for n in LIBRARIES["timm"]}
    names = [n for n in timm.list_models() if n.split("_")[0] not in known]

    def make(name):
        for further, size in (({"img_size": 64}, 64), ({}, None)):
            try:
                m = timm.create_model(name, pretrained=False, num_classes=10, **further)
                size = size or max(m.default_cfg["input_size"][1:])
                return m, (torch.randn(2, 3, size, size),)
            except TypeError:
                continue
        raise ValueError(name)
    return names, make


def of_torchvision(rng):
    import torchvision
    names = [n for n in torchvision.models.list_models() if n not in LIBRARIES["torchvision"] and
             not any(w in n for w in ("rcnn", "ssd", "retina", "fcos", "raft", "quantized"))]

    def make(name):
        m = torchvision.models.get_model(name, weights=None)
        film = name in torchvision.models.list_models(torchvision.models.video)
        return First(m), (torch.randn(2, 3, 8, 112, 112) if film else torch.randn(2, 3, 64, 64),)
    return names, make


def of_segmentation_models(rng):
    import segmentation_models_pytorch as smp
    kinds = ("Unet", "UnetPlusPlus", "MAnet", "Linknet", "FPN", "PSPNet", "PAN", "DeepLabV3Plus", "UPerNet",
             "Segformer")
    encoders = smp.encoders.get_encoder_names()
    names = [f"{k}_{e}" for k in kinds for e in encoders if f"{k}_{e}" not in LIBRARIES["segmentation_models"]]

    def make(name):
        kind, encoder = name.split("_", 1)
        m = getattr(smp, kind)(encoder_name=encoder, encoder_weights=None, classes=3)
        return First(m), (torch.randn(2, 3, 64, 64),)
    return names, make


def of_transformers(rng):
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES
    known = {n.lower() for n in LIBRARIES["transformers"]}
    names = [n for n, c in MODEL_MAPPING_NAMES.items() if isinstance(c, str) and n.replace("_", "").replace("-", "")
             not in known]

    def make(name):
        config = transformers.AutoConfig.for_model(name)
        for k, v in SMALL.items():
            if isinstance(getattr(config, k, None), int):
                setattr(config, k, v)
        for k in list(vars(config)):
            if ("drop" in k or "layerdrop" in k) and isinstance(getattr(config, k), float):
                setattr(config, k, 0.0)
        m = transformers.AutoModel.from_config(config)
        pixels = m.main_input_name == "pixel_values"
        x = torch.randn(2, 3, config.image_size, config.image_size) if pixels else torch.randint(1, 40, (2, 8))
        return First(m, None), (x,)
    return names, make


def draw(library, count):
    """Names in a random order, of which the first that can be made are taken."""
    rng = random.Random(f"{SEED} {library}")
    names, make = globals()[f"of_{library}"](rng)
    rng.shuffle(names)
    found = []
    for name in names:
        if len(found) == count:
            break
        try:
            torch.manual_seed(0)
            m, inputs = make(name)
            if not small(m):
                continue
            with torch.no_grad():
                m.eval()(*inputs)
        except Exception:  # of any library: it is no model of this input, or too large
            continue
        LIBRARIES[library][name] = lambda name=name: make(name)
        found.append(name)
    return found


DRAWN = {library: draw(library, count) for library, count in DRAWS.items()}
