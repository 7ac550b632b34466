"""Honest answers in different styles; each must earn every point."""

import atexit
import functools
import itertools
import re
import shutil
import tempfile
import time
from pathlib import Path

import msgspec
import numpy as np
import tomli_w
import torch

from stepprof_lab import scenario
from stepprof_lab.capturing import capture
from stepprof_lab.grading.answers import from_material
from stepprof_lab.validate import keep
from stepprof_lab.validate.compare import compare

_names = itertools.count()


@functools.cache
def place():
    """A directory that is there until the process ends."""
    made = Path(tempfile.mkdtemp(prefix="stepprof-lab-12-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def new(ending):
    """A path that nothing has yet."""
    return place() / f"{next(_names)}{ending}"


# ---- the record ----


def record_of(lab, **changes):
    """The record as a dict; ``boundary__read=False`` changes one thing in it."""
    story = " ".join(lab.story.split())
    batch, full = (re.search(pattern, story)[1] for pattern in (r"scene holds (\d+)", r"training has (\d+)"))
    record = {
        "question": "Which label of the step takes longest?",
        "kind": "training",
        "unit": "ms/step",
        "boundary": dict.fromkeys(("read", "transfer", "forward", "backward", "update"), True) | {"model_load": False},
        "conditions": {
            "shapes": [f"{batch}x1024", batch],
            "batch": int(batch),
            "precision": "float32",
            "mode": "train",
            "compiled": False,
            "data_source": "random numbers in memory",
            "differs_from_full_load": f"{full} recordings a step there, and a disk",
        },
    }
    for path, value in changes.items():
        *tables, key = path.split("__")
        where = functools.reduce(dict.__getitem__, tables, record)
        where.pop(key, None)
        if value is not None:
            where[key] = value
    return record


@from_material
def record_as_toml(lab):
    return tomli_w.dumps(record_of(lab))


@from_material
def record_as_dict(lab):
    return record_of(lab, question="Is one operator called very often in a step?", seed=4)


@from_material
def record_as_scenario(lab):
    return scenario.from_mapping(record_of(lab, question="Does computing wait for the next batch?"))


# ---- the capture ----


def captured(build, record, **options):
    """A capture of four steps of a loop."""
    torch.manual_seed(1)
    step = build("cpu")
    window = capture(scenario.from_mapping(record), trace=new(".json.gz"), device="cpu", **options)
    with torch_on_one_thread():
        for _ in window:
            step.run()
    return window.captured


class torch_on_one_thread:
    def __enter__(self):
        self.before = torch.get_num_threads()
        torch.set_num_threads(1)

    def __exit__(self, *_):
        torch.set_num_threads(self.before)


@from_material
def capture_as_it_is(lab):
    return captured(lab.build, record_of(lab))


@from_material
def capture_as_text(lab):
    return str(captured(lab.build, record_of(lab), record_shapes=True).trace)


@from_material
def capture_by_a_trainer(lab):
    """Plain JSON, from a loop of somebody else's that is told of each step."""
    step, trace = lab.build("cpu"), new(".json")
    with capture(scenario.from_mapping(record_of(lab)), trace=trace, device="cpu", begin=5) as window:
        while not window.done:
            step.run()
            window.step()
    return trace


# ---- the causes ----

SLOW = {
    "read": "raw = zlib.decompress(packed)\n",
    "constant": "            waves = torch.outer",
    "tiny": "one / one.max() for one in",
    "operator": "ends = torch.cat([x.sort",
}
WORDS = {
    "read": "unpacks far more",
    "constant": "never changes",
    "tiny": "one by one",
    "operator": "one operator",
    "sync": "read the loss",
}


def planted(lab):
    return [name for name, form in SLOW.items() if form in lab.source]


def letter_of(lab, name):
    return next(letter for letter, text in lab.candidates.items() if WORDS[name] in text)


def causes(form):
    @from_material
    def answer(lab):
        return form([letter_of(lab, name) for name in planted(lab)])

    return answer


# ---- the change ----

_TABLE = "waves = torch.outer(grid, grid).mul_(40).cos_().float().to(device)\n"
_GRID = "    grid = torch.linspace(0, 1, LENGTH, dtype=torch.float64)\n"
_READ = (
    "raw = zlib.decompress(packed)\n"
    "            x = torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(BATCHES, BATCH, LENGTH)[number].float()\n"
)
_TINY = "x = torch.stack([one / one.max() for one in x.view(-1, WIDTH)]).view(BATCH, LENGTH)\n"
_ENDS = "ends = torch.cat([x.sort(descending=True).values[:, :8], x.sort().values[:, :8]], dim=1)\n"

REPAIRS = {
    # before the loop, once
    "plain": {
        "read": [(_READ, "x = recordings[number].float()\n")],
        "constant": [("            " + _TABLE, ""), (_GRID, _GRID + "    " + _TABLE)],
        "tiny": [(_TINY, "x = x.view(-1, WIDTH)\n            x = (x / x.amax(1, keepdim=True)).view(BATCH, LENGTH)\n")],
        "operator": [(_ENDS, "ends = torch.cat([x.topk(8).values, x.topk(8, largest=False).values], dim=1)\n")],
    },
    # when it is asked for first
    "lazy": {
        "read": [
            (
                _READ,
                """if "all" not in done:
                done["all"] = torch.frombuffer(bytearray(zlib.decompress(packed)), dtype=torch.uint8)
            x = done["all"].view(-1, BATCH, LENGTH)[number].to(torch.float32)
""",
            )
        ],
        "constant": [
            (
                _TABLE,
                """if "waves" not in done:
                done["waves"] = torch.cos(torch.outer(grid, grid) * 40).float()
            waves = done["waves"]
""",
            )
        ],
        "tiny": [
            (
                _TINY,
                """wide = x.reshape(BATCH, LENGTH // WIDTH, WIDTH)
            x = wide.div(wide.max(dim=2, keepdim=True).values).flatten(1)
""",
            )
        ],
        "operator": [
            (
                _ENDS,
                "ends = torch.hstack([torch.topk(x, 8)[0], -torch.topk(-x, 8)[0]])\n",
            )
        ],
    },
    # in smaller pieces
    "pieces": {
        "read": [
            (
                "zlib.compress(recordings.numpy().tobytes(), 1)",
                "[zlib.compress(o.numpy().tobytes()) for o in recordings]",
            ),
            (
                _READ,
                """raw = zlib.decompress(packed[number])
            x = torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(BATCH, LENGTH).float()
""",
            ),
        ],
        "constant": [
            (
                "    def run():\n",
                "    waves = (torch.outer(grid, grid) * 40).cos().to(torch.float32)\n\n    def run():\n",
            ),
            ("            " + _TABLE, ""),
        ],
        "tiny": [
            (_TINY, "x = torch.cat([o.view(-1, WIDTH) / o.view(-1, WIDTH).amax(1, True) for o in x.split(8)])\n"),
            ("            ends =", "            x = x.view(BATCH, LENGTH)\n            ends ="),
        ],
        "operator": [
            (
                _ENDS,
                "ends = torch.cat([torch.topk(o, 8, largest=side).values for side in (True, False) for o in [x]], 1)\n",
            )
        ],
    },
}


def changed(lab, *names, style="plain"):
    """The loop's ``build`` with some causes repaired."""
    text = lab.source
    for name in names:
        for old, repaired in REPAIRS[style][name]:
            assert old in text
            text = text.replace(old, repaired)
    return built(text)


def built(text):
    made = {"__name__": "improved"}
    exec(text, made)  # noqa: S102 - a text of this file
    return made["build"]


def first(style):
    @from_material
    def answer(lab):
        return changed(lab, planted(lab)[0], style=style)

    return answer


def second(style):
    @from_material
    def answer(lab):
        return changed(lab, planted(lab)[1], style=style)

    return answer


# ---- the validation ----


@functools.cache
def _validated(source):
    lab = type("Lab", (), {"source": source})
    whole = {
        "question": "Which label of the step takes longest?",
        "kind": "training",
        "unit": "ms/step",
        "boundary": dict.fromkeys(("read", "transfer", "forward", "backward", "update"), True) | {"model_load": False},
    }
    after = changed(lab, planted(lab)[0])
    with torch_on_one_thread():
        return compare(
            built(source),
            after,
            scenario.from_mapping(whole),
            device="cpu",
            replicates=5,
            budget_s=12,
            clock=time.process_time,
        )


def validated(lab):
    """A validation of the first repair; measured once for all answers, by processor time.

    So the answers can be judged beside busy processes too.
    """
    return _validated(lab.source)


@from_material
def validation_as_it_is(lab):
    return validated(lab)


@from_material
def validation_as_path(lab):
    return keep.keep(validated(lab), new(".validation.json"))


@from_material
def validation_as_dict(lab):
    return msgspec.json.decode(msgspec.json.encode(validated(lab)))


# ---- the gain ----


def gain_of(validation):
    before = validation.arms[0].mean_ms
    return before * (1 - validation.ratio), [before * (1 - end) for end in reversed(validation.interval)]


@from_material
def gain_by_ratio(lab):
    ms, ends = gain_of(validated(lab))
    return {"validation": validated(lab), "ms": ms, "interval_ms": ends}


@from_material
def gain_rounded(lab):
    ms, ends = gain_of(validated(lab))
    return {
        "validation": str(validation_as_path(lab)),
        "ms": float(f"{ms:.3g}"),
        "interval_ms": tuple(round(one, 2) for one in ends[::-1]),
    }


@from_material
def gain_of_the_means(lab):
    """The difference of the arms' means, and an array for the interval."""
    before, after = validated(lab).arms
    ends = gain_of(validated(lab))[1]
    return {
        "validation": validated(lab),
        "ms": np.float64(before.mean_ms - after.mean_ms),
        "interval_ms": np.array(ends),
    }


def left_over(style, form):
    @from_material
    def answer(lab):
        one, other = planted(lab)
        return {"build": changed(lab, one, style=style), "left": form(letter_of(lab, other))}

    return answer


RIGHT = {
    "12/prediction": {"a": "a", "capital": "C", "with words": "e, I think"},
    "12/record": {"TOML": record_as_toml, "dict": record_as_dict, "Scenario": record_as_scenario},
    "12/capture": {"Captured": capture_as_it_is, "text": capture_as_text, "a trainer's": capture_by_a_trainer},
    "12/causes": {
        "text": causes(" ".join),
        "together": causes("".join),
        "list": causes(lambda letters: letters[::-1]),
        "set": causes(set),
        "words": causes(lambda letters: " and ".join(letters).upper()),
    },
    "12/improved": {
        "plain": first("plain"),
        "lazy": first("lazy"),
        "in pieces": first("pieces"),
        "the other one": second("plain"),
        "the other one, lazy": second("lazy"),
        "the other one, in pieces": second("pieces"),
    },
    "12/validation": {"Validation": validation_as_it_is, "path": validation_as_path, "dict": validation_as_dict},
    "12/gain": {"by the ratio": gain_by_ratio, "rounded": gain_rounded, "of the means": gain_of_the_means},
    "12/left": {
        "letter": left_over("plain", str),
        "capital": left_over("lazy", "({})".format),
        "list": left_over("pieces", lambda letter: [letter]),
    },
}
