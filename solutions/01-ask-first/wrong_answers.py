"""Wrong answers, each with the misconception that the judge must name."""

import runpy
from pathlib import Path

import tomli_w

from stepprof_lab.grading.answers import from_material

_RIGHT = runpy.run_path(str(Path(__file__).with_name("right_answers.py")))
training_record, training_facts = _RIGHT["training_record"], _RIGHT["training_facts"]
inference_record, inference_facts = _RIGHT["inference_record"], _RIGHT["inference_facts"]


def changed(make, **values):
    """The record with something changed, as TOML."""

    @from_material
    def answer(lab):
        return tomli_w.dumps(make(lab, **values))

    return answer


@from_material
def training_in_the_other_unit(lab):
    other = {"ms/step": "samples/s", "samples/s": "ms/step"}[training_facts(lab)["unit"]]
    return tomli_w.dumps(training_record(lab, unit=other))


@from_material
def inference_in_the_other_unit(lab):
    other = {"ms/request": "samples/s", "samples/s": "ms/request"}[inference_facts(lab)["unit"]]
    return tomli_w.dumps(inference_record(lab, unit=other))


@from_material
def the_full_batch(lab):
    return tomli_w.dumps(training_record(lab, conditions__batch=training_facts(lab)["full_batch"]))


@from_material
def one_picture(lab):
    side = training_facts(lab)["side"]
    return tomli_w.dumps(training_record(lab, conditions__shapes=[f"1x3x{side}x{side}"]))


@from_material
def reading_the_other_way(lab):
    return tomli_w.dumps(inference_record(lab, boundary__read=not inference_facts(lab)["read"]))


def option(name, part):
    @from_material
    def answer(lab):
        options = getattr(lab, name)
        # Not every wrong option is in every learner's list: the wish always is.
        return next((one for one, text in options.items() if part in text), "")

    return answer


def pair_that_differs(key):
    """A right row and the one that differs from it in this alone."""

    @from_material
    def answer(lab):
        rows, keys = lab.results, ("number", "begins", "batch")
        return next(
            [one, other]
            for one in rows
            for other in rows
            if one != other and [name for name in keys if rows[one][name] != rows[other][name]] == [key]
        )

    return answer


def blind(part):
    @from_material
    def answer(lab):
        return next(one for one, text in lab.scene_questions.items() if part in text)

    return answer


@from_material
def another_simplification(lab):
    scene = " ".join(lab.scene.split())
    part = "dashboard's reply" if "read often" in scene else "read before"
    return next(one for one, text in lab.scene_questions.items() if part in text)


WRONG = {
    "01/training_question": {"the wish": ("wish-as-question", option("training_questions", "Make the training"))},
    "01/inference_question": {"the wish": ("wish-as-question", option("inference_questions", "has to become"))},
    "01/training": {
        "a wish": ("wish-as-question", changed(training_record, question="Make the training faster")),
        "a wish with a question mark": (
            "wish-as-question",
            changed(training_record, question="How can we speed up our training?"),
        ),
        "why slow": ("vague-question", changed(training_record, question="Why is it slow?")),
        "two questions": (
            "several-questions",
            changed(training_record, question="Is reading the wait? Is the model too large?"),
        ),
        "no update": ("update-left-out", changed(training_record, boundary__update=False)),
        "no reading": ("reading-left-out", changed(training_record, boundary__read=False)),
        "only the model": (
            "update-left-out",
            changed(training_record, boundary__read=False, boundary__transfer=False, boundary__update=False),
        ),
        "no transfer": ("part-left-out", changed(training_record, boundary__transfer=False)),
        "model built in the step": ("model-load-in-request", changed(training_record, boundary__model_load=True)),
        "another unit": ("unit-cannot-answer", training_in_the_other_unit),
        "a unit of requests": ("unit-cannot-answer", changed(training_record, unit="ms/request")),
        "no difference": ("scene-as-full-load", changed(training_record, conditions__differs_from_full_load=None)),
        "no difference, in words": (
            "scene-as-full-load",
            changed(training_record, conditions__differs_from_full_load="It does not differ."),
        ),
        "the full batch": ("scene-as-full-load", the_full_batch),
        "one picture": ("conditions-contradict", one_picture),
        "no precision": ("conditions-not-stated", changed(training_record, conditions__precision=None)),
        "for an inference": ("wrong-kind", changed(training_record, kind="inference")),
        "a wish and no update": (
            "wish-as-question",
            changed(training_record, question="Reduce the time of a step", boundary__update=False),
        ),
    },
    "01/inference": {
        "a wish": ("wish-as-question", changed(inference_record, question="The service should answer faster.")),
        "model load": ("model-load-in-request", changed(inference_record, boundary__model_load=True)),
        "backward pass": ("training-parts-in-request", changed(inference_record, boundary__backward=True)),
        "no transfer": ("part-left-out", changed(inference_record, boundary__transfer=False)),
        "another unit": ("unit-cannot-answer", inference_in_the_other_unit),
        "no difference": (
            "scene-as-full-load",
            changed(inference_record, conditions__differs_from_full_load="none"),
        ),
        "train mode": ("conditions-contradict", changed(inference_record, conditions__mode="train")),
        "no source": ("conditions-not-stated", changed(inference_record, conditions__data_source=None)),
    },
    "01/comparable": {
        "sum and clock": ("sum-for-elapsed", pair_that_differs("number")),
        "two boundaries": ("boundaries-differ", pair_that_differs("begins")),
        "two batches": ("batches-differ", pair_that_differs("batch")),
    },
    "01/blind_spot": {
        "the mechanism": ("mechanism-doubted", blind("never changes")),
        "another simplification": ("blind-spot-missed", another_simplification),
    },
}
