"""The third list, continued: layers and modules that are applied several times."""
import torch
import torch.nn.functional as F
from torch import nn

from library_models import LIBRARIES
from library_written import Net, conv, written
import library_written_more  # noqa: F401


class Encoder(Net):
    """A block with running statistics, called for each of its inputs."""

    def __init__(self, c):
        super().__init__()
        self.layers(a=conv(3, c), norm=nn.BatchNorm2d(c), b=conv(c, c))

    def forward(self, x):
        y = F.relu(self.norm(self.a(x)))
        return y + self.b(y)


@written((2, 3, 8, 8), (2, 3, 8, 8))
class Siamese(Net):
    def __init__(self):
        super().__init__()
        self.layers(encoder=Encoder(4), out=nn.Linear(8, 2))

    def forward(self, x, z):
        a, b = self.encoder(x), self.encoder(z)
        return self.out(torch.cat([(a - b).abs().mean((2, 3)), (a * b).mean((2, 3))], 1))


@written((2, 3, 16, 16))
class Pyramid(Net):
    """One head for maps of several sizes."""

    def __init__(self):
        super().__init__()
        self.layers(stem=conv(3, 8), down=nn.Conv2d(8, 8, 3, 2, 1), norm=nn.GroupNorm(2, 8), head=nn.Conv2d(8, 3, 1),
                    act=nn.PReLU(8))

    def forward(self, x):
        x, found = self.stem(x), []
        for _ in range(3):
            found.append(self.head(self.act(self.norm(x))).flatten(2))
            x = self.down(x)
        return torch.cat(found, 2)


class Step(Net):
    """Two inputs, two results; what it reads besides is the same in all calls."""

    def __init__(self, e):
        super().__init__()
        self.layers(mix=nn.Linear(2 * e, e), norm=nn.LayerNorm(e), keep=nn.Linear(e, e))

    def forward(self, x, state):
        y = torch.tanh(self.mix(torch.cat([x, state], -1)))
        return self.norm(y + x), torch.sigmoid(self.keep(y)) * state


@written((2, 5, 6))
class Recursive(Net):
    """A block that is repeated with its own weights, and one norm along two axes."""

    def __init__(self):
        super().__init__()
        self.layers(step=Step(6), norm=nn.LayerNorm(6))

    def forward(self, x):
        state = self.norm(x)
        for _ in range(4):
            x, state = self.step(x, state)
        square = (x.transpose(1, 2) @ x).mean(1)
        return self.norm(x) + self.norm(state) + self.norm(square)[:, None]


class Branch(Net):
    def __init__(self, e):
        super().__init__()
        self.layers(a=nn.Linear(e, e), b=nn.Linear(e, e))

    def forward(self, x, twice=False):
        y = torch.tanh(self.a(x))
        return self.b(torch.tanh(self.a(y))) if twice else self.b(y) * 2


@written((2, 6))
class Branches(Net):
    """A module whose calls compute different things; a weight that a layer and a product read."""

    def __init__(self):
        super().__init__()
        self.layers(branch=Branch(6), tied=nn.Linear(6, 6))

    def forward(self, x):
        y = self.branch(self.tied(x))
        return F.linear(self.branch(y, twice=True), self.tied.weight.t())


WRITTEN = {"written": list(LIBRARIES["written"])}
