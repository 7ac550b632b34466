# %% [markdown] id="title"
# # 09 · Cost and privacy
#
# **Question.** What did recording cost, and what does the trace give away?
#
# **Afterwards you can** choose the option that a question needs, measure what it costs your step, tell what may be
# quoted from a traced run, and make a trace fit to share without changing what it says.
#
# About 45 minutes. The step runs on the CPU of this machine: what options cost is time of the host, with a GPU and
# without one. The trace was constructed for you, and its secrets are invented.

# %% id="begin"
from stepprof_lab.grading import begin, check

lab = begin("09")

# %% [markdown] id="predict"
# ## Predict
#
# A step of very many small operations takes 3 ms. How long does it take inside a profiler that also records stacks?
#
# - `a` 3 ms: the profiler runs beside it.
# - `b` A few percent more.
# - `c` More than half as long again.
# - `d` About as long as on any other model, so it can be looked up.

# %% id="prediction"
prediction = None  # "a", "b", "c" or "d"
...  # your code here

# %% id="prediction-check"
check("09/prediction", prediction).points

# %% [markdown] id="options-asked"
# ## Which option does a question need?
#
# A profiler always records the names and times of operators, labels, launches and GPU work. More is recorded with
# *options*:
#
# - `shapes` (`record_shapes=True`): the sizes of the inputs of each operator;
# - `memory` (`profile_memory=True`): each allocation, with the operator in which it happens;
# - `stacks` (`with_stack=True`): the functions and lines of Python code around each operator.
#
# Recording shapes can also keep tensors alive for longer, so detail can change the memory of a step and not only its
# time.
#
# For each question, write the option that it needs: `"none"`, `"shapes"`, `"memory"`, `"stacks"`, or `"all"`.

# %% id="options-shown"
for letter, text in lab.questions.items():
    print(letter, " ", text)

# %% id="options"
options = {"a": None, "b": None, "c": None, "d": None, "e": None}
...  # your code here

# %% id="options-check"
check("09/options", options).points

# %% [markdown] id="cost-asked"
# ## What does it cost?
#
# `lab.new_step()` gives a fresh step. Called without arguments it runs once, from its first operation to its last. The
# very first call of each step costs something once.

# %% id="cost-look"
import time

from torch.profiler import ProfilerActivity, profile

step = lab.new_step()
for number in range(4):
    begin_s = time.perf_counter()
    step()
    print(f"outside, step {number}: {1e3 * (time.perf_counter() - begin_s):8.2f} ms")
with profile(activities=[ProfilerActivity.CPU]):
    for number in range(4):
        begin_s = time.perf_counter()
        step()
        print(f"inside,  step {number}: {1e3 * (time.perf_counter() - begin_s):8.2f} ms")

# %% [markdown] id="cost-task"
# Write `cost(step, options)`: **how many times as long a step takes inside a profiler with these options as outside of
# any profiler.** 1 means that it costs nothing, 2 that a step takes twice as long.
#
# `options` is a dict of arguments for `profile`, such as `{"record_shapes": True}`; it may be empty. Time at least 20
# steps outside and 20 inside, and leave out what happens once: the very first step, the profiler's beginning and its
# end. The profiler records the CPU alone.

# %% id="cost"
def cost(step, options):
    ...  # your code here

# %% id="cost-shown"
try:
    for name, on in lab.options.items():
        print(f"{name:<8}{cost(lab.new_step(), on):6.2f} times a step outside")
except Exception as error:
    print(f"nothing to show yet ({type(error).__name__})")

# %% id="cost-check"
check("09/cost", cost).points

# %% [markdown] id="quoted-asked"
# ## What may be quoted?
#
# A colleague has captured four steps with shapes, memory and stacks on, and writes these sentences. For each: does it
# follow from the capture (`"holds"`), or has somebody to measure outside of the profiler first (`"measure outside"`)?

# %% id="quoted-shown"
for letter, text in lab.sentences.items():
    print(letter, " ", text)

# %% id="quoted"
quoted = {"a": None, "b": None, "c": None, "d": None, "e": None}
...  # your code here

# %% id="quoted-check"
check("09/quoted", quoted).points

# %% [markdown] id="gives-away-asked"
# ## What does a trace give away?
#
# A trace is to be shown to strangers, so that they can help with the question "does compute wait for the next batch?".
# Below are pieces of it. Write `"goes"` for what must not be in the copy as it is, and `"stays"` for what the copy
# needs.

# %% id="gives-away-shown"
for letter, text in lab.pieces.items():
    print(letter, " ", text)

# %% id="gives-away"
gives_away = {"a": None, "b": None, "c": None, "d": None, "e": None, "f": None, "g": None, "h": None}
...  # your code here

# %% id="gives-away-check"
check("09/gives_away", gives_away).points

# %% [markdown] id="fit-asked"
# ## Make it fit to share
#
# The whole trace is a dict. Its key `traceEvents` is a list of events; what stands beside it tells of the machine and
# of the recording. An event has a category (`cat`), a `name`, a time (`ts`, `dur`) and often `args`.

# %% id="trace-shown"
trace = lab.new_trace()
print("beside the events:", {key: value for key, value in trace.items() if key != "traceEvents"})
shown = set()
for event in trace["traceEvents"]:
    if event.get("cat") not in shown:
        shown.add(event.get("cat"))
        print(f"\n{event.get('cat')}: {event}")

# %% [markdown] id="fit-task"
# Write `fit_to_share(trace, private)`. It gets such a trace, and a list of words that its owner knows to be private
# (account, project and machine). It returns a copy, again a dict:
#
# - **gone** are the private words, and everything else that points to a person, a machine or a minute. The list does
#   not name it all: look through your trace. Time stamps of the events (`ts`) count from the recording's beginning, so
#   they may stay;
# - **the same** are the numbers and findings that `lab.read` gives. Stacks and shapes may be left out. Labels may get
#   other names where they have to, but two different labels stay different, and the copy still says that the trace was
#   constructed (the key `stepprof_lab`).
#
# The traces in the check have other secrets in the same places.

# %% id="fit"
def fit_to_share(trace, private):
    ...  # your code here

# %% [markdown] id="fit-compare"
# Look at the copy before you check it: what is left of the names, and does it still say the same?

# %% id="fit-compared"
try:
    copied = fit_to_share(lab.new_trace(), lab.private)
    print("names:", sorted({str(event.get("name")) for event in copied["traceEvents"]}))
    before, after = lab.read(lab.new_trace()), lab.read(copied)
    print("steps are the same:", before["steps"] == after["steps"])
    print("findings:", [one["id"] for one in before["findings"]], [one["id"] for one in after["findings"]])
except Exception as error:
    print(f"nothing to compare yet ({type(error).__name__})")

# %% id="fit-check"
check("09/fit", fit_to_share).points

# %% [markdown] id="share-verb"
# For real traces there is `stepprof share TRACE`: it keeps only what is known to be harmless, asks about names that
# nobody else can judge, and compares the copy with the original. It is a net with known holes; you know your secrets.

# %% [markdown] id="decide"
# ## Decide
#
# "Is `aten::mm` called with the sizes that we think?" What do you post together with this question?

# %% id="choices-shown"
for letter, text in lab.choices.items():
    print(letter, " ", text)

# %% id="decision"
decision = None  # a letter
...  # your code here

# %% id="decision-check"
check("09/decide", decision).points

# %% [markdown] id="again"
# ## Your prediction
#
# How long does a step of 3 ms take inside a profiler that records stacks? Compare it with your own table.

# %% id="prediction-again"
print("You said:", prediction)

# %% [markdown] id="record"
# ## Record
#
# What you decided, in three lines: the options that your next question needs and what they cost here, the number that
# you would quote and where it was measured, and what had to go from the trace.

# %% [markdown] id="record-text"
# YOUR ANSWER HERE
