# %% [markdown] id="title"
# # 10 · Validate outside
#
# **Question.** Is the new version faster, or does it only look so?
#
# **Afterwards you can** compare two versions of a step outside the profiler, so that you can defend the verdict: the
# same start, the same work, several fresh pairs in turns, and a ratio with its spread.
#
# About 45 minutes. No GPU is used. Steps run and are timed on this machine. How long a step takes is modelled by a
# wait, so that the lab behaves alike everywhere. The colleague's note at the end is constructed.

# %% id="begin"
import random
import statistics
import time

from stepprof_lab.grading import begin, check

lab = begin("10")

# %% [markdown] id="look"
# ## Look
#
# An *arm* is one of the two versions. A *pair* has two builders: `pair.before()` and `pair.after()` each give a fresh
# arm. `arm.step()` does one step and returns its outputs, a list of numbers. `arm.state()` gives the weights, as they
# are now. A step changes the weights. There are few batches here, and they come round again. `arm.inside_ms` is what a
# profiler would give for the operator that was replaced, in the step before.
#
# Here is one run of each arm of a pair, step by step.

# %% id="steps-shown"
pair = lab.new_pair("inside")
print(f"{'step':>4}{'before ms':>11}{'after ms':>10}   the operator inside: before, after")
before, after = pair.before(), pair.after()
for step in range(8):
    times = []
    for arm in (before, after):
        began = time.perf_counter()
        arm.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"{step:>4}{times[0]:>11.2f}{times[1]:>10.2f}{before.inside_ms:>26.2f}{after.inside_ms:>7.2f}")

# %% [markdown] id="predict"
# ## Predict
#
# The profiler gives the replaced operator about half the time. What will a careful comparison of whole steps say of
# this pair?
#
# - `a` Faster, by about half.
# - `b` Faster, but by less than half.
# - `c` No difference is shown.
# - `d` Not comparable.

# %% id="prediction"
prediction = None  # "a", "b", "c" or "d"
...  # your code here

# %% id="prediction-check"
check("10/prediction", prediction).points

# %% [markdown] id="tool"
# ## What a tool does
#
# `stepprof_lab.compare` is this project's comparison; `stepprof validate` is the same from a terminal. It builds both
# arms fresh, compares their start and their outputs, times them in turns over several fresh pairs (*replicates*), and
# gives a verdict. Run it on two pairs.

# %% id="tool-shown"
from stepprof_lab import Boundary, Scenario, compare

scenario = Scenario(
    question="Is the step shorter with the change?",
    kind="training",
    boundary=Boundary(read=False, transfer=False, forward=True, backward=True, update=True, model_load=False),
    unit="ms/step",
)
for name in ("inside", "stored"):
    pair = lab.new_pair(name)
    found = compare(
        lab.as_build(pair.before), lab.as_build(pair.after), scenario, device="cpu", budget_s=6, replicates=4
    )
    print(f"{name}: {found.verdict}, ratio {found.ratio}, interval {found.interval}")
    print(f"  {found.reasons[0]}")

# %% [markdown] id="harness-asked"
# ## Your own harness
#
# Now write what such a tool does. `compare_steps(before, after)` is given two builders, as `pair.before` and
# `pair.after` above, and returns a dict:
#
# - `"verdict"`: `"faster"`, `"slower"`, `"no difference shown"` or `"not comparable"`, said of *after*;
# - `"ratio"`: the time of a step of after, divided by that of before. Below 1 is faster;
# - `"interval"`: two numbers, the lowest and the highest ratio that you hold to be possible after what you measured.
#
# The rules of this lab:
#
# - Arms that do not start from the same state, or do not give the same outputs over as many steps as you time, are
#   not comparable. Then `"ratio"` and `"interval"` are `None`.
# - At least 5 fresh pairs, in turns; in each arm at least 8 steps that count. One ratio for each pair.
# - The first 2 steps of a fresh arm prepare something and do not count.
# - Differences within 15 % are not called differences here. So it is `"faster"` where the whole interval is below
#   0.85, `"slower"` where it is above 1.15, else `"no difference shown"`.
# - A step takes about 4 ms. Be done with a pair of builders within about a second.
#
# A machine on which other things run makes some steps much longer. Think of that when you put the steps of a run
# together.

# %% id="harness"
def compare_steps(before, after):
    ...  # your code here

# %% [markdown] id="timed-asked"
# ### Arms that may be compared
#
# The check runs your function on three pairs: equal arms, one that became slower, and one whose gain is inside only.

# %% id="timed-check"
check("10/timed", compare_steps).points

# %% [markdown] id="comparable-asked"
# ### Arms that may not
#
# The check runs it on four pairs. In one of them after is honestly faster. In the others it only looks so.

# %% id="comparable-check"
check("10/comparable", compare_steps).points

# %% [markdown] id="note"
# ## Decide
#
# A colleague's note on another change, constructed: times of the first pair, what the profiler said of the replaced
# operator, and the ratios of eight fresh pairs. Which sentence can be defended?

# %% id="note-shown"
note = lab.note
print(f"first pair: before {note['before_ms']} ms, after {note['after_ms']} ms a step")
print(f"profiler:   the operator takes {note['operator_percent']} % less")
print("ratios:    ", "  ".join(f"{one:.3f}" for one in note["ratios"]))
print()
for letter, sentence in lab.sentences.items():
    print(f"{letter}  {sentence}")

# %% id="decision"
decision = None  # one letter
...  # your code here

# %% id="decision-check"
check("10/decide", decision).points

# %% [markdown] id="record"
# ## Record
#
# Your prediction was kept. Compare it with the verdict on the pair `"inside"`.

# %% id="prediction-again"
print("predicted:", prediction)
print("found:    ", compare_steps(lab.new_pair("inside").before, lab.new_pair("inside").after))

# %% [markdown] id="record-asked"
# What you decided, in four lines: what has to be equal before you time anything, what one of your replicates is, how
# you report the spread, and what you will answer to "the profiler says it is faster".

# %% [markdown] id="record-text"
# YOUR ANSWER HERE
