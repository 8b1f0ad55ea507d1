"""Networks, as plain nn.Modules: images (N, C, H, W) in, logits or features out."""

from privet.models.code_generator import CodeGenerator
from privet.models.conv_encoder import ConvEncoder
from privet.models.conv_net import ConvNet
from privet.models.denoising_unet import DenoisingUNet
from privet.models.efficientnet import efficientnet_lite
from privet.models.encoder import Encoder
from privet.models.feature_maps import FeatureMaps, convolutions
from privet.models.generator import UpsamplingGenerator
from privet.models.glyph_encoder import glyph_encoder
from privet.models.gpt2 import PretrainedWords, pretrained_words, teach_words
from privet.models.language_model import LanguageModel
from privet.models.mlp import MLP
from privet.models.residual_generator import ResidualGenerator
from privet.models.resnet9 import ResNet9
from privet.models.side_by_side import SideBySide, branches, joined
from privet.models.standardised import StandardisedConv2d
from privet.models.table_generator import TableGenerator
from privet.models.transformer import VisionTransformer, tiny_vit, vision_transformer
from privet.models.upsampled_conv import UpsampledConv
from privet.models.wide_resnet import WideResNet

__all__ = [
    "MLP",
    "CodeGenerator",
    "ConvEncoder",
    "ConvNet",
    "DenoisingUNet",
    "Encoder",
    "FeatureMaps",
    "LanguageModel",
    "PretrainedWords",
    "ResNet9",
    "ResidualGenerator",
    "SideBySide",
    "StandardisedConv2d",
    "TableGenerator",
    "UpsampledConv",
    "UpsamplingGenerator",
    "VisionTransformer",
    "WideResNet",
    "branches",
    "convolutions",
    "efficientnet_lite",
    "glyph_encoder",
    "joined",
    "pretrained_words",
    "teach_words",
    "tiny_vit",
    "vision_transformer",
]
