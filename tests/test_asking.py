"""What is surely no question is told, and honest phrasing passes."""

from __future__ import annotations

import pytest

from stepprof_lab.asking import form_of

HONEST = """
Is compute waiting for data?
Does the GPU wait for the next batch in these four steps?
how long does the loader keep the step waiting
Which operator has the largest self time in the training step?
Is the same mask copied to the GPU in every step?
Whether the class weights are transferred again in each step
Find out whether compute waits for the loader.
Measure how much of a step is spent reading the batch
How many kernels does one request launch?
I want to know if the copy of the batch is on the critical path.
What share of the request is the transfer to the device?
Compute waits for data.
Share of the step that passes before the first kernel
Where does the host wait for the device: in .item() or in the copy?
Is there an operation that we could run only once, because its input never changes?
Does compute wait for data, so that we can speed up the loader?
Why does the step stand still for 12 ms before the first kernel?
Is reading the bottleneck of the step?
Does decoding the photo take longer than the model's forward pass?
How can one tell whether the optimizer's update dominates the step?
How does the wait for data increase from step to step?
Is it the optimizer's update that takes most of a step, or is it the backward pass?
Does the step get faster as soon as the loader's workers have warmed up, or is reading even?
What must the GPU wait for?
See what the GPU does while the batch is read
We need to see how much of the step is reading.
The part of the step in which the GPU must wait for the batch
Can the loop run fast enough to keep up with the camera?
Does each request stay below 40 ms?
Wartet die Rechnung auf Daten?
""".strip().splitlines()

WISHES = """
Make it faster.
Speed up the training
Improve the throughput of the loader
I want the GPU at 100 %.
The training should be faster
Optimize the data loader!
Reduce the latency below 40 ms
How can we make the training faster?
How do I speed up the loader?
Can we get the request to run faster?
Faster training
Fix the slow loader
Get rid of the waits
Is it possible to make the step faster?
What can we do to reduce the waiting?
Make the step as short as possible
please make the GPU busy
What makes it faster?
""".strip().splitlines()

VAGUE = """
Why is it slow?
Why is the training so slow?
Where is the bottleneck?
What is wrong?
Find the bottleneck
What is the problem with my code?
""".strip().splitlines()

SEVERAL = """
Is compute waiting for data? Is a copy repeated?
Is compute waiting for data and is a copy repeated?
""".strip().splitlines()


@pytest.mark.parametrize("text", HONEST)
def test_an_honest_question_passes(text: str) -> None:
    assert form_of(text) == "question"


@pytest.mark.parametrize("text", WISHES)
def test_a_wish_is_told(text: str) -> None:
    assert form_of(text) == "wish"


@pytest.mark.parametrize("text", VAGUE)
def test_a_question_without_an_object_is_told(text: str) -> None:
    assert form_of(text) == "vague"


@pytest.mark.parametrize("text", SEVERAL)
def test_two_questions_are_told(text: str) -> None:
    assert form_of(text) == "several"


@pytest.mark.parametrize("mark", ["?", "??", "?!", " ?", "\uff1f"])
def test_one_question_may_end_in_any_mark(mark: str) -> None:
    assert form_of(f"Is compute waiting for data{mark}") == "question"
