"""Trains the demo model: a small convolutional network for scikit-learn's 8x8 digits, converted by pnnx.

Needs the packages torch, scikit-learn and pnnx. Writes ``digits.pnnx.param``, ``digits.pnnx.bin`` and ``digits.npz``
(all held-out pictures with labels, and PyTorch's probabilities for them) to the folder given, by default the one in the
package:

    python examples/train_digits.py [FOLDER]
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pnnx
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    """Depthwise and pointwise convolution with a residual connection."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.spatial = nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.mix = nn.Conv2d(channels, channels, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.silu(self.norm1(self.spatial(x)))
        return F.relu(x + self.norm2(self.mix(y)))


class Digits(nn.Module):
    """Pictures (n, 1, 8, 8) with values 0..1 to probabilities (n, 10)."""

    def __init__(self, channels: int = 32) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU())
        self.first = Block(channels)
        self.down = nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1)
        self.second = Block(2 * channels)
        self.head = nn.Linear(2 * channels, 10)

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.down(self.first(self.stem(x))))
        y = F.adaptive_avg_pool2d(self.second(y), 1).flatten(1)
        return self.head(y)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.softmax(self.logits(x), dim=1)


def shifted(x: torch.Tensor) -> torch.Tensor:
    """Move every picture by at most one pixel, as augmentation."""
    dy, dx = (int(v) for v in torch.randint(-1, 2, (2,)))
    return torch.roll(x, (dy, dx), (2, 3))


def train(model: Digits, x: torch.Tensor, y: torch.Tensor, epochs: int = 60) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 6e-3, total_steps=epochs * (len(x) // 64 + 1))
    for epoch in range(epochs):
        model.train()
        for index in torch.randperm(len(x)).split(64):
            loss = F.cross_entropy(model.logits(shifted(x[index])), y[index], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1}: loss {loss.item():.4f}")


def convert(model: Digits, folder: Path) -> None:
    with tempfile.TemporaryDirectory() as tmp:
        traced = torch.jit.trace(model, torch.zeros(1, 1, 8, 8), check_trace=False)
        traced.save(f"{tmp}/digits.pt")
        command = [pnnx.EXEC_PATH, "digits.pt", "inputshape=[1,1,8,8]f32", "fp16=0"]
        subprocess.run(command, cwd=tmp, check=True, stdout=subprocess.DEVNULL)
        for suffix in ("param", "bin"):
            shutil.copy(f"{tmp}/digits.pnnx.{suffix}", folder)


def main() -> None:
    default = Path(__file__).parents[1] / "pnnx_fast" / "demo"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    torch.manual_seed(0)
    data = load_digits()
    pictures = (data.images[:, None] / 16).astype(np.float32)
    labels = data.target.astype(np.int64)
    parts = train_test_split(pictures, labels, test_size=0.25, random_state=0, stratify=labels)
    x, held_out, y, truth = (torch.from_numpy(part) for part in parts)
    model = Digits()
    train(model, x, y)
    model.eval()
    with torch.no_grad():
        probabilities = model(held_out).numpy()
    accuracy = (probabilities.argmax(1) == truth.numpy()).mean()
    print(f"{sum(p.numel() for p in model.parameters())} parameters, held-out accuracy {accuracy:.2%}")
    convert(model, folder)
    pixels = (held_out.numpy() * 16).round().astype(np.uint8)
    np.savez_compressed(
        folder / "digits.npz", pictures=pixels, labels=truth.numpy().astype(np.uint8), probabilities=probabilities
    )


if __name__ == "__main__":
    main()
