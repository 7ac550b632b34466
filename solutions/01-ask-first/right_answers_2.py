"""Right answers to lab 01, second set: written from the lab's text alone."""

import re

from stepprof_lab.grading.answers import from_material

SEEN_IN_A_STEP = ("wait for the next batch", "never changes", "one small operator")
SEEN_IN_A_REQUEST = ("while its input is copied", "works longest", "How many kernels")


SCENE_HAS = r"The scene has (\d+) pictures"


def flat(text):
    return " ".join(text.split())


def found(pattern, text):
    return re.search(pattern, flat(text)).group(1)


def number(text, words):
    return re.search(rf"(\d+) {words}", flat(text)).group(1)


def letter_of(questions, words):
    return next(letter for letter, text in questions.items() if any(word in text for word in words))


def difference_of(story):
    text = flat(story)
    if "such machines" in text:
        return f"one machine instead of {number(text, 'such machines')}, so nobody waits to add gradients"
    if "dashboard and waits" in text:
        return "the loss is not sent to the dashboard and no reply is waited for"
    return f"only {found(SCENE_HAS, text)} pictures, already in memory, not read from the disk"


def training_facts(story):
    batch = int(found(r"scene: (\d+) pictures", story))
    return {
        "batch": batch,
        "size": int(found(r"(\d+) by \d+ pixels", story)),
        "precision": found(r"computes in (\w+)", story),
        "compiled": "is not compiled" not in flat(story),
        "workers": int(found(r"(\d+) worker processes", story)),
        "source": found(r"read the pictures from (.+?)\.", story),
        "full_batch": int(found(r"training uses (\d+) pictures", story)),
        "millions": int(found(r"from (\d+) million", story)),
        "unit": "samples/s" if "another machine" in flat(story) else "ms/step",
        "difference": difference_of(story),
    }


def inference_facts(story):
    text = flat(story)
    batch = int(found(r"scene has (\d+) ", text))
    if "tokens long" in text:
        shape, thing = f"{batch}x{number(text, 'tokens long')}", "messages"
    else:
        side = found(r"(\d+) by \d+ pixels", text)
        shape, thing = f"{batch}x3x{side}x{side}", "photos"
    if "share it" in text:
        other = f"the GPU is not shared; in real operation {number(text, 'services share it')} services share it"
    else:
        other = f"requests come one after the other instead of {number(text, 'come at once')} at once"
    return {
        "batch": batch,
        "shape": shape,
        "thing": thing,
        "read": "names of" in text,
        "precision": found(r"computes in (\w+)", text),
        "compiled": "is not compiled" not in text,
        "days": int(found(r"those of (\d+) days", text)),
        "full_batch": int(found(r"up to (\d+) of them", text)),
        "unit": "samples/s" if "by morning" in text else "ms/request",
        "difference": other,
    }


def truth(value):
    return "true" if value else "false"


@from_material
def question_of_the_training(lab):
    return letter_of(lab.training_questions, SEEN_IN_A_STEP)


@from_material
def question_of_the_training_upper(lab):
    return letter_of(lab.training_questions, SEEN_IN_A_STEP).upper()


@from_material
def training_in_full(lab):
    facts = training_facts(lab.training)
    return f"""
question = "How long does compute wait for the data loader in one step?"
kind = "training"
unit = "{facts["unit"]}"

[boundary]
read = true
transfer = true
forward = true
backward = true
update = true
model_load = false

[conditions]
shapes = ["{facts["batch"]}x3x{facts["size"]}x{facts["size"]}", "{facts["batch"]}"]
batch = {facts["batch"]}
precision = "{facts["precision"]}"
mode = "train"
compiled = {truth(facts["compiled"])}
data_source = "{facts["source"]}"
loader_workers = {facts["workers"]}
differs_from_full_load = "{facts["batch"]} pictures a step instead of {facts["full_batch"]}; {facts["difference"]}"
"""


@from_material
def training_about_the_copy(lab):
    facts = training_facts(lab.training)
    return "\n".join(
        [
            "kind = 'training'",
            f"unit = '{facts['unit']}'",
            "question = 'Which part of a step is spent in copying the pictures to the GPU?'",
            "[boundary]",
            "model_load = false",
            *(f"{part} = true" for part in ("read", "transfer", "forward", "backward", "update")),
            "[conditions]",
            f"batch = {facts['batch']}",
            f"shapes = ['{facts['batch']}x3x{facts['size']}x{facts['size']}']",
            "mode = 'train'",
            f"precision = '{facts['precision']}'",
            f"compiled = {truth(facts['compiled'])}",
            f"loader_workers = {facts['workers']}",
            f"data_source = 'pictures from {facts['source']}'",
            "differs_from_full_load = '''",
            f"The real training has {facts['full_batch']} pictures a step, from {facts['millions']} million.",
            f"In the scene: {facts['difference']}.'''",
        ]
    )


@from_material
def question_of_the_service(lab):
    return letter_of(lab.inference_questions, SEEN_IN_A_REQUEST)


@from_material
def question_of_the_service_with_a_blank(lab):
    return letter_of(lab.inference_questions, SEEN_IN_A_REQUEST) + " "


@from_material
def inference_in_full(lab):
    facts = inference_facts(lab.inference)
    return f"""
question = "Which operator keeps the GPU at work longest during a request?"
kind = "inference"
unit = "{facts["unit"]}"

[boundary]
read = {truth(facts["read"])}
transfer = true
forward = true
backward = false
update = false
model_load = false

[conditions]
shapes = ["{facts["shape"]}"]
batch = {facts["batch"]}
precision = "{facts["precision"]}"
mode = "eval"
compiled = {truth(facts["compiled"])}
data_source = "{facts["thing"]} of {facts["days"]} days of last month"
differs_from_full_load = "up to {facts["full_batch"]} {facts["thing"]} a request there; {facts["difference"]}"
"""


@from_material
def inference_about_the_gap(lab):
    facts = inference_facts(lab.inference)
    inside = {"read": facts["read"], "transfer": True, "forward": True}
    parts = ("read", "transfer", "forward", "backward", "update", "model_load")
    return "\n".join(
        [
            'kind = "inference"',
            'question = "Is the GPU idle before its first kernel of a request?"',
            f'unit = "{facts["unit"]}"',
            "",
            "[boundary]",
            *(f"{part} = {truth(inside.get(part, False))}" for part in parts),
            "",
            "[conditions]",
            f'precision = "{facts["precision"]}"',
            'mode = "eval"',
            f"compiled = {truth(facts['compiled'])}",
            f"batch = {facts['batch']}",
            f'shapes = ["{facts["shape"]}"]',
            f'data_source = "last month, {facts["days"]} days, {facts["thing"]}"',
            f'differs_from_full_load = "{facts["batch"]} and not {facts["full_batch"]}; {facts["difference"]}"',
        ]
    )


def side_by_side(lab):
    rows = lab.results
    pairs = [
        (one, other)
        for one in rows
        for other in rows
        if one < other and all(rows[one][key] == rows[other][key] for key in ("number", "begins", "batch"))
    ]
    return pairs[0]


@from_material
def two_letters(lab):
    return " ".join(side_by_side(lab))


@from_material
def two_letters_other_way_round(lab):
    one, other = side_by_side(lab)
    return f"{other} {one}"


@from_material
def two_letters_with_a_comma(lab):
    return ", ".join(side_by_side(lab))


def what_the_scene_hides(lab):
    scene = flat(lab.scene)
    if "such machines" in scene:
        words = "wait for each other"
    elif "waits for the reply" in scene:
        words = "dashboard's reply"
    else:
        words = "no picture was read before"
    return letter_of(lab.scene_questions, [words])


@from_material
def hidden_by_the_scene(lab):
    return what_the_scene_hides(lab)


@from_material
def hidden_by_the_scene_upper(lab):
    return what_the_scene_hides(lab).upper()


RIGHT = {
    "01/prediction": {"the steps begin elsewhere": "b", "the same in upper case": "B"},
    "01/training_question": {
        "something to be seen in four steps": question_of_the_training,
        "the same in upper case": question_of_the_training_upper,
    },
    "01/training": {
        "every key in the example's order": training_in_full,
        "another order, pictures' shape alone": training_about_the_copy,
    },
    "01/inference_question": {
        "something to be seen in four requests": question_of_the_service,
        "the same with a blank behind": question_of_the_service_with_a_blank,
    },
    "01/inference": {
        "every key in the example's order": inference_in_full,
        "made from a table of parts": inference_about_the_gap,
    },
    "01/comparable": {
        "same clock, beginning and batch": two_letters,
        "the other way round": two_letters_other_way_round,
        "with a comma": two_letters_with_a_comma,
    },
    "01/blind_spot": {
        "what the scene leaves out": hidden_by_the_scene,
        "the same in upper case": hidden_by_the_scene_upper,
    },
}
