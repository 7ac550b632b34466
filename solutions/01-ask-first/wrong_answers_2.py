"""Wrong answers to lab 01, second set: written from the lab's text alone."""

import re

from stepprof_lab.grading.answers import from_material


def flat(text):
    return " ".join(text.split())


def found(pattern, text):
    return re.search(pattern, flat(text)).group(1)


def number(text, words):
    return re.search(rf"(\d+) {words}", flat(text)).group(1)


def letter_of(questions, words):
    return next(letter for letter, text in questions.items() if words in text)


def truth(value):
    return "true" if value else "false"


def difference_of(story):
    text = flat(story)
    if "such machines" in text:
        return f"one machine, where the real training has {number(text, 'such machines')}"
    if "dashboard and waits" in text:
        return "no loss is sent to the dashboard"
    few = found(r"The scene has (\d+) pictures", text)
    return f"{few} pictures that lie in memory, where the real ones do not fit"


def training_record(story, boundary=None, **changed):
    """The record of the training with some of its entries changed, or left out where the change is None."""
    text = flat(story)
    batch, size = found(r"scene: (\d+) pictures", text), number(text, "by")
    precision, source = found(r"computes in (\w+)", text), found(r"read the pictures from (.+?)\.", text)
    full_batch = found(r"training uses (\d+)", text)
    entries = {
        "shapes": f'["{batch}x3x{size}x{size}", "{batch}"]',
        "batch": batch,
        "precision": f'"{precision}"',
        "mode": '"train"',
        "compiled": truth("is not compiled" not in text),
        "data_source": f'"{source}"',
        "loader_workers": found(r"(\d+) worker processes", text),
        "differs_from_full_load": f'"{batch} pictures a step instead of {full_batch}, and {difference_of(text)}"',
    }
    unit = '"samples/s"' if "another machine" in text else '"ms/step"'
    head = {"question": '"Does compute wait for the next batch?"', "kind": '"training"', "unit": unit}
    parts = {
        "read": True,
        "transfer": True,
        "forward": True,
        "backward": True,
        "update": True,
        "model_load": False,
        **(boundary or {}),
    }
    return toml(head, parts, entries, changed)


def inference_record(story, boundary=None, **changed):
    """The record of the service with some of its entries changed, or left out where the change is None."""
    text = flat(story)
    batch, precision = found(r"scene has (\d+) ", text), found(r"computes in (\w+)", text)
    days, full_batch = found(r"those of (\d+) days", text), found(r"up to (\d+) of", text)
    if "tokens long" in text:
        shape, thing = f"{batch}x{number(text, 'tokens long')}", "messages"
    else:
        side = found(r"(\d+) by \d+ pixels", text)
        shape, thing = f"{batch}x3x{side}x{side}", "photos"
    other = "the GPU is not shared" if "share it" in text else "only one request at a time"
    entries = {
        "shapes": f'["{shape}"]',
        "batch": batch,
        "precision": f'"{precision}"',
        "mode": '"eval"',
        "compiled": truth("is not compiled" not in text),
        "data_source": f'"{thing} of {days} days"',
        "differs_from_full_load": f'"real requests have up to {full_batch} {thing}; {other}"',
    }
    unit = '"samples/s"' if "by morning" in text else '"ms/request"'
    head = {"question": '"How many kernels does a request launch?"', "kind": '"inference"', "unit": unit}
    parts = {
        "read": "names of" in text,
        "transfer": True,
        "forward": True,
        "backward": False,
        "update": False,
        "model_load": False,
        **(boundary or {}),
    }
    return toml(head, parts, entries, changed)


def toml(head, parts, entries, changed):
    head = {key: changed.get(key, value) for key, value in head.items()}
    entries = {key: changed.get(key, value) for key, value in entries.items()}
    lines = [f"{key} = {value}" for key, value in head.items()]
    lines += ["[boundary]", *(f"{key} = {truth(value)}" for key, value in parts.items())]
    lines += ["[conditions]", *(f"{key} = {value}" for key, value in entries.items() if value is not None)]
    return "\n".join(lines)


@from_material
def the_goal_of_the_training(lab):
    return letter_of(lab.training_questions, "as fast as this GPU")


@from_material
def the_sentence_that_is_no_question(lab):
    return next(letter for letter, text in lab.training_questions.items() if not text.endswith("?")).upper()


@from_material
def training_forgets_the_workers(lab):
    return training_record(lab.training, loader_workers=None)


@from_material
def training_with_the_real_batch(lab):
    text = flat(lab.training)
    batch, size = found(r"training uses (\d+) pictures", text), found(r"(\d+) by \d+ pixels", text)
    return training_record(
        lab.training,
        batch=batch,
        shapes=f'["{batch}x3x{size}x{size}", "{batch}"]',
        differs_from_full_load='"it does not, apart from being four steps"',
    )


@from_material
def training_ends_with_the_backward_pass(lab):
    return training_record(lab.training, {"update": False})


@from_material
def training_asks_to_become_faster(lab):
    return training_record(lab.training, question='"Make the training step faster."')


@from_material
def the_goal_of_the_service(lab):
    return letter_of(lab.inference_questions, "has to become faster")


@from_material
def the_service_sentence_that_is_no_question(lab):
    return next(letter for letter, text in lab.inference_questions.items() if not text.endswith("?")).upper()


@from_material
def inference_loads_the_model(lab):
    return inference_record(lab.inference, {"model_load": True})


@from_material
def inference_copied_from_the_training(lab):
    return inference_record(lab.inference, {"backward": True, "update": True})


@from_material
def inference_in_the_other_unit(lab):
    by_morning = "by morning" in flat(lab.inference)
    return inference_record(lab.inference, unit='"ms/request"' if by_morning else '"samples/s"')


@from_material
def inference_starts_on_the_gpu(lab):
    return inference_record(lab.inference, {"transfer": False})


def step_rows(lab):
    return {letter: row for letter, row in lab.results.items() if row["number"] == "a step on the clock"}


def usual_rows(lab):
    rows = step_rows(lab)
    usual = min(row["batch"] for row in rows.values())
    return [k for k, row in rows.items() if row["batch"] == usual and row["begins"] == "reading the batch"]


@from_material
def the_sum_and_a_step(lab):
    total = next(letter for letter in lab.results if letter not in step_rows(lab))
    return f"{usual_rows(lab)[0]} {total}"


@from_material
def a_later_beginning(lab):
    later = next(k for k, row in step_rows(lab).items() if row["begins"] != "reading the batch")
    return f"{later} {usual_rows(lab)[0]}"


@from_material
def the_larger_batch(lab):
    rows = step_rows(lab)
    larger = max(rows, key=lambda letter: rows[letter]["batch"])
    return f"{usual_rows(lab)[1]} {larger}"


def hidden(lab):
    scene = flat(lab.scene)
    if "such machines" in scene:
        return "wait for each other"
    return "dashboard's reply" if "waits for the reply" in scene else "no picture was read before"


@from_material
def the_constant_copy(lab):
    return letter_of(lab.scene_questions, "never changes")


@from_material
def something_that_the_scene_has(lab):
    shown = [word for word in ("wait for each other", "dashboard's reply", "no picture was") if word not in hidden(lab)]
    return letter_of(lab.scene_questions, shown[0])


@from_material
def something_else_that_the_scene_has(lab):
    shown = [word for word in ("wait for each other", "dashboard's reply", "no picture was") if word not in hidden(lab)]
    return letter_of(lab.scene_questions, shown[-1])


WRONG = {
    "01/training_question": {
        "the team's goal": ("wish-as-question", the_goal_of_the_training),
        "the one without a question mark": ("wish-as-question", the_sentence_that_is_no_question),
    },
    "01/training": {
        "forgets the workers": ("conditions-not-stated", training_forgets_the_workers),
        "the real training's batch": ("scene-as-full-load", training_with_the_real_batch),
        "ends with the backward pass": ("update-left-out", training_ends_with_the_backward_pass),
        "asks to become faster": ("wish-as-question", training_asks_to_become_faster),
    },
    "01/inference_question": {
        "the owner's goal": ("wish-as-question", the_goal_of_the_service),
        "the one without a question mark": ("wish-as-question", the_service_sentence_that_is_no_question),
    },
    "01/inference": {
        "loads the model": ("model-load-in-request", inference_loads_the_model),
        "the training's boundary again": ("training-parts-in-request", inference_copied_from_the_training),
        "the other unit": ("unit-cannot-answer", inference_in_the_other_unit),
        "no transfer": ("part-left-out", inference_starts_on_the_gpu),
    },
    "01/comparable": {
        "a sum beside a step": ("sum-for-elapsed", the_sum_and_a_step),
        "a step that begins later": ("boundaries-differ", a_later_beginning),
        "twice the batch": ("batches-differ", the_larger_batch),
    },
    "01/blind_spot": {
        "the constant's copy": ("mechanism-doubted", the_constant_copy),
        "what the scene shows": ("blind-spot-missed", something_that_the_scene_has),
        "what the scene shows as well": ("blind-spot-missed", something_else_that_the_scene_has),
    },
}
