"""A small classifier of handwritten digits, in two arms: `build` decodes every batch, `build_ready` has it in memory.

The images are the 1,797 digits that scikit-learn ships (UCI ML hand-written digits data set). They are stored as PNG
files, one an image, and decoded by the loader, so that reading is the work that it is in most training loops. Nothing
here sleeps or waits for show.
"""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from stepprof_lab import Step, label

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Batch = tuple[torch.Tensor, torch.Tensor]

BATCH = 64
SIZE = 16
"""Side of the images in pixels: the 8 by 8 originals, enlarged once when they are stored."""


@functools.cache
def image_files() -> tuple[tuple[str, int], ...]:
    """Store the digits as PNG files in a directory of this process; returns (file, digit) for each, shuffled once.

    All arms of a process read the same files; the directory goes when the process ends.
    """
    from PIL import Image
    from sklearn.datasets import load_digits

    folder = Path(tempfile.mkdtemp(prefix="stepprof-digits-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    digits = load_digits()
    files = []
    for number, (pixels, digit) in enumerate(zip(digits.images, digits.target, strict=True)):
        image = Image.fromarray((pixels * (255 / 16)).astype("uint8")).resize((SIZE, SIZE), Image.Resampling.BICUBIC)
        path = folder / f"{number:04d}.png"
        image.save(path, compress_level=6)
        files.append((str(path), int(digit)))
    order = torch.randperm(len(files), generator=torch.Generator().manual_seed(0)).tolist()
    return tuple(files[index] for index in order)


class DigitFiles(Dataset[Batch]):
    """The digits as (1 x SIZE x SIZE float32 in 0..1, digit), each decoded from its file when it is asked for."""

    def __len__(self) -> int:
        """Number of images."""
        return len(image_files())

    def __getitem__(self, index: int) -> Batch:
        """Decode one image."""
        from PIL import Image

        path, digit = image_files()[index]
        with Image.open(path) as image:
            pixels = torch.frombuffer(bytearray(image.convert("L").tobytes()), dtype=torch.uint8)
        return pixels.reshape(1, SIZE, SIZE).float() / 255, torch.tensor(digit)


def endless(batches: Iterable[Any]) -> Iterator[Any]:
    """Go through the batches again and again: a measurement must not run out of data."""
    while True:
        yield from batches


def make_loader() -> DataLoader[Batch]:
    """Batches in the same order in every epoch, decoded by the training process itself (no workers).

    The loader has a generator of its own. Without one it draws a number from torch's global generator whenever an
    epoch begins, and the weights of a model that is made before or after that moment differ: the two arms would not
    start from the same state.
    """
    image_files()  # stored before the first step, not in it
    own = torch.Generator().manual_seed(0)
    return DataLoader(DigitFiles(), batch_size=BATCH, shuffle=False, drop_last=True, num_workers=0, generator=own)


def make_model() -> nn.Module:
    """Two convolutions and a linear layer: about 0.1 million parameters."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * (SIZE // 4) ** 2, 10),
    )


def training_step(device: str, batches: Iterator[Batch]) -> Step:
    """One step: read a batch, bring it to the device, train on it; returns the loss."""
    model = make_model().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loss_fn = nn.CrossEntropyLoss()

    def step() -> torch.Tensor:
        with label("read_batch"):
            x, y = next(batches)
        with label("transfer"):
            x, y = x.to(device), y.to(device)
        with label("train"):
            optimizer.zero_grad(set_to_none=True)
            loss: torch.Tensor = loss_fn(model(x), y)
            loss.backward()  # type: ignore[no-untyped-call, unused-ignore]
            optimizer.step()
        return loss.detach()

    return Step(step, state={"model": model, "optimizer": optimizer}, samples=BATCH)


def build(device: str) -> Step:
    """The loop as it is: every batch is read and decoded in the step that uses it."""
    return training_step(device, endless(make_loader()))


def build_ready(device: str) -> Step:
    """The one change: the same batches in the same order, decoded before the first step and kept in memory."""
    return training_step(device, endless(list(make_loader())))
