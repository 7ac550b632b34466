"""Honest answers in different styles; each must earn every point."""

import collections
import itertools
import queue
import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import torch

from stepprof_lab.grading.answers import from_material


def _ms(run):
    began = time.perf_counter()
    run()
    return 1e3 * (time.perf_counter() - began)


def compute_in_one_block(loop):
    batch = next(loop.batches())
    for _ in range(3):
        loop.train(batch)
    began = time.perf_counter()
    for _ in range(20):
        loop.train(batch)
    return 1e3 * (time.perf_counter() - began) / 20


def compute_by_median(loop):
    batch = next(loop.batches())
    return np.median([_ms(lambda: loop.train(batch)) for _ in range(25)])


def compute_with_batches_in_memory(loop):
    held = list(itertools.islice(loop.batches(), 6))
    times = [_ms(partial(loop.train, batch)) for batch in held * 3]
    return torch.tensor(times[6:]).mean()


def compute_reading_outside_the_clock(loop):
    batches, times = loop.batches(), []
    for _ in range(12):
        batch = next(batches)
        began = time.perf_counter_ns()
        loop.train(batch)
        times.append((time.perf_counter_ns() - began) / 1e6)
    return min(times)


def parts_in_one_pass(dataset, samples):
    dataset[samples[0]]
    fetching = decoding = 0
    for index in samples:
        a = time.perf_counter_ns()
        raw = dataset.fetch(index)
        b = time.perf_counter_ns()
        dataset.decode(raw)
        fetching, decoding = fetching + b - a, decoding + time.perf_counter_ns() - b
    return {"decode_ms": decoding / 1e6, "fetch_ms": fetching / 1e6}


def parts_by_two_passes(dataset, samples):
    raws = [dataset.fetch(index) for index in samples]
    fetch = _ms(lambda: [dataset.fetch(index) for index in samples])
    return {"fetch_ms": round(fetch, 2), "decode_ms": round(_ms(lambda: [dataset.decode(raw) for raw in raws]), 2)}


def parts_by_median_of_samples(dataset, samples):
    fetches = np.array([_ms(lambda i=i: dataset.fetch(i)) for i in samples * 2])
    raw = dataset.fetch(samples[0])
    decodes = np.array([_ms(lambda: dataset.decode(raw)) for _ in samples])
    return {"fetch_ms": len(samples) * np.median(fetches), "decode_ms": decodes.sum()}


def parts_by_difference(dataset, samples):
    dataset.fetch(samples[0])
    whole = _ms(lambda: [dataset[index] for index in samples])
    fetch = _ms(lambda: [dataset.fetch(index) for index in samples])
    return {"fetch_ms": fetch, "decode_ms": whole - fetch}


def loader_of_torch(dataset, batch_size):
    return torch.utils.data.DataLoader(dataset, batch_size=batch_size, num_workers=4)


def _groups(dataset, batch_size):
    for start in range(0, len(dataset), batch_size):
        yield range(start, min(start + batch_size, len(dataset)))


def loader_with_a_window_of_futures(dataset, batch_size):
    def read(samples):
        return torch.stack([dataset[i] for i in samples])

    with ThreadPoolExecutor(3) as pool:
        ahead = collections.deque()
        for samples in _groups(dataset, batch_size):
            ahead.append(pool.submit(read, samples))
            if len(ahead) > 6:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def loader_with_samples_in_parallel(dataset, batch_size):
    """One thread prepares batches ahead; within a batch the samples are read at the same time."""
    made = queue.Queue(maxsize=4)

    def produce():
        with ThreadPoolExecutor(batch_size) as pool:
            for samples in _groups(dataset, batch_size):
                made.put(torch.stack(list(pool.map(dataset.__getitem__, samples))))
        made.put(None)

    threading.Thread(target=produce, daemon=True).start()
    return iter(made.get, None)


def loader_of_torch_with_batches(dataset, batch_size):
    return torch.utils.data.DataLoader(
        dataset,
        batch_sampler=[list(samples) for samples in _groups(dataset, batch_size)],
        num_workers=3,
        prefetch_factor=4,
        collate_fn=torch.stack,
    )


def waits_by_slice(waits_ms, workers):
    return statistics.fmean(waits_ms[2 * workers :])


def waits_by_rounds(waits_ms, workers):
    return float(np.array(waits_ms).reshape(-1, workers)[2:].sum(axis=1).mean() / workers)


def waits_without_one_round_more(waits_ms, workers):
    steady = waits_ms[3 * workers :]
    return round(sum(steady) / len(steady), 2)


@from_material
def decision_by_text(lab):
    return next(letter for letter, sentence in lab.sentences.items() if "parts of reading" in sentence)


@from_material
def decision_in_capitals(lab):
    return f"({decision_by_text(lab).upper()})"


@from_material
def decision_with_a_reason(lab):
    return f"{decision_by_text(lab)}, because the check came first"


RIGHT = {
    "05/prediction": {"small": "b", "capital": "A", "bracket": " (c) ", "reason": "d, no idea"},
    "05/compute_only_ms": {
        "one block": compute_in_one_block,
        "median": compute_by_median,
        "batches in memory": compute_with_batches_in_memory,
        "reading outside the clock": compute_reading_outside_the_clock,
    },
    "05/parts_ms": {
        "one pass": parts_in_one_pass,
        "two passes": parts_by_two_passes,
        "median of samples": parts_by_median_of_samples,
        "difference": parts_by_difference,
    },
    "05/repaired_loader": {
        "torch": loader_of_torch,
        "futures": loader_with_a_window_of_futures,
        "samples in parallel": loader_with_samples_in_parallel,
        "torch with batches": loader_of_torch_with_batches,
    },
    "05/steady_wait_ms": {
        "slice": waits_by_slice,
        "rounds": waits_by_rounds,
        "a round later": waits_without_one_round_more,
    },
    "05/decide": {"letter": decision_by_text, "capital": decision_in_capitals, "reason": decision_with_a_reason},
}
