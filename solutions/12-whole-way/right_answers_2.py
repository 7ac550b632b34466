"""A second set of right answers to lab 12, written from the lab's text alone."""

import contextlib
import functools
import re
import runpy
import tempfile
from pathlib import Path

import numpy as np
import torch

from stepprof_lab import scenario
from stepprof_lab.capturing import capture
from stepprof_lab.grading.answers import from_material
from stepprof_lab.validate.compare import compare

WAVES = "torch.outer(grid, grid).mul_(40).cos_().float().to(device)"

IN_THE_SOURCE = {
    "unpacks far more": "zlib.decompress(packed)",
    "never changes": f"            waves = {WAVES}",
    "tiny operations": "for one in x.view(-1, WIDTH)",
    "one operator": "[x.sort(",
}

REPAIRS = {
    "unpacks far more": [
        (
            "packed = zlib.compress(recordings.numpy().tobytes(), 1)",
            "packed = [zlib.compress(one.numpy().tobytes(), 1) for one in recordings]",
        ),
        ("zlib.decompress(packed)", "zlib.decompress(packed[number])"),
        (".view(BATCHES, BATCH, LENGTH)[number].float()", ".view(BATCH, LENGTH).float()"),
    ],
    "never changes": [
        (f"            waves = {WAVES}\n", ""),
        ("    model = torch.nn.Sequential(", f"    waves = {WAVES}\n    model = torch.nn.Sequential("),
    ],
    "tiny operations": [
        (
            "x = torch.stack([one / one.max() for one in x.view(-1, WIDTH)]).view(BATCH, LENGTH)",
            "rows = x.view(-1, WIDTH)\n            x = (rows / rows.amax(dim=1, keepdim=True)).view(BATCH, LENGTH)",
        ),
    ],
    "one operator": [
        ("x.sort(descending=True).values[:, :8]", "x.topk(8, dim=1).values"),
        ("x.sort().values[:, :8]", "x.topk(8, dim=1, largest=False).values"),
    ],
}

OTHER_REPAIRS = {
    "unpacks far more": [
        (
            "    done = {",
            (
                "    unpacked = torch.frombuffer(bytearray(zlib.decompress(packed)), dtype=torch.uint8)\n"
                "    unpacked = unpacked.view(BATCHES, BATCH, LENGTH)\n"
                "    done = {"
            ),
        ),
        ("            raw = zlib.decompress(packed)\n", ""),
        (
            "torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(BATCHES, BATCH, LENGTH)[number].float()",
            "unpacked[number].float()",
        ),
    ],
    "never changes": [
        ("    done = {", "    kept = {}\n    done = {"),
        (
            f"            waves = {WAVES}\n",
            (
                "            if 'waves' not in kept:\n"
                f"                kept['waves'] = {WAVES}\n"
                "            waves = kept['waves']\n"
            ),
        ),
    ],
    "tiny operations": [
        (
            "x = torch.stack([one / one.max() for one in x.view(-1, WIDTH)]).view(BATCH, LENGTH)",
            (
                "x = x.reshape(BATCH, LENGTH // WIDTH, WIDTH)\n"
                "            x = x / x.max(dim=2, keepdim=True)[0]\n"
                "            x = x.reshape(BATCH, LENGTH)"
            ),
        ),
    ],
    "one operator": [
        (
            "ends = torch.cat([x.sort(descending=True).values[:, :8], x.sort().values[:, :8]], dim=1)",
            (
                "top, _ = torch.topk(x, 8)\n"
                "            bottom, _ = torch.topk(-x, 8)\n"
                "            ends = torch.cat((top, -bottom), 1)"
            ),
        ),
    ],
}


def flat(text):
    return " ".join(text.split())


def found(pattern, text):
    return re.search(pattern, flat(text)).group(1)


def causes_in(source):
    return [words for words, line in IN_THE_SOURCE.items() if line in source]


def letter_of(lab, words):
    return next(letter for letter, text in lab.candidates.items() if words in text)


def edited(source, edits):
    for old, new in edits:
        assert old in source, old
        source = source.replace(old, new)
    return source


def made(source, name="improved_build"):
    """The file's build, under another name, from a file of its own."""
    path = Path(tempfile.mkdtemp()) / "improved.py"
    path.write_text(source.replace("def build(", f"def {name}("))
    return runpy.run_path(str(path))[name]


@functools.cache
def repaired(source, which, other):
    words = causes_in(source)[which]
    return made(edited(source, (OTHER_REPAIRS if other else REPAIRS)[words]))


def written_out(lab):
    story = lab.story
    batch, full = found(r"scene holds (\d+) recordings", story), found(r"training has (\d+) recordings", story)
    batches, length = found(r"has (\d+) batches", story), found(r"row of (\d+) readings", story)
    return f"""
question = "Which operator or label takes most of one step?"
kind = "training"
unit = "ms/step"

[boundary]
read = true
transfer = true
forward = true
backward = true
update = true
model_load = false

[conditions]
shapes = ["{batch}x{length}", "{batch}"]
batch = {batch}
precision = "float32"
mode = "train"
compiled = false
data_source = "{batches} random batches made when the loop is built"
loader_workers = 0
differs_from_full_load = "{batch} recordings a step instead of {full}, made up instead of read from a disk"
"""


def from_parts(lab):
    numbers = [int(n) for n in re.findall(r"\d+", lab.story.split("The scene holds")[1])]
    batch, length, batches, full = numbers[0], numbers[1], numbers[2], numbers[4]
    parts = {name: "true" for name in ("read", "transfer", "forward", "backward", "update")}
    parts["model_load"] = "false"
    return "\n".join(
        [
            "unit = 'ms/step'",
            "kind = 'training'",
            "question = 'Does reading the batch take a larger share of a step than the forward pass?'",
            "[conditions]",
            "mode = 'train'",
            "compiled = false",
            "precision = 'float32'",
            "loader_workers = 0",
            f"batch = {batch}",
            f"shapes = ['{batch}x{length}']",
            f"data_source = 'made up at random, {batches} batches in memory'",
            f"differs_from_full_load = 'The real training has {full} recordings a step and reads from a disk.'",
            "[boundary]",
            *(f"{name} = {value}" for name, value in parts.items()),
        ]
    )


def a_wait(lab):
    return written_out(lab).replace(
        "Which operator or label takes most of one step?",
        "How long does one step spend in computing things that are the same in every step?",
    )


@contextlib.contextmanager
def one_thread():
    """Torch on one thread, as in the lab."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def captured(lab, record, **options):
    trace = Path(tempfile.mkdtemp(prefix="stepprof-lab-12-")) / "as-it-is.json.gz"
    with one_thread():
        step = lab.build("cpu")
        for _ in capture(scenario.loads(record), trace=trace, device="cpu", **options):
            step.run()
    return trace


@from_material
def path_of_the_trace(lab):
    return captured(lab, written_out(lab))


@from_material
def path_as_text(lab):
    return str(captured(lab, from_parts(lab), begin=10))


@from_material
def record_made_by_the_question(lab):
    trace = Path(tempfile.mkdtemp()) / "question.json.gz"
    asked = scenario.loads(a_wait(lab))
    with one_thread(), capture(asked, trace=trace, device="cpu", record_shapes=True) as window:
        step = lab.build("cpu")
        for _ in window:
            step.run()
    return str(trace)


def letters(lab):
    return [letter_of(lab, words) for words in causes_in(lab.source)]


def validated(lab, which=0, other=False):
    return comparison(lab.source, lab.build, written_out(lab), which, other)


@functools.cache
def comparison(source, build, record, which, other):
    after = repaired(source, which, other)
    with one_thread():
        return compare(build, after, scenario.loads(record), device="cpu", replicates=5, budget_s=45)


def gain_with_its_interval(lab):
    validation = validated(lab)
    before = validation.arms[0].mean_ms
    low, high = validation.interval
    return {
        "validation": validation,
        "ms": before * (1 - validation.ratio),
        "interval_ms": [before * (1 - high), before * (1 - low)],
    }


def rounded_gain(lab):
    validation = validated(lab)
    before = validation.arms[0].mean_ms
    ends = sorted(round(before - before * end, 1) for end in validation.interval)
    return {"validation": validation, "ms": round(before - before * validation.ratio, 1), "interval_ms": tuple(ends)}


def gain_with_numpy(lab):
    validation = validated(lab, which=-1)
    ms = validation.arms[0].mean_ms * (1 - np.array([validation.ratio, *validation.interval]))
    return {"validation": validation, "ms": ms[0], "interval_ms": np.sort(ms[1:])}


def left_by_letter(lab):
    others = causes_in(lab.source)[1:]
    left = " ".join(letter_of(lab, words) for words in others) or "none"
    return {"build": repaired(lab.source, 0, False), "left": left}


def left_as_a_list(lab):
    return {"build": repaired(lab.source, -1, False), "left": letters(lab)[:-1]}


def left_in_upper_case(lab):
    answer = left_by_letter(lab)
    return {**answer, "left": answer["left"].upper() if answer["left"] != "none" else "none"}


RIGHT = {
    "12/prediction": {"the first": "a", "the last, upper case": "E"},
    "12/record": {
        "written out": from_material(written_out),
        "from parts in another order": from_material(from_parts),
        "another question": from_material(a_wait),
    },
    "12/capture": {
        "a path": path_of_the_trace,
        "a path as text, from step 10": path_as_text,
        "by with": record_made_by_the_question,
    },
    "12/causes": {
        "letters with a blank": from_material(lambda lab: " ".join(letters(lab))),
        "the other way round, with a comma": from_material(lambda lab: ", ".join(reversed(letters(lab)))),
        "a list": from_material(letters),
        "upper case together": from_material(lambda lab: "".join(sorted(letters(lab))).upper()),
    },
    "12/improved": {
        "the first cause": from_material(lambda lab: repaired(lab.source, 0, False)),
        "the last cause": from_material(lambda lab: repaired(lab.source, -1, False)),
        "the first cause in another way": from_material(lambda lab: repaired(lab.source, 0, True)),
        "the last cause in another way": from_material(lambda lab: repaired(lab.source, -1, True)),
    },
    "12/validation": {
        "the first cause": from_material(validated),
        "the last cause": from_material(lambda lab: validated(lab, which=-1)),
    },
    "12/gain": {
        "times the mean": from_material(gain_with_its_interval),
        "rounded, a tuple": from_material(rounded_gain),
        "numpy, the last cause": from_material(gain_with_numpy),
    },
    "12/left": {
        "a letter": from_material(left_by_letter),
        "a list, the other change": from_material(left_as_a_list),
        "upper case": from_material(left_in_upper_case),
    },
}
