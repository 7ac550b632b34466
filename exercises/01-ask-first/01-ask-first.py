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

# %% id="prediction"
prediction = None  # "a", "b", "c" or "d"
...  # your code here

# %% id="prediction-check"
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

# %% id="training-question"
training_question = None  # a letter
...  # your code here

# %% id="training-question-check"
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

# %% id="training"
training = None  # """ ... """
...  # your code here

# %% id="training-check"
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

# %% id="inference-question"
inference_question = None  # a letter
...  # your code here

# %% id="inference-question-check"
check("01/inference_question", inference_question).points

# %% [markdown] id="inference-asked"
# Write the record for the service. A part of the boundary that there is not is outside: `false`.

# %% id="inference"
inference = None  # """ ... """
...  # your code here

# %% id="inference-check"
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

# %% id="comparable"
comparable = None  # two letters, such as "a b"
...  # your code here

# %% id="comparable-check"
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

# %% id="blind-spot"
blind_spot = None  # a letter
...  # your code here

# %% id="blind-spot-check"
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

# %% [markdown] id="record-text"
# YOUR ANSWER HERE
