"""A fourth list: families of the same libraries of which no other list has a model. Importing it adds them to
LIBRARIES.
"""
import torch

import library_more  # noqa: F401 (the other lists)
from library_models import LIBRARIES, NO_CHANCE, SMALL, First, _hf, _image, _words, add_timm, model

KNOWN = {library: set(models) for library, models in LIBRARIES.items()}

for _name, _size, _further in (
        ("mvitv2_tiny", 64, {"img_size": 64}), ("swinv2_cr_tiny_ns_224", 64, {"img_size": 64}),
        ("sebotnet33ts_256", 64, {}), ("resnet51q", 64, {}), ("regnetz_005", 64, {}), ("nf_regnet_b0", 64, {}),
        ("vit_wee_patch16_reg1_gap_256", 64, {"img_size": 64, "depth": 2}), ("spnasnet_100", 64, {}),
        ("mobilenetv1_100", 64, {}), ("resnetaa34d", 64, {}), ("convnext_zepto_rms_ols", 64, {}),
        ("vit_small_resnet26d_224", 64, {"img_size": 64, "depth": 2}), ("eva02_small_patch14_224", 56, {"depth": 2}),
        ("darknetaa53", 64, {}), ("haloregnetz_b", 64, {}), ("naflexvit_base_patch16_gap", 64, {"depth": 2})):
    add_timm(_name, _size, _further)

WORDS = {"vocab_size": 40, **SMALL}
DECODER = {"d_model": 24, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 3,
           "decoder_attention_heads": 3, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "dropout": 0.0,
           "attention_dropout": 0.0, "activation_dropout": 0.0}
_hf("MobileBert", [_words], vocab_size=40, hidden_size=24, embedding_size=12, intra_bottleneck_size=12,
    num_hidden_layers=2, num_attention_heads=3, intermediate_size=32, **NO_CHANCE)
_hf("SqueezeBert", [_words], embedding_size=24, **WORDS, **NO_CHANCE)
_hf("ConvBert", [_words], vocab_size=40, hidden_size=24, embedding_size=12, num_hidden_layers=2, num_attention_heads=4,
    intermediate_size=48, conv_kernel_size=3, **NO_CHANCE)
_hf("XLNet", [_words], vocab_size=40, d_model=24, n_layer=2, n_head=3, d_inner=48, dropout=0.0, use_mems_eval=False,
    use_mems_train=False)
_hf("Deberta", [_words], pos_att_type=["c2p", "p2c"], relative_attention=True, max_relative_positions=8, **WORDS,
    **NO_CHANCE)
_hf("CTRL", [_words], vocab_size=40, n_embd=24, n_layer=2, n_head=3, dff=48, n_positions=16, embd_pdrop=0.0,
    resid_pdrop=0.0)
_hf("GPTNeo", [_words], attention="eager", vocab_size=40, hidden_size=24, num_layers=2, num_heads=3,
    intermediate_size=48, window_size=4, attention_types=[[["global", "local"], 1]], embed_dropout=0.0,
    attention_dropout=0.0, resid_dropout=0.0)
_hf("Granite", [_words], num_key_value_heads=1, **WORDS)
_hf("Phi3", [_words], num_key_value_heads=1, pad_token_id=0, **WORDS)
_hf("Starcoder2", [_words], num_key_value_heads=1, **WORDS)
_hf("Bart", [_words], vocab_size=40, max_position_embeddings=32, **DECODER)
_hf("MBart", [_words], vocab_size=40, max_position_embeddings=32, pad_token_id=0, eos_token_id=2, **DECODER)
_hf("XLMRoberta", [_words], **WORDS, **NO_CHANCE)
_hf("CLIPText", [_words], **WORDS)
_hf("Canine", [lambda: torch.randint(1, 40, (2, 16))], downsampling_rate=4, num_hash_functions=2, num_hash_buckets=32,
    local_transformer_stride=8, **SMALL, **NO_CHANCE)
_hf("Reformer", [lambda: torch.randint(1, 40, (2, 16))], vocab_size=40, hidden_size=24, num_attention_heads=2,
    attention_head_size=12, feed_forward_size=32, attn_layers=["local", "local"], axial_pos_shape=[4, 4],
    axial_pos_embds_dim=[8, 16], local_attn_chunk_length=4, hidden_dropout_prob=0.0,
    local_attention_probs_dropout_prob=0.0, is_decoder=False)
_hf("Rwkv", [_words], attention="eager", vocab_size=40, hidden_size=24, num_hidden_layers=2, attention_hidden_size=24,
    intermediate_size=32)
_hf("ViTMSN", [_image], image_size=32, patch_size=8, **SMALL, **NO_CHANCE)
_hf("Dinov2WithRegisters", [_image], image_size=32, patch_size=8, num_hidden_layers=2, hidden_size=24,
    num_attention_heads=3, **NO_CHANCE)
_hf("GLPN", [_image], hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 1, 2, 2],
    drop_path_rate=0.0, **NO_CHANCE)
_hf("Cvt", [lambda: torch.randn(2, 3, 64, 64)], attention="eager", embed_dim=[8, 16, 24], depth=[1, 1, 1],
    num_heads=[1, 2, 3], drop_path_rate=[0.0, 0.0, 0.0])
_hf("Levit", [lambda: torch.randn(2, 3, 64, 64)], image_size=64, hidden_sizes=[16, 24, 32], depths=[1, 1, 1],
    num_attention_heads=[2, 2, 2], key_dim=[8, 8, 8], drop_path_rate=0)
_hf("FocalNet", [_image], attention="eager", image_size=32, patch_size=4, embed_dim=8, depths=[1, 1],
    focal_levels=[2, 2], focal_windows=[3, 3], hidden_sizes=[8, 16], drop_path_rate=0.0, hidden_dropout_prob=0.0)
_hf("WavLM", [lambda: torch.randn(2, 800)], attention="eager", conv_dim=(8, 8), conv_kernel=(5, 3), conv_stride=(4, 4),
    num_feat_extract_layers=2, num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2, apply_spec_augment=False,
    hidden_dropout=0.0, attention_dropout=0.0, activation_dropout=0.0, feat_proj_dropout=0.0, layerdrop=0.0, **SMALL)
_hf("AST", [lambda: torch.randn(2, 32, 16)], kind="AST", num_mel_bins=16, max_length=32, patch_size=8,
    frequency_stride=8, time_stride=8, key="last_hidden_state", **SMALL, **NO_CHANCE)
_hf("Bit", [_image], attention="eager", embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], num_groups=4)


def _monai(name, shape, make):
    @model("monai", name)
    def of():
        import monai.networks.nets as nets
        return First(make(nets)), (torch.randn(shape),)


_monai("SwinUNETR2", (1, 1, 32, 32, 32), lambda n: n.SwinUNETR(1, 2, feature_size=12, depths=(1, 1, 1, 1),
                                                               num_heads=(1, 2, 2, 2), use_v2=True))
_monai("ResNetFeatures", (2, 1, 32, 32), lambda n: n.ResNet("bottleneck", [1, 1, 1, 1], [4, 8, 16, 32],
                                                            spatial_dims=2, n_input_channels=1, num_classes=3))
_monai("TopologyDiNTS", (1, 1, 32, 32, 32), lambda n: n.DiNTS(
    n.TopologyInstance(spatial_dims=3, num_blocks=4, num_depths=3, channel_mul=0.25), 1, 2, spatial_dims=3))
_monai("SEResNet50", (2, 1, 32, 32), lambda n: n.SEResNet50(spatial_dims=2, in_channels=1, num_classes=3,
                                                           inplanes=8, layers=(1, 1, 1, 1)))

OTHER = {library: [n for n in models if n not in KNOWN.get(library, ())] for library, models in LIBRARIES.items()}
