# %% [markdown] id="title"
# # 03 · Nested sums
#
# **Question.** A profiler's table adds up to more than the step took. Which number says how long the step took, and
# which says where the time went?
#
# **Afterwards you can** compute elapsed, total, self and busy time from the spans of a trace, and say which of them may
# be added.
#
# About 40 minutes. No GPU is used: the trace was constructed for you, and its numbers differ from other people's.

# %% id="begin"
from stepprof_lab.grading import begin, check

lab = begin("03")

# %% [markdown] id="predict"
# ## Predict
#
# The table below is of one step: all that the step's thread did, by name. *Total* is the time of all calls of a name,
# with what they call. *Self* is the same without what they call directly. The first row is the step itself (a profiler
# calls it `ProfilerStep*`). Rows with `cuda` are calls to the GPU's driver; they launch work on the GPU and go on.
#
# Before you compute anything: the column *total* adds up to about three times what the step took. Why?
#
# - `a` The step really took that long; the wall clock is wrong.
# - `b` A row's total contains the totals of what it calls, so the same time is added once a level.
# - `c` The profiler makes every operator slower.
# - `d` The GPU's time is added to the CPU's time.

# %% id="table-shown"
print(f"{'name':<24}{'calls':>6}{'total ms':>10}{'self ms':>10}")
for row in lab.table["rows"]:
    print(f"{row['name']:<24}{row['calls']:>6}{row['total_ms']:>10.3f}{row['self_ms']:>10.3f}")
print(f"\nthe step, in this run under the profiler: {lab.table['traced_step_ms']:.3f} ms")

# %% id="prediction" grade="solution"
prediction = None  # "a", "b", "c" or "d"
### BEGIN SOLUTION
prediction = "b"
### END SOLUTION

# %% id="prediction-check" grade="test" points=1
check("03/prediction", prediction).points

# %% [markdown] id="look"
# ## Look
#
# Another step, as the spans that a trace is made of. Each has a name, a kind, a lane (a thread of the CPU or a stream
# of the GPU), a start and an end in milliseconds. On the CPU there are `step`, `label`, `operator` and `launch` (a call
# to the GPU's driver). `kernel` and `copy` are the GPU's work. `label on the GPU` is a label that the profiler draws
# there: nothing is executed for it. A GPU works through one stream in order; different streams may work at the same
# time.
#
# First the picture: what lies inside a span is drawn below it. Then the same spans as numbers.

# %% id="picture"
from stepprof_lab.report import exercise

exercise.spans(lab.spans)

# %% id="spans-shown"
for span in lab.spans:
    print(f"{span['start_ms']:>9.3f} {span['end_ms']:>9.3f}  {span['lane']:<9} {span['kind']:<17} {span['name']}")

# %% [markdown] id="elapsed-asked"
# ## Elapsed
#
# Write `elapsed_ms(spans)`: how long the step took on the host's clock, in milliseconds. Exactly one span is the step.
# Work of the step before may still run when it begins, and its own work may end after it.


# %% id="elapsed" grade="solution"
def elapsed_ms(spans):
    ### BEGIN SOLUTION
    step = next(span for span in spans if span["kind"] == "step")
    return step["end_ms"] - step["start_ms"]
    ### END SOLUTION


# %% id="elapsed-check" grade="test" points=2
check("03/elapsed_ms", elapsed_ms).points

# %% [markdown] id="total-asked"
# ## Total
#
# Write `total_ms(spans, name)`: the time of all calls of an operator in the step, with what they call inside them.


# %% id="total" grade="solution"
def total_ms(spans, name):
    ### BEGIN SOLUTION
    calls = [span for span in spans if span["kind"] == "operator" and span["name"] == name]
    return sum(span["end_ms"] - span["start_ms"] for span in calls)
    ### END SOLUTION


# %% id="total-check" grade="test" points=2
check("03/total_ms", total_ms).points

# %% [markdown] id="self-asked"
# ## Self
#
# Write `self_ms(spans, name)`: the same calls without their direct children. Children are operators and launches that
# lie inside a call on its own lane; a child's children are in the child already. Other lanes have clocks to themselves:
# what happens there at the same time is nobody's child here.


# %% id="self" grade="solution"
def self_ms(spans, name):
    ### BEGIN SOLUTION
    def inside(outer):
        return [
            span
            for span in spans
            if span is not outer
            and span["lane"] == outer["lane"]
            and span["kind"] in ("operator", "launch")
            and outer["start_ms"] <= span["start_ms"]
            and span["end_ms"] <= outer["end_ms"]
        ]

    found = 0.0
    for call in spans:
        if call["kind"] == "operator" and call["name"] == name:
            below = inside(call)
            direct = [one for one in below if not any(one in inside(other) for other in below)]
            found += call["end_ms"] - call["start_ms"] - sum(one["end_ms"] - one["start_ms"] for one in direct)
    return found
    ### END SOLUTION


# %% id="self-check" grade="test" points=3
check("03/self_ms", self_ms).points

# %% [markdown] id="busy-asked"
# ## Busy
#
# Write `busy_ms(spans)`: for how many milliseconds, within the step, was the GPU at work on at least one stream?


# %% id="busy" grade="solution"
def busy_ms(spans):
    ### BEGIN SOLUTION
    step = next(span for span in spans if span["kind"] == "step")
    found, reached = 0.0, step["start_ms"]
    for span in sorted(spans, key=lambda one: one["start_ms"]):
        if span["kind"] in ("kernel", "copy"):
            start, end = max(span["start_ms"], reached), min(span["end_ms"], step["end_ms"])
            if end > start:
                found += end - start
                reached = end
    return found
    ### END SOLUTION


# %% id="busy-check" grade="test" points=4
check("03/busy_ms", busy_ms).points

# %% [markdown] id="decide"
# ## Decide
#
# Back to the table. Fill in what it says: the sum of the column *total*, the sum of the column *self*, the reason from
# above (`a` to `d`), and how busy the GPU was, in percent (0 to 100) of the step.
#
# Below are three windows: the step in the run under the profiler, the same step in a run without it, and all that the
# trace holds. The GPU was counted in the step under the profiler, in two ways: `gpu_busy_ms` is the union, `gpu_sum_ms`
# adds the streams. Choose what belongs together.

# %% id="windows-shown"
for name in ("traced_step_ms", "untraced_step_ms", "whole_trace_ms", "gpu_busy_ms", "gpu_sum_ms"):
    print(f"{name:<18}{lab.table[name]:>9.3f}")

# %% id="table" grade="solution"
table = {"sum_of_totals_ms": None, "sum_of_selfs_ms": None, "why": None, "gpu_busy_percent": None}
### BEGIN SOLUTION
table = {
    "sum_of_totals_ms": sum(row["total_ms"] for row in lab.table["rows"]),
    "sum_of_selfs_ms": sum(row["self_ms"] for row in lab.table["rows"]),
    "why": "b",
    "gpu_busy_percent": 100 * lab.table["gpu_busy_ms"] / lab.table["traced_step_ms"],
}
### END SOLUTION

# %% id="table-check" grade="test" points=3
check("03/table", table).points

# %% [markdown] id="record"
# ## Record
#
# Your prediction was kept. Compare it with what you found.

# %% id="prediction-again"
print("predicted:", prediction)
print("found:    ", table.get("why") if isinstance(table, dict) else None)

# %% [markdown] id="record-asked"
# What you decided, in three lines: which number you would quote for this step, which one says where to look, and which
# sum you will not make again.

# %% [markdown] id="record-text" grade="manual" points=0
# - quoted:
# - says where to look:
# - not to be summed:
