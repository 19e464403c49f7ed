"""A second list of models of public libraries, none of which is in library_models.py: importing it adds them there.

They are of other families, dimensions and heads, so that the share which imports is not that of models which the import
was written for. In the zoo's table they follow the first list.
"""
import torch
from torch import nn

from library_models import First, LIBRARIES, SMALL, NO_CHANCE, _Deterministic, _hf, _image, _monai, _operator, _smp, \
    _words, add_timm, model

FIRST = {library: list(models) for library, models in LIBRARIES.items()}

for _name, _of in {
    "hgnetv2_b0": (64, {}), "rexnet_100": (64, {}), "cs3darknet_s": (64, {}), "repghostnet_050": (64, {}),
    "fasternet_t0": (64, {}), "semnasnet_075": (64, {}), "res2next50": (64, {}), "mixnet_s": (64, {}),
    "nextvit_small": (64, {}), "efficientnet_lite0": (64, {}), "dpn68": (64, {}), "resnetblur18": (64, {}),
    "legacy_seresnet18": (64, {}), "resnet50_gn": (64, {}), "inception_v4": (96, {}), "tresnet_m": (64, {}),
    "vit_tiny_r_s16_p8_224": (64, {"depth": 2}), "deit_tiny_distilled_patch16_224": (64, {"depth": 2}),
    "flexivit_small": (64, {"img_size": 64, "depth": 2}),
    "swin_s3_tiny_224": (224, {"embed_dim": 24, "depths": (1, 1, 2, 1), "num_heads": (1, 2, 4, 8)}),
    "ghostnetv3_100": (64, {}), "sehalonet33ts": (128, {}), "pit_xs_distilled_224": (224, {}),
}.items():
    add_timm(_name, *_of)


@model("torchvision", "mc3_18")
def _mc3():
    import torchvision
    return torchvision.models.video.mc3_18(weights=None, num_classes=5), (torch.randn(2, 3, 4, 32, 32),)


@model("torchvision", "swin3d_t")
def _swin3d():
    from torchvision.models.video.swin_transformer import SwinTransformer3d
    m = SwinTransformer3d(patch_size=[2, 4, 4], embed_dim=24, depths=[2, 2], num_heads=[2, 4], window_size=[4, 4, 4],
                          stochastic_depth_prob=0.0, num_classes=5)
    return m, (torch.randn(1, 3, 8, 32, 32),)


@model("torchvision", "resnet18_fpn")
def _fpn():
    from torchvision.models.detection.backbone_utils import resnet_fpn_backbone
    return First(resnet_fpn_backbone(backbone_name="resnet18", weights=None, trainable_layers=5)), (
        torch.randn(2, 3, 64, 64),)


@model("torchvision", "retinanet_head")
def _retina():
    from torchvision.models.detection.retinanet import RetinaNetHead

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = RetinaNetHead(16, 3, 4)

        def forward(self, x):
            return self.head([x])["cls_logits"]
    return M(), (torch.randn(2, 16, 8, 8),)


for _name in ("deeplabv3_resnet50",):
    from library_models import _segment
    LIBRARIES["torchvision"][_name] = _segment(_name)

_monai("UNETR3d", (1, 1, 32, 32, 32), lambda n: n.UNETR(1, 2, (32, 32, 32), feature_size=4, hidden_size=24, mlp_dim=48,
                                                        num_heads=3))
_monai("VNet2d", (1, 1, 32, 32), lambda n: n.VNet(2, 1, 2))
_monai("AttentionUnet3d", (2, 1, 16, 16, 16), lambda n: n.AttentionUnet(3, 1, 2, (4, 8), (2,)))
_monai("DynUNet3d_deep", (2, 1, 16, 16, 16), lambda n: n.DynUNet(3, 1, 2, [3, 3, 3, 3], [1, 2, 2, 2], [2, 2, 2],
                                                                 filters=[4, 8, 8, 8], deep_supervision=True,
                                                                 deep_supr_num=1))
_monai("SegResNetDS2", (2, 1, 32, 32), lambda n: n.SegResNetDS2(2, 8, 1, 2, blocks_down=(1, 2), blocks_up=(1,)))
_monai("MedNeXtS", (2, 1, 32, 32), lambda n: n.MedNeXtSmall(spatial_dims=2, in_channels=1, out_channels=2))
_monai("QuickNAT", (2, 1, 32, 32), lambda n: n.Quicknat(num_classes=3, num_channels=1, num_filters=8))
_monai("Critic", (2, 1, 32, 32), lambda n: n.Critic((1, 32, 32), (4, 8), (2, 2)))
_monai("PatchDiscriminator", (2, 1, 32, 32), lambda n: n.PatchDiscriminator(2, 8, 1, num_layers_d=2))
_monai("ViT3d", (1, 1, 16, 16, 16), lambda n: n.ViT(1, (16, 16, 16), (8, 8, 8), hidden_size=24, mlp_dim=48,
                                                    num_layers=2, num_heads=3))
_monai("UNet_group_norm", (2, 1, 32, 32), lambda n: n.UNet(2, 1, 2, (4, 8, 16), (2, 2), adn_ordering="ANDA",
                                                           norm=("GROUP", {"num_groups": 2}),
                                                           act=("LeakyReLU", {"negative_slope": 0.2})))
_monai("AutoencoderKL_attention", (1, 1, 16, 16), lambda n: _Deterministic(n.AutoencoderKL(
    2, 1, 1, channels=(8, 16), latent_channels=2, num_res_blocks=(1, 1), norm_num_groups=4,
    attention_levels=(True, True), with_encoder_nonlocal_attn=True)))

for _kind, _encoder, _more in (("Unet", "timm-efficientnet-b0", {"decoder_attention_type": "scse"}),
                               ("Linknet", "mobileone_s0", {}),
                               ("UPerNet", "mit_b0", {}), ("FPN", "timm-regnety_002", {}),
                               ("MAnet", "mobilenet_v2", {}), ("UnetPlusPlus", "vgg11_bn", {}),
                               ("Unet", "timm-res2net50_26w_4s", {})):
    _full = f"{_kind}_{_encoder}" + ("_scse" if _more else "")
    LIBRARIES["segmentation_models"][_full] = _smp(_kind, _encoder, **_more)

_operator("TFNO1d_cp", (2, 2, 32), lambda m: m.TFNO((8,), 2, 1, 12, n_layers=2, factorization="cp", rank=0.5))
_operator("TFNO3d_tt", (2, 1, 8, 8, 8), lambda m: m.TFNO((4, 4, 4), 1, 1, 8, n_layers=2, factorization="tt", rank=0.5))
_operator("FNO2d_no_mlp", (2, 2, 16, 16), lambda m: m.FNO((6, 6), 2, 1, 12, n_layers=2, use_channel_mlp=False,
                                                          fno_skip="identity"))
_operator("FNO2d_group_norm", (2, 2, 15, 17), lambda m: m.FNO((5, 6), 2, 1, 12, n_layers=2, norm="group_norm",
                                                              fno_skip="soft-gating", preactivation=True))
_operator("FNO2d_separable", (2, 2, 16, 16), lambda m: m.FNO((6, 6), 2, 1, 12, n_layers=2, separable=True))
_operator("UNO2d_other", (2, 1, 20, 20), lambda m: m.UNO(1, 1, 8, uno_out_channels=[8, 8, 8, 8], n_layers=4,
                                                         uno_n_modes=[[5, 5], [5, 5], [5, 5], [5, 5]],
                                                         uno_scalings=[[1.0, 1.0], [0.5, 0.5], [1, 1], [2, 2]]))


@model("diffusers", "UNet2DModel_resnet")
def _unet2d_resnet():
    from diffusers import UNet2DModel
    m = UNet2DModel(16, 3, 3, block_out_channels=(16, 32), layers_per_block=1, norm_num_groups=4,
                    resnet_time_scale_shift="scale_shift", down_block_types=("ResnetDownsampleBlock2D", "DownBlock2D"),
                    up_block_types=("UpBlock2D", "ResnetUpsampleBlock2D"), time_embedding_type="fourier")
    return First(m, "sample"), (torch.randn(2, 3, 16, 16), torch.tensor([0.3, 0.7]))


@model("diffusers", "VQModel")
def _vq():
    from diffusers import VQModel

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.vae = VQModel(3, 3, ("DownEncoderBlock2D",) * 2, ("UpDecoderBlock2D",) * 2, (8, 16), norm_num_groups=4)

        def forward(self, x):
            return self.vae.decode(self.vae.encode(x).latents, force_not_quantize=True).sample
    return M(), (torch.randn(2, 3, 16, 16),)


@model("diffusers", "PixArtTransformer2DModel")
def _pixart():
    from diffusers import PixArtTransformer2DModel

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = PixArtTransformer2DModel(2, 8, 4, 8, 2, norm_num_groups=4, cross_attention_dim=16,
                                                sample_size=16, patch_size=2, caption_channels=12,
                                                use_additional_conditions=False)

        def forward(self, x, text, step):
            return self.net(x, encoder_hidden_states=text, timestep=step,
                            added_cond_kwargs={"resolution": None, "aspect_ratio": None}).sample
    return M(), (torch.randn(2, 4, 16, 16), torch.randn(2, 5, 12), torch.tensor([3, 7]))


@model("diffusers", "UNet3DConditionModel")
def _unet3d():
    from diffusers import UNet3DConditionModel
    m = UNet3DConditionModel(16, 3, 3, block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4,
                             attention_head_dim=4, cross_attention_dim=12,
                             down_block_types=("CrossAttnDownBlock3D", "DownBlock3D"),
                             up_block_types=("UpBlock3D", "CrossAttnUpBlock3D"))
    return First(m, "sample"), (torch.randn(2, 3, 2, 16, 16), torch.tensor([3, 7]), torch.randn(2, 5, 12))


@model("diffusers", "PriorTransformer")
def _prior():
    from diffusers import PriorTransformer

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = PriorTransformer(2, 8, 2, 12, 4, additional_embeddings=4)

        def forward(self, x, step, image, text):
            return self.net(x, step, image, text).predicted_image_embedding
    return M(), (torch.randn(2, 12), torch.tensor([3, 7]), torch.randn(2, 12), torch.randn(2, 4, 12))


# ---- transformers ----

_hf("MPNet", [_words], attention="eager",
    vocab_size=40, **SMALL, **NO_CHANCE)
_hf("RoFormer", [_words], attention="eager",
    vocab_size=40, embedding_size=24, **{**SMALL, "num_attention_heads": 2}, **NO_CHANCE)
_hf("FNet", [_words], attention="eager",
    vocab_size=40, hidden_size=24, num_hidden_layers=2, intermediate_size=48, hidden_dropout_prob=0.0,
    max_position_embeddings=16)
_hf("Nystromformer", [_words], attention="eager",
    vocab_size=40, segment_means_seq_len=10, num_landmarks=10, **SMALL, **NO_CHANCE)
_hf("DebertaV2", [_words], attention="eager",
    vocab_size=40, relative_attention=True, position_buckets=8, pos_att_type=["p2c", "c2p"],
    **SMALL, **NO_CHANCE)
_hf("Bloom", [_words], attention="eager", vocab_size=40, hidden_size=24, n_layer=2, n_head=3)
_hf("Falcon", [_words], vocab_size=40, hidden_size=24, num_hidden_layers=2, num_attention_heads=3)
_hf("GPTJ", [_words], vocab_size=40, n_embd=24, n_layer=2, n_head=3, rotary_dim=4, n_positions=16)
_hf("Qwen3", [_words], vocab_size=40, num_key_value_heads=1, head_dim=8, **SMALL)
_hf("Gemma2", [_words], attention="eager", vocab_size=40, num_key_value_heads=1, head_dim=8, **SMALL)
_hf("StableLm", [_words], vocab_size=40, num_key_value_heads=1, **SMALL)
_hf("Cohere", [_words], vocab_size=40, num_key_value_heads=1, **SMALL)
_hf("Swinv2", [_image], attention="eager",
    image_size=32, patch_size=2, embed_dim=12, depths=[2, 2], num_heads=[2, 4], window_size=4,
    drop_path_rate=0.0, **NO_CHANCE)
_hf("Pvt", [_image], attention="eager",
    image_size=32, depths=[1, 1], num_encoder_blocks=2, hidden_sizes=[8, 16], patch_sizes=[4, 2],
    strides=[4, 2], num_attention_heads=[1, 2], sequence_reduction_ratios=[2, 1], mlp_ratios=[2, 2], drop_path_rate=0.0,
    **NO_CHANCE)
_hf("PoolFormer", [_image], attention="eager",
    hidden_sizes=[8, 16], depths=[1, 1], num_encoder_blocks=2, patch_sizes=[7, 3],
    strides=[4, 2], padding=[2, 1], drop_path_rate=0.0)
_hf("MobileNetV2", [_image], attention="eager",
    depth_multiplier=0.35, tf_padding=True)
_hf("VideoMAE", [lambda: torch.randn(2, 4, 3, 32, 32)], image_size=32, patch_size=8, num_frames=4, **SMALL, **NO_CHANCE)
_hf("SiglipVision", [_image], image_size=32, patch_size=8, **SMALL)
_hf("CLIPVision", [_image], image_size=32, patch_size=8, **SMALL)
_hf("Esm", [_words], vocab_size=40, pad_token_id=0, position_embedding_type="rotary", token_dropout=False, **SMALL,
    **NO_CHANCE)
_hf("Hubert", [lambda: torch.randn(2, 400)], conv_dim=[8, 8], conv_kernel=[10, 3], conv_stride=[5, 2],
    num_feat_extract_layers=2, num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2, hidden_dropout=0.0,
    attention_dropout=0.0, feat_proj_dropout=0.0, layerdrop=0.0, mask_time_prob=0.0, apply_spec_augment=False, **SMALL)


@model("transformers", "T5")
def _t5():
    import transformers
    c = transformers.T5Config(vocab_size=40, d_model=24, d_kv=8, d_ff=48, num_layers=2, num_heads=3, dropout_rate=0.0,
                              use_cache=False)
    m = transformers.T5Model(c)

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = m

        def forward(self, x, y):
            return self.net(input_ids=x, decoder_input_ids=y).last_hidden_state
    return M(), (_words(), _words())


@model("transformers", "WhisperEncoder")
def _whisper():
    import transformers
    from transformers.models.whisper.modeling_whisper import WhisperEncoder
    c = transformers.WhisperConfig(d_model=24, encoder_layers=2, encoder_attention_heads=3, encoder_ffn_dim=48,
                                   num_mel_bins=8, max_source_positions=16)
    return First(WhisperEncoder(c), "last_hidden_state"), (torch.randn(2, 8, 32),)


MORE = {library: [n for n in models if n not in FIRST.get(library, ())] for library, models in LIBRARIES.items()}
