# %% [markdown] id="title"
# # 12 · The whole way
#
# **Question.** This loop is slow. What is one change worth?
#
# **Afterwards you can** take a slow loop from a question to a decision: state the question, capture four steps, tell
# from the report what takes the time, change one thing, and show outside the profiler what it was worth.
#
# About 45 minutes; the longest cell takes a minute. Everything is measured live, on the CPU of this machine, also where
# there is a GPU: so all loops of this lab have their causes where they were put. Your loop differs from other people's.

# %% id="begin"
from stepprof_lab.grading import begin, check

lab = begin("12")

# %% [markdown] id="loop-told"
# ## The loop
#
# A *step* is one turn of the loop, from reading the batch to the end of the update. `build(device)` makes everything
# once and returns a `Step`, whose `run()` does one step.

# %% id="loop-shown"
print(lab.story, "\n")
print(lab.source)

# %% id="one-thread"
import torch

# Torch computes on one thread in this lab: several would wait for each other wherever something else runs beside them.
torch.set_num_threads(1)

# %% [markdown] id="predict"
# ## Predict
#
# One or more of these take a tenth of the step or more. Which one, do you think, takes most? Decide from the source
# alone; nothing was measured yet.

# %% id="candidates-shown"
for letter, text in lab.candidates.items():
    print(letter, " ", text)

# %% id="prediction"
prediction = None  # a letter
...  # your code here

# %% id="prediction-check"
check("12/prediction", prediction).points

# %% [markdown] id="record-asked"
# ## Ask
#
# Write the *scenario record*, as in lab 01: `question`, `kind`, `unit`, `[boundary]` with its six parts, and
# `[conditions]`. Ask one thing that a trace of four steps can show. Put the TOML between three quotes.

# %% id="record"
record = None  # """ ... """
...  # your code here

# %% id="record-check"
check("12/record", record).points

# %% [markdown] id="capture-asked"
# ## Capture
#
# `capture(scenario, trace=PATH, device="cpu")` is looped over: each turn of it is one step. It runs some steps before,
# then four turns (wait, warm-up, two active), and writes the trace and its record. `trace` is a new name that ends in
# `.json.gz`; nothing is ever overwritten. `capture` is in `stepprof_lab.capturing`, and `stepprof_lab.scenario.loads`
# makes a scenario of your TOML.
#
# Capture the loop as it is and give the trace's path.

# %% id="place"
import tempfile
from pathlib import Path

# A new directory for each run of this cell; take one of your own to keep the files.
runs = Path(tempfile.mkdtemp(prefix="stepprof-lab-12-"))

# %% id="capture"
trace = None  # the path
...  # your code here

# %% id="capture-check"
check("12/capture", trace).points

# %% [markdown] id="causes-asked"
# ## Read
#
# The report names the labels and the operators of the step, and what it finds. A *finding* is an observation, a
# hypothesis, and a next check: not yet a cause. Hold what a label or an operator takes beside the step. Python's own
# libraries are no operators: their time is time of a label in which no operator runs.

# %% id="report"
from rich.console import Console

from stepprof_lab.record import read
from stepprof_lab.report.text import show_analysis

if isinstance(trace, (str, Path)):
    interpreted, its_record = read(Path(trace))
    show_analysis(interpreted.analysis, Console(width=110), record=its_record)

# %% [markdown] id="causes-choice"
# Which of the candidates takes a tenth of the step or more? Give all such letters. One that is not there takes points
# away again. To decide, you may time parts of the loop by themselves as well.

# %% id="causes"
causes = None  # letters, such as "a b"
...  # your code here

# %% id="causes-check"
check("12/causes", causes).points

# %% [markdown] id="change-asked"
# ## Change one thing
#
# Copy the file's text into the cell below, call its function `improved_build`, and repair *one* of the causes. All else
# stays as it is, and the losses have to be the same as before.

# %% id="change"
def improved_build(device):
    ...  # your code here

# %% id="change-check"
check("12/improved", improved_build).points

# %% [markdown] id="validate-asked"
# ## Validate
#
# `stepprof_lab.validate.compare.compare(before, after, scenario, device="cpu", replicates=5, budget_s=45)` builds both
# loops from the same seeds, compares what they give, and times whole loops in random order, with no profiler. A
# *replicate* is a fresh pair of both loops; the *interval* is over replicates. It takes up to a minute; on a machine
# that is too busy it says so.

# %% id="validate"
validation = None  # what `compare` returns
...  # your code here

# %% id="validate-shown"
if validation is not None:
    print(validation.verdict, validation.ratio, validation.interval, *validation.reasons, sep="\n")

# %% id="validate-check"
check("12/validation", validation).points

# %% [markdown] id="gain-asked"
# ## Decide
#
# What was gained, in milliseconds a step? `ratio` is after over before, `interval` holds its two ends, and
# `arms[0].mean_ms` is the mean step before. Give the gain, positive where the step became shorter, and its interval.

# %% id="gain"
gain = {"validation": validation, "ms": None, "interval_ms": [None, None]}
...  # your code here

# %% id="gain-check"
check("12/gain", gain).points

# %% [markdown] id="left-asked"
# Which of the candidates is still in the changed loop, and takes a tenth of its step or more?

# %% id="left"
left = {"build": improved_build, "left": None}  # letters, or "none"
...  # your code here

# %% id="left-check"
check("12/left", left).points

# %% [markdown] id="prediction-again"
# ## Your prediction again

# %% id="prediction-shown"
print("You said:", prediction, " ", lab.candidates.get(str(prediction), ""))
print("You found:", causes)

# %% [markdown] id="decided"
# ## What was decided
#
# Write down, for whoever comes after you:
#
# - the question, and the answer that the trace gave;
# - the one change, and that the losses stayed the same;
# - what it was worth in ms a step, with the interval, on which machine;
# - what is left, and which question comes next;
# - what this scene cannot say about the full load.
