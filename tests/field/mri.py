"""fastMRI: images from a part of their spectrum."""
import torch
from torch import nn

from base import folder


def up_layers(i, o):
    return folder(layers=nn.Sequential(nn.ConvTranspose2d(i, o, 2, 2, bias=False), nn.InstanceNorm2d(o),
                                       nn.LeakyReLU(0.2)))
