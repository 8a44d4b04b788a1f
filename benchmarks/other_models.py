"""Networks of other kinds than the zoo's, as small as keeps their structure: speech, text, video, generation.

No kernel was tuned on them. They are made by `models.py` like the rest; `MODULES` lists them by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["MODULES"]


def _residual(layers: nn.Module, x: Tensor) -> Tensor:
    result: Tensor = x + layers(x)
    return result


def _mlps(depth: int, width: int, inner: int, activation: Callable[[], nn.Module] = nn.GELU) -> nn.ModuleList:
    return nn.ModuleList(
        nn.Sequential(nn.LayerNorm(width), nn.Linear(width, inner), activation(), nn.Linear(inner, width))
        for _ in range(depth)
    )


def _heads_of(x: Tensor, heads: int) -> list[Tensor]:
    """Queries, keys and values of heads from their projection."""
    return [part.view(*x.shape[:2], heads, -1).transpose(1, 2) for part in x.chunk(3, -1)]


def _joined(x: Tensor) -> Tensor:
    """The results of heads side by side."""
    return x.transpose(1, 2).flatten(2)


# ---- pictures ----


class _SwinIR(nn.Module):
    """Super-resolution by attention in windows, every other one shifted (Liang et al., 2021)."""

    def __init__(self, width: int = 60, depth: int = 4, heads: int = 6, window: int = 8) -> None:
        super().__init__()
        self.heads, self.window = heads, window
        self.stem, self.merge = (nn.Conv2d(n, width, 3, padding=1) for n in (3, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.queries = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(depth))
        self.outs = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.mlps = _mlps(depth, width, 2 * width)
        self.bias = nn.Parameter(torch.randn(depth, heads, window**2, window**2))
        self.head = nn.Sequential(nn.Conv2d(width, 48, 3, padding=1), nn.PixelShuffle(4))

    def attend(self, x: Tensor, i: int) -> Tensor:
        b, h, w, c = x.shape
        n, shift = self.window, self.window // 2 * (i % 2)
        y = torch.roll(self.norms[i](x), (-shift, -shift), (1, 2)).view(b, h // n, n, w // n, n, c)
        y = self.queries[i](y.permute(0, 1, 3, 2, 4, 5).reshape(-1, n * n, c))
        q, k, v = y.reshape(-1, n * n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        weights = (q * (c // self.heads) ** -0.5) @ k.transpose(-2, -1) + self.bias[i]
        y = self.outs[i]((weights.softmax(-1) @ v).transpose(1, 2).reshape(-1, n * n, c))
        y = y.view(b, h // n, w // n, n, n, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        return torch.roll(y, (shift, shift), (1, 2))

    def forward(self, x: Tensor) -> Tensor:
        first = self.stem(x)
        y = first.permute(0, 2, 3, 1)
        for i, mlp in enumerate(self.mlps):
            y = _residual(mlp, y + self.attend(y, i))
        result: Tensor = self.head(self.merge(y.permute(0, 3, 1, 2)) + first)
        return result


class _DeepLab(nn.Module):
    """Segmentation by dilated convolutions side by side (Chen et al., 2017)."""

    def __init__(self, classes: int = 21) -> None:
        super().__init__()
        sizes = ((3, 32, 2), (32, 64, 2), (64, 128, 2), (128, 128, 1))
        blocks = [(nn.Conv2d(a, b, 3, s, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU()) for a, b, s in sizes]
        self.body = nn.Sequential(*(layer for block in blocks for layer in block))
        self.pyramid = nn.ModuleList(nn.Conv2d(128, 64, 3, padding=d, dilation=d) for d in (1, 6, 12, 18))
        self.head = nn.Conv2d(256, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x)
        y = self.head(torch.cat([F.relu(part(y)) for part in self.pyramid], 1))
        return F.interpolate(y, size=x.shape[2:], mode="bilinear", align_corners=False)


class _Diffusion(nn.Module):
    """A U-Net of group norms, SiLU and attention, as in latent diffusion (Rombach et al., 2022)."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()

        def block(a: int, b: int) -> nn.Module:
            ends = [(nn.GroupNorm(8, n), nn.SiLU(), nn.Conv2d(n, b, 3, padding=1)) for n in (a, b)]
            return nn.Sequential(*(layer for end in ends for layer in end))

        sizes = ((1, 1), (1, 2), (2, 2), (4, 2), (3, 1))
        self.stem, self.head = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 3, 3, padding=1)
        self.blocks = nn.ModuleList(block(a * width, b * width) for a, b in sizes)
        self.sides = nn.ModuleList(nn.Conv2d(a * width, b * width, 1) for a, b in sizes)
        self.down = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.norm = nn.GroupNorm(8, 2 * width)
        self.query, self.out = nn.Conv2d(2 * width, 6 * width, 1), nn.Conv2d(2 * width, 2 * width, 1)

    def attend(self, x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        q, k, v = self.query(self.norm(x)).reshape(b, 3, 4, c // 4, h * w).transpose(-1, -2).unbind(1)
        y = F.scaled_dot_product_attention(q, k, v).transpose(-1, -2).reshape(b, c, h, w)
        result: Tensor = x + self.out(y)
        return result

    def step(self, i: int, x: Tensor) -> Tensor:
        result: Tensor = self.sides[i](x) + self.blocks[i](x)
        return result

    def forward(self, x: Tensor) -> Tensor:
        first = self.step(0, self.stem(x))
        second = self.attend(self.step(1, self.down(first)))
        middle = self.attend(self.step(2, second))
        up = F.interpolate(self.step(3, torch.cat((middle, second), 1)), scale_factor=2.0, mode="nearest")
        result: Tensor = self.head(F.silu(self.step(4, torch.cat((up, first), 1))))
        return result


class _Generator(nn.Module):
    """Pictures from a vector by transposed convolutions (DCGAN, Radford et al., 2015)."""

    def __init__(self, widths: tuple[int, ...] = (512, 256, 128, 64)) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.ConvTranspose2d(100, widths[0], 4, bias=False)]
        for a, b in zip(widths, (*widths[1:], 3), strict=True):
            layers += [nn.BatchNorm2d(a), nn.ReLU(), nn.ConvTranspose2d(a, b, 4, stride=2, padding=1, bias=False)]
        self.layers = nn.Sequential(*layers, nn.Tanh())

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layers(x.reshape(-1, 100, 1, 1))
        return result


class _Video(nn.Module):
    """Three-dimensional convolutions over frames (R3D, Tran et al., 2018)."""

    def __init__(self, classes: int = 400) -> None:
        super().__init__()
        sizes = ((64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1))
        layers: list[nn.Module] = [nn.Conv3d(3, 64, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False)]
        for a, b, stride in sizes:
            layers += [nn.BatchNorm3d(a), nn.ReLU(), nn.Conv3d(a, b, 3, stride, 1, bias=False)]
        self.layers = nn.Sequential(*layers, nn.BatchNorm3d(256), nn.ReLU())
        self.head = nn.Linear(256, classes)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.head(self.layers(x).mean((2, 3, 4)))
        return result


# ---- sound ----


class _Vocoder(nn.Module):
    """Waves from spectra (HiFi-GAN, Kong et al., 2020): transposed and dilated convolutions in one dimension."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.stem = nn.Conv1d(80, width, 7, padding=3)
        self.ups, self.branches = nn.ModuleList(), nn.ModuleList()
        for kernel, stride in ((16, 8), (16, 8), (4, 2), (4, 2)):
            self.ups.append(nn.ConvTranspose1d(width, width // 2, kernel, stride, (kernel - stride) // 2))
            width //= 2
            for k in (3, 7, 11):
                convolutions = (nn.Conv1d(width, width, k, padding=(k - 1) // 2 * d, dilation=d) for d in (1, 3, 5))
                self.branches.append(nn.ModuleList(convolutions))
        self.head = nn.Conv1d(width, 1, 7, padding=3)

    def branch(self, i: int, x: Tensor) -> Tensor:
        for layer in self.branches[i].children():
            x = x + layer(F.leaky_relu(x, 0.1))
        return x

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x.transpose(1, 2))
        for i, up in enumerate(self.ups):
            x = up(F.leaky_relu(x, 0.1))
            x = (self.branch(3 * i, x) + self.branch(3 * i + 1, x) + self.branch(3 * i + 2, x)) / 3
        return torch.tanh(self.head(F.leaky_relu(x)))


class _TasNet(nn.Module):
    """Separation of sources by dilated depthwise convolutions (Luo and Mesgarani, 2019)."""

    def __init__(self, width: int = 128, inner: int = 256) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Conv1d(1, width, 16, 8), nn.ConvTranspose1d(width, 1, 16, 8)
        self.mask = nn.Conv1d(width, width, 1)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv1d(width, inner, 1),
                nn.PReLU(),
                nn.GroupNorm(1, inner),
                nn.Conv1d(inner, inner, 3, padding=2**i, dilation=2**i, groups=inner),
                nn.PReLU(),
                nn.GroupNorm(1, inner),
                nn.Conv1d(inner, width, 1),
            )
            for i in range(6)
        )

    def forward(self, x: Tensor) -> Tensor:
        first = self.encoder(x.transpose(1, 2))
        y = first
        for block in self.blocks:
            y = _residual(block, y)
        result: Tensor = self.decoder(first * torch.sigmoid(self.mask(y)))
        return result


class _Conformer(nn.Module):
    """Speech recognition by attention and wide depthwise convolutions (Gulati et al., 2020)."""

    def __init__(self, width: int = 144, depth: int = 4, features: int = 80) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, width, 3, 2), nn.ReLU(), nn.Conv2d(width, width, 3, 2), nn.ReLU())
        self.project = nn.Linear(width * ((features - 3) // 4), width)
        self.mlps = _mlps(depth, width, 4 * width, nn.SiLU)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * depth))
        self.attention = nn.ModuleList(nn.MultiheadAttention(width, 4, batch_first=True) for _ in range(depth))
        self.gates = nn.ModuleList(nn.Conv1d(width, 2 * width, 1) for _ in range(depth))
        self.wide = nn.ModuleList(
            nn.Sequential(
                nn.Conv1d(width, width, 31, padding=15, groups=width),
                nn.BatchNorm1d(width),
                nn.SiLU(),
                nn.Conv1d(width, width, 1),
            )
            for _ in range(depth)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.project(self.stem(x.unsqueeze(1)).transpose(1, 2).flatten(2))
        for i, mlp in enumerate(self.mlps):
            x = x + 0.5 * mlp(x)
            y = self.norms[2 * i](x)
            x = x + self.attention[i](y, y, y, need_weights=False)[0]
            y = F.glu(self.gates[i](self.norms[2 * i + 1](x).transpose(1, 2)), 1)
            x = x + self.wide[i](y).transpose(1, 2)
        return x


class _Whisper(nn.Module):
    """The encoder of a speech recogniser, whose attention is over 1500 steps (Radford et al., 2023)."""

    def __init__(self, width: int = 384, depth: int = 4, heads: int = 6, features: int = 80, steps: int = 1500) -> None:
        super().__init__()
        self.heads = heads
        self.stem = nn.Sequential(
            nn.Conv1d(features, width, 3, padding=1), nn.GELU(), nn.Conv1d(width, width, 3, 2, 1), nn.GELU()
        )
        self.places = nn.Parameter(0.3 * torch.randn(steps, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth + 1))
        self.queries, self.outs = (nn.ModuleList(nn.Linear(width, n * width) for _ in range(depth)) for n in (3, 1))
        self.mlps = _mlps(depth, width, 4 * width)

    def attend(self, x: Tensor, i: int) -> Tensor:
        q, k, v = _heads_of(self.queries[i](x), self.heads)
        result: Tensor = self.outs[i](_joined(F.scaled_dot_product_attention(q, k, v)))
        return result

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x.transpose(1, 2)).transpose(1, 2) + self.places
        for i, mlp in enumerate(self.mlps):
            x = _residual(mlp, x + self.attend(self.norms[i](x), i))
        result: Tensor = self.norms[-1](x)
        return result


# ---- text and series ----


class _Crnn(nn.Module):
    """Lines of text from pictures: convolutions, then two bidirectional LSTM layers (Shi et al., 2015)."""

    def __init__(self, classes: int = 37) -> None:
        super().__init__()
        pools: dict[int, tuple[int, int]] = {0: (2, 2), 1: (2, 2), 3: (2, 1), 4: (2, 1)}
        layers: list[nn.Module] = []
        for i, (a, b) in enumerate(((1, 64), (64, 128), (128, 256), (256, 256), (256, 512))):
            layers += [nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU()]
            layers += [nn.MaxPool2d(pools[i])] if i in pools else []
        self.layers = nn.Sequential(*layers, nn.Conv2d(512, 512, 2))
        self.lstm = nn.LSTM(512, 256, num_layers=2, bidirectional=True)
        self.head = nn.Linear(512, classes)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layers(x.transpose(1, 2).unsqueeze(1)).squeeze(2).permute(2, 0, 1)
        result: Tensor = self.head(self.lstm(y)[0])
        return result


class _RootMeanSquareNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class _Llama(nn.Module):
    """A decoder with rotary positions, a causal mask and gated layers (Touvron et al., 2023)."""

    def __init__(self, tokens: int = 128, width: int = 512, depth: int = 4, heads: int = 8, words: int = 30522) -> None:
        super().__init__()
        self.heads = heads
        self.embed, self.head = nn.Embedding(words, width), nn.Linear(width, 1000, bias=False)
        self.norms = nn.ModuleList(_RootMeanSquareNorm(width) for _ in range(2 * depth + 1))
        self.queries, self.outs = (
            nn.ModuleList(nn.Linear(width, n * width, bias=False) for _ in range(depth)) for n in (3, 1)
        )
        self.gates, self.ups = (
            nn.ModuleList(nn.Linear(width, 1376, bias=False) for _ in range(depth)) for _ in range(2)
        )
        self.downs = nn.ModuleList(nn.Linear(1376, width, bias=False) for _ in range(depth))
        size = width // heads
        angles = torch.arange(tokens)[:, None] / 10000 ** (torch.arange(0, size, 2) / size)[None]
        both = torch.cat((angles, angles), -1)
        self.cos: Tensor
        self.sin: Tensor
        self.mask: Tensor
        self.register_buffer("cos", both.cos())
        self.register_buffer("sin", both.sin())
        self.register_buffer("mask", torch.full((tokens, tokens), -math.inf).triu(1))

    def rotated(self, x: Tensor) -> Tensor:
        half = x.shape[-1] // 2
        return x * self.cos + torch.cat((-x[..., half:], x[..., :half]), -1) * self.sin

    def attend(self, x: Tensor, i: int) -> Tensor:
        b, n, c = x.shape
        q, k, v = self.queries[i](x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(self.rotated(q), self.rotated(k), v, attn_mask=self.mask)
        result: Tensor = self.outs[i](y.transpose(1, 2).reshape(b, n, c))
        return result

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for i, down in enumerate(self.downs):
            x = x + self.attend(self.norms[2 * i](x), i)
            y = self.norms[2 * i + 1](x)
            x = x + down(F.silu(self.gates[i](y)) * self.ups[i](y))
        result: Tensor = self.head(self.norms[-1](x))
        return result


class _Decoder(nn.Module):
    """One more token of a text decoder whose keys and values of 255 tokens are there: weights are read once."""

    def __init__(self, width: int = 768, depth: int = 4, heads: int = 12, words: int = 8000) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.queries, self.outs = (nn.ModuleList(nn.Linear(width, n * width) for _ in range(depth)) for n in (3, 1))
        self.mlps = _mlps(depth, width, 4 * width)
        self.past = nn.Parameter(0.3 * torch.randn(depth, 2, 1, heads, 255, width // heads))
        self.head = nn.Linear(width, words, bias=False)

    def attend(self, x: Tensor, i: int) -> Tensor:
        q, k, v = _heads_of(self.queries[i](x), self.heads)
        past = [p.expand(len(x), -1, -1, -1) for p in self.past[i]]
        y = F.scaled_dot_product_attention(q, torch.cat((past[0], k), 2), torch.cat((past[1], v), 2))
        result: Tensor = self.outs[i](_joined(y))
        return result

    def forward(self, x: Tensor) -> Tensor:
        for i, mlp in enumerate(self.mlps):
            x = _residual(mlp, x + self.attend(self.norms[i](x), i))
        result: Tensor = self.head(x)
        return result


MODULES: dict[str, Callable[[], nn.Module]] = {
    "swinir": _SwinIR,
    "deeplab": _DeepLab,
    "diffusion": _Diffusion,
    "dcgan": _Generator,
    "r3d": _Video,
    "hifigan": _Vocoder,
    "tasnet": _TasNet,
    "conformer": _Conformer,
    "whisper": _Whisper,
    "crnn": _Crnn,
    "llama": _Llama,
    "decoder": _Decoder,
}
