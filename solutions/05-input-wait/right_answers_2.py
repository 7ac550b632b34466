"""A second set of right answers to lab 05, written from the lab's text alone."""

import collections
import concurrent.futures
import queue
import statistics
import threading
import time

import numpy as np
import torch

from stepprof_lab.grading.answers import from_material


def mean_of_twenty(loop):
    batch = next(iter(loop.batches()))
    for _ in range(3):
        loop.train(batch)
    began = time.perf_counter()
    for _ in range(20):
        loop.train(batch)
    return (time.perf_counter() - began) * 1000 / 20


def median_of_thirty(loop):
    batches = iter(loop.batches())
    kept = next(batches)
    times = []
    for _ in range(35):
        before = time.perf_counter_ns()
        loop.train(kept)
        times.append((time.perf_counter_ns() - before) / 1e6)
    return np.median(times[5:])


def rounded_mean(loop):
    batch = next(loop.batches())
    seconds = []
    for step in range(12):
        t0 = time.perf_counter()
        loop.train(batch)
        t1 = time.perf_counter()
        if step >= 2:
            seconds.append(t1 - t0)
    return round(1e3 * statistics.mean(seconds), 1)


def opened_first(dataset, samples):
    dataset.fetch(samples[0])
    fetching = decoding = 0.0
    for i in samples:
        t0 = time.perf_counter()
        raw = dataset.fetch(i)
        t1 = time.perf_counter()
        dataset.decode(raw)
        t2 = time.perf_counter()
        fetching += t1 - t0
        decoding += t2 - t1
    return {"fetch_ms": 1e3 * fetching, "decode_ms": 1e3 * decoding}


def two_passes(dataset, samples):
    [dataset.fetch(i) for i in samples]
    start = time.perf_counter()
    raws = [dataset.fetch(i) for i in samples]
    middle = time.perf_counter()
    [dataset.decode(raw) for raw in raws]
    end = time.perf_counter()
    return {"fetch_ms": round((middle - start) * 1000, 2), "decode_ms": round((end - middle) * 1000, 2)}


def median_of_rounds(dataset, samples):
    rounds = []
    for _ in range(4):
        marks = []
        for i in samples:
            a = time.perf_counter()
            raw = dataset.fetch(i)
            b = time.perf_counter()
            dataset.decode(raw)
            marks.append((b - a, time.perf_counter() - b))
        rounds.append(np.sum(marks, axis=0) * 1e3)
    fetch_ms, decode_ms = np.median(rounds[1:], axis=0)
    return {"fetch_ms": fetch_ms, "decode_ms": decode_ms}


def data_loader(dataset, batch_size):
    return torch.utils.data.DataLoader(dataset, batch_size=batch_size, shuffle=False, num_workers=6)


def threads_for_batches(dataset, batch_size):
    def read(start):
        return torch.stack([dataset[i] for i in range(start, min(start + batch_size, len(dataset)))])

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        ahead = collections.deque()
        for start in range(0, len(dataset), batch_size):
            ahead.append(pool.submit(read, start))
            if len(ahead) > 8:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


class QueueLoader:
    def __init__(self, dataset, batch_size):
        self.dataset = dataset
        self.batch_size = batch_size

    def __iter__(self):
        ready = queue.Queue(maxsize=4)
        indices = list(range(len(self.dataset)))

        def produce():
            with concurrent.futures.ThreadPoolExecutor(self.batch_size * 2) as pool:
                for start in range(0, len(indices), self.batch_size):
                    samples = pool.map(self.dataset.__getitem__, indices[start : start + self.batch_size])
                    ready.put(torch.stack(list(samples)))
            ready.put(None)

        threading.Thread(target=produce, daemon=True).start()
        while True:
            batch = ready.get()
            if batch is None:
                return
            yield batch


def slice_and_sum(waits_ms, workers):
    steady = waits_ms[2 * workers :]
    return sum(steady) / len(steady)


def plain_loop(waits_ms, workers):
    total = 0
    steps = 0
    for step, wait in enumerate(waits_ms):
        if step < workers * 2:
            continue
        total += wait
        steps += 1
    return total / steps


def rounds_with_numpy(waits_ms, workers):
    rounds = np.array(waits_ms).reshape(-1, workers)
    return np.round(rounds[2:].mean(), 2)


RIGHT = {
    "05/prediction": {"shorter": "b", "storage": "c"},
    "05/compute_only_ms": {
        "mean_of_twenty": mean_of_twenty,
        "median_of_thirty": median_of_thirty,
        "rounded_mean": rounded_mean,
    },
    "05/parts_ms": {
        "opened_first": opened_first,
        "two_passes": two_passes,
        "median_of_rounds": median_of_rounds,
    },
    "05/repaired_loader": {
        "data_loader": data_loader,
        "threads_for_batches": threads_for_batches,
        "queue_and_threads_for_samples": QueueLoader,
    },
    "05/steady_wait_ms": {
        "slice_and_sum": slice_and_sum,
        "plain_loop": plain_loop,
        "rounds_with_numpy": rounds_with_numpy,
    },
    "05/decide": {
        "held_batch": from_material(
            lambda lab: [letter for letter, text in lab.sentences.items() if "batch held ready the step is" in text][0]
        ),
        "by_the_parts": from_material(
            lambda lab: next(letter for letter in lab.sentences if "parts of reading" in lab.sentences[letter])
        ),
    },
}
