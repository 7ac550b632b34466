"""A small data set and a loop that reads it, both with a log of what really happened.

The samples are real tensors. How long a sample takes to fetch and to decode, and how long a step trains, is modelled by
a wait that holds no lock, so that it also takes about this long beside busy processes. What is judged is never the
planned duration but the one in the log: the library's own measurement of the very same calls.
"""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

WIDTH = 16
"""Numbers of a sample; the first one is its index."""
FIRST_TRAINING = 27.0
"""The first call of a loop's training takes so many times as long as the others."""

Plan = dict[str, Any]
"""Plain data that `plan` made; times are milliseconds."""


@dataclasses.dataclass(frozen=True)
class Did:
    """One thing that was done, on the host's clock in seconds.

    Args:
        what: "open", "fetch", "decode", "read" (a batch) or "train".
        begin: when it began.
        end: when it was done.
        first: whether it holds what happens once.
        batch: the samples that were trained on.
    """

    what: str
    begin: float
    end: float
    first: bool = False
    batch: tuple[int, ...] = ()

    @property
    def ms(self) -> float:
        """How long it took, in milliseconds."""
        return 1e3 * (self.end - self.begin)


def plan(chance: random.Random) -> Plan:
    """The numbers of a data set and a loop: plain data.

    Reading a batch takes about twice as long as training on it, and most of it is decoding.
    """
    return {
        "batch_size": 4,
        "samples": 4 * 36 - chance.randint(1, 3),
        "fetch_ms": round(chance.uniform(1.6, 2.0), 2),
        "decode_ms": round(chance.uniform(3.2, 3.7), 2),
        "open_ms": round(chance.uniform(150.0, 200.0), 1),
        "train_ms": round(chance.uniform(9.5, 11.0), 1),
    }


def wait_ms(duration: float) -> None:
    """Let time pass without holding a lock or a processor."""
    end = time.perf_counter() + duration / 1e3
    while (left := end - time.perf_counter()) > 0:
        time.sleep(left)


class Dataset:
    """Samples that are fetched and decoded: ``dataset[i]`` is ``dataset.decode(dataset.fetch(i))``.

    The first fetch of a process opens the store before.

    Args:
        planned: from `plan`.
        tally: a file that takes one byte for each fetched sample, whichever process fetched it.
    """

    def __init__(self, planned: Plan, tally: Path | None = None) -> None:
        self.planned = planned
        self.log: list[Did] = []
        self._tally = tally
        self._opened_at: float | None = None

    def __len__(self) -> int:
        """How many samples there are."""
        return int(self.planned["samples"])

    def __getitem__(self, index: int) -> torch.Tensor:
        """A sample, fetched and decoded: a tensor of `WIDTH` numbers.

        Raises:
            IndexError: there is no such sample.
        """
        return self.decode(self.fetch(index))

    def fetch(self, index: int) -> bytes:
        """What lies in the store for a sample."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        begin = time.perf_counter()
        first = self._opened_at is None
        if self._opened_at is None:
            self._opened_at = begin + self.planned["open_ms"] / 1e3
        # Threads that come meanwhile wait for the one that opens.
        wait_ms(self.planned["fetch_ms"] + 1e3 * max(0.0, self._opened_at - begin))
        if self._tally is not None:
            with self._tally.open("ab") as stream:
                stream.write(b".")
        self.log.append(Did("fetch", begin, time.perf_counter(), first))
        return int(index).to_bytes(4, "little")

    def decode(self, raw: bytes) -> torch.Tensor:
        """The sample as a tensor."""
        import torch

        begin = time.perf_counter()
        wait_ms(self.planned["decode_ms"])
        made = int.from_bytes(raw, "little") + torch.arange(WIDTH) / WIDTH
        self.log.append(Did("decode", begin, time.perf_counter()))
        return made


class Loop:
    """A loop's two halves: batches that are read one by one, and the training on one of them."""

    def __init__(self, planned: Plan, dataset: Dataset | None = None) -> None:
        self.planned = planned
        self.dataset = dataset or Dataset(planned)
        self.log: list[Did] = []
        self._trained = False

    def batches(self) -> Iterator[torch.Tensor]:
        """A fresh iterator over batches, without an end: each one is read when it is asked for."""
        import torch

        while True:
            for samples in in_batches(len(self.dataset), self.planned["batch_size"]):
                begin, first = time.perf_counter(), not self.dataset.log
                read = torch.stack([self.dataset[one] for one in samples])
                self.log.append(Did("read", begin, time.perf_counter(), first))
                yield read

    def train(self, batch: torch.Tensor) -> float:
        """Train on a batch; the first call of a loop prepares something and takes much longer."""
        begin = time.perf_counter()
        first, self._trained = not self._trained, True
        found = float(batch.mean())
        wait_ms(self.planned["train_ms"] * (FIRST_TRAINING if first else 1))
        self.log.append(Did("train", begin, time.perf_counter(), first, tuple(samples_of(batch))))
        return found


def in_batches(samples: int, size: int) -> list[list[int]]:
    """The samples of each batch in order; the last one may be smaller."""
    return [list(range(begin, min(begin + size, samples))) for begin in range(0, samples, size)]


def samples_of(batch: torch.Tensor) -> list[int]:
    """Which samples a batch holds."""
    return [int(one) for one in batch[:, 0].tolist()]


def overlap_s(some: Sequence[Did], others: Sequence[Did]) -> float:
    """For how many seconds some things were done while others were; within each of the two at most one at a time."""
    return sum(max(0.0, min(one.end, other.end) - max(one.begin, other.begin)) for one in some for other in others)
