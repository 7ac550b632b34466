# %% [markdown] id="title"
# # 11 · Not observed
#
# **Question.** A trace holds no event of the GPU. What can be said, and what not?
#
# **Afterwards you can** tell a zero that was observed from a gap in the record, say of a trace what it shows and what
# it cannot show, and name the check that comes next.
#
# About 40 minutes. Nothing is measured here and no GPU is used. The captures were constructed for you and read by
# `stepprof read`; their numbers differ from other people's.

# %% id="begin"
from stepprof_lab.grading import begin, check

lab = begin("11")

# %% [markdown] id="predict"
# ## Predict
#
# A colleague captures four steps on a machine with a GPU. The trace holds thousands of events of the CPU, and not one
# of the GPU. What did the GPU do in these steps?
#
# - `a` Nothing: it was idle.
# - `b` Something that was too short to be recorded.
# - `c` The trace does not say.
# - `d` Nothing: the steps ran on the CPU.

# %% id="prediction" grade="solution"
prediction = None  # "a", "b", "c" or "d"
### BEGIN SOLUTION
prediction = "c"
### END SOLUTION

# %% id="prediction-check" grade="test" points=1
check("11/prediction", prediction).points

# %% [markdown] id="words"
# ## Look
#
# A *launch* is a call of the host that queues work for the GPU, such as `cudaLaunchKernel` or `hipLaunchKernel`. The
# work itself is an event of its own, a *GPU event*: a kernel, a copy, a memset. Both are recorded by different parts
# of the profiler, so one can be there without the other. The host's calls are recorded only where GPU activity is
# asked for.
#
# You will get four captures of four steps each. For each one you see the report of `stepprof read`, then four
# sentences. Judge each sentence by this one trace:
#
# - `"can"`: it can be said. An event in the trace shows it.
# - `"false"`: it is false. Something in the trace contradicts it.
# - `"cannot"`: it cannot be said. The trace holds neither; it may be so or not.

# %% [markdown] id="no-events"
# ### The first capture


# %% id="no-events-shown"
def show(capture):
    print("The profiler was asked for:", capture["asked"], "\n")
    print(capture["report"])
    for letter, sentence in capture.get("sentences", {}).items():
        print(letter, " ", sentence)


show(lab.no_events)

# %% id="no-events-answer" grade="solution"
no_events = {"a": None, "b": None, "c": None, "d": None}  # "can", "cannot" or "false"
### BEGIN SOLUTION
# The letters are shuffled, so the solutions look for the text.


def judged(capture, by_text):
    return {
        letter: next(verdict for text, verdict in by_text.items() if text in sentence)
        for letter, sentence in capture["sentences"].items()
    }


no_events = judged(
    lab.no_events,
    {
        "calls that queue": "can",  # the calls are events of the host
        "it is 0 ms": "false",  # there is no measured time at all
        "idle": "cannot",  # neither busy nor idle was observed
        "reading the batch": "can",  # the label is an event of the host
    },
)
### END SOLUTION

# %% id="no-events-check" grade="test" points=2
check("11/no_events", no_events).points

# %% [markdown] id="cpu-alone"
# ### The second capture

# %% id="cpu-alone-shown"
show(lab.cpu_alone)

# %% id="cpu-alone-answer" grade="solution"
cpu_alone = {"a": None, "b": None, "c": None, "d": None}  # "can", "cannot" or "false"
### BEGIN SOLUTION
cpu_alone = judged(
    lab.cpu_alone,
    {
        "longest": "can",
        "No GPU": "cannot",  # neither its work nor the calls that queue it were collected
        "collected GPU activity": "false",  # it was asked for the CPU alone
        "On a GPU": "cannot",  # the times are those of the CPU
    },
)
### END SOLUTION

# %% id="cpu-alone-check" grade="test" points=2
check("11/cpu_alone", cpu_alone).points

# %% [markdown] id="some-events"
# ### The third capture

# %% id="some-events-shown"
show(lab.some_events)

# %% id="some-events-answer" grade="solution"
some_events = {"a": None, "b": None, "c": None, "d": None}  # "can", "cannot" or "false"
### BEGIN SOLUTION
some_events = judged(
    lab.some_events,
    {
        "have no GPU event": "can",  # the finding counts them
        "at least": "can",  # what is there is a lower bound
        "idle": "cannot",  # its launches are there and their work is not
        "All GPU work": "false",
    },
)
### END SOLUTION

# %% id="some-events-check" grade="test" points=2
check("11/some_events", some_events).points

# %% [markdown] id="all-events"
# ### The fourth capture

# %% id="all-events-shown"
show(lab.all_events)

# %% id="all-events-answer" grade="solution"
all_events = {"a": None, "b": None, "c": None, "d": None}  # "can", "cannot" or "false"
### BEGIN SOLUTION
all_events = judged(
    lab.all_events,
    {
        "launched no GPU work": "can",  # an observed zero: every other launch has its work
        "was busy": "can",
        "have no GPU event": "false",  # no finding says so
        "because": "cannot",  # the label holds the wait, not its cause
    },
)
### END SOLUTION

# %% id="all-events-check" grade="test" points=2
check("11/all_events", all_events).points

# %% [markdown] id="share-asked"
# ## Compute
#
# Write `gpu_share(analysis)`: of the time of all steps together, the share in which the GPU was at work, from 0 to 1.
# Return `None` where the trace cannot say it:
#
# - where the GPU was not observed at all;
# - where the findings say `gpu-partly-observed`: a part of its work is missing.
#
# `analysis` is what `stepprof read --json` prints, as a dict. You need these of its keys:
#
# - `analysis["gpu"]["observed"]`: `True` or `False`;
# - `analysis["findings"]`: a list; each has an `"id"`;
# - `analysis["steps"]`: a list; each has `"cpu_us"`, how long the step took on the host's clock, and, only where the
#   GPU was observed, `"gpu_busy_in_window_us"`, for how long in the step the GPU was at work. Both are microseconds.

# %% id="analysis-shown"
for name in ("no_events", "all_events"):
    analysis = getattr(lab, name)["analysis"]
    print(name, analysis["gpu"], [finding["id"] for finding in analysis["findings"]], sep="\n  ")
    for step in analysis["steps"]:
        print("  ", step)

# %% [markdown] id="share-task"
# The check calls your function with other captures, of the kinds above and of others.


# %% id="share" grade="solution"
def gpu_share(analysis):
    ### BEGIN SOLUTION
    partly = any(finding["id"] == "gpu-partly-observed" for finding in analysis["findings"])
    if not analysis["gpu"]["observed"] or partly:
        return None
    busy = sum(step["gpu_busy_in_window_us"] for step in analysis["steps"])
    return busy / sum(step["cpu_us"] for step in analysis["steps"])
    ### END SOLUTION


# %% id="share-check" grade="test" points=4
check("11/gpu_share", gpu_share).points

# %% [markdown] id="check-asked"
# ## The next check
#
# One more capture, `no_launches`. Then choose, for each of the four captures from which GPU events are missing, the
# check that can tell best why they are missing.

# %% id="checks-shown"
show(lab.no_launches)
for letter, text in lab.checks.items():
    print(letter, " ", text)

# %% id="next-check" grade="solution"
next_check = {"no_events": None, "cpu_alone": None, "no_launches": None, "some_events": None}  # a letter for each
### BEGIN SOLUTION
chosen = {
    "no_events": "stepprof doctor",  # launched, and nothing collected: can this machine collect at all?
    "cpu_alone": "ask for GPU",  # nobody asked
    "no_launches": "on which device",  # nothing was launched: where does the work run?
    "some_events": "longer warm-up",  # collection works, and loses records
}
next_check = {
    name: next(letter for letter, text in lab.checks.items() if part in text) for name, part in chosen.items()
}
### END SOLUTION

# %% id="next-check-check" grade="test" points=2
check("11/next_check", next_check).points

# %% [markdown] id="decide"
# ## Decide
#
# Somebody waits for your line on the first capture. Which one do you send?

# %% id="reports-shown"
for letter, text in lab.reports.items():
    print(letter, " ", text)

# %% id="report" grade="solution"
report = None  # a letter
### BEGIN SOLUTION
report = next(letter for letter, text in lab.reports.items() if "not observed" in text)
### END SOLUTION

# %% id="report-check" grade="test" points=1
check("11/report", report).points

# %% [markdown] id="again"
# ## Your prediction
#
# Thousands of events of the CPU, none of the GPU. What was asked for, and what would you look at first?

# %% id="prediction-again"
print("You said:", prediction)

# %% [markdown] id="record"
# ## Record
#
# What you decided, in three lines: what you will write where a number was not observed, what has to be there before you
# believe a zero, and which check you run first.

# %% [markdown] id="record-text" grade="manual" points=0
# - instead of a number:
# - before I believe a zero:
# - first check:
