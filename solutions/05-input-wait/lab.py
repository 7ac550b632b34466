# %% [markdown] id="title"
# # 05 · Input wait
#
# **Question.** Does the step wait for its batch, and what makes the batch late?
#
# **Afterwards you can** show with a batch held ready whether a loop waits for its input, say which part of reading
# takes the time, repair the loader without changing the work, and read waits that come in bursts.
#
# About 45 minutes. No GPU is used. Your loop runs on this machine and its times are measured here. How long its
# fetching, decoding and training take is modelled by waits, so that the lab behaves alike on every machine. The series
# of waits near the end is constructed. All numbers differ from other people's.

# %% id="begin"
import time

from stepprof_lab.grading import begin, check

lab = begin("05")

# %% [markdown] id="look"
# ## Look
#
# A *step* is one turn of the loop: read a batch, train on it. `lab.new_loop()` makes a fresh loop. It has
# `loop.batches()`, an iterator that reads each batch when it is asked for and never ends, and `loop.train(batch)`.
# Below, the clock runs around each of the two.

# %% id="steps-shown"
loop = lab.new_loop()
batches = iter(loop.batches())
print(f"{'step':>4}{'reading ms':>12}{'training ms':>13}")
for step in range(8):
    asked = time.perf_counter()
    batch = next(batches)
    ready = time.perf_counter()
    loop.train(batch)
    done = time.perf_counter()
    print(f"{step:>4}{1e3 * (ready - asked):>12.1f}{1e3 * (done - ready):>13.1f}")

# %% [markdown] id="predict"
# ## Predict
#
# Before you measure more: you take one batch, keep it, and train on that batch in every step. How long is a step of
# the steady part then?
#
# - `a` As long as before: the reading is hidden behind the training.
# - `b` Shorter, by about the time of reading.
# - `c` Shorter only with a faster storage.
# - `d` That cannot be known before the loader is repaired.

# %% id="prediction" grade="solution"
prediction = None  # "a", "b", "c" or "d"
### BEGIN SOLUTION
prediction = "b"
### END SOLUTION

# %% id="prediction-check" grade="test" points=1
check("05/prediction", prediction).points

# %% [markdown] id="compute-asked"
# ## The check: hold a batch ready
#
# Write `compute_only_ms(loop)`: how long a steady step takes when its batch is there already, in milliseconds. Change
# nothing else. Measure at least 10 steps of the steady part, and at most 100. The loop that your function is given has
# not run yet.


# %% id="compute" grade="solution"
def compute_only_ms(loop):
    ### BEGIN SOLUTION
    batch = next(iter(loop.batches()))
    loop.train(batch)  # the first step prepares something
    began = time.perf_counter()
    for _ in range(20):
        loop.train(batch)
    return 1e3 * (time.perf_counter() - began) / 20
    ### END SOLUTION


# %% id="compute-check" grade="test" points=3
check("05/compute_only_ms", compute_only_ms).points

# %% [markdown] id="parts-asked"
# ## What makes the batch late?
#
# The wait for a batch is one number. It does not say what the batch waits for. Here a sample is made in two calls:
# `raw = dataset.fetch(i)` takes it from the *store* (a disk, a network), `dataset.decode(raw)` makes a tensor of it.
# `dataset[i]` does both. The first fetch also opens the store; that happens once.
#
# Write `parts_ms(dataset, samples)`: for the batch of the given samples (a list of indices), how many milliseconds of
# steady reading are fetching, and how many are decoding? Return both by name:
# `{"fetch_ms": ..., "decode_ms": ...}`. The store of your data set is not open yet.


# %% id="parts" grade="solution"
def parts_ms(dataset, samples):
    ### BEGIN SOLUTION
    dataset.fetch(samples[0])  # opens the store
    fetching = decoding = 0.0
    for index in samples:
        began = time.perf_counter()
        raw = dataset.fetch(index)
        fetched = time.perf_counter()
        dataset.decode(raw)
        fetching += fetched - began
        decoding += time.perf_counter() - fetched
    return {"fetch_ms": 1e3 * fetching, "decode_ms": 1e3 * decoding}
    ### END SOLUTION


# %% id="parts-check" grade="test" points=3
check("05/parts_ms", parts_ms).points

# %% [markdown] id="loader-asked"
# ## Repair the loader
#
# Now the loader may change. Write `repaired_loader(dataset, batch_size)`: it gives the same batches as the loop as it
# is, once through the data set, in the same order, each batch one tensor (`torch.stack` of its samples), with the last
# one as small as it comes out. While the loop trains on one batch, others are to be read. The data set may be larger
# than the memory: do not read all of it before the first batch.
#
# Any tool will do: `torch.utils.data.DataLoader`, threads, processes. (Here threads help because the waits hold no
# lock. Decoding in plain Python would hold one; then take processes.) The check counts the mean wait of a step after
# the first 8 steps.


# %% id="loader" grade="solution"
def repaired_loader(dataset, batch_size):
    ### BEGIN SOLUTION
    import collections
    from concurrent.futures import ThreadPoolExecutor

    import torch

    def read(samples):
        return torch.stack([dataset[index] for index in samples])

    ahead = collections.deque()
    with ThreadPoolExecutor(4) as pool:
        for start in range(0, len(dataset), batch_size):
            samples = range(start, min(start + batch_size, len(dataset)))
            ahead.append(pool.submit(read, samples))
            if len(ahead) == 8:  # so many batches at most are kept ready
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    ### END SOLUTION


# %% id="loader-check" grade="test" points=4
check("05/repaired_loader", repaired_loader).points

# %% [markdown] id="bursts-shown"
# ## Waits in bursts
#
# The loader of another loop has workers: processes that each read a whole batch. They begin at the same time and are
# done at about the same time, so batches come in bursts. One *round* is as many steps as there are workers. Before the
# first step is done, each worker has read two batches ahead; these `2 * workers` batches are the first steps' ones.
#
# Below are the waits of that loop, one row for each round, in milliseconds. They are constructed. Look at steps 2 and
# 3, which a profiler with wait 1, warm-up 1, active 2 would have recorded.

# %% id="waits-shown"
print("workers:", lab.workers)
for begin_of_row in range(0, len(lab.waits_ms), lab.workers):
    row = lab.waits_ms[begin_of_row : begin_of_row + lab.workers]
    print(f"step {begin_of_row:>3}:" + "".join(f"{wait:>9.2f}" for wait in row))

# %% [markdown] id="bursts-asked"
# Write `steady_wait_ms(waits_ms, workers)`: how long a step of the steady part waits on average, in milliseconds. The
# steady part begins where the loop no longer lives on batches that were read before it. After that the series holds
# whole rounds.


# %% id="bursts" grade="solution"
def steady_wait_ms(waits_ms, workers):
    ### BEGIN SOLUTION
    steady = waits_ms[2 * workers :]
    return sum(steady) / len(steady)
    ### END SOLUTION


# %% id="bursts-check" grade="test" points=3
check("05/steady_wait_ms", steady_wait_ms).points

# %% [markdown] id="decide"
# ## Decide
#
# Which of these sentences can you stand by after this lab?

# %% id="sentences-shown"
for letter, sentence in lab.sentences.items():
    print(f"{letter}  {sentence}")

# %% id="decision" grade="solution"
decision = None  # one letter
### BEGIN SOLUTION
decision = next(letter for letter, sentence in lab.sentences.items() if sentence.startswith("With the batch held"))
### END SOLUTION

# %% id="decision-check" grade="test" points=2
check("05/decide", decision).points

# %% [markdown] id="record"
# ## Record
#
# Your prediction was kept. Compare it with what you found.

# %% id="prediction-again"
print("predicted:", prediction)
print("found:     compare a step of the first table with your compute_only_ms")

# %% [markdown] id="record-asked"
# What you decided, in four lines: what the check changed and what it showed, which part of reading you would work on
# first, how you repaired the loader, and over how many steps you will look at waits from now on. The gain itself is
# not proved yet: that takes a validation outside the profiler (lab 10).

# %% [markdown] id="record-text" grade="manual" points=0
# - the check:
# - the part to work on:
# - the repair:
# - steps to look at:
