"""The digit classifier as a service: loading the model is outside, one request is the step.

A request brings one image as PNG bytes and gets ten scores. ``build`` loads the model; ``samples`` is the one image
of a request.
"""

from __future__ import annotations

import io
from pathlib import Path

import torch

from stepprof_lab import Step, label
from stepprof_lab.demo.digits import SIZE, endless, image_files, make_model

REQUESTS = 200
"""Different images that are asked for in turn."""


def load_model(device: str) -> torch.nn.Module:
    """Stand for reading a trained model: it happens once, before the first request, outside the boundary."""
    torch.manual_seed(0)
    return make_model().eval().to(device)


def build(device: str) -> Step:
    """Each step answers one request; returns the scores, on the CPU as a caller would get them."""
    from PIL import Image

    model = load_model(device)
    requests = endless([Path(path).read_bytes() for path, _ in image_files()[:REQUESTS]])

    @torch.inference_mode()
    def answer() -> torch.Tensor:
        with label("read_request", role="read"):
            with Image.open(io.BytesIO(next(requests))) as image:
                pixels = torch.frombuffer(bytearray(image.convert("L").tobytes()), dtype=torch.uint8)
            x = pixels.reshape(1, 1, SIZE, SIZE).float() / 255
        with label("transfer"):
            x = x.to(device)
        with label("infer"):
            scores = model(x)
        with label("reply", role="transfer"):
            reply: torch.Tensor = scores.cpu()
        return reply

    return Step(answer, state={"model": model}, samples=1)
