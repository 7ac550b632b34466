"""A second set of wrong answers to lab 12, written from the lab's text alone."""

import contextlib
import functools
import re
import runpy
import statistics
import tempfile
import warnings
from pathlib import Path

import torch

from stepprof_lab import scenario
from stepprof_lab.capturing import capture
from stepprof_lab.grading.answers import from_material
from stepprof_lab.validate.compare import compare

WAVES = "torch.outer(grid, grid).mul_(40).cos_().float().to(device)"
WAVES_IN_STEP = f"            waves = {WAVES}\n"
PACKED = "packed = zlib.compress(recordings.numpy().tobytes(), 1)"
PACKED_EACH = "packed = [zlib.compress(one.numpy().tobytes(), 1) for one in recordings]"
UNPACKED = "raw = zlib.decompress(packed)\n"
NUMBERED = ".view(BATCHES, BATCH, LENGTH)[number].float()"
ONE_BY_ONE = "            x = torch.stack([one / one.max() for one in x.view(-1, WIDTH)]).view(BATCH, LENGTH)\n"
SORTED = "torch.cat([x.sort(descending=True).values[:, :8], x.sort().values[:, :8]], dim=1)"
MODEL = "    model = torch.nn.Sequential("
LOSS_READ = "0.1 * loss.item()"

IN_THE_SOURCE = {
    "unpacks far more": UNPACKED,
    "never changes": WAVES_IN_STEP,
    "tiny operations": ONE_BY_ONE,
    "one operator": SORTED,
}

REPAIRS = {
    "unpacks far more": [
        (PACKED, PACKED_EACH),
        (UNPACKED, "raw = zlib.decompress(packed[number])\n"),
        (NUMBERED, ".view(BATCH, LENGTH).float()"),
    ],
    "never changes": [(WAVES_IN_STEP, ""), (MODEL, f"    waves = {WAVES}\n{MODEL}")],
    "tiny operations": [
        (
            ONE_BY_ONE,
            (
                "            rows = x.view(-1, WIDTH)\n"
                "            x = (rows / rows.amax(dim=1, keepdim=True)).view(BATCH, LENGTH)\n"
            ),
        ),
    ],
    "one operator": [(SORTED, "torch.cat([x.topk(8).values, x.topk(8, largest=False).values], dim=1)")],
}

LOSSY_REPAIRS = {
    "unpacks far more": [
        (PACKED, "packed = zlib.compress(recordings[0].numpy().tobytes(), 1)"),
        (NUMBERED, ".view(BATCH, LENGTH).float()"),
    ],
    "never changes": [
        (WAVES_IN_STEP, ""),
        (MODEL, f"    grid = grid.float()\n    waves = {WAVES.replace('.float()', '')}\n{MODEL}"),
    ],
    "tiny operations": [(ONE_BY_ONE, "            x = x / x.max()\n")],
    "one operator": [(SORTED, "torch.cat([x.topk(8).values, x.topk(8).values.flip(1)], dim=1)")],
}

MOVED = {
    "unpacks far more": [
        ("            raw = zlib.decompress(packed)\n", ""),
        (
            '        with label("read_batch"):\n',
            '        raw = zlib.decompress(packed)\n        with label("read_batch"):\n',
        ),
    ],
    "never changes": [
        (WAVES_IN_STEP, ""),
        ('        with label("read_batch"):\n', f'        waves = {WAVES}\n        with label("read_batch"):\n'),
    ],
    "tiny operations": [
        (ONE_BY_ONE, ""),
        ('        with label("transfer"):\n', f'{ONE_BY_ONE}        with label("transfer"):\n'),
    ],
}

LOSS_KEPT_AS_A_TENSOR = [(LOSS_READ, "0.1 * loss.detach()")]


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


@functools.cache
def made(source, name="improved_build"):
    """The file's build, under another name, from a file of its own."""
    path = Path(tempfile.mkdtemp()) / "improved.py"
    path.write_text(source.replace("def build(", f"def {name}("))
    return runpy.run_path(str(path))[name]


@contextlib.contextmanager
def one_thread():
    """Torch on one thread, as in the lab."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def record(lab, parts=None, **changed):
    """The record of the loop with some of its entries changed, or left out where the change is None."""
    batch, full = found(r"scene holds (\d+) recordings", lab.story), found(r"training has (\d+) recordings", lab.story)
    entries = {
        "question": '"Which label takes most of one step?"',
        "kind": '"training"',
        "unit": '"ms/step"',
    }
    boundary = dict.fromkeys(("read", "transfer", "forward", "backward", "update"), True) | {"model_load": False}
    conditions = {
        "shapes": f'["{batch}x1024"]',
        "batch": batch,
        "precision": '"float32"',
        "mode": '"train"',
        "compiled": "false",
        "data_source": '"random batches in memory"',
        "loader_workers": 0,
        "differs_from_full_load": f'"{batch} recordings a step instead of {full}; not from a disk"',
    }

    def lines(table):
        table = {key: changed.get(key, value) for key, value in table.items()}
        return [f"{key} = {value}" for key, value in table.items() if value is not None]

    boundary = {key: str(value).lower() for key, value in (boundary | (parts or {})).items()}
    outputs = ["[outputs]", *changed["outputs"]] if "outputs" in changed else []
    return "\n".join([*lines(entries), "[boundary]", *lines(boundary), "[conditions]", *lines(conditions), *outputs])


def record_with(parts=None, **changed):
    return from_material(lambda lab: record(lab, parts, **changed))


def full_batch(lab):
    full = found(r"training has (\d+) recordings", lab.story)
    return record(lab, batch=full, shapes=f'["{full}x1024"]', differs_from_full_load='"only four steps"')


def new_trace(name="loop"):
    return Path(tempfile.mkdtemp(prefix="stepprof-lab-12-")) / f"{name}.json.gz"


def traced_by_hand(lab):
    trace = new_trace()
    with one_thread():
        step = lab.build("cpu")
        for _ in range(3):
            step.run()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            for _ in range(2):
                step.run()
    profile.export_chrome_trace(str(trace))
    return trace


def captured(build, asked):
    trace = new_trace()
    with one_thread():
        step = build("cpu")
        for _ in capture(scenario.loads(asked), trace=trace, device="cpu"):
            step.run()
    return trace


def a_friends_loop(lab):
    label = found(r"label of its own, (\w+)", lab.story)
    return captured(made(lab.source.replace(label, "forward_0d1e")), record(lab))


def a_loop_of_ones_own(lab):
    def build(device):
        model = torch.nn.Linear(1024, 8)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

        class Loop:
            def run(self):
                loss = model(torch.rand(56, 1024)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

        return Loop()

    return captured(build, record(lab))


def left_too_early(lab):
    trace = new_trace()
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        step = lab.build("cpu")
        with capture(scenario.loads(record(lab)), trace=trace, device="cpu", begin=4) as window:
            for _ in range(7):
                step.run()
                window.step()
    return next(trace.parent.glob("*.rejected.json.gz"))


def letters(lab, *more, but=0):
    """The letters of the causes, the first few left out, and of other candidates."""
    return " ".join(letter_of(lab, words) for words in [*causes_in(lab.source)[but:], *more])


def absent(lab):
    return next(
        words for words in ("tiny", "one operator", "unpacks") if not any(words in c for c in causes_in(lab.source))
    )


def one_repaired(lab):
    words = causes_in(lab.source)[0]
    return made(edited(lab.source, REPAIRS[words]))


def lossy(lab):
    return made(edited(lab.source, LOSSY_REPAIRS[causes_in(lab.source)[0]]))


def lossy_last(lab):
    return made(edited(lab.source, LOSSY_REPAIRS[causes_in(lab.source)[-1]]))


def all_repaired(lab):
    return made(edited(lab.source, [edit for words in causes_in(lab.source) for edit in REPAIRS[words]]))


def one_repaired_and_no_loss_read(lab):
    words = causes_in(lab.source)[0]
    return made(edited(lab.source, REPAIRS[words] + LOSS_KEPT_AS_A_TENSOR))


def no_loss_read(lab):
    return made(edited(lab.source, LOSS_KEPT_AS_A_TENSOR))


def gradients_to_none(lab):
    return made(edited(lab.source, [("optimizer.zero_grad()", "optimizer.zero_grad(set_to_none=True)")]))


def moved_to_another_place(lab):
    words = next(words for words in causes_in(lab.source) if words in MOVED)
    return made(edited(lab.source, MOVED[words]))


def everything_before(lab):
    """The features of all batches made once, when the loop is built."""
    source = edited(lab.source, [edit for words in causes_in(lab.source) for edit in REPAIRS[words]])
    head, run = source.split("    def run():\n")
    lines = run.splitlines(keepends=True)
    first = next(i for i, line in enumerate(lines) if 'label("read_batch")' in line)
    last = next(i for i, line in enumerate(lines) if "loss = torch.nn" in line)
    making = "".join(lines[first:last])
    build = f"{head}    kept = []\n    for number in range(BATCHES):\n{making}        kept.append((features, kind))\n"
    label = found(r"label of its own, (\w+)", lab.story)
    step = [
        *lines[:first],
        f'        with label("{label}", role="forward"):\n',
        "            features, kind = kept[number]\n",
    ]
    return made(build + "\n    def run():\n" + "".join(step + lines[last:]))


@functools.cache
def comparison(before, after, asked, replicates, budget_s):
    with one_thread():
        return compare(before, after, scenario.loads(asked), device="cpu", replicates=replicates, budget_s=budget_s)


def validated(lab, after=one_repaired, asked=record, replicates=5, budget_s=45):
    return comparison(lab.build, after(lab), asked(lab), replicates, budget_s)


def tolerant(lab):
    return record(lab, outputs=["relative_tolerance = 0.5", "absolute_tolerance = 1.0", 'reason = "losses are noisy"'])


def compute_only(lab):
    return record(lab, {"read": False})


def gain(change):
    """The gain of a validation, with something in it changed."""

    def answer(lab):
        validation = validated(lab)
        before = validation.arms[0].mean_ms
        low, high = (before * (1 - end) for end in reversed(validation.interval))
        right = {"validation": validation, "ms": before * (1 - validation.ratio), "interval_ms": [low, high]}
        return right | change(validation)

    return from_material(answer)


def in_percent(validation):
    low, high = validation.interval
    return {"ms": 100 * (1 - validation.ratio), "interval_ms": [100 * (1 - high), 100 * (1 - low)]}


def the_ratio_itself(validation):
    return {"ms": validation.ratio, "interval_ms": list(validation.interval)}


def the_step_after(validation):
    before = validation.arms[0].mean_ms
    return {"ms": validation.arms[1].mean_ms, "interval_ms": [before * end for end in validation.interval]}


def over_all_steps(validation):
    before, after = validation.arms
    low, high = validation.interval
    total = before.mean_ms * before.steps
    return {
        "ms": total - after.mean_ms * after.steps,
        "interval_ms": [total * (1 - high), total * (1 - low)],
    }


def no_interval(validation):
    return {"interval_ms": [None, None]}


def twice_the_gain(validation):
    ms = validation.arms[0].mean_ms * (1 - validation.ratio)
    return {"interval_ms": [ms, ms]}


def smallest_and_largest(validation):
    gains = [validation.arms[0].mean_ms * (1 - ratio) for ratio in validation.replicate_ratios]
    return {"interval_ms": [min(gains), max(gains)]}


def four_deviations(validation):
    gains = [validation.arms[0].mean_ms * (1 - ratio) for ratio in validation.replicate_ratios]
    ms, spread = validation.arms[0].mean_ms * (1 - validation.ratio), statistics.stdev(gains)
    return {"interval_ms": [ms - 4 * spread, ms + 4 * spread]}


def still_all(lab):
    return {"build": one_repaired(lab), "left": letters(lab)}


def the_repaired_one(lab):
    return {"build": one_repaired(lab), "left": letter_of(lab, causes_in(lab.source)[0])}


def none_left(lab):
    return {"build": one_repaired(lab), "left": "none"}


def the_loss_instead(lab):
    return {"build": one_repaired(lab), "left": letter_of(lab, "read the loss")}


WRONG = {
    "12/record": {
        "make it faster": ("wish-as-question", record_with(question='"Make a step of this loop twice as fast"')),
        "how does it do": ("vague-question", record_with(question='"What is going on in this loop?"')),
        "two in one": (
            "several-questions",
            record_with(question='"Which operator takes most of a step? And how long does reading the batch take?"'),
        ),
        "no training": ("wrong-kind", record_with(kind='"inference"')),
        "build counts": ("model-load-in-request", record_with({"model_load": True})),
        "until the gradients": ("update-left-out", record_with({"update": False})),
        "batch is there already": ("reading-left-out", record_with({"read": False})),
        "no copy on the CPU": ("part-left-out", record_with({"transfer": False})),
        "a rate": ("unit-cannot-answer", record_with(unit='"samples/s"')),
        "the real batch": ("scene-as-full-load", from_material(full_batch)),
        "no difference stated": ("scene-as-full-load", record_with(differs_from_full_load=None)),
        "another precision": ("conditions-contradict", record_with(precision='"float64"')),
        "compiled": ("conditions-contradict", record_with(compiled="true")),
        "neither shape nor mode": ("conditions-not-stated", record_with(shapes=None, mode=None)),
    },
    "12/capture": {
        "by hand": ("trace-without-question", from_material(traced_by_hand)),
        "a friend's loop": ("another-loop", from_material(a_friends_loop)),
        "a loop of one's own": ("another-loop", from_material(a_loop_of_ones_own)),
        "left too early": ("rejected-capture-used", from_material(left_too_early)),
    },
    "12/causes": {
        "reading the loss": ("sync-without-queue", from_material(lambda lab: letters(lab, "read the loss"))),
        "only reading the loss": ("sync-without-queue", from_material(lambda lab: letter_of(lab, "read the loss"))),
        "the first alone": (
            "cause-missed",
            from_material(lambda lab: letter_of(lab, causes_in(lab.source)[0])),
        ),
        "the last alone": (
            "cause-missed",
            from_material(lambda lab: letter_of(lab, causes_in(lab.source)[-1])),
        ),
        "one that is not there": ("cause-not-there", from_material(lambda lab: letters(lab, absent(lab)))),
        "one for the other": ("cause-not-there", from_material(lambda lab: letters(lab, absent(lab), but=1))),
    },
    "12/improved": {
        "other losses, the last cause": ("outputs-not-compared", from_material(lossy_last)),
        "all repaired": ("two-things-changed", from_material(all_repaired)),
        "also the loss": ("two-things-changed", from_material(one_repaired_and_no_loss_read)),
        "only the loss": ("another-place-changed", from_material(no_loss_read)),
        "gradients to none": ("another-place-changed", from_material(gradients_to_none)),
        "moved": ("repaired-but-not-faster", from_material(moved_to_another_place)),
    },
    "12/validation": {
        "the trace": (
            "inside-the-profiler-quoted",
            from_material(lambda lab: str(captured(one_repaired(lab), record(lab)))),
        ),
        "two runs": ("one-run-each", from_material(lambda lab: validated(lab, replicates=2, budget_s=15))),
        "without the reading": ("part-for-whole", from_material(lambda lab: validated(lab, asked=compute_only))),
        "other losses": ("outputs-not-compared", from_material(lambda lab: validated(lab, after=lossy))),
        "a wide tolerance": ("outputs-not-compared", from_material(lambda lab: validated(lab, lossy, tolerant))),
        "only the loss": ("gain-not-shown", from_material(lambda lab: validated(lab, after=no_loss_read))),
        "made before": ("another-loop", from_material(lambda lab: validated(lab, after=everything_before))),
    },
    "12/gain": {
        "percent": ("percent-for-ms", gain(in_percent)),
        "the ratio": ("percent-for-ms", gain(the_ratio_itself)),
        "the step after": ("step-for-gain", gain(the_step_after)),
        "over all steps": ("sum-for-elapsed", gain(over_all_steps)),
        "no interval": ("spread-not-reported", gain(no_interval)),
        "the gain twice": ("spread-not-reported", gain(twice_the_gain)),
        "smallest and largest": ("another-spread", gain(smallest_and_largest)),
        "four deviations": ("another-spread", gain(four_deviations)),
    },
    "12/left": {
        "all as before": ("repaired-still-named", from_material(still_all)),
        "the repaired one": ("repaired-still-named", from_material(the_repaired_one)),
        "nothing": ("nothing-left", from_material(none_left)),
        "the loss": ("sync-without-queue", from_material(the_loss_instead)),
    },
}
