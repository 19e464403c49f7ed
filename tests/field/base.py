"""What the networks of this folder share. Each is the PyTorch form of models/field/NAME.dl: its arguments are the
model's, and so are the names of its inputs, targets and parameters."""
import math

import torch
import torch.nn.functional as F
from torch import nn


class Field(nn.Module):
    """forward(**inputs) is what the model predicts; loss(**batch) is what it trains by; batch(n) has n random samples.
    A test replaces `rand` by the numbers that our model draws."""
    rand = staticmethod(torch.rand)

    def loss(self, t, **inputs):
        return F.mse_loss(self(**inputs), t)

    def randn(self, *shape):
        first = self.rand(*shape)
        return (-2 * (1 - first).log()).sqrt() * (2 * math.pi * self.rand(*shape)).cos()


def folder(**parts):
    """A module that only holds others."""
    made = nn.Module()
    for name, part in parts.items():
        setattr(made, name, part)
    return made
