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

# %% id="prediction" grade="solution"
prediction = None  # a letter
### BEGIN SOLUTION
prediction = "a"
### END SOLUTION

# %% id="prediction-check" grade="test" points=1
check("12/prediction", prediction).points

# %% [markdown] id="record-asked"
# ## Ask
#
# Write the *scenario record*, as in lab 01: `question`, `kind`, `unit`, `[boundary]` with its six parts, and
# `[conditions]`. Ask one thing that a trace of four steps can show. Put the TOML between three quotes.

# %% id="record" grade="solution"
record = None  # """ ... """
### BEGIN SOLUTION
# You type the numbers of your story. This solution has to fit every story, so it looks them up.
import re

story = " ".join(lab.story.split())
batch = re.search(r"scene holds (\d+)", story)[1]
full_batch = re.search(r"real training has (\d+)", story)[1]
record = f"""
question = "Which label of the step takes longest?"
kind = "training"
unit = "ms/step"

[boundary]
read = true
transfer = true
forward = true
backward = true
update = true
model_load = false

[conditions]
shapes = ["{batch}x1024", "{batch}"]
batch = {batch}
precision = "float32"
mode = "train"
compiled = false
data_source = "made up at random, packed in memory"
loader_workers = 0
differs_from_full_load = "{batch} recordings a step for {full_batch}, and they are in memory"
"""
### END SOLUTION

# %% id="record-check" grade="test" points=7
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

# %% id="capture" grade="solution"
trace = None  # the path
### BEGIN SOLUTION
from stepprof_lab import scenario
from stepprof_lab.capturing import capture

torch.manual_seed(0)
step = lab.build("cpu")
trace = runs / "before.json.gz"
for _ in capture(scenario.loads(record), trace=trace, device="cpu"):
    step.run()
### END SOLUTION

# %% id="capture-check" grade="test" points=3
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

# %% id="causes" grade="solution"
causes = None  # letters, such as "a b"
### BEGIN SOLUTION
# You read them from the report. This solution has to fit every loop, so it looks for the slow forms in the source.
slow_forms = {
    "unpacks far more": "raw = zlib.decompress(packed)\n",
    "never changes": "            waves = torch.outer",
    "one by one": "one / one.max() for one in",
    "one operator": "ends = torch.cat([x.sort",
}
present = [words for words, form in slow_forms.items() if form in lab.source]
causes = [letter for letter, text in lab.candidates.items() if any(words in text for words in present)]
### END SOLUTION

# %% id="causes-check" grade="test" points=4
check("12/causes", causes).points

# %% [markdown] id="change-asked"
# ## Change one thing
#
# Copy the file's text into the cell below, call its function `improved_build`, and repair *one* of the causes. All else
# stays as it is, and the losses have to be the same as before.


# %% id="change" grade="solution"
def improved_build(device):
    ### BEGIN SOLUTION
    # You copy the text and change it. This solution has to fit every loop, so it changes the text by replacing.
    repairs = {
        "            waves = torch.outer(grid, grid).mul_(40).cos_().float().to(device)\n": (
            "    grid = torch.linspace(0, 1, LENGTH, dtype=torch.float64)\n",
            "    waves = torch.outer(grid, grid).mul_(40).cos_().float().to(device)\n",
        ),
        "x = torch.stack([one / one.max() for one in x.view(-1, WIDTH)]).view(BATCH, LENGTH)": (
            "",
            "x = (x.view(-1, WIDTH) / x.view(-1, WIDTH).amax(1, keepdim=True)).view(BATCH, LENGTH)",
        ),
        "ends = torch.cat([x.sort(descending=True).values[:, :8], x.sort().values[:, :8]], dim=1)": (
            "",
            "ends = torch.cat([x.topk(8).values, x.topk(8, largest=False).values], dim=1)",
        ),
    }
    slow, (place, repaired) = next((slow, repair) for slow, repair in repairs.items() if slow in lab.source)
    if place:  # made once, before the loop
        text = lab.source.replace(slow, "").replace(place, place + repaired)
    else:
        text = lab.source.replace(slow, repaired)
    names = {"__name__": "improved"}
    exec(text, names)  # noqa: S102
    return names["build"](device)
    ### END SOLUTION


# %% id="change-check" grade="test" points=5
check("12/improved", improved_build).points

# %% [markdown] id="validate-asked"
# ## Validate
#
# `stepprof_lab.validate.compare.compare(before, after, scenario, device="cpu", replicates=5, budget_s=45)` builds both
# loops from the same seeds, compares what they give, and times whole loops in random order, with no profiler. A
# *replicate* is a fresh pair of both loops; the *interval* is over replicates. It takes up to a minute; on a machine
# that is too busy it says so.

# %% id="validate" grade="solution"
validation = None  # what `compare` returns
### BEGIN SOLUTION
from stepprof_lab.validate.compare import compare

validation = compare(lab.build, improved_build, scenario.loads(record), device="cpu", replicates=5, budget_s=45)
### END SOLUTION

# %% id="validate-shown"
if validation is not None:
    print(validation.verdict, validation.ratio, validation.interval, *validation.reasons, sep="\n")

# %% id="validate-check" grade="test" points=4
check("12/validation", validation).points

# %% [markdown] id="gain-asked"
# ## Decide
#
# What was gained, in milliseconds a step? `ratio` is after over before, `interval` holds its two ends, and
# `arms[0].mean_ms` is the mean step before. Give the gain, positive where the step became shorter, and its interval.

# %% id="gain" grade="solution"
gain = {"validation": validation, "ms": None, "interval_ms": [None, None]}
### BEGIN SOLUTION
before_ms = validation.arms[0].mean_ms
low, high = validation.interval
gain["ms"] = before_ms * (1 - validation.ratio)
gain["interval_ms"] = [before_ms * (1 - high), before_ms * (1 - low)]
### END SOLUTION

# %% id="gain-check" grade="test" points=3
check("12/gain", gain).points

# %% [markdown] id="left-asked"
# Which of the candidates is still in the changed loop, and takes a tenth of its step or more?

# %% id="left" grade="solution"
left = {"build": improved_build, "left": None}  # letters, or "none"
### BEGIN SOLUTION
repaired_first = next(words for words in ("never changes", "one by one", "one operator") if words in present)
left["left"] = next(letter for letter in causes if repaired_first not in lab.candidates[letter])
### END SOLUTION

# %% id="left-check" grade="test" points=2
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
