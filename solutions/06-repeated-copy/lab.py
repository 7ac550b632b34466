# %% [markdown] id="title"
# # 06 · Repeated copy
#
# **Question.** Is a copy to the device repeated that could be made once, and is everything else the same without it?
#
# **Afterwards you can** tell from a trace which copy may be repeated, tell from the code whether it is needless, say
# when a copy lets the host go on, and move a constant once with proof that the outputs stay the same.
#
# About 40 minutes. The trace was constructed for you. The step at the end runs on your GPU, and takes at most 400 MB of
# its memory; without a GPU it runs on the practice device, where the time of a copy is simulated.

# %% id="begin"
from stepprof_lab.grading import begin, check

lab = begin("06")

# %% [markdown] id="predict"
# ## Predict
#
# A trace shows two copies to the device in every step, always of the same two sizes. Which of them is needless?
#
# - `a` Both: a step without copies is the fastest.
# - `b` The larger one.
# - `c` Both are the same each time, so one of each is enough.
# - `d` The trace alone does not say.

# %% id="prediction" grade="solution"
prediction = None  # "a", "b", "c" or "d"
### BEGIN SOLUTION
prediction = "d"
### END SOLUTION

# %% id="prediction-check" grade="test" points=1
check("06/prediction", prediction).points

# %% [markdown] id="look"
# ## Look
#
# The report of four steps on a GPU. A step reads a batch, copies it to the device in the label `transfer`, and computes
# in the label `train`. A *finding* is an observation with a hypothesis and a next check; its share says how much of a
# step it could explain at the most.

# %% id="report-shown"
print(lab.report)

# %% [markdown] id="found-asked"
# What does the finding `repeated-copy` say of **one** step?
#
# - `copies_a_step`: how many copies it has in mind;
# - `bytes`: the size of one of them, in bytes;
# - `at_most_ms`: by how many milliseconds a step could get shorter at the most, if these copies were gone.

# %% id="found" grade="solution"
found = {"copies_a_step": None, "bytes": None, "at_most_ms": None}
### BEGIN SOLUTION
import re

copies, steps = int(re.search(r"(\d+) copies, which", " ".join(lab.report.split()))[1]), 4
found = {
    "copies_a_step": copies / steps,
    "bytes": int(re.search(r"\(([\d,]+) bytes\)", lab.report)[1].replace(",", "")),
    "at_most_ms": float(re.search(r"alone ([\d.]+) ms of", " ".join(lab.report.split()))[1]) / steps,
}
### END SOLUTION

# %% id="found-check" grade="test" points=3
check("06/found", found).points

# %% [markdown] id="copies-asked"
# ## Which copies are needless?
#
# A trace knows sizes and callers. Whether the values are the same each time stands in the code. Below are five lines
# that run in every step of another loop. Judge each of them:
#
# - `"once"`: the same values each time. It can be made before the loop.
# - `"each step"`: it carries something new in every step.

# %% id="copies-shown"
for letter, line in lab.copies.items():
    print(letter, " ", line)

# %% id="copies" grade="solution"
copies = {"a": None, "b": None, "c": None, "d": None, "e": None}  # "once" or "each step"
### BEGIN SOLUTION
constant = ("mask =", "CLASS_WEIGHTS")  # nothing in these lines depends on the step
copies = {
    letter: "once" if any(part in line for part in constant) else "each step" for letter, line in lab.copies.items()
}
### END SOLUTION

# %% id="copies-check" grade="test" points=2.5
check("06/copies", copies).points

# %% [markdown] id="waits-asked"
# ## Does the host wait?
#
# The other way to make a copy cheaper is to let the host go on while it runs. Two words belong to it. *Pinned* memory
# is memory of the host that stays where it is, so that the device can read it by itself; usual memory is *pageable*,
# and the host has to stage it piece by piece. *Non-blocking* is a flag of the call: it asks not to wait at its end.
#
# Four lines of code, and below them what a trace shows of the four copies, in another order: the copy and how long it
# took on the device, how long the host's call took, and how long the host waited for the device right after the call
# (`cudaStreamSynchronize`; a dash means that there was no such wait).
#
# For each line: does the host wait for the copy (`"waits"`), or does it go on while the copy runs (`"goes on"`)?

# %% id="waits-shown"
for letter, line in lab.lines.items():
    print(letter, " ", line)
print(f"\n{'copy':<34}{'copy ms':>9}{'call ms':>9}{'wait after it ms':>18}")
for row in lab.rows:
    after = "-" if row["wait_after_ms"] is None else f"{row['wait_after_ms']:.3f}"
    print(f"{row['copy']:<34}{row['copy_ms']:>9.3f}{row['call_ms']:>9.3f}{after:>18}")

# %% id="waits" grade="solution"
waits = {"a": None, "b": None, "c": None, "d": None}  # "waits" or "goes on"
### BEGIN SOLUTION
# Pageable: the call lasts as long as the copy, with and without the flag. Pinned: only the flag leaves out the wait.
waits = {
    letter: "goes on" if "pin_memory" in line and "non_blocking" in line else "waits"
    for letter, line in lab.lines.items()
}
### END SOLUTION

# %% id="waits-check" grade="test" points=2
check("06/waits", waits).points

# %% [markdown] id="same-asked"
# ## Same outputs
#
# Before anything is changed: how will you know that nothing else changed? Write
# `same_outputs(before, after, batches)`. `before` and `after` are steps: called with a batch, each returns a tensor on
# the host. `batches` is a list. Return `True` if the outputs of the two are equal **bit by bit** on every batch, in the
# order of the list, else `False`. Call each step once for each batch.

# %% id="same-import"
import torch


# %% id="same" grade="solution"
def same_outputs(before, after, batches):
    ### BEGIN SOLUTION
    return all([torch.equal(before(batch), after(batch)) for batch in batches])
    ### END SOLUTION


# %% id="same-check" grade="test" points=2
check("06/same_outputs", same_outputs).points

# %% [markdown] id="step-asked"
# ## Change one thing
#
# A small step, on your device. It is given *tools*: `tools.build_table()` makes a table on the host, the same values
# each time; `tools.to_device(tensor)` copies a tensor of the host to the device and waits until it is there.
# `make_step` gets the tools and returns the step. What stands before `def step` runs once; what stands in it runs in
# every step.


# %% id="original"
def make_step_before(tools):
    def step(batch):
        x = tools.to_device(batch)
        table = tools.to_device(tools.build_table())
        table *= x.max()
        return x * table

    return step


tools = lab.tools()
step = make_step_before(tools)
for batch in tools.batches(3, seed=1):
    step(batch)
print(f"3 steps: {tools.built} tables built, {tools.batch_copies} copies of a batch, {tools.other_copies} of a table")
print(f"{lab.ms_a_step(make_step_before):.2f} ms a step")

# %% [markdown] id="step-task"
# Write `make_step(tools)` so that the table is built and copied **once** for each call of `make_step`, every batch is
# still copied, and every output is the same as before, bit by bit.


# %% id="step" grade="solution"
def make_step(tools):
    ### BEGIN SOLUTION
    table = tools.to_device(tools.build_table())

    def step(batch):
        x = tools.to_device(batch)
        # A new tensor: `table *= ...` would change the table for all steps that follow.
        return x * (table * x.max())

    return step
    ### END SOLUTION


# %% [markdown] id="step-compare"
# Compare before you check. The outputs of a step may lie on a GPU, so they are brought to the host here.


# %% id="step-compared"
def on_host(step):
    return lambda batch: step(batch).cpu()


def compared(make):
    tools = lab.tools()
    before, after = on_host(make_step_before(tools)), on_host(make(lab.tools()))
    return same_outputs(before, after, tools.batches(4, seed=2))


try:
    print("same outputs:", compared(make_step))
    print(f"before {lab.ms_a_step(make_step_before):.2f} ms a step, after {lab.ms_a_step(make_step):.2f} ms a step")
except Exception as error:
    print(f"nothing to compare yet ({type(error).__name__})")

# %% id="step-check" grade="test" points=5
check("06/make_step", make_step).points

# %% [markdown] id="decide"
# ## Decide
#
# What do you hand in as your change?

# %% id="options-shown"
for letter, text in lab.options.items():
    print(letter, " ", text)

# %% id="decision" grade="solution"
decision = None  # a letter
### BEGIN SOLUTION
decision = next(letter for letter, text in lab.options.items() if "ms a step before and after" in text)
### END SOLUTION

# %% id="decision-check" grade="test" points=1
check("06/decide", decision).points

# %% [markdown] id="again"
# ## Your prediction
#
# Two copies in every step, always of the same two sizes. Which one is needless, and where did you find the answer?

# %% id="prediction-again"
print("You said:", prediction)

# %% [markdown] id="record"
# ## Record
#
# What you decided, in three lines: what you moved and why it may live longer, how you know that the outputs are the
# same, and what the step takes before and after.

# %% [markdown] id="record-text" grade="manual" points=0
# - moved:
# - outputs compared:
# - ms a step, before and after:
