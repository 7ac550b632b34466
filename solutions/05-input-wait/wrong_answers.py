"""Wrong answers, each with the misconception that the judge must name."""

import queue
import statistics
import threading
import time
from functools import partial

import torch

from stepprof_lab.grading.answers import from_material


def _ms(run):
    began = time.perf_counter()
    run()
    return 1e3 * (time.perf_counter() - began)


def _per_step(run, steps):
    return _ms(lambda: [run() for _ in range(steps)]) / steps


def _ready(loop):
    batch = next(loop.batches())
    loop.train(batch)
    return batch


def compute_with_the_first_step(loop):
    batch = next(loop.batches())
    return _per_step(lambda: loop.train(batch), 20)


def compute_with_the_first_step_and_reading(loop):
    batches = loop.batches()
    return _per_step(lambda: loop.train(next(batches)), 15)


def compute_the_first_step_alone(loop):
    batch = next(loop.batches())
    found = _ms(lambda: loop.train(batch))
    for _ in range(10):
        loop.train(batch)
    return found


def compute_with_reading(loop):
    batches = loop.batches()
    loop.train(next(batches))
    return _per_step(lambda: loop.train(next(batches)), 15)


def compute_from_reading(loop):
    batches = loop.batches()
    loop.train(next(batches))
    times = []
    for _ in range(15):
        began = time.perf_counter()
        batch = next(batches)
        times.append(1e3 * (time.perf_counter() - began))
        loop.train(batch)
    return statistics.median(times)


def compute_as_a_sum(loop):
    batch = _ready(loop)
    return _ms(lambda: [loop.train(batch) for _ in range(12)])


def compute_in_seconds(loop):
    batch = _ready(loop)
    return _per_step(lambda: loop.train(batch), 20) / 1e3


def compute_one_step(loop):
    batch = _ready(loop)
    return _ms(lambda: loop.train(batch))


def _prefetched(batches):
    made = queue.Queue(2)
    stop = threading.Event()

    def produce():
        for batch in batches:
            made.put(batch)
            if stop.is_set():
                return

    threading.Thread(target=produce, daemon=True).start()
    return made, stop


def compute_with_a_thread_that_reads(loop):
    made, stop = _prefetched(loop.batches())
    loop.train(made.get())
    found = 0.0
    for _ in range(12):
        batch = made.get()
        found += _ms(partial(loop.train, batch))
    stop.set()
    made.get()
    return found / 12


def compute_with_workers(loop):
    loader = iter(torch.utils.data.DataLoader(loop.dataset, batch_size=4, num_workers=4))
    loop.train(next(loader))
    return _per_step(lambda: loop.train(next(loader)), 12)


def parts_all_storage(dataset, samples):
    dataset.fetch(samples[0])
    return {"fetch_ms": _ms(lambda: [dataset[i] for i in samples]), "decode_ms": 0.0}


def parts_storage_and_decoding(dataset, samples):
    raw = dataset.fetch(samples[0])
    reading = _ms(lambda: [dataset[i] for i in samples])
    return {"fetch_ms": reading, "decode_ms": len(samples) * _ms(lambda: dataset.decode(raw))}


def _parts(dataset, samples):
    raws = [dataset.fetch(i) for i in samples]
    return _ms(lambda: [dataset.fetch(i) for i in samples]), _ms(lambda: [dataset.decode(raw) for raw in raws])


def parts_swapped(dataset, samples):
    fetch, decode = _parts(dataset, samples)
    return {"fetch_ms": decode, "decode_ms": fetch}


def parts_in_seconds(dataset, samples):
    fetch, decode = _parts(dataset, samples)
    return {"fetch_ms": fetch / 1e3, "decode_ms": decode / 1e3}


def parts_of_one_sample(dataset, samples):
    fetch, decode = _parts(dataset, samples)
    return {"fetch_ms": fetch / len(samples), "decode_ms": decode / len(samples)}


def parts_with_the_opening(dataset, samples):
    raws = []
    fetch = _ms(lambda: raws.extend(dataset.fetch(i) for i in samples))
    return {"fetch_ms": fetch, "decode_ms": _ms(lambda: [dataset.decode(raw) for raw in raws])}


def parts_with_the_opening_in_a_mean(dataset, samples):
    raw = dataset.fetch
    fetch = statistics.fmean(_ms(lambda: [raw(i) for i in samples]) for _ in range(3))
    one = dataset.fetch(0)
    return {"fetch_ms": fetch, "decode_ms": _ms(lambda: [dataset.decode(one) for _ in samples])}


def parts_nested(dataset, samples):
    fetch, _ = _parts(dataset, samples)
    return {"fetch_ms": fetch, "decode_ms": _ms(lambda: [dataset.decode(dataset.fetch(i)) for i in samples])}


def _read(dataset, begin, size):
    return torch.stack([dataset[i] for i in range(begin, min(begin + size, len(dataset)))])


def _as_it_is(dataset, batch_size):
    for begin in range(0, len(dataset), batch_size):
        yield _read(dataset, begin, batch_size)


def loader_without_workers(dataset, batch_size):
    return torch.utils.data.DataLoader(dataset, batch_size=batch_size)


def loader_with_one_thread(dataset, batch_size):
    made = queue.Queue(4)

    def produce():
        for batch in _as_it_is(dataset, batch_size):
            made.put(batch)
        made.put(None)

    threading.Thread(target=produce, daemon=True).start()
    return iter(made.get, None)


def loader_with_one_worker(dataset, batch_size):
    return torch.utils.data.DataLoader(dataset, batch_size=batch_size, num_workers=1)


def loader_that_reads_all(dataset, batch_size):
    return list(_as_it_is(dataset, batch_size))


def loader_with_workers_that_reads_all(dataset, batch_size):
    return list(torch.utils.data.DataLoader(dataset, batch_size=batch_size, num_workers=4))


def loader_with_one_batch(dataset, batch_size):
    return [_read(dataset, 0, batch_size)] * (len(dataset) // batch_size)


def loader_that_shuffles(dataset, batch_size):
    return torch.utils.data.DataLoader(dataset, batch_size=batch_size, num_workers=4, shuffle=True)


def loader_that_drops_the_last(dataset, batch_size):
    return torch.utils.data.DataLoader(dataset, batch_size=batch_size, num_workers=4, drop_last=True)


def loader_with_larger_batches(dataset, batch_size):
    return torch.utils.data.DataLoader(dataset, batch_size=2 * batch_size, num_workers=4)


def loader_of_zeros(dataset, batch_size):
    return (torch.zeros(min(batch_size, len(dataset) - i), 16) for i in range(0, len(dataset), batch_size))


def _sentence(beginning):
    @from_material
    def answer(lab):
        return next(letter for letter, sentence in lab.sentences.items() if sentence.startswith(beginning))

    return answer


WRONG = {
    "05/compute_only_ms": {
        "first step": ("start-counted", compute_with_the_first_step),
        "first step alone": ("start-counted", compute_the_first_step_alone),
        "reading": ("reading-counted", compute_with_reading),
        "reading and first step": ("reading-counted", compute_with_the_first_step_and_reading),
        "the wait": ("wait-for-compute", compute_from_reading),
        "a sum": ("sum-for-step", compute_as_a_sum),
        "seconds": ("units-mixed", compute_in_seconds),
        "one step": ("few-steps", compute_one_step),
        "a thread reads": ("fix-before-check", compute_with_a_thread_that_reads),
        "workers": ("fix-before-check", compute_with_workers),
    },
    "05/parts_ms": {
        "all storage": ("storage-blamed", parts_all_storage),
        "storage and decoding": ("storage-blamed", parts_storage_and_decoding),
        "swapped": ("parts-swapped", parts_swapped),
        "seconds": ("units-mixed", parts_in_seconds),
        "one sample": ("one-sample", parts_of_one_sample),
        "opening": ("start-counted", parts_with_the_opening),
        "opening in a mean": ("start-counted", parts_with_the_opening_in_a_mean),
        "nested": ("parts-nested", parts_nested),
    },
    "05/repaired_loader": {
        "no workers": ("not-repaired", loader_without_workers),
        "as it is": ("not-repaired", _as_it_is),
        "one thread": ("too-few-workers", loader_with_one_thread),
        "one worker": ("too-few-workers", loader_with_one_worker),
        "all at once": ("moved-to-start", loader_that_reads_all),
        "all at once with workers": ("moved-to-start", loader_with_workers_that_reads_all),
        "one batch": ("check-kept-as-fix", loader_with_one_batch),
        "shuffled": ("order-changed", loader_that_shuffles),
        "last one dropped": ("batches-missing", loader_that_drops_the_last),
        "larger batches": ("batch-size-changed", loader_with_larger_batches),
        "zeros": ("other-batches", loader_of_zeros),
    },
    "05/steady_wait_ms": {
        "two steps": ("quiet-steps-for-all", lambda waits, workers: (waits[2] + waits[3]) / 2),
        "median": ("quiet-steps-for-all", lambda waits, workers: statistics.median(waits[2 * workers :])),
        "last two": ("quiet-steps-for-all", lambda waits, workers: sum(waits[-2:]) / 2),
        "least": ("quiet-steps-for-all", lambda waits, workers: min(waits)),
        "all": ("start-counted", lambda waits, workers: sum(waits) / len(waits)),
        "all but the first": ("queue-counted", lambda waits, workers: sum(waits[1:]) / len(waits[1:])),
        "from the second round": ("queue-counted", lambda waits, workers: statistics.fmean(waits[workers:])),
        "longest": ("burst-for-mean", lambda waits, workers: max(waits[2 * workers :])),
        "those that wait": (
            "burst-for-mean",
            lambda waits, workers: statistics.fmean(wait for wait in waits[2 * workers :] if wait > 1),
        ),
        "a sum": ("sum-for-step", lambda waits, workers: sum(waits[2 * workers :])),
        "a round": (
            "sum-for-step",
            lambda waits, workers: sum(waits[2 * workers :]) / (len(waits[2 * workers :]) // workers),
        ),
        "seconds": ("units-mixed", lambda waits, workers: statistics.fmean(waits[2 * workers :]) / 1000),
    },
    "05/decide": {
        "storage": ("storage-blamed", _sentence("Reading takes most")),
        "the fix": ("fix-before-check", _sentence("Workers made")),
        "quiet steps": ("quiet-steps-for-all", _sentence("The two steps")),
    },
}
