"""Honest answers in different styles; each must earn every point. They read the stories as a learner does."""

import re

import tomli_w

from stepprof_lab import Boundary, Scenario
from stepprof_lab.grading.answers import from_material
from stepprof_lab.scenario import Conditions


def training_facts(lab):
    story = " ".join(lab.training.split())
    batch, side = int(re.search(r"(\d+) pictures a step, three", story)[1]), int(re.search(r"(\d+) by", story)[1])
    return {
        "batch": batch,
        "side": side,
        "full_batch": int(re.search(r"training uses (\d+)", story)[1]),
        "workers": int(re.search(r"(\d+) worker", story)[1]),
        "precision": re.search(r"computes in (\w+)", story)[1],
        "compiled": "not compiled" not in story,
        "unit": "samples/s" if "another machine" in story else "ms/step",
    }


def training_record(lab, **changed):
    """As a mapping, the way TOML holds it; `changed` by dotted key."""
    facts = training_facts(lab)
    batch, side = facts["batch"], facts["side"]
    record = {
        "question": "Does the GPU wait for the data loader in these steps?",
        "kind": "training",
        "unit": facts["unit"],
        "boundary": {
            "read": True,
            "transfer": True,
            "forward": True,
            "backward": True,
            "update": True,
            "model_load": False,
        },
        "conditions": {
            "shapes": [f"{batch}x3x{side}x{side}", f"{batch}"],
            "batch": batch,
            "precision": facts["precision"],
            "mode": "train",
            "compiled": facts["compiled"],
            "data_source": "image files on the local disk",
            "loader_workers": facts["workers"],
            "differs_from_full_load": "few pictures and a smaller batch than in the real training",
        },
    }
    return put(record, changed)


def inference_facts(lab):
    story = " ".join(lab.inference.split())
    batch = int(re.search(r"scene has (\d+)", story)[1])
    side, tokens = re.search(r"(\d+) by", story), re.search(r"(\d+) tokens", story)
    return {
        "batch": batch,
        "sample": [3, int(side[1]), int(side[1])] if side else [int(tokens[1])],
        "full_batch": int(re.search(r"up to (\d+)", story)[1]),
        "precision": re.search(r"computes in (\w+)", story)[1],
        "compiled": "not compiled" not in story,
        "read": "names of" in story,
        "unit": "samples/s" if "by morning" in story else "ms/request",
    }


def inference_record(lab, **changed):
    facts = inference_facts(lab)
    record = {
        "question": "How long does the transfer to the GPU take within one request?",
        "kind": "inference",
        "unit": facts["unit"],
        "boundary": {
            "read": facts["read"],
            "transfer": True,
            "forward": True,
            "backward": False,
            "update": False,
            "model_load": False,
        },
        "conditions": {
            "shapes": ["x".join(map(str, [facts["batch"], *facts["sample"]]))],
            "batch": facts["batch"],
            "precision": facts["precision"],
            "mode": "eval",
            "compiled": facts["compiled"],
            "data_source": "kept from last month",
            "differs_from_full_load": "nothing else is running, and requests are smaller than they can be",
        },
    }
    return put(record, changed)


def put(record, changed):
    for key, value in changed.items():
        table, _, name = key.rpartition("__")
        where = record[table] if table else record
        if value is None:
            del where[name]
        else:
            where[name] = value
    return record


@from_material
def training_as_toml(lab):
    return tomli_w.dumps(training_record(lab))


@from_material
def training_as_scenario(lab):
    facts = training_facts(lab)
    batch, side = facts["batch"], facts["side"]
    return Scenario(
        question="What share of a step passes in reading the batch",
        kind="training",
        unit=facts["unit"],
        boundary=Boundary(read=True, transfer=True, forward=True, backward=True, update=True, model_load=False),
        conditions=Conditions(
            shapes=[f"images [{batch}, {side}, {side}, 3] uint8", f"classes [{batch}] int64"],
            batch=batch,
            precision=f"torch.{facts['precision']}",
            mode="train",
            compiled=facts["compiled"],
            data_source="local disk",
            loader_workers=facts["workers"],
            differs_from_full_load=f"full: {facts['full_batch']} per step",
        ),
    )


@from_material
def training_as_dict(lab):
    return training_record(
        lab,
        question="I want to know whether one operator takes most of the backward pass",
        conditions__precision={"float32": "fp32", "bfloat16": "bf16", "float16": "FP16 (half)"}[
            training_facts(lab)["precision"]
        ],
        conditions__differs_from_full_load="Not all pictures; the same as the full training in all but that",
    )


@from_material
def training_by_hand(lab):
    facts = training_facts(lab)
    side = facts["side"]
    return f"""# our training
question = 'Is a constant tensor copied to the GPU anew in each step?'
kind="training"
unit="{facts["unit"]}"
boundary = {{read=true, transfer=true, forward=true, backward=true, update=true, model_load=false}}
[conditions]
batch = {facts["batch"]}
shapes = ["3 \u00d7 {side} \u00d7 {side}"]
compiled = {str(facts["compiled"]).lower()}
mode = "train"
precision = "{facts["precision"]} throughout"
data_source = "files on disk, read by workers"
loader_workers = {facts["workers"]}
differs_from_full_load = '''
- the real one takes {facts["full_batch"]} pictures a step
- it has millions of pictures
'''
"""


@from_material
def inference_as_toml(lab):
    return tomli_w.dumps(inference_record(lab))


@from_material
def inference_as_scenario(lab):
    facts = inference_facts(lab)
    return Scenario(
        question="Which kernel of a request works longest?",
        kind="inference",
        unit=facts["unit"],
        boundary=Boundary(
            read=facts["read"], transfer=True, forward=True, backward=False, update=False, model_load=False
        ),
        conditions=Conditions(
            shapes=[str(tuple([facts["batch"], *facts["sample"]]))],
            batch=facts["batch"],
            precision=facts["precision"].upper(),
            mode="eval",
            compiled=facts["compiled"],
            data_source="production traffic, replayed",
            loader_workers=0,
            differs_from_full_load=f"up to {facts['full_batch']} in one request in real operation",
        ),
    )


@from_material
def inference_as_dict(lab):
    return inference_record(lab, question="Find out how many kernels a request launches", seed=3)


def choosing(name, *parts):
    def choose(form):
        @from_material
        def answer(lab):
            options = getattr(lab, name)
            return form(next(one for one, text in options.items() if any(part in text for part in parts)))

        return answer

    return {
        "letter": choose(str),
        "capital": choose(str.upper),
        "with a reason": choose("{}: because it can be seen".format),
    }


def pair_of(lab):
    return [
        one
        for one, row in lab.results.items()
        if any(
            other is not row and all(other[key] == row[key] for key in ("number", "begins", "batch"))
            for other in lab.results.values()
        )
    ]


@from_material
def pair_as_text(lab):
    return " ".join(pair_of(lab))


@from_material
def pair_as_list(lab):
    return pair_of(lab)[::-1]


@from_material
def pair_in_words(lab):
    return " and ".join(pair_of(lab)).upper()


@from_material
def pair_together(lab):
    return "".join(pair_of(lab))


def _blind(form):
    @from_material
    def answer(lab):
        scene = " ".join(lab.scene.split())
        signs = {"read often": "read before", "such machines": "each other", "the scene does not": "dashboard"}
        part = next(part for sign, part in signs.items() if sign in scene)
        return form(next(one for one, text in lab.scene_questions.items() if part in text))

    return answer


RIGHT = {
    "01/prediction": {"b": "b", "any": "a", "with words": "d, I think"},
    "01/training_question": choosing("training_questions", "next batch", "never changes", "one small operator"),
    "01/training": {
        "TOML": training_as_toml,
        "Scenario": training_as_scenario,
        "dict": training_as_dict,
        "by hand": training_by_hand,
    },
    "01/inference_question": choosing(
        "inference_questions", "copied to the GPU", "works longest", "one request launch"
    ),
    "01/inference": {"TOML": inference_as_toml, "Scenario": inference_as_scenario, "dict": inference_as_dict},
    "01/comparable": {"text": pair_as_text, "list": pair_as_list, "words": pair_in_words, "together": pair_together},
    "01/blind_spot": {"letter": _blind(str), "bracket": _blind("({})".format), "capital": _blind(str.upper)},
}
