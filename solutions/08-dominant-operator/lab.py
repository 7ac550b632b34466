# %% [markdown] id="title"
# # 08 · Dominant operator
#
# **Question.** One operator has most of the step's own time. Is it the operator, with its own inputs, that takes so
# long?
#
# **Afterwards you can** tell the operator with the most calls from the one with the most time, time an operator alone
# on its own inputs, shapes and calls, and say whether that explains its share of the step.
#
# About 40 minutes. The trace and the tables were constructed for you. The operator in the middle runs on your GPU, and
# takes at most 3 GB of its memory; without a GPU it runs on the CPU.

# %% id="begin"
from stepprof_lab.grading import begin, check

lab = begin("08")

# %% [markdown] id="predict"
# ## Predict
#
# In the table of a step, one operator has 400 calls. Another has 4 calls and most of the self time. What do you do
# first?
#
# - `a` Reduce the 400 calls.
# - `b` Put a faster operator in the place of the one with 4 calls.
# - `c` Time the one with 4 calls alone.
# - `d` Look for an operator with an even larger sum.

# %% id="prediction" grade="solution"
prediction = None  # "a", "b", "c" or "d"
### BEGIN SOLUTION
prediction = "c"
### END SOLUTION

# %% id="prediction-check" grade="test" points=1
check("08/prediction", prediction).points

# %% [markdown] id="look"
# ## Look
#
# The report of four steps on a CPU. In the table of the operators, *self* is the time of an operator's calls without
# what they call, *sum with children* the same with it. All numbers of that table are over all four steps. A *finding*
# is an observation with a hypothesis and a next check.

# %% id="report-shown"
print(lab.report)

# %% [markdown] id="found-asked"
# Fill in, all times in milliseconds:
#
# - `most_called`: the operator with the most calls;
# - `dominant`: the operator with the most self time;
# - `calls`: how often **one** step calls the dominant operator;
# - `self_ms`: its self time in **one** step;
# - `one_call_ms`: its self time in one call, on average.

# %% id="found" grade="solution"
found = {"most_called": None, "dominant": None, "calls": None, "self_ms": None, "one_call_ms": None}
### BEGIN SOLUTION
import re

rows = re.findall(r"^ +(aten::\w+) +(\d+) +([\d.]+) +([\d.]+)", lab.report, re.MULTILINE)
steps = len(re.findall(r"^ +ProfilerStep#", lab.report, re.MULTILINE))
calls = {name: int(count) / steps for name, count, _, _ in rows}
self_ms = {name: float(own) / steps for name, _, own, _ in rows}
dominant = max(self_ms, key=self_ms.get)
found = {
    "most_called": max(calls, key=calls.get),
    "dominant": dominant,
    "calls": calls[dominant],
    "self_ms": self_ms[dominant],
    "one_call_ms": self_ms[dominant] / calls[dominant],
}
### END SOLUTION

# %% id="found-check" grade="test" points=3.5
check("08/found", found).points

# %% [markdown] id="ways-asked"
# ## Look closer
#
# That it takes long does not show that it takes longer than it needs, nor that the operator is to blame. The next check
# of the finding is to *isolate* it: run the operator **alone**, on **inputs as in the step**, **as often as in the
# step**, and **warm**, as a step in the middle of a run finds it.
#
# An input is more than its shape. Two tensors of one shape may hold numbers of another *type*, and may lie in memory in
# another order: the *strides* say how far apart two neighbours of each dimension lie.
#
# Another step, with this record:

# %% id="record-shown"
print(lab.record)

# %% [markdown] id="ways-task"
# Seven ways to look closer. For each: does it isolate the operator (`"isolates"`), or `"not yet"`?

# %% id="ways-shown"
for letter, line in lab.ways.items():
    print(letter, " ", line, "\n")

# %% id="ways" grade="solution"
ways = dict.fromkeys("abcdefg")  # "isolates" or "not yet"
### BEGIN SOLUTION
shape, strides = re.search(r"shape (\[.*?\]), float32, strides (\(.*?\))", lab.record).groups()
for letter, line in lab.ways.items():
    own_inputs = "very tensors" in line or (shape in line and strides in line)
    ways[letter] = "isolates" if own_inputs and "without a clock" in line else "not yet"
### END SOLUTION

# %% id="ways-check" grade="test" points=3.5
check("08/ways", ways).points

# %% [markdown] id="isolated-asked"
# ## Isolate it
#
# Now an operator on your machine: `operator(x)` gives the running sums along the rows of `x`. The first time that it
# meets a new kind of input, it tries many ways to compute and keeps the fastest, as tuned libraries do. A trace of a
# step has recorded its inputs:

# %% id="recorded-shown"
print("device:", lab.device.sentence)
for one in lab.recorded:
    print(one)

# %% [markdown] id="isolated-task"
# Write `isolated_ms(operator, recorded, device)`: how many milliseconds **all calls of one step** take when the
# operator runs alone. `recorded` is a list like the one above.
#
# `torch.empty_strided(shape, strides, dtype=torch.float32, device="cpu")` makes a tensor that lies in memory as you
# say, `.normal_()` fills it with random numbers, and `getattr(torch, "float32")` is the type of that name.
# `device.torch_device` is the device's name for torch, and `device.synchronize()` waits until its work is done; on a
# CPU there is nothing to wait for.

# %% id="isolated-import"
import time

import torch

torch.set_num_threads(1)  # as in the check, and in the live step below: several would wait for each other


# %% id="isolated" grade="solution"
def isolated_ms(operator, recorded, device):
    ### BEGIN SOLUTION
    total = 0.0
    for one in recorded:
        x = torch.empty_strided(
            one["shape"], one["strides"], dtype=getattr(torch, one["dtype"]), device=device.torch_device
        ).normal_()
        operator(x)  # the first call on a new kind of input is not what a step sees
        times = []
        for _ in range(10):
            device.synchronize()
            begin = time.perf_counter()
            operator(x)
            device.synchronize()
            times.append(1e3 * (time.perf_counter() - begin))
        total += one["calls"] * min(times)
    return total
    ### END SOLUTION


# %% id="isolated-check" grade="test" points=5
check("08/isolated_ms", isolated_ms).points

# %% [markdown] id="in-step-asked"
# The same calls inside a live step, between other operations, beside your number. What is said of the step was measured
# on this machine, by a clock around each call. Run the cell twice: how far apart are two runs?

# %% id="in-step"
try:
    alone = isolated_ms(lab.new_operator(), lab.recorded, lab.device)
    step = lab.in_step()
    print(f"in a step of {step['step_ms']:.2f} ms: {step['operator_ms']:.2f} ms; alone: {alone:.2f} ms")
except Exception as error:
    print(f"nothing to compare yet ({type(error).__name__})")

# %% [markdown] id="explained-asked"
# ## Does it explain the step?
#
# Calls times the time of one call alone, beside the operator's self time in the step. Where the two are about equal,
# the operator with its inputs explains its share: look at its shape, type, layout or algorithm next. Where it is
# clearly less alone, something **in the step** makes it slower, and another operator in its place may be as slow.
#
# Five operators from five other steps. None of them calls another operator, so that self time and time with children
# are the same; each was met in the middle of a run. In brackets the shortest and the longest of ten calls. Sort them:
# `"explained"` where the calls of a step, alone, take at least 80 % of the self time in the step, else
# `"not explained"`.

# %% id="explained-shown"
for letter, line in lab.rows.items():
    print(letter, " ", line, "\n")

# %% id="explained" grade="solution"
explained = dict.fromkeys("abcde")  # "explained" or "not explained"
### BEGIN SOLUTION
for letter, line in lab.rows.items():
    calls, self_time = int(re.search(r"(\d+) calls, self", line)[1]), float(re.search(r"self time ([\d.]+)", line)[1])
    if "two kinds" in line:
        short, many, long, few = map(float, re.findall(r"[\d.]*\d", line.split("Alone: ")[1]))
        alone = many * short + few * long
    else:
        one = re.search(r"([\d.]+) \([\d.]+ to [\d.]+\) ms a call", line)[1]  # warm, on its own inputs
        alone = calls * float(one)
    explained[letter] = "explained" if alone >= 0.8 * self_time else "not explained"
### END SOLUTION

# %% id="explained-check" grade="test" points=2.5
check("08/explained", explained).points

# %% [markdown] id="decide"
# ## Decide
#
# An operator was isolated:

# %% id="options-shown"
print(lab.isolated, "\n")
for letter, text in lab.options.items():
    print(letter, " ", text, "\n")

# %% [markdown] id="decide-asked"
# What comes next?

# %% id="decision" grade="solution"
decision = None  # a letter
### BEGIN SOLUTION
decision = next(letter for letter, text in lab.options.items() if "without the profiler" in text)
### END SOLUTION

# %% id="decision-check" grade="test" points=1
check("08/decide", decision).points

# %% [markdown] id="again"
# ## Your prediction
#
# 400 calls, or 4 calls and most of the time. What did the time of one call alone add to what the table said?

# %% id="prediction-again"
print("You said:", prediction)

# %% [markdown] id="record"
# ## Record
#
# What you decided, in three lines: which operator dominates and by which number, whether its calls alone explain its
# share of the step, and what you check next.

# %% [markdown] id="record-text" grade="manual" points=0
# - dominant, by:
# - alone, beside its self time in the step:
# - next check:
