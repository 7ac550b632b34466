"""Wrong answers, each with the misconception that the judge must name."""

import re
import time

import torch

from stepprof_lab.grading.answers import from_material

STEPS = 4
DOMINANT, BUSIEST, WRAPPER = "aten::cumsum", "aten::mul", "aten::cumulative_trapezoid"


# ---- the table ----


def found(change):
    """The right answer with what `change` makes of it and of each operator's (calls, self, total) in the window."""

    @from_material
    def answer(lab):
        rows = {
            name: (int(calls), float(own), float(total))
            for name, calls, own, total in re.findall(
                r"^ +(aten::\w+) +(\d+) +([\d.]+) +([\d.]+)", lab.report, re.MULTILINE
            )
        }
        calls, own, _ = rows[DOMINANT]
        right = {
            "most_called": BUSIEST,
            "dominant": DOMINANT,
            "calls": calls / STEPS,
            "self_ms": own / STEPS,
            "one_call_ms": own / calls,
        }
        return {**right, **change(right, rows)}

    return answer


def of_operator(name, what=1):
    """Every number of another operator, by its self time or its time with children."""

    def change(_, rows):
        calls, times = rows[name][0], rows[name]
        return {
            "dominant": name,
            "calls": calls / STEPS,
            "self_ms": times[what] / STEPS,
            "one_call_ms": times[what] / calls,
        }

    return change


def of_window(right, _):
    return {"calls": STEPS * right["calls"], "self_ms": STEPS * right["self_ms"]}


@from_material
def share(lab):
    """The finding's percentage for the time."""
    right = found(lambda right, rows: {})(lab)
    return {**right, "self_ms": float(re.search(r"\(([\d.]+) %\)", lab.report)[1])}


# ---- ways and rows ----


def sorted_lines(attribute, right, **by_part):
    """Each line by a part of its text (with _ for a space); what is not named is judged by `right`."""

    @from_material
    def answer(lab):
        words = {}
        for letter, line in getattr(lab, attribute).items():
            named = [word for part, word in by_part.items() if part.replace("_", " ") in line]
            words[letter] = named[0] if named else right(lab, line)
        return words

    return answer


def _isolates(lab, line):
    shape, strides = re.search(r"shape (\[.*?\]), float32, strides (\(.*?\))", lab.record).groups()
    own_inputs = "very tensors" in line or (shape in line and strides in line)
    return "isolates" if own_inputs and "without a clock" in line else "not yet"


def _is_explained(_, line):
    return "explained" if line.count("own inputs:") and "first call" not in line and _product(line) else _two(line)


def _product(line):
    one = re.search(r"([\d.]+) \([\d.]+ to [\d.]+\) ms a call", line)
    calls, own = re.search(r"(\d+) calls, self time ([\d.]+)", line).groups()
    return bool(one) and int(calls) * float(one[1]) >= 0.8 * float(own)


def _two(line):
    return "explained" if "two kinds" in line else "not explained"


def ways(**by_part):
    return sorted_lines("ways", _isolates, **by_part)


def rows(**by_part):
    return sorted_lines("rows", _is_explained, **by_part)


@from_material
def ways_by_shape(lab):
    shape = re.search(r"shape (\[.*?\])", lab.record)[1]
    return {letter: "isolates" if shape in line or "very" in line else "not yet" for letter, line in lab.ways.items()}


@from_material
def rows_by_one_call(lab):
    return dict.fromkeys(lab.rows, "not explained")


@from_material
def rows_by_share(lab):
    return dict.fromkeys(lab.rows, "explained")


# ---- the live operator ----


def _made(one, device, **other):
    one = {**one, **other}
    return torch.empty_strided(
        one["shape"], one["strides"], dtype=getattr(torch, one["dtype"]), device=device.torch_device
    ).normal_()


def _timed(operator, make, device, runs=8, warm=1):
    """Milliseconds of some calls in a row."""
    x = make()
    times = []
    for turn in range(warm + runs):
        device.synchronize()
        begin = time.perf_counter()
        operator(x)
        device.synchronize()
        if turn >= warm:
            times.append(1e3 * (time.perf_counter() - begin))
    return times


def summed(take, make=_made, **how):
    """What `take` makes of (calls, times), added over the recorded inputs."""

    def isolated_ms(operator, recorded, device):
        return sum(
            take(one["calls"], _timed(operator, lambda one=one: make(one, device), device, **how)) for one in recorded
        )

    return isolated_ms


def fastest(calls, times):
    return calls * min(times)


def mean(calls, times):
    return calls * sum(times) / len(times)


def in_usual_layout(one, device):
    return _made(one, device, strides=[one["shape"][1], 1])


def by_randn(one, device):
    return torch.randn(one["shape"], device=device.torch_device)


def square(one, device):
    side = round((one["shape"][0] * one["shape"][1]) ** 0.5)
    return _made(one, device, shape=[side, side], strides=[side, 1])


def transposed(one, device):
    return _made(one, device, shape=one["shape"][::-1], strides=one["strides"][::-1])


def always_float32(one, device):
    return _made(one, device, dtype="float32")


def most_frequent_alone(operator, recorded, device):
    one = max(recorded, key=lambda entry: entry["calls"])
    return mean(sum(entry["calls"] for entry in recorded), _timed(operator, lambda: _made(one, device), device))


def first_entry_alone(operator, recorded, device):
    one = recorded[0]
    return mean(one["calls"], _timed(operator, lambda: _made(one, device), device))


def whole_step_cold(operator, recorded, device):
    inputs = [_made(one, device) for one in recorded for _ in range(one["calls"])]
    device.synchronize()
    begin = time.perf_counter()
    for x in inputs:
        operator(x)
    device.synchronize()
    return 1e3 * (time.perf_counter() - begin)


def warmed_elsewhere(operator, recorded, device):
    operator(torch.randn(8, 8, device=device.torch_device))
    return whole_step_cold(operator, recorded, device)


def inputs_made_inside(operator, recorded, device):
    for one in recorded:
        operator(_made(one, device))
    device.synchronize()
    begin = time.perf_counter()
    for one in recorded:
        for _ in range(one["calls"]):
            operator(_made(one, device))
    device.synchronize()
    return 1e3 * (time.perf_counter() - begin)


def mean_input_times_all_calls(operator, recorded, device):
    times = [min(_timed(operator, lambda one=one: _made(one, device), device)) for one in recorded]
    return sum(one["calls"] for one in recorded) * sum(times) / len(times)


def not_measured(operator, recorded, device):
    return 12.5


def another_function(operator, recorded, device):
    return summed(fastest)(lambda x: torch.cumsum(x, 1), recorded, device)


def chosen(part):
    @from_material
    def answer(lab):
        return next(letter for letter, text in lab.options.items() if part in text)

    return answer


WRONG = {
    "08/found": {
        "most calls": ("calls-for-time", found(of_operator(BUSIEST))),
        "names swapped": ("calls-for-time", found(lambda right, rows: {"most_called": DOMINANT, "dominant": BUSIEST})),
        "dominant for most called": ("calls-for-time", found(lambda right, rows: {"most_called": "cumsum"})),
        "largest sum": ("total-for-self", found(of_operator(WRAPPER, 2))),
        "largest sum, its self time": ("total-for-self", found(of_operator(WRAPPER))),
        "sum of the wrapper": ("total-for-self", found(lambda right, rows: {"self_ms": rows[WRAPPER][2] / STEPS})),
        "all steps": ("window-for-step", found(of_window)),
        "calls of all steps": ("window-for-step", found(lambda right, rows: {"calls": STEPS * right["calls"]})),
        "one call": ("one-call-for-all", found(lambda right, rows: {"self_ms": right["one_call_ms"]})),
        "all calls": ("all-calls-for-one", found(lambda right, rows: {"one_call_ms": right["self_ms"]})),
        "percent": ("share-for-time", share),
        "microseconds": ("units-mixed", found(lambda right, rows: {"self_ms": 1000 * right["self_ms"]})),
    },
    "08/ways": {
        "replaced": ("replaced-before-isolated", ways(faster_operator="isolates")),
        "most calls": ("calls-for-time", ways(Take="isolates")),
        "square": ("other-inputs", ways(about_as_many="isolates")),
        "shape alone": ("other-inputs", ways_by_shape),
        "first call": ("first-call-counted", ways(with_a_clock_around_the_call="isolates")),
        "kept tensors": ("nothing-isolates", ways(very_tensors="not yet")),
    },
    "08/isolated_ms": {
        "usual layout": ("other-inputs", summed(fastest, in_usual_layout)),
        "randn": ("other-inputs", summed(mean, by_randn)),
        "square": ("other-inputs", summed(mean, square)),
        "transposed": ("other-inputs", summed(fastest, transposed)),
        "float32": ("other-inputs", summed(mean, always_float32)),
        "float32, one call": ("other-inputs", summed(lambda calls, times: min(times), always_float32)),
        "most frequent": ("one-input-for-all", most_frequent_alone),
        "first entry": ("one-input-for-all", first_entry_alone),
        "one call each": ("one-call-for-all", summed(lambda calls, times: min(times))),
        "one call each, mean": ("one-call-for-all", summed(lambda calls, times: sum(times) / len(times))),
        "mean input": ("calls-mixed", mean_input_times_all_calls),
        "first call alone": ("first-call-counted", summed(mean, runs=1, warm=0)),
        "first call in the mean": ("first-call-counted", summed(mean, runs=10, warm=0)),
        "cold step": ("first-call-counted", whole_step_cold),
        "warmed on another input": ("first-call-counted", warmed_elsewhere),
        "runs added": ("runs-added", summed(lambda calls, times: calls * sum(times))),
        "seconds": ("units-mixed", summed(lambda calls, times: calls * min(times) / 1e3)),
        "microseconds": ("units-mixed", summed(lambda calls, times: calls * sum(times) / len(times) * 1e3)),
        "inputs inside": ("inputs-timed", inputs_made_inside),
        "not measured": ("not-isolated", not_measured),
        "another function": ("not-isolated", another_function),
    },
    "08/explained": {
        "one call": ("one-call-for-all", rows_by_one_call),
        "many calls": ("one-call-for-all", rows(**{"Alone,_on_its_own_inputs": "not explained"})),
        "one input": ("one-input-for-all", rows(two_kinds="not explained")),
        "share": ("share-for-explanation", rows_by_share),
        "first call": ("first-call-counted", rows(first_call="explained")),
        "square": ("other-inputs", rows(square="explained")),
    },
    "08/decide": {
        "gain": ("isolated-for-whole", chosen("Write down the gain")),
        "most calls": ("calls-for-time", chosen("Go on with")),
        "another": ("replaced-before-isolated", chosen("another library")),
        "traced": ("proved-in-the-profiler", chosen("one trace more")),
    },
}
