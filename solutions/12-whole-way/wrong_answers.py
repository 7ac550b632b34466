"""Wrong answers, each with the misconception that the judge must name."""

import runpy
import shutil
from pathlib import Path

import msgspec
import tomli_w
import torch

from stepprof_lab.grading.answers import from_material
from stepprof_lab.labels import Step
from stepprof_lab.validate.statistics import PAIRS

RIGHT_ANSWERS = runpy.run_path(str(Path(__file__).with_name("right_answers.py")))
record_of, captured, new = (RIGHT_ANSWERS[name] for name in ("record_of", "captured", "new"))
planted, letter_of, WORDS = (RIGHT_ANSWERS[name] for name in ("planted", "letter_of", "WORDS"))
changed, built, validated = (RIGHT_ANSWERS[name] for name in ("changed", "built", "validated"))
gain_of = RIGHT_ANSWERS["gain_of"]


def record(**values):
    @from_material
    def answer(lab):
        return tomli_w.dumps(record_of(lab, **values))

    return answer


# ---- the capture ----


@from_material
def capture_of_another_loop(lab):
    other = lab.source.replace('label("forward_', 'label("forward_of_mine_')
    return captured(built(other), record_of(lab))


@from_material
def trace_without_record(lab):
    bare = new(".json.gz")
    shutil.copy(captured(lab.build, record_of(lab)).trace, bare)
    return bare


@from_material
def trace_of_torch_alone(lab):
    step, path = lab.build("cpu"), new(".json")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        step.run()
    profiler.export_chrome_trace(str(path))
    return path


@from_material
def capture_for_a_wish(lab):
    return captured(lab.build, record_of(lab, question="Make the loop faster"))


@from_material
def capture_without_reading(lab):
    return captured(lab.build, record_of(lab, boundary__read=False))


# ---- the causes ----


def choosing(pick):
    @from_material
    def answer(lab):
        return [letter_of(lab, name) for name in pick(planted(lab))]

    return answer


def harmless(found):
    return [name for name in WORDS if name not in found and name not in {"sync", "constant"}]


# ---- the change ----


@from_material
def both_repaired(lab):
    return changed(lab, *planted(lab))


@from_material
def one_repaired_and_threads(lab):
    after = changed(lab, planted(lab)[0])

    def build(device):
        torch.set_num_threads(torch.get_num_threads() + 1)
        return after(device)

    return build


def source_with(*pairs):
    """The loop with something replaced, and one cause repaired as well."""

    @from_material
    def answer(lab):
        text = lab.source
        for old, other in pairs:
            assert old in text
            text = text.replace(old, other)
        return changed(type("Lab", (), {"source": text}), planted(lab)[0])

    return answer


def original_with(*pairs):
    @from_material
    def answer(lab):
        text = lab.source
        for old, other in pairs:
            assert old in text
            text = text.replace(old, other)
        return built(text)

    return answer


@from_material
def no_turns(lab):
    """Everything is computed once and handed out again."""

    def build(device):
        step = lab.build(device)
        found = step.run()
        return Step(run=lambda: found, state=step.state, samples=step.samples)

    return build


@from_material
def moved_not_saved(lab):
    """One cause is gone from its place, and what came instead takes as long."""
    after = changed(lab, planted(lab)[0])

    def build(device):
        step = after(device)
        square = torch.rand(700, 700)

        def run():
            for _ in range(3):
                square @ square
            return step.run()

        return Step(run=run, state=step.state, samples=step.samples)

    return build


# ---- the validation ----


def validation(make):
    @from_material
    def answer(lab):
        return make(validated(lab))

    return answer


def replaced(**values):
    return validation(lambda found: msgspec.structs.replace(found, **values))


def swapped(found):
    """The arms the other way round: the verdict that its blocks give is slower."""
    other = {"before": "after", "after": "before"}
    blocks = [msgspec.structs.replace(one, arm=other[one.arm]) for one in found.blocks]
    return msgspec.structs.replace(found, blocks=blocks, verdict="slower")


def of_two_replicates(found):
    return msgspec.structs.replace(found, blocks=[one for one in found.blocks if one.replicate < 2])


def tenth(found):
    """After's steps a tenth of what was measured."""
    blocks = [
        msgspec.structs.replace(one, steps_ms=[ms / 10 for ms in one.steps_ms]) if one.arm == "after" else one
        for one in found.blocks
    ]
    return msgspec.structs.replace(found, blocks=blocks)


def wide(found):
    outputs = msgspec.structs.replace(found.scenario.outputs, relative_tolerance=0.5, reason="they are near enough")
    return msgspec.structs.replace(found, scenario=msgspec.structs.replace(found.scenario, outputs=outputs))


@from_material
def the_trace_itself(lab):
    return captured(changed(lab, planted(lab)[0]), record_of(lab))


@from_material
def path_of_the_trace(lab):
    return captured(changed(lab, planted(lab)[0]), record_of(lab)).trace


# ---- the gain ----


def gain(make, ends=None):
    @from_material
    def answer(lab):
        found = validated(lab)
        interval = gain_of(found)[1] if ends is None else ends(found)
        return {"validation": found, "ms": make(found), "interval_ms": interval}

    return answer


def gain_ms(found):
    return gain_of(found)[0]


def all_steps(found):
    return sum(sum(one.steps_ms) * (1 if one.arm == "before" else -1) for one in found.blocks)


@from_material
def gain_from_two_numbers(lab):
    return {"validation": [21.0, 14.0], "ms": 7.0, "interval_ms": [6.5, 7.5]}


@from_material
def gain_from_the_trace(lab):
    return {"validation": the_trace_itself(lab), "ms": 7.0, "interval_ms": [6.5, 7.5]}


# ---- what is left ----


def left(pick):
    @from_material
    def answer(lab):
        one, other = planted(lab)
        names = pick(one, other, harmless([one, other]))
        return {"build": changed(lab, one), "left": " ".join(letter_of(lab, name) for name in names) or "none"}

    return answer


WRONG = {
    "12/record": {
        "a wish": ("wish-as-question", record(question="Make the loop faster")),
        "why slow": ("vague-question", record(question="Why is the loop slow?")),
        "two questions": ("several-questions", record(question="Is reading slow? Is the update slow?")),
        "no reading": ("reading-left-out", record(boundary__read=False)),
        "no update": ("update-left-out", record(boundary__update=False)),
        "no transfer": ("part-left-out", record(boundary__transfer=False)),
        "the model is built in it": ("model-load-in-request", record(boundary__model_load=True)),
        "samples": ("unit-cannot-answer", record(unit="samples/s")),
        "no difference": ("scene-as-full-load", record(conditions__differs_from_full_load="none")),
        "another batch": ("conditions-contradict", record(conditions__batch=17)),
        "no precision": ("conditions-not-stated", record(conditions__precision=None)),
        "an inference": ("wrong-kind", record(kind="inference")),
    },
    "12/capture": {
        "another loop": ("another-loop", capture_of_another_loop),
        "no record": ("trace-without-question", trace_without_record),
        "torch alone": ("trace-without-question", trace_of_torch_alone),
        "a wish": ("wish-as-question", capture_for_a_wish),
        "no reading": ("reading-left-out", capture_without_reading),
    },
    "12/causes": {
        "one of two": ("cause-missed", choosing(lambda found: found[:1])),
        "the other of two": ("cause-missed", choosing(lambda found: found[1:])),
        "with the loss": ("sync-without-queue", choosing(lambda found: [*found, "sync"])),
        "the loss alone": ("sync-without-queue", choosing(lambda _: ["sync"])),
        "one and one that is not there": (
            "cause-not-there",
            choosing(lambda found: [found[0], harmless(found)[0]]),
        ),
        "one that is not there": ("cause-not-there", choosing(lambda found: harmless(found)[:1])),
    },
    "12/improved": {
        "both": ("two-things-changed", both_repaired),
        "one and the threads": ("two-things-changed", one_repaired_and_threads),
        "no update": ("outputs-not-compared", source_with(("optimizer.step()", "pass"))),
        "half of the batch": ("outputs-not-compared", source_with(("x @ waves, ends]", "x @ waves, ends * 0]"))),
        "another rate": ("outputs-not-compared", original_with(("lr=0.01", "lr=0.02"))),
        "computed once": ("outputs-not-compared", no_turns),
        "no loss read": ("another-place-changed", original_with(("loss.item()", "0.0"))),
        "nothing": ("another-place-changed", original_with()),
        "moved": ("repaired-but-not-faster", moved_not_saved),
    },
    "12/validation": {
        "a trace": ("inside-the-profiler-quoted", the_trace_itself),
        "a trace's path": ("inside-the-profiler-quoted", path_of_the_trace),
        "two numbers": ("one-run-each", (21.4, 14.9)),
        "two numbers by name": ("one-run-each", {"before": 21.4, "after": 14.9}),
        "two replicates": ("one-run-each", validation(of_two_replicates)),
        "not comparable": ("outputs-not-compared", replaced(verdict="not comparable", blocks=[], ratio=None)),
        "a wide tolerance": ("outputs-not-compared", validation(wide)),
        "a part": ("part-for-whole", replaced(design=PAIRS)),
        "slower": ("gain-not-shown", validation(swapped)),
        "a tenth": ("another-loop", validation(tenth)),
    },
    "12/gain": {
        "percent": ("percent-for-ms", gain(lambda found: 100 * (1 - found.ratio))),
        "the ratio": ("percent-for-ms", gain(lambda found: found.ratio)),
        "the step after": ("step-for-gain", gain(lambda found: found.arms[1].mean_ms)),
        "all steps": ("sum-for-elapsed", gain(all_steps)),
        "no interval": ("spread-not-reported", gain(gain_ms, lambda _: [None, None])),
        "the gain twice": ("spread-not-reported", gain(gain_ms, lambda found: [gain_ms(found)] * 2)),
        "the ratio's interval": ("another-spread", gain(gain_ms, lambda found: list(found.interval))),
        "two numbers": ("one-run-each", gain_from_two_numbers),
        "a trace": ("inside-the-profiler-quoted", gain_from_the_trace),
    },
    "12/left": {
        "what was repaired": ("repaired-still-named", left(lambda one, other, _: [one])),
        "both": ("repaired-still-named", left(lambda one, other, _: [one, other])),
        "nothing": ("nothing-left", left(lambda one, other, _: [])),
        "not there": ("cause-not-there", left(lambda one, other, others: others[:1])),
        "the loss": ("sync-without-queue", left(lambda one, other, _: ["sync"])),
    },
}
