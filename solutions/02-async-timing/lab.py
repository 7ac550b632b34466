# %% [markdown] id="title"
# # 02 · Asynchronous timing
#
# **Question.** A call that gives work to a GPU returns before the work is done. Which time says how long it took?
#
# **Afterwards you can** measure a piece of work from end to end and on the device alone, and say which of the two
# answers a question.
#
# About 40 minutes. It runs on a GPU where there is one. Elsewhere it runs on a *practice device*: its operations give
# real results, and how long they take is simulated. The lines that you write are the same for both.

# %% id="begin"
import time

from stepprof_lab.grading import begin, check

lab = begin("02")
device, work = lab.device, lab.work

# %% [markdown] id="words"
# ## Words
#
# The *host* is the processor that runs Python. The *device* is the GPU or the practice device. To *launch* an operation
# is to put it into a queue of the device; a *stream* is such a queue. One stream does its operations in order;
# different streams may work at the same time. *Current stream* is the one that you launch into.
#
# `work()` launches several operations. `for operation in work: operation()` launches the same ones, one by one. Some go
# into streams of the work's own; at its end the current stream waits for them. The picture shows how long the
# operations take on the device, each in its stream (numbers that are planned, not measured).

# %% id="plan-shown"
from stepprof_lab.report import exercise

exercise.spans(lab.plan, ident="plan")

# %% [markdown] id="predict"
# ## Predict
#
# You read the host's clock, call `work()`, and read the clock again. What is the difference between the two readings?
#
# - `a` The sum of all operations.
# - `b` The time from the beginning of the first operation to the end of the last one.
# - `c` Far less than the work takes.
# - `d` The longest of the operations.

# %% id="prediction" grade="solution"
prediction = None  # "a", "b", "c" or "d"
### BEGIN SOLUTION
prediction = "c"
### END SOLUTION

# %% id="prediction-check" grade="test" points=1
check("02/prediction", prediction).points

# %% [markdown] id="look"
# ## Look
#
# Now do it. `device.synchronize()` lets the host wait until the device has done everything that was launched. Run this
# cell twice: work has a cost of its own when it runs for the first time.

# %% id="look-shown"
started = time.perf_counter()
work()
returned = time.perf_counter()
device.synchronize()
done = time.perf_counter()
print(f"until the call returned: {1e3 * (returned - started):8.3f} ms")
print(f"until the work was done: {1e3 * (done - started):8.3f} ms")

# %% [markdown] id="tools"
# ## What you have
#
# | on the host | |
# | --- | --- |
# | `time.perf_counter()` | the host's clock, in seconds |
# | `device.synchronize()` | wait until the device has done everything |
# | `device.pending()` | how many operations are not done (a GPU tells only 0 or `None`) |
#
# | in a stream | |
# | --- | --- |
# | `device.current_stream()`, `device.new_stream()` | the current stream, a new one |
# | `event = device.event()` | a mark that can be put into a stream |
# | `event.record()` | put it into the current stream; `event.record(stream)` into another one |
# | `event.synchronize()` | wait until the device has reached it |
# | `first.elapsed_time(second)` | milliseconds between two events, by the device's own clock |
#
# `lab.new_work()` makes such work anew, with a first call that has not been made yet.

# %% [markdown] id="elapsed-asked"
# ## End to end
#
# Write `elapsed_ms(work, device)`: how many milliseconds one run of the work takes from end to end. It begins when the
# host begins with the work, and ends when all of it is done and the host knows.
#
# - The host may have to prepare something in `work()` before it launches. That belongs to it.
# - Other work may still be going on when your function is called. That does not belong to it.
# - What a first run costs once does not belong to it. Each work that you are given has not run before.
#
# The check calls your function several times with work that you have not seen and takes your shortest time, so one
# measured run is enough.


# %% id="elapsed" grade="solution"
def elapsed_ms(work, device):
    ### BEGIN SOLUTION
    work()  # the first call has a cost of its own
    device.synchronize()  # nothing else is going on when the clock starts
    started = time.perf_counter()
    work()
    device.synchronize()
    return 1e3 * (time.perf_counter() - started)
    ### END SOLUTION


# %% id="elapsed-check" grade="test" points=4
check("02/elapsed_ms", elapsed_ms).points

# %% [markdown] id="device-asked"
# ## On the device
#
# Write `device_ms(work, device)`: how many milliseconds lie between an event right before one run of the work and an
# event right after it, both in the current stream.
#
# As before, other work may be in the queue, and a first run does not count. This time the host is busy with other
# things as well: whenever it has waited for the device, it goes on some milliseconds late. That is no time of the
# device.


# %% id="device" grade="solution"
def device_ms(work, device):
    ### BEGIN SOLUTION
    work()
    begin, end = device.event(), device.event()
    begin.record()
    work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)
    ### END SOLUTION


# %% id="device-check" grade="test" points=4
check("02/device_ms", device_ms).points

# %% [markdown] id="both"
# ## Both
#
# The same work, measured in both ways, and once more with a wait after each operation. Look at the picture of the
# streams again: what does the third number measure?

# %% id="both-shown"


def one_by_one_ms(work, device):
    for operation in work:
        operation()
    device.synchronize()
    started = time.perf_counter()
    for operation in work:
        operation()
        device.synchronize()
    return 1e3 * (time.perf_counter() - started)


for measure in (elapsed_ms, device_ms, one_by_one_ms):
    print(f"{measure.__name__:<14}", measure(lab.new_work(), device))

# %% [markdown] id="decide"
# ## Decide
#
# Which number answers which question? `"elapsed"` and `"device"` are your two functions' numbers. Where the question
# needs another measurement than these two, say `"neither"`.

# %% id="questions-shown"
for letter, question in lab.questions.items():
    print(letter, " ", question)

# %% id="questions" grade="solution"
questions = {"a": None, "b": None, "c": None, "d": None, "e": None, "f": None}  # "elapsed", "device" or "neither"
### BEGIN SOLUTION
# The letters are shuffled, so the solution looks for the text.
answers = {
    "person wait": "elapsed",
    "prepares a request": "elapsed",
    "served in a minute": "elapsed",
    "kernel was rewritten": "device",
    "from slow Python": "device",
    "host busy": "device",
    "launching alone": "neither",  # the time until the call returns
    "reading the batch": "neither",  # a label around the reading
    "at the same time": "neither",  # one operation by itself, or a trace
}
questions = {
    letter: next(number for text, number in answers.items() if text in question)
    for letter, question in lab.questions.items()
}
### END SOLUTION

# %% id="questions-check" grade="test" points=3
check("02/questions", questions).points

# %% [markdown] id="record"
# ## Record
#
# Your prediction was kept. Compare it with the first of the two numbers under "Look".

# %% id="prediction-again"
print("predicted:", prediction)
print(f"found:     {1e3 * (returned - started):.3f} ms until the call returned,")
print(f"           {1e3 * (done - started):.3f} ms until the work was done")

# %% [markdown] id="record-asked"
# What you decided, in three lines: which number you would quote for this work and for what, where the host has to wait
# for it, and which wait you will leave out.

# %% [markdown] id="record-text" grade="manual" points=0
# - quoted, and for what:
# - a wait that is needed:
# - a wait that changes the program:
