"""A second set of wrong answers to lab 05, written from the lab's text alone."""

import concurrent.futures
import statistics
import time

import torch

from stepprof_lab.grading.answers import from_material


def from_the_first_step(loop):
    batch = next(iter(loop.batches()))
    began = time.perf_counter()
    for _ in range(12):
        loop.train(batch)
    return 1e3 * (time.perf_counter() - began) / 12


def whole_turns(loop):
    batches = iter(loop.batches())
    times = []
    for _ in range(15):
        began = time.perf_counter()
        batch = next(batches)
        loop.train(batch)
        times.append(1e3 * (time.perf_counter() - began))
    return statistics.median(times[3:])


def time_until_ready(loop):
    batches = iter(loop.batches())
    waits = []
    for _ in range(15):
        asked = time.perf_counter()
        batch = next(batches)
        waits.append(1e3 * (time.perf_counter() - asked))
        loop.train(batch)
    return sum(waits[3:]) / len(waits[3:])


def second_step(loop):
    batch = next(iter(loop.batches()))
    loop.train(batch)
    began = time.perf_counter()
    loop.train(batch)
    return 1e3 * (time.perf_counter() - began)


def not_divided(loop):
    batch = next(iter(loop.batches()))
    for _ in range(3):
        loop.train(batch)
    began = time.perf_counter()
    for _ in range(20):
        loop.train(batch)
    return 1e3 * (time.perf_counter() - began)


def seconds(loop):
    batch = next(iter(loop.batches()))
    times = []
    for _ in range(25):
        began = time.perf_counter()
        loop.train(batch)
        times.append(time.perf_counter() - began)
    return statistics.mean(times[5:])


def with_loader_workers(loop):
    size = len(next(iter(loop.batches())))
    batches = iter(torch.utils.data.DataLoader(loop.dataset, batch_size=size, num_workers=4))
    times = []
    for _ in range(20):
        began = time.perf_counter()
        loop.train(next(batches))
        times.append(1e3 * (time.perf_counter() - began))
    return statistics.mean(times[8:])


def with_threads_ahead(loop):
    size = len(next(iter(loop.batches())))
    times = []
    with concurrent.futures.ThreadPoolExecutor(4 * size) as pool:
        coming = [pool.submit(loop.dataset.__getitem__, i) for i in range(size)]
        for step in range(1, 21):
            began = time.perf_counter()
            batch = torch.stack([one.result() for one in coming])
            coming = [pool.submit(loop.dataset.__getitem__, step * size + i) for i in range(size)]
            loop.train(batch)
            times.append(1e3 * (time.perf_counter() - began))
    return statistics.median(times[4:])


def store_opened_inside(dataset, samples):
    fetching = decoding = 0.0
    for i in samples:
        a = time.perf_counter()
        raw = dataset.fetch(i)
        b = time.perf_counter()
        dataset.decode(raw)
        fetching += b - a
        decoding += time.perf_counter() - b
    return {"fetch_ms": 1e3 * fetching, "decode_ms": 1e3 * decoding}


def reading_is_the_store(dataset, samples):
    raws = [dataset.fetch(i) for i in samples]
    a = time.perf_counter()
    for i in samples:
        dataset[i]
    b = time.perf_counter()
    for raw in raws:
        dataset.decode(raw)
    c = time.perf_counter()
    return {"fetch_ms": 1e3 * (b - a), "decode_ms": 1e3 * (c - b)}


def clock_not_restarted(dataset, samples):
    dataset.fetch(samples[0])
    fetching = decoding = 0.0
    for i in samples:
        began = time.perf_counter()
        raw = dataset.fetch(i)
        fetching += time.perf_counter() - began
        dataset.decode(raw)
        decoding += time.perf_counter() - began
    return {"fetch_ms": 1e3 * fetching, "decode_ms": 1e3 * decoding}


def unpacked_the_wrong_way(dataset, samples):
    def timed(work, things):
        began = time.perf_counter()
        results = [work(thing) for thing in things]
        return 1e3 * (time.perf_counter() - began), results

    dataset.fetch(samples[0])
    decode_ms, raws = timed(dataset.fetch, samples)
    fetch_ms, _ = timed(dataset.decode, raws)
    return {"fetch_ms": fetch_ms, "decode_ms": decode_ms}


def mean_of_a_sample(dataset, samples):
    dataset[samples[0]]
    parts = []
    for i in samples:
        a = time.perf_counter()
        raw = dataset.fetch(i)
        b = time.perf_counter()
        dataset.decode(raw)
        parts.append((1e3 * (b - a), 1e3 * (time.perf_counter() - b)))
    return {
        "fetch_ms": statistics.mean(fetch for fetch, _ in parts),
        "decode_ms": statistics.mean(decode for _, decode in parts),
    }


def parts_in_seconds(dataset, samples):
    dataset.fetch(samples[0])
    a = time.perf_counter()
    raws = [dataset.fetch(i) for i in samples]
    b = time.perf_counter()
    for raw in raws:
        dataset.decode(raw)
    return {"fetch_ms": b - a, "decode_ms": time.perf_counter() - b}


def everything_first(dataset, batch_size):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        samples = list(pool.map(dataset.__getitem__, range(len(dataset))))
    return [torch.stack(samples[i : i + batch_size]) for i in range(0, len(samples), batch_size)]


def loader_without_workers(dataset, batch_size):
    return torch.utils.data.DataLoader(dataset, batch_size=batch_size)


def thread_waited_for_at_once(dataset, batch_size):
    def read(start):
        return torch.stack([dataset[i] for i in range(start, min(start + batch_size, len(dataset)))])

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for start in range(0, len(dataset), batch_size):
            yield pool.submit(read, start).result()


def one_worker(dataset, batch_size):
    return torch.utils.data.DataLoader(dataset, batch_size=batch_size, num_workers=1)


def first_batch_again(dataset, batch_size):
    batch = torch.stack([dataset[i] for i in range(batch_size)])
    for _ in range(0, len(dataset), batch_size):
        yield batch


def shuffled(dataset, batch_size):
    return torch.utils.data.DataLoader(dataset, batch_size=batch_size, shuffle=True, num_workers=6)


def last_one_dropped(dataset, batch_size):
    return torch.utils.data.DataLoader(dataset, batch_size=batch_size, num_workers=6, drop_last=True)


def larger_batches(dataset, batch_size):
    return torch.utils.data.DataLoader(dataset, batch_size=2 * batch_size, num_workers=6)


def half_precision(dataset, batch_size):
    for batch in torch.utils.data.DataLoader(dataset, batch_size=batch_size, num_workers=6):
        yield batch.half().float()


def two_steps_of_a_profile(waits_ms, workers):
    return (waits_ms[2] + waits_ms[3]) / 2


def usual_step(waits_ms, workers):
    return statistics.median(waits_ms[2 * workers :])


def all_steps(waits_ms, workers):
    return sum(waits_ms) / len(waits_ms)


def all_but_the_first(waits_ms, workers):
    return statistics.mean(waits_ms[1:])


def one_round_left_out(waits_ms, workers):
    return statistics.mean(waits_ms[workers:])


def only_real_waits(waits_ms, workers):
    waited = [wait for wait in waits_ms[2 * workers :] if wait > 1]
    return sum(waited) / len(waited)


def a_round(waits_ms, workers):
    steady = waits_ms[2 * workers :]
    return sum(steady) / (len(steady) // workers)


def in_seconds(waits_ms, workers):
    return statistics.mean(waits_ms[2 * workers :]) / 1000


def sentence(words):
    return from_material(lambda lab: next(letter for letter, text in lab.sentences.items() if words in text))


WRONG = {
    "05/compute_only_ms": {
        "from_the_first_step": ("start-counted", from_the_first_step),
        "whole_turns": ("reading-counted", whole_turns),
        "time_until_ready": ("wait-for-compute", time_until_ready),
        "second_step": ("few-steps", second_step),
        "not_divided": ("sum-for-step", not_divided),
        "seconds": ("units-mixed", seconds),
        "with_loader_workers": ("fix-before-check", with_loader_workers),
        "with_threads_ahead": ("fix-before-check", with_threads_ahead),
    },
    "05/parts_ms": {
        "store_opened_inside": ("start-counted", store_opened_inside),
        "reading_is_the_store": ("storage-blamed", reading_is_the_store),
        "clock_not_restarted": ("parts-nested", clock_not_restarted),
        "unpacked_the_wrong_way": ("parts-swapped", unpacked_the_wrong_way),
        "mean_of_a_sample": ("one-sample", mean_of_a_sample),
        "parts_in_seconds": ("units-mixed", parts_in_seconds),
    },
    "05/repaired_loader": {
        "everything_first": ("moved-to-start", everything_first),
        "loader_without_workers": ("not-repaired", loader_without_workers),
        "thread_waited_for_at_once": ("not-repaired", thread_waited_for_at_once),
        "one_worker": ("too-few-workers", one_worker),
        "first_batch_again": ("check-kept-as-fix", first_batch_again),
        "shuffled": ("order-changed", shuffled),
        "last_one_dropped": ("batches-missing", last_one_dropped),
        "larger_batches": ("batch-size-changed", larger_batches),
        "half_precision": ("other-batches", half_precision),
    },
    "05/steady_wait_ms": {
        "two_steps_of_a_profile": ("quiet-steps-for-all", two_steps_of_a_profile),
        "usual_step": ("quiet-steps-for-all", usual_step),
        "all_steps": ("start-counted", all_steps),
        "all_but_the_first": ("queue-counted", all_but_the_first),
        "one_round_left_out": ("queue-counted", one_round_left_out),
        "only_real_waits": ("burst-for-mean", only_real_waits),
        "a_round": ("sum-for-step", a_round),
        "in_seconds": ("units-mixed", in_seconds),
    },
    "05/decide": {
        "workers_helped": ("fix-before-check", sentence("Workers made the step shorter")),
        "buy_a_disk": ("storage-blamed", sentence("storage is too slow")),
        "quiet_profile": ("quiet-steps-for-all", sentence("two steps of a profile")),
    },
}
