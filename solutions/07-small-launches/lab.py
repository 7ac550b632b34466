# %% [markdown] id="title"
# # 07 · Small launches
#
# **Question.** Do many small operations cost this step its time, and does grouping them make the whole step shorter?
#
# **Afterwards you can** tell from a trace whether the GPU waits for launches, group small operations, and judge the
# change by the whole step and not by the number of launches.
#
# About 35 minutes. The traces were constructed for you. The update at the end runs on your GPU, and takes at most 2 GB
# of its memory; without a GPU it runs on the practice device, where the time of a launch is simulated.

# %% id="begin"
from stepprof_lab.grading import begin, check

lab = begin("07")

# %% [markdown] id="predict"
# ## Predict
#
# A *launch* is a call of the host that queues one operation for the GPU. Two versions of a step compute the same. One
# launches 600 operations, the other 60. Which of the two takes less time?
#
# - `a` The one with 60: each launch costs time.
# - `b` The one with 600: small operations are quick.
# - `c` Both take the same.
# - `d` The number of launches does not say.

# %% id="prediction" grade="solution"
prediction = None  # "a", "b", "c" or "d"
### BEGIN SOLUTION
prediction = "d"
### END SOLUTION

# %% id="prediction-check" grade="test" points=1
check("07/prediction", prediction).points

# %% [markdown] id="look"
# ## Look
#
# Two captures of four steps each, as `stepprof read` reports them. In the table of the steps, *elapsed* is how long a
# step took on the host's clock, *GPU events launched* how many operations it launched, and *GPU busy within it* how
# long the GPU was at work during the step.

# %% id="report-a"
print(lab.reports["a"])

# %% id="report-b"
print(lab.reports["b"])

# %% [markdown] id="counts-asked"
# For **one** step of each capture: how many operations were launched, and for how many milliseconds was the GPU idle?
# Idle is the part of the step's elapsed time in which the GPU was not busy. Then say in which capture grouping the
# operations could make the step shorter: `"a"`, `"b"`, `"both"` or `"neither"`.

# %% id="counts" grade="solution"
counts = {"launches_a": None, "launches_b": None, "idle_ms_a": None, "idle_ms_b": None, "can_gain": None}
### BEGIN SOLUTION
import re

for name, report in lab.reports.items():
    row = re.search(r"ProfilerStep#2 +([\d.]+) +(\d+) +[\d.]+ +([\d.]+)", report)
    counts[f"launches_{name}"] = int(row[2])
    counts[f"idle_ms_{name}"] = float(row[1]) - float(row[3])
counts["can_gain"] = max("ab", key=lambda name: counts[f"idle_ms_{name}"])  # the one whose GPU waits
### END SOLUTION

# %% id="counts-check" grade="test" points=3
check("07/counts", counts).points

# %% [markdown] id="changes-asked"
# ## Five changes
#
# Five changes to other steps, each with what it did: launches of a step before and after, and the whole step in
# milliseconds before and after, measured outside the profiler (in brackets the shortest and the longest of ten runs).
# The outputs were equal. Sort them: the whole step got `"faster"`, it stayed the `"same"`, or it got `"slower"`. Where
# the ranges overlap, no difference was shown: write `"same"`.

# %% id="changes-shown"
for letter, line in lab.changes.items():
    print(letter, " ", line, "\n")

# %% id="changes" grade="solution"
changes = {"a": None, "b": None, "c": None, "d": None, "e": None}  # "faster", "same" or "slower"
### BEGIN SOLUTION
for letter, line in lab.changes.items():
    whole = line.split("whole step")[1]
    (low, high), (low_after, high_after) = re.findall(r"\(([\d.]+) to ([\d.]+)\)", whole)
    if float(high_after) < float(low):
        changes[letter] = "faster"
    elif float(low_after) > float(high):
        changes[letter] = "slower"
    else:
        changes[letter] = "same"
### END SOLUTION

# %% id="changes-check" grade="test" points=2.5
check("07/changes", changes).points

# %% [markdown] id="step-asked"
# ## Change one thing
#
# An update of many tensors, as an optimizer does it: for each parameter `p` there is a moment `m`, and in each step a
# gradient `g`. All but one of the parameters are small.

# %% id="original"
import torch


def make_step_before(params):
    moments = [torch.zeros_like(p) for p in params]

    def step(grads):
        for p, m, g in zip(params, moments, grads):
            m.mul_(0.5)
            m.add_(g)
            p.sub_(m)
        return params

    return step


sizes = [len(p) for p in lab.parameters()]
print(f"{len(sizes)} parameters, {sum(sizes)} elements together, {max(sizes)} in the largest")
print(f"{lab.launches_a_step(make_step_before):g} launches a step, {lab.ms_a_step(make_step_before):.2f} ms a step")

# %% [markdown] id="step-task"
# Write `make_step(params)` so that a **whole step** takes less time, and returns the same values for every parameter,
# bit by bit: a list of tensors, one for each parameter, in their order. You may change `params` in place. It is judged
# by the outputs and by the time of the step. How often it launches decides nothing.
#
# PyTorch has operations that take lists of tensors and are one launch, or a few:
# `torch._foreach_mul_(tensors, number)`, `torch._foreach_add_(tensors, tensors)`,
# `torch._foreach_sub_(tensors, tensors)`. There are other ways too.


# %% id="step" grade="solution"
def make_step(params):
    ### BEGIN SOLUTION
    moments = [torch.zeros_like(p) for p in params]

    def step(grads):
        torch._foreach_mul_(moments, 0.5)
        torch._foreach_add_(moments, grads)
        torch._foreach_sub_(params, moments)
        return params

    return step
    ### END SOLUTION


# %% [markdown] id="step-compare"
# Compare before you check: outputs first, then the whole step.


# %% id="step-compared"
def same_outputs(make):
    before, after = make_step_before(lab.parameters()), make(lab.parameters())
    return all([all(map(torch.equal, before(grads), after(grads))) for grads in lab.gradients(3)])


try:
    print("same outputs:", same_outputs(make_step))
    print(f"{lab.launches_a_step(make_step):g} launches a step, {lab.ms_a_step(make_step):.2f} ms a step")
except Exception as error:
    print(f"nothing to compare yet ({type(error).__name__})")

# %% id="step-check" grade="test" points=5
check("07/make_step", make_step).points

# %% [markdown] id="decide"
# ## Decide
#
# What has to be there before you keep a change that groups operations?

# %% id="options-shown"
for letter, text in lab.options.items():
    print(letter, " ", text)

# %% id="decision" grade="solution"
decision = None  # a letter
### BEGIN SOLUTION
decision = next(letter for letter, text in lab.options.items() if "without the profiler" in text)
### END SOLUTION

# %% id="decision-check" grade="test" points=1
check("07/decide", decision).points

# %% [markdown] id="again"
# ## Your prediction
#
# 600 launches, or 60. What would you want to know before you answer?

# %% id="prediction-again"
print("You said:", prediction)

# %% [markdown] id="record"
# ## Record
#
# What you decided, in three lines: what showed that the GPU waits for launches, what you grouped, and what the whole
# step takes before and after.

# %% [markdown] id="record-text" grade="manual" points=0
# - the GPU waits for launches, because:
# - grouped:
# - ms a step, before and after:
