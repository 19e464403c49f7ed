"""Models of public libraries with random weights, small enough to train a step on two cores.

LIBRARIES: for each library, names and how they are made: a function that gives (module, inputs). Nothing is downloaded.
Inputs are tensors; whole numbers are tokens. Every random choice inside a model (dropout and the like) is off, so that
one step of it has one answer.
"""
import torch
from torch import nn

LIBRARIES = {}


def model(library, name):
    def add(make):
        LIBRARIES.setdefault(library, {})[name] = make
        return make
    return add


class First(nn.Module):
    """The first tensor of what a model gives: some give dictionaries, tuples or lists."""

    def __init__(self, inner, key=None):
        super().__init__()
        self.inner, self.key = inner, key

    def forward(self, *x):
        y = self.inner(*x)
        if self.key:
            return getattr(y, self.key) if hasattr(y, self.key) else y[self.key]
        while not torch.is_tensor(y):
            y = next(iter(y.values())) if isinstance(y, dict) else y[0]
        return y


# ---- timm ----

TIMM = {  # name: (size of the image, further arguments)
    "resnet18": (64, {}), "resnet26d": (64, {}), "resnext50_32x4d": (64, {}), "seresnet18": (64, {}),
    "wide_resnet50_2": (64, {}), "resnetv2_50": (64, {}), "res2net50_26w_4s": (64, {}), "ecaresnet26t": (64, {}),
    "vit_tiny_patch16_224": (64, {"depth": 3}), "deit_tiny_patch16_224": (64, {"depth": 3}),
    "deit3_small_patch16_224": (64, {"depth": 2}), "beit_base_patch16_224": (64, {"depth": 2, "embed_dim": 96,
                                                                                 "num_heads": 3}),
    "eva02_tiny_patch14_224": (56, {"depth": 2}), "cait_xxs24_224": (64, {"depth": 2}),
    "swin_tiny_patch4_window7_224": (64, {"window_size": 4, "embed_dim": 24, "depths": (2, 2), "num_heads": (2, 4)}),
    "swinv2_tiny_window8_256": (64, {"window_size": 4, "embed_dim": 24, "depths": (2, 2), "num_heads": (2, 4)}),
    "convnext_atto": (64, {}), "convnextv2_atto": (64, {}),
    "poolformer_s12": (64, {}),
    "caformer_s18": (64, {}), "convformer_s18": (64, {}), "efficientnet_b0": (64, {}), "tf_efficientnet_b0": (64, {}),
    "tf_efficientnetv2_b0": (64, {}), "mobilenetv2_050": (64, {}), "mobilenetv3_small_050": (64, {}),
    "mobilenetv4_conv_small_050": (64, {}), "mnasnet_small": (64, {}), "fbnetc_100": (64, {}),
    "ghostnet_050": (64, {}), "ghostnetv2_100": (64, {}), "lcnet_050": (64, {}), "tinynet_e": (64, {}),
    "regnetx_002": (64, {}), "regnety_002": (64, {}), "densenet121": (64, {}), "dla34": (64, {}),
    "dla46_c": (64, {}), "dpn48b": (64, {}), "inception_v3": (96, {}), "inception_next_atto": (64, {}),
    "xception41": (64, {}), "vgg11_bn": (64, {}), "hrnet_w18_small": (64, {}), "selecsls42b": (64, {}),
    "hardcorenas_a": (64, {}), "repvgg_a0": (64, {}), "mobileone_s0": (64, {}), "cspresnet50": (64, {}),
    "cspdarknet53": (64, {}), "vovnet39a": (64, {}), "ese_vovnet19b_dw": (64, {}),
    "nfnet_l0": (64, {}), "dm_nfnet_f0": (64, {}), "eca_nfnet_l0": (64, {}), "skresnet18": (64, {}),
    "resnest14d": (64, {}), "gernet_s": (64, {}), "bat_resnext26ts": (256, {}),
    "botnet26t_256": (256, {}), "halonet26t": (256, {}), "lambda_resnet26t": (128, {}), "gcresnext26ts": (64, {}),
    "coatnet_pico_rw_224": (64, {"img_size": 64}), "maxvit_rmlp_pico_rw_256": (64, {"img_size": 64}),
    "coat_tiny": (64, {"img_size": 64}),
    "crossvit_tiny_240": (240, {}), "levit_128s": (224, {}), "edgenext_xx_small": (64, {}),
    "edgenext_x_small": (64, {}), "mobilevit_xxs": (64, {}), "mobilevitv2_050": (64, {}), "efficientformer_l1": (224,
        {}),
    "efficientformerv2_s0": (224, {}), "efficientvit_b0": (64, {}), "efficientvit_m0": (224, {}),
    "fastvit_t8": (64, {}), "focalnet_tiny_srf": (64, {}), "gcvit_xxtiny": (224, {}), "pit_ti_224": (224, {}),
    "pvt_v2_b0": (64, {}), "twins_pcpvt_small": (64, {}), "twins_svt_small": (64, {}), 
    "xcit_nano_12_p16_224": (64, {"depth": 2}), "volo_d1_224": (64, {"img_size": 64}), "visformer_tiny": (224, {}),
    "convit_tiny": (224, {"depth": 2}), "davit_tiny": (64, {}), "nest_tiny": (64, {"img_size": 64}),
    "sequencer2d_s": (64, {"img_size": 64, "layers": (1, 1), "embed_dims": (32, 32), "hidden_sizes": (8, 8),
                           "mlp_ratios": (3, 3), "patch_sizes": (8, 2)}),
    "hiera_tiny_224": (224, {}), "repvit_m0_9": (64, {}), "rdnet_tiny": (64, {}), "starnet_s1": (64, {}),
    "tiny_vit_5m_224": (224, {}), "vit_relpos_small_patch16_224": (64, {"img_size": 64, "depth": 2}),
    "vit_base_patch16_siglip_224": (64, {"img_size": 64, "depth": 2}), "vit_small_patch14_dinov2": (56, {"img_size":
        56, "depth": 2}),
    "mambaout_femto": (64, {}), "shvit_s1": (64, {}), "swiftformer_xs": (64, {}), "vitamin_small_224": (224, {}),
}


def add_timm(name, size, further):
    def make():
        import timm
        if "vit_" in name[:4] or "deit" in name or "beit" in name or "eva" in name or "cait" in name or \
                "swin" in name:
            further.setdefault("img_size", size)
        m = timm.create_model(name, pretrained=False, num_classes=10, **further)
        return m, (torch.randn(2, 3, size, size),)
    LIBRARIES.setdefault("timm", {})[name] = make


for _name, _of in TIMM.items():
    add_timm(_name, *_of)

# Their functions pass sizes of their own next to the caller's, and Python refuses the two: so their classes.

@model("timm", "convmixer_768_32")
def _convmixer():
    from timm.models.convmixer import ConvMixer
    return ConvMixer(dim=48, depth=2, kernel_size=7, patch_size=7, act_layer=nn.ReLU, num_classes=10), (torch.randn(
        2, 3, 64, 64),)


def _mixer(name, **sizes):
    def make():
        from timm.models import mlp_mixer
        kinds = {k: getattr(mlp_mixer, v) if isinstance(v, str) else v for k, v in sizes.items()}
        return mlp_mixer.MlpMixer(num_classes=10, img_size=64, num_blocks=2, **kinds), (torch.randn(2, 3, 64, 64),)
    LIBRARIES["timm"][name] = make


_mixer("mixer_s32_224", patch_size=32, embed_dim=64)
_mixer("resmlp_12_224", patch_size=16, embed_dim=48, mlp_ratio=4, block_layer="ResBlock", norm_layer="Affine")
_mixer("gmlp_ti16_224", patch_size=16, embed_dim=48, mlp_ratio=6, block_layer="SpatialGatingBlock",
       mlp_layer="GatedMlp")

# ---- torchvision ----

TORCHVISION = {
    "alexnet": 64, "vgg11": 64, "resnet18": 64, "squeezenet1_1": 64, "densenet121": 64, "googlenet": 64,
    "mobilenet_v2": 64, "mobilenet_v3_small": 64, "mnasnet0_5": 64, "shufflenet_v2_x0_5": 64, "efficientnet_b0": 64,
    "efficientnet_v2_s": 64, "regnet_x_400mf": 64, "regnet_y_400mf": 64, "convnext_tiny": 64, "resnext50_32x4d": 64,
    "swin_t": 64, "swin_v2_t": 64, "vit_b_16": 32, "maxvit_t": 224,
}


def add_torchvision(name, size):
    def make():
        import torchvision
        further = {"googlenet": {"aux_logits": False, "init_weights": True}, "vit_b_16": {"image_size":
            size}}.get(name, {})
        m = torchvision.models.get_model(name, weights=None, num_classes=10, **further)
        return First(m), (torch.randn(2, 3, size, size),)
    LIBRARIES.setdefault("torchvision", {})[name] = make


for _name, _size in TORCHVISION.items():
    add_torchvision(_name, _size)


def _segment(name):
    def make():
        import torchvision
        m = torchvision.models.get_model(name, weights=None, weights_backbone=None, num_classes=5)
        return First(m), (torch.randn(2, 3, 64, 64),)
    return make


for _name in ("fcn_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large"):
    LIBRARIES["torchvision"][_name] = _segment(_name)


@model("torchvision", "raft_small")
def _raft():
    import torchvision
    m = torchvision.models.optical_flow.raft_small(weights=None)
    return First(m), (torch.randn(1, 3, 128, 128), torch.randn(1, 3, 128, 128))


@model("torchvision", "r3d_18")
def _r3d():
    import torchvision
    return torchvision.models.video.r3d_18(weights=None, num_classes=5), (torch.randn(2, 3, 4, 32, 32),)


@model("torchvision", "r2plus1d_18")
def _r2plus1d():
    import torchvision
    return torchvision.models.video.r2plus1d_18(weights=None, num_classes=5), (torch.randn(2, 3, 4, 32, 32),)


@model("torchvision", "s3d")
def _s3d():
    import torchvision
    return torchvision.models.video.s3d(weights=None, num_classes=5), (torch.randn(1, 3, 14, 224, 224),)


@model("torchvision", "mvit_v2_s")
def _mvit():
    import torchvision
    return torchvision.models.video.mvit_v2_s(weights=None, num_classes=5), (torch.randn(1, 3, 16, 224, 224),)


# ---- segmentation-models-pytorch ----

def _smp(kind, encoder, size=64, **further):
    def make():
        import segmentation_models_pytorch as smp
        m = getattr(smp, kind)(encoder_name=encoder, encoder_weights=None, classes=4, **further)
        return First(m), (torch.randn(2, 3, size, size),)
    return make


for _kind, _encoder in (("Unet", "resnet18"), ("Unet", "mit_b0"), ("UnetPlusPlus", "resnet18"), ("MAnet", "resnet18"),
                        ("Linknet", "resnet18"), ("FPN", "resnet18"), ("PSPNet", "resnet18"),
                        ("DeepLabV3", "resnet18"), ("DeepLabV3Plus", "resnet18"), ("PAN", "resnet18"),
                        ("UPerNet", "resnet18"), ("Segformer", "resnet18"), ("Unet", "efficientnet-b0"),
                        ("Unet", "mobilenet_v2"), ("Unet", "timm-regnetx_002"), ("Unet", "densenet121")):
    LIBRARIES.setdefault("segmentation_models", {})[f"{_kind}_{_encoder}"] = _smp(_kind, _encoder,
                                                                              128 if _kind == "PAN" else 64)

# ---- MONAI ----

def _monai(name, shape, make):
    def build():
        import monai.networks.nets as nets
        return First(make(nets)), (torch.randn(shape),)
    LIBRARIES.setdefault("monai", {})[name] = build


_monai("UNet2d", (2, 1, 32, 32), lambda n: n.UNet(2, 1, 2, (4, 8, 16), (2, 2), num_res_units=2))
_monai("UNet3d", (2, 1, 16, 16, 16), lambda n: n.UNet(3, 1, 2, (4, 8, 16), (2, 2)))
_monai("UNet2d_batch", (2, 1, 32, 32), lambda n: n.UNet(2, 1, 2, (4, 8, 16), (2, 2), norm="batch", act="relu"))
_monai("BasicUNet", (2, 1, 32, 32, 32), lambda n: n.BasicUNet(3, 1, 2, (4, 4, 8, 8, 16, 4)))
_monai("BasicUNetPlusPlus", (2, 1, 32, 32), lambda n: n.BasicUNetPlusPlus(2, 1, 2, (4, 4, 8, 8, 16, 4)))
_monai("AttentionUnet", (2, 1, 32, 32), lambda n: n.AttentionUnet(2, 1, 2, (4, 8, 16), (2, 2)))
_monai("DynUNet", (2, 1, 32, 32), lambda n: n.DynUNet(2, 1, 2, [3, 3, 3], [1, 2, 2], [2, 2], filters=[4, 8, 16]))
_monai("DynUNet_res", (2, 1, 16, 16, 16), lambda n: n.DynUNet(3, 1, 2, [3, 3, 3], [1, 2, 2], [2, 2], filters=[4, 8, 16],
                                                              res_block=True))
_monai("SegResNet", (2, 1, 32, 32), lambda n: n.SegResNet(2, 8, 1, 2, blocks_down=(1, 2), blocks_up=(1,)))
_monai("SegResNet3d", (2, 1, 16, 16, 16), lambda n: n.SegResNet(3, 8, 1, 2, blocks_down=(1, 2), blocks_up=(1,)))
_monai("SegResNetVAE", (2, 1, 32, 32), lambda n: n.SegResNetVAE((32, 32), spatial_dims=2, init_filters=8, in_channels=1,
                                                                out_channels=2, blocks_down=(1, 2), blocks_up=(1,)))
_monai("SegResNetDS", (2, 1, 32, 32), lambda n: n.SegResNetDS(2, 8, 1, 2, blocks_down=(1, 2), blocks_up=(1,)))
_monai("VNet", (1, 1, 32, 32, 32), lambda n: n.VNet(3, 1, 2))
_monai("UNETR", (2, 1, 32, 32), lambda n: n.UNETR(1, 2, (32, 32), feature_size=4, hidden_size=24, mlp_dim=48,
                                                  num_heads=3,
                                                  spatial_dims=2))
_monai("SwinUNETR", (1, 1, 64, 64), lambda n: n.SwinUNETR(1, 2, feature_size=12, spatial_dims=2))
_monai("ViT", (2, 1, 32, 32), lambda n: n.ViT(1, (32, 32), (8, 8), hidden_size=24, mlp_dim=48, num_layers=2,
                                              num_heads=3,
                                              spatial_dims=2, classification=True, num_classes=3))
_monai("ViTAutoEnc", (2, 1, 32, 32), lambda n: n.ViTAutoEnc(1, (32, 32), (4, 4), hidden_size=24, mlp_dim=48,
                                                            num_layers=2,
                                                            num_heads=3, spatial_dims=2))
_monai("DenseNet121", (2, 1, 32, 32), lambda n: n.DenseNet(2, 1, 2, init_features=8, growth_rate=4, block_config=(2,
    2)))
_monai("DenseNet121_3d", (2, 1, 32, 32, 32), lambda n: n.DenseNet(3, 1, 2, init_features=8, growth_rate=4,
                                                                  block_config=(2, 2)))
_monai("SENet", (2, 1, 64, 64), lambda n: n.SEResNet50(spatial_dims=2, in_channels=1, num_classes=2))
_monai("ResNet10", (2, 1, 16, 16, 16), lambda n: n.resnet10(n_input_channels=1, num_classes=2))
_monai("EfficientNet", (2, 3, 64, 64), lambda n: n.EfficientNetBN("efficientnet-b0", pretrained=False, num_classes=2))
_monai("FlexibleUNet", (2, 3, 64, 64), lambda n: n.FlexibleUNet(3, 2, "efficientnet-b0", decoder_channels=(32, 16, 8,
    8, 8)))
_monai("HighResNet", (2, 1, 32, 32), lambda n: n.HighResNet(2, 1, 2, dropout_prob=None))
_monai("AutoEncoder", (2, 1, 32, 32), lambda n: n.AutoEncoder(2, 1, 1, (4, 8), (2, 2)))
_monai("Regressor", (2, 1, 32, 32), lambda n: n.Regressor((1, 32, 32), (3,), (4, 8), (2, 2)))
_monai("Classifier", (2, 1, 32, 32), lambda n: n.Classifier((1, 32, 32), 3, (4, 8), (2, 2)))
_monai("Discriminator", (2, 1, 32, 32), lambda n: n.Discriminator((1, 32, 32), (4, 8), (2, 2)))
_monai("Generator", (2, 6), lambda n: n.Generator((6,), (4, 8, 8), (8, 4, 1), (2, 2, 1)))
_monai("FullyConnectedNet", (2, 6), lambda n: n.FullyConnectedNet(6, 2, (8, 8)))
_monai("MILModel", (1, 2, 3, 32, 32), lambda n: n.MILModel(3, pretrained=False, backbone="resnet18"))
_monai("RegUNet", (2, 1, 32, 32), lambda n: n.RegUNet(2, 1, 4, 2, out_channels=2))
_monai("GlobalNet", (2, 1, 32, 32), lambda n: n.GlobalNet((32, 32), 2, 1, 4, 2))
_monai("LocalNet", (2, 1, 32, 32), lambda n: n.LocalNet(2, 1, 4, [0, 1, 2], out_channels=2))
_monai("AutoencoderKL", (2, 1, 32, 32), lambda n: _Deterministic(n.AutoencoderKL(2, 1, 1, channels=(8, 8),
    latent_channels=3,
       num_res_blocks=(1, 1), norm_num_groups=4, attention_levels=(False, True))))
_monai("VQVAE", (2, 1, 32, 32), lambda n: n.VQVAE(2, 1, 1, channels=(8, 8), num_res_channels=(8, 8), num_res_layers=1,
                                                  num_embeddings=16, embedding_dim=4,
                                                  downsample_parameters=((2, 4, 1, 1),) * 2,
                                                  upsample_parameters=((2, 4, 1, 1, 0),) * 2))


class _Deterministic(nn.Module):
    def __init__(self, vae):
        super().__init__()
        self.vae = vae

    def forward(self, x):
        return self.vae.decode(self.vae.encode(x)[0])


@model("monai", "DiffusionModelUNet")
def _diffusion():
    import monai.networks.nets as n
    m = n.DiffusionModelUNet(2, 1, 1, channels=(8, 16), attention_levels=(False, True), num_head_channels=8,
                             num_res_blocks=1, norm_num_groups=4)
    return m, (torch.randn(2, 1, 16, 16), torch.tensor([3, 7]))


@model("monai", "DecoderOnlyTransformer")
def _decoder():
    import monai.networks.nets as n
    m = n.DecoderOnlyTransformer(20, 12, 24, 2, 3)
    return m, (torch.randint(20, (2, 12)),)


# ---- neuraloperator ----

def _operator(name, shape, make):
    def build():
        import neuralop.models as models
        return make(models), (torch.randn(shape),)
    LIBRARIES.setdefault("neuraloperator", {})[name] = build


_operator("FNO1d", (2, 2, 32), lambda m: m.FNO((8,), 2, 1, 12, n_layers=2))
_operator("FNO2d", (2, 2, 16, 16), lambda m: m.FNO((6, 6), 2, 1, 12, n_layers=2))
_operator("FNO3d", (2, 1, 8, 8, 8), lambda m: m.FNO((4, 4, 4), 1, 1, 8, n_layers=2))
_operator("TFNO2d", (2, 2, 16, 16), lambda m: m.TFNO((6, 6), 2, 1, 12, n_layers=2))
_operator("TFNO2d_factorized", (2, 2, 16, 16), lambda m: m.TFNO((6, 6), 2, 1, 12, n_layers=2,
                                                                implementation="factorized"))
_operator("FNO2d_norm", (2, 2, 16, 16), lambda m: m.FNO((6, 6), 2, 1, 12, n_layers=2, norm="instance_norm"))
_operator("FNO2d_padding", (2, 2, 16, 16), lambda m: m.FNO((6, 6), 2, 1, 12, n_layers=2, domain_padding=0.25))
_operator("UNO", (2, 2, 16, 16), lambda m: m.UNO(2, 1, 8, uno_out_channels=[8, 8, 8], uno_n_modes=[[4, 4]] * 3,
                                                 uno_scalings=[[1.0, 1.0], [0.5, 0.5], [2, 2]], n_layers=3,
                                                 channel_mlp_skip="linear"))
_operator("UQNO", (2, 2, 16, 16), lambda m: _Uncertain(m.UQNO(m.FNO((6, 6), 2, 1, 8, n_layers=1))))
_operator("CODANO", (1, 2, 16, 16), lambda m: m.CODANO(n_layers=2, n_modes=[[4, 4]] * 2, output_variable_codimension=1,
                                                       hidden_variable_codimension=4, lifting_channels=8,
                                                       projection_channels=8, n_heads=[1, 1],
                                                       per_layer_scaling_factors=[[1, 1]] * 2,
                                                       attention_scaling_factors=[1, 1]))
_operator("LocalNO", (2, 2, 16, 16), lambda m: m.LocalNO((6, 6), 2, 1, 8, default_in_shape=(16, 16), n_layers=2,
                                                         disco_layers=False))


class _Uncertain(nn.Module):
    """The width that UQNO learns; its other result is the base model's, which it does not train."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x)[1]


# ---- diffusers ----

@model("diffusers", "UNet2DModel")
def _unet2d():
    from diffusers import UNet2DModel
    m = UNet2DModel(16, 3, 3, block_out_channels=(16, 32), layers_per_block=1, norm_num_groups=4, attention_head_dim=8,
                    down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"))
    return First(m, "sample"), (torch.randn(2, 3, 16, 16), torch.tensor([3, 7]))


@model("diffusers", "UNet2DConditionModel")
def _unet2dc():
    from diffusers import UNet2DConditionModel
    m = UNet2DConditionModel(16, 3, 3, block_out_channels=(16, 32), layers_per_block=1, norm_num_groups=4,
                             attention_head_dim=8, cross_attention_dim=12,
                             down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
                             up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"))
    return First(m, "sample"), (torch.randn(2, 3, 16, 16), torch.tensor([3, 7]), torch.randn(2, 5, 12))


@model("diffusers", "DiTTransformer2DModel")
def _dit():
    from diffusers import DiTTransformer2DModel

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.dit = DiTTransformer2DModel(2, 8, 4, 4, num_layers=2, sample_size=16, patch_size=2,
                                             num_embeds_ada_norm=10,
                                             norm_num_groups=4)

        def forward(self, x, t, c):
            return self.dit(x, t, c).sample
    return M(), (torch.randn(2, 4, 16, 16), torch.tensor([3, 7]), torch.tensor([1, 4]))


@model("diffusers", "SD3Transformer2DModel")
def _sd3():
    from diffusers import SD3Transformer2DModel

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = SD3Transformer2DModel(16, 2, 4, 2, 8, 2, 24, 16, 24, 4, 16)

        def forward(self, x, text, pooled, step):
            return self.net(x, text, pooled, step).sample
    return M(), (torch.randn(2, 4, 16, 16), torch.randn(2, 5, 24), torch.randn(2, 24), torch.tensor([3, 7]))


@model("diffusers", "AutoencoderKL")
def _akl():
    from diffusers import AutoencoderKL

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.vae = AutoencoderKL(3, 3, ("DownEncoderBlock2D",) * 2, ("UpDecoderBlock2D",) * 2, (8, 16),
                                     norm_num_groups=4)

        def forward(self, x):
            return self.vae.decode(self.vae.encode(x).latent_dist.mode()).sample
    return M(), (torch.randn(2, 3, 16, 16),)


@model("diffusers", "AutoencoderTiny")
def _tiny():
    from diffusers import AutoencoderTiny
    m = AutoencoderTiny(encoder_block_out_channels=(8, 8), decoder_block_out_channels=(8, 8), num_encoder_blocks=(1, 1),
                        num_decoder_blocks=(1, 1))
    return First(m, "sample"), (torch.randn(2, 3, 16, 16),)


@model("diffusers", "UNet1DModel")
def _unet1d():
    from diffusers import UNet1DModel
    m = UNet1DModel(32, in_channels=4, out_channels=4, block_out_channels=(16, 32), down_block_types=("DownBlock1D",)
                    * 2,
                    up_block_types=("UpBlock1D",) * 2, extra_in_channels=0, layers_per_block=1,
                        use_timestep_embedding=True,
                    time_embedding_type="positional", norm_num_groups=4, act_fn="silu")
    return First(m, "sample"), (torch.randn(2, 4, 32), torch.tensor([3, 7]))


# ---- transformers ----

SMALL = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 48}
NO_CHANCE = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def _hf(name, inputs, key="last_hidden_state", kind=None, attention="sdpa", **config):
    def make():
        import transformers
        c = getattr(transformers, f"{kind or name}Config")(**config)
        c._attn_implementation = attention
        m = getattr(transformers, f"{name}Model")(c)
        if hasattr(c, "use_cache"):
            c.use_cache = False
        return First(m, key), tuple(make_input() for make_input in inputs)
    LIBRARIES.setdefault("transformers", {})[name] = make


def _words():
    return torch.randint(1, 40, (2, 10))


def _image():
    return torch.randn(2, 3, 32, 32)


_hf("Bert", [_words], vocab_size=40, **SMALL, **NO_CHANCE)
_hf("Roberta", [_words], vocab_size=40, **SMALL, **NO_CHANCE)
_hf("DistilBert", [_words], vocab_size=40, dim=24, n_layers=2, n_heads=3, hidden_dim=48, dropout=0.0,
    attention_dropout=0.0)
_hf("Electra", [_words], vocab_size=40, embedding_size=12, **SMALL, **NO_CHANCE)
_hf("Albert", [_words], vocab_size=40, embedding_size=12, **SMALL, **NO_CHANCE)
_hf("GPT2", [_words], vocab_size=40, n_embd=24, n_layer=2, n_head=3, n_positions=16, embd_pdrop=0.0, attn_pdrop=0.0,
    resid_pdrop=0.0)
_hf("GPTNeoX", [_words], vocab_size=40, **SMALL, attention_dropout=0.0, hidden_dropout=0.0)
_hf("OPT", [_words], vocab_size=40, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, ffn_dim=48,
    max_position_embeddings=32, word_embed_proj_dim=24, dropout=0.0, attention_dropout=0.0)
_hf("Llama", [_words], vocab_size=40, num_key_value_heads=1, **SMALL)
_hf("Mistral", [_words], vocab_size=40, num_key_value_heads=1, **SMALL)
_hf("Qwen2", [_words], vocab_size=40, num_key_value_heads=1, **SMALL)
_hf("Gemma", [_words], vocab_size=40, num_key_value_heads=1, head_dim=8, **SMALL)
_hf("Phi", [_words], vocab_size=40, **SMALL, resid_pdrop=0.0, embd_pdrop=0.0, attention_dropout=0.0)
_hf("Mamba", [_words], attention="eager", vocab_size=40, hidden_size=24, state_size=4, num_hidden_layers=2)
_hf("ViT", [_image], image_size=32, patch_size=8, **SMALL, **NO_CHANCE)
_hf("DeiT", [_image], image_size=32, patch_size=8, **SMALL, **NO_CHANCE)
_hf("Beit", [_image], image_size=32, patch_size=8, drop_path_rate=0.0, **SMALL, **NO_CHANCE)
_hf("Dinov2", [_image], image_size=32, patch_size=8, **SMALL, **NO_CHANCE)
_hf("ConvNext", [_image], attention="eager", hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 2, 1])
_hf("ConvNextV2", [_image], attention="eager", hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 2, 1])
_hf("ResNet", [_image], attention="eager", embedding_size=8, hidden_sizes=[8, 16], depths=[1, 2])
_hf("RegNet", [_image], attention="eager", embedding_size=8, hidden_sizes=[8, 16], depths=[1, 2], groups_width=8)
_hf("Swin", [_image], image_size=32, patch_size=2, embed_dim=12, depths=[2, 2], num_heads=[2, 4], window_size=4,
    drop_path_rate=0.0, **NO_CHANCE)
_hf("Segformer", [_image], depths=[1, 1], hidden_sizes=[8, 16], num_encoder_blocks=2, sr_ratios=[2, 1],
    num_attention_heads=[1, 2],
    patch_sizes=[7, 3], strides=[4, 2], mlp_ratios=[2, 2], drop_path_rate=0.0, **NO_CHANCE)
_hf("MobileViT", [lambda: torch.randn(2, 3, 64, 64)], attention="eager", hidden_sizes=[12, 16, 20],
    neck_hidden_sizes=[8, 8, 16, 16, 20, 20, 24], num_attention_heads=2, **NO_CHANCE)
_hf("PatchTST", [lambda: torch.randn(2, 32, 3)], num_input_channels=3, context_length=32, patch_length=8,
    patch_stride=8,
    d_model=12, num_attention_heads=3, num_hidden_layers=2, ffn_dim=24, dropout=0.0)
_hf("PatchTSMixer", [lambda: torch.randn(2, 32, 3)], attention="eager", num_input_channels=3, context_length=32,
    patch_length=8, patch_stride=8, d_model=12, num_layers=2, dropout=0.0)
_hf("Wav2Vec2", [lambda: torch.randn(2, 400)], conv_dim=[8, 8], conv_kernel=[10, 3], conv_stride=[5, 2],
    num_feat_extract_layers=2,
    num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2, hidden_dropout=0.0, attention_dropout=0.0,
    feat_proj_dropout=0.0, layerdrop=0.0, mask_time_prob=0.0, apply_spec_augment=False, **SMALL)
_hf("T5Encoder", [_words], kind="T5", vocab_size=40, d_model=24, d_kv=8, d_ff=48, num_layers=2, num_heads=3,
    dropout_rate=0.0)
