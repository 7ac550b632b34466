# %% [markdown] id="title"
# # 01 · Ask first
#
# **Question.** What has to be written down before a trace is worth opening?
#
# **Afterwards you can** tell a question that one trace can answer from one that it cannot, and write the record that a
# capture belongs to: the question, the step's boundary, the conditions, the unit.
#
# About 40 minutes. Nothing is measured here and no GPU is used. The stories were made up for you; their numbers differ
# from other people's.

# %% id="begin"
from stepprof_lab.grading import begin, check

lab = begin("01")

# %% [markdown] id="predict"
# ## Predict
#
# Two colleagues time a step of the same training, on the same machine, with the same code. One says 62 ms, the other
# 41 ms. Both measured with care, several times, and both are right. What is the most likely reason?
#
# - `a` The machine was busier for one of them.
# - `b` Their steps do not begin at the same place.
# - `c` One of them did not wait for the GPU.
# - `d` One of them had the profiler on.

# %% id="prediction" grade="solution"
prediction = None  # "a", "b", "c" or "d"
### BEGIN SOLUTION
prediction = "b"
### END SOLUTION

# %% id="prediction-check" grade="test" points=1
check("01/prediction", prediction).points

# %% [markdown] id="training-story"
# ## A training
#
# A *capture* is a short record of a running program, made by the profiler: here four steps of a loop. A *trace* is the
# file that it leaves. Read the story first.

# %% id="training-shown"
print(lab.training)

# %% [markdown] id="training-question-asked"
# ### Which question?
#
# The team may make one capture of four steps. Exactly one of these can be answered by looking at that one trace. Which?

# %% id="training-questions-shown"
for letter, text in lab.training_questions.items():
    print(letter, " ", text)

# %% id="training-question" grade="solution"
training_question = None  # a letter
### BEGIN SOLUTION
# The letters are shuffled, so this looks for the text.
answerable = ("wait for the next batch", "never changes", "one small operator")
training_question = next(
    letter for letter, text in lab.training_questions.items() if any(part in text for part in answerable)
)
### END SOLUTION

# %% id="training-question-check" grade="test" points=1
check("01/training_question", training_question).points

# %% [markdown] id="record-explained"
# ## The record
#
# A *scenario record* is a small text in TOML that is written before the capture. It holds:
#
# - `question`: one question, about something that can be seen in the step. The words are yours.
# - `kind`: `"training"`, or `"inference"` (requests to a trained model).
# - `unit`: `"ms/step"` or `"samples/s"` for a training, `"ms/request"` or `"samples/s"` for inference. It has to fit
#   what the number is wanted for: a sample is one picture, one message; the other units count a whole batch.
# - `[boundary]`: six parts, each `true` (inside) or `false` (outside): `read` (reading the input: from a file, or from
#   the data loader), `transfer` (to the GPU), `forward`, `backward`, `update`, `model_load`.
# - `[conditions]`: what the capture runs under. `shapes` of the inputs, `batch`, `precision`, `mode` (`"train"` or
#   `"eval"`), `compiled`, `data_source`, and for a training `loader_workers`. These are the conditions of the scene
#   that is captured.
# - `differs_from_full_load`, in `[conditions]` too: how the scene differs from the load that it stands for.
#
# An example, of another program: the batch is held ready on the GPU, so that reading and transfer are outside.
#
# ```toml
# question = "Which operator works longest in the backward pass?"
# kind = "training"
# unit = "ms/step"
#
# [boundary]
# read = false
# transfer = false
# forward = true
# backward = true
# update = true
# model_load = false
#
# [conditions]
# shapes = ["16x512"]
# batch = 16
# precision = "bfloat16"
# mode = "train"
# compiled = false
# data_source = "token numbers, drawn at random once"
# loader_workers = 0
# differs_from_full_load = "one batch again and again, where the full load reads new text for each step"
# ```
#
# Now yours, for the training story. Put the TOML between three quotes. (`stepprof new` asks for the same in a terminal;
# a `stepprof_lab.Scenario` made in Python is taken as well.)

# %% id="training" grade="solution"
training = None  # """ ... """
### BEGIN SOLUTION
# You type the numbers of your story. This solution has to fit every story, so it looks them up.
import re

story = " ".join(lab.training.split())


def found(pattern):
    return re.search(pattern, story)[1]


batch, side, full_batch = found(r"(\d+) pictures a step, three"), found(r"(\d+) by"), found(r"training uses (\d+)")
unit = "samples/s" if "another machine" in story else "ms/step"
precision, compiled = found(r"computes in (\w+)"), "false" if "not compiled" in story else "true"
source, workers, simpler = (
    found(r"read the pictures from ([\w ]+)"),
    found(r"(\d+) worker"),
    found(r"(The scene[^.;]*)"),
)
training = f"""
question = "Does compute wait for the next batch?"
kind = "training"
unit = "{unit}"

[boundary]
read = true
transfer = true
forward = true
backward = true
update = true
model_load = false

[conditions]
shapes = ["{batch}x3x{side}x{side}", "{batch}"]
batch = {batch}
precision = "{precision}"
mode = "train"
compiled = {compiled}
data_source = "{source}"
loader_workers = {workers}
differs_from_full_load = "{batch} pictures a step for {full_batch}; {simpler}"
"""
### END SOLUTION

# %% id="training-check" grade="test" points=7
check("01/training", training).points

# %% [markdown] id="inference-story"
# ## A service
#
# Another story. A *request* is what the service gets and answers at one time.

# %% id="inference-shown"
print(lab.inference)

# %% [markdown] id="inference-question-asked"
# Exactly one of these can be answered by one trace of four requests. Which?

# %% id="inference-questions-shown"
for letter, text in lab.inference_questions.items():
    print(letter, " ", text)

# %% id="inference-question" grade="solution"
inference_question = None  # a letter
### BEGIN SOLUTION
answerable = ("copied to the GPU", "works longest", "does one request launch")
inference_question = next(
    letter for letter, text in lab.inference_questions.items() if any(part in text for part in answerable)
)
### END SOLUTION

# %% id="inference-question-check" grade="test" points=1
check("01/inference_question", inference_question).points

# %% [markdown] id="inference-asked"
# Write the record for the service. A part of the boundary that there is not is outside: `false`.

# %% id="inference" grade="solution"
inference = None  # """ ... """
### BEGIN SOLUTION
story = " ".join(lab.inference.split())
batch, full_batch, days = found(r"scene has (\d+)"), found(r"up to (\d+)"), found(r"those of (\d+) days")
sample = f"3x{found(r'([0-9]+) by')}x{found(r'([0-9]+) by')}" if "pixels" in story else found(r"(\d+) tokens")
unit = "ms/request" if "promised" in story else "samples/s"
read = "false" if "in the host's memory" in story else "true"
precision, compiled = found(r"computes in (\w+)"), "false" if "not compiled" in story else "true"
simpler = found(r"(The scene sends[^;]*|In the scene the service[^;]*)")
inference = f"""
question = "How long does the copy to the GPU take in a request?"
kind = "inference"
unit = "{unit}"

[boundary]
read = {read}
transfer = true
forward = true
backward = false
update = false
model_load = false

[conditions]
shapes = ["{batch}x{sample}"]
batch = {batch}
precision = "{precision}"
mode = "eval"
compiled = {compiled}
data_source = "kept from {days} days of last month"
differs_from_full_load = "{batch} a request for up to {full_batch}; {simpler}"
"""
### END SOLUTION

# %% id="inference-check" grade="test" points=7
check("01/inference", inference).points

# %% [markdown] id="comparable-asked"
# ## Compare
#
# Five results of one loop, all from one machine and made outside the profiler except where it says otherwise. Every
# step ends with the update. Exactly two of them may stand side by side, so that a difference would be one of the
# program. Which two?

# %% id="results-shown"
print(f"   {'ms':>7}   {'what':<30}{'begins with':<20}batch")
for letter, row in lab.results.items():
    print(f"{letter}  {row['ms']:>7}   {row['number']:<30}{row['begins']:<20}{row['batch']}")

# %% id="comparable" grade="solution"
comparable = None  # two letters, such as "a b"
### BEGIN SOLUTION
rows = lab.results
comparable = next(
    one + other
    for one in rows
    for other in rows
    if one < other and all(rows[one][key] == rows[other][key] for key in ("number", "begins", "batch"))
)
### END SOLUTION

# %% id="comparable-check" grade="test" points=2
check("01/comparable", comparable).points

# %% [markdown] id="decide"
# ## Decide
#
# A last scene, and the training that it stands for. One of the four questions cannot be answered by a capture of this
# scene, however good the capture is. Which?

# %% id="scene-shown"
print(lab.scene, "\n")
for letter, text in lab.scene_questions.items():
    print(letter, " ", text)

# %% id="blind-spot" grade="solution"
blind_spot = None  # a letter
### BEGIN SOLUTION
simpler = {"read often": "read before", "on one machine": "wait for each other", "the scene does not": "dashboard"}
scene = " ".join(lab.scene.split())
blind_spot = next(
    letter
    for sign, part in simpler.items()
    for letter, text in lab.scene_questions.items()
    if sign in scene and part in text
)
### END SOLUTION

# %% id="blind-spot-check" grade="test" points=2
check("01/blind_spot", blind_spot).points

# %% [markdown] id="again"
# ## Your prediction
#
# 62 ms and 41 ms, both right. Look at the five results above once more before you read your prediction.

# %% id="prediction-again"
print("You said:", prediction)

# %% [markdown] id="record"
# ## Record
#
# What you decided, in three lines: the question that you would ask of your own program, what its step includes and
# leaves out, and what your scene cannot say.

# %% [markdown] id="record-text" grade="manual" points=0
# - question:
# - the step, from ... to ...:
# - cannot say:
