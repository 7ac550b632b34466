# %% [markdown] id="title"
# # 04 · Warm-up
#
# **Question.** From which step on are the times of a loop steady, and what do you report about the steps before?
#
# **Afterwards you can** find the steady part of a series of step times and of a live step, report start-up and steady
# part apart, and say what a profiler's warm-up proves.
#
# About 45 minutes. A GPU is used where there is one, and none is needed. The series were constructed for you; their
# numbers differ from other people's. The live part is measured on this machine.

# %% id="begin"
from stepprof_lab.grading import begin, check

lab = begin("04")

# %% [markdown] id="predict"
# ## Predict
#
# A program has just started and does the same step again and again. How many of the first steps would you leave out
# before you say how long a step takes? Write a whole number, before you look at anything.

# %% id="prediction"
prediction = None  # a number of steps
...  # your code here

# %% id="prediction-check"
check("04/prediction", prediction).points

# %% [markdown] id="look"
# ## Look
#
# `lab.times_ms` has the time of each step, from the first on. Steps are counted from 0. A picture that is cut at the
# top has the number above the bar.
#
# - The **start-up** is what comes first and takes longer: caches fill, libraries load, code is compiled.
# - The **steady part** begins where the times have come to the level at which they go on.
# - A **new shape** is an input of a kind that was not met before. Its step prepares something, so it takes long; the
#   next steps are as before.

# %% id="picture"
from stepprof_lab.report import exercise

exercise.steps({"lab.times_ms": lab.times_ms})

# %% id="first-steps"
for number, ms in enumerate(lab.times_ms[:12]):
    print(f"step {number:>2}: {ms:8.3f} ms")
print(f"mean of everything:       {sum(lab.times_ms) / len(lab.times_ms):8.3f} ms")
print(f"mean without the first:   {sum(lab.times_ms[1:]) / len(lab.times_ms[1:]):8.3f} ms")
print(f"the last step:            {lab.times_ms[-1]:8.3f} ms")

# %% [markdown] id="kinds-asked"
# ## What does a series do?
#
# Four more series. After a start-up, each does one of these things:
#
# - `a` it stays at one level;
# - `b` it goes to another level, at one step and for good;
# - `c` it meets new shapes now and then;
# - `d` it drifts: it moves on all the time and comes to no level.
#
# Write the letter of each. Below the picture (or instead of it, in a terminal) you have the medians of eight pieces of
# each series.

# %% id="four-shown"
exercise.steps(lab.four, ident="four")

# %% id="four-in-numbers"
print(exercise.steps(lab.four))

# %% id="kinds"
kinds = {"first": None, "second": None, "third": None, "fourth": None}
...  # your code here

# %% id="kinds-check"
check("04/kinds", kinds).points

# %% [markdown] id="steady-asked"
# ## Where does it become steady?
#
# Write `steady_from(times_ms)`: how many steps come before the steady part. That is also the number of the first
# steady step, counted from 0. A series that is steady at once gives 0. Up to 5 steps too many or too few count as
# right.
#
# It is called with four series. They begin in different ways; the times may stand still for a while before they have
# come to the level at which they go on. A single slow step in the middle is no new start-up. In the steady part a step
# differs from the level by 2 % at the most; in the start-up by more than 10 %.

# %% id="steady"
def steady_from(times_ms):
    ...  # your code here

# %% id="steady-check"
check("04/steady_from", steady_from).points

# %% [markdown] id="report-asked"
# ## Report both
#
# Write `report(times_ms)`. It returns a dict with
#
# - `first_ms`: what the first step took, in ms;
# - `steady_after`: how many steps come before the steady part;
# - `steady_ms`: how long a usual step of the steady part takes, in ms, the slow ones left aside;
# - `slow_steps`: the numbers of the steps of the steady part that took at least twice that time, in a list. Steps are
#   counted from 0, from the first step of all.

# %% id="report"
def report(times_ms):
    ...  # your code here

# %% id="report-check"
check("04/report", report).points

# %% [markdown] id="rate-asked"
# ## Samples a second
#
# A progress bar often shows all samples since the start divided by all time since the start:

# %% id="rate-shown"
for steps in (1, 5, 20, 50, 100, len(lab.times_ms)):
    print(f"after {steps:>3} steps: {1000 * 32 * steps / sum(lab.times_ms[:steps]):8.1f} samples/s with 32 a step")

# %% [markdown] id="rate-text"
# The program does not become faster all the time; the number does. Write `samples_per_s(times_ms, batch)`: the samples
# a second of the steady part, where each step works on `batch` samples. These series have no slow steps after the
# start-up.

# %% id="rate"
def samples_per_s(times_ms, batch):
    ...  # your code here

# %% id="rate-check"
check("04/samples_per_s", samples_per_s).points

# %% [markdown] id="live-asked"
# ## A live step
#
# `lab.new_step()` gives a real small step on this machine's device. It has not run yet: its first calls are slow, and
# somewhere in the middle it meets a new shape. A call returns when its work is done, so the host's clock around it is
# right. The cell below times a few calls.

# %% id="live-shown"
import time

step = lab.new_step()
for number in range(30):
    begun = time.perf_counter()
    step()
    print(f"call {number:>2}: {1000 * (time.perf_counter() - begun):8.3f} ms")

# %% [markdown] id="live-text"
# A machine makes noise: some calls take longer for no reason of their own. Medians over several calls bear it.
#
# Write `measure(step, calls)`: call `step()` exactly `calls` times, time each call, and return a dict as above with
# `first_ms` (the very first call), `steady_ms` and `slow_steps` (numbers counted from 0, from the very first call;
# calls that the machine made slow may be among them). It is judged on a step that has never run, against the library's
# own times of the same calls.

# %% id="live"
def measure(step, calls):
    ...  # your code here

# %% id="live-check"
check("04/measure", measure).points

# %% [markdown] id="profiler"
# ## What the profiler's warm-up is
#
# A profiler works by a schedule: it lets `wait` steps pass, then runs `warmup` steps in which it starts up itself and
# throws away what it sees, then records `active` steps. Here it is, on a live step that has just begun.

# %% id="profiler-shown"
from torch.profiler import ProfilerActivity, profile, schedule

step = lab.new_step()
turns = ["wait", "warm-up", "active", "active"]
with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=2, repeat=1)) as profiler:
    for turn in turns:
        begun = time.perf_counter()
        step()
        print(f"{turn:<8} {1000 * (time.perf_counter() - begun):8.3f} ms")
        profiler.step()

# %% [markdown] id="profiler-text"
# Compare the active steps with what a usual call took above.
#
# ## Decide
#
# `lab.window` is the series of a loop into which you want to put a window: `wait`, then one warm-up step, then two
# active steps.

# %% id="window-shown"
exercise.steps({"lab.window": lab.window}, ident="window")

# %% id="window-in-numbers"
for begin_at in range(0, len(lab.window), 10):
    print(f"{begin_at:>4}: " + " ".join(f"{ms:7.2f}" for ms in lab.window[begin_at : begin_at + 10]))

# %% [markdown] id="decide-asked"
# Fill in three decisions.
#
# `warm_up_proves`: what does it prove that a profiler's warm-up step has passed?
#
# - `a` From then on the model is steady.
# - `b` The profiler itself has started up. Whether the model is steady has to be seen from its step times.
# - `c` The start-up is over, for the first steps were left out.
# - `d` The active steps that follow stand for all later ones.
#
# `wait`: how many steps should the schedule wait, so that its two active steps are usual steps of `lab.window`? More
# than one number is right.
#
# `report`: what do you write to somebody who asks how fast the program is?
#
# - `a` The mean of all steps.
# - `b` The usual step of the steady part; the start-up does not belong to it.
# - `c` The start-up, and the usual step of the steady part, apart; and that new shapes occur.
# - `d` The fastest step, for it has the least noise.

# %% id="decision"
decision = {"warm_up_proves": None, "wait": None, "report": None}
...  # your code here

# %% id="decision-check"
check("04/decide", decision).points

# %% [markdown] id="record"
# ## Record
#
# Your prediction was kept. Compare it with the start-ups that you met.

# %% id="prediction-again"
print("predicted to be left out:", prediction)
print("waited for in lab.window:", decision.get("wait") if isinstance(decision, dict) else None)

# %% [markdown] id="record-asked"
# What you decided, in three lines: how you find the start of a steady part, what you report of the steps before it,
# and what you will look for in the middle of a long run.

# %% [markdown] id="record-text"
# YOUR ANSWER HERE
