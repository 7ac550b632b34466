"""How reliable the labs' judges are: every right answer many times, every wrong one, quiet and with busy neighbours.

```
python tests/benchmarks/judges.py --labs 03,04 --right 100 --wrong 20 --busy 2 --out verdicts.jsonl --minutes 60
```

Prints, for the first and the second set of answers apart, how many right answers failed, how many wrong ones passed,
how often the misconception was the intended one, and what was confused with what. Another learner (so other numbers)
each time. All answers are judged once, in random order, before any is judged again, so that a part of the whole is a
fair part. ``--out`` keeps every verdict as a line of JSON, and a run that was interrupted goes on there.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import math
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stepprof_lab.grading import answers, variants
from stepprof_lab.grading.check import material_of, verdict_of

SOURCES = Path(__file__).resolve().parents[2] / "solutions"


@contextlib.contextmanager
def neighbours(count: int) -> Iterator[None]:
    """Processes beside this one that keep a core busy each."""
    code = "while True: sum(range(10000))"
    running = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(count)]
    try:
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()


def judged(answer: answers.Answer, learner: str) -> dict[str, Any]:
    """One verdict on one answer, for one learner's numbers."""
    os.environ[variants.LEARNER_VARIABLE] = learner
    given = answer.answer
    if getattr(given, "takes_material", False):
        given = given(material_of(answer.item.split("/", maxsplit=1)[0]))
    begin = time.perf_counter()
    verdict = verdict_of(answer.item, given)
    return {
        "took_s": round(time.perf_counter() - begin, 3),
        "item": answer.item,
        "name": answer.name,
        "set": answer.set_number,
        "right": answer.is_right,
        "expected": answer.misconception,
        "passed": verdict.passed,
        "undecided": verdict.undecided,
        "found": verdict.misconception,
        "learner": learner,
    }


def main() -> None:
    """Judge, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labs", help="numbers, as 03,04 (default: all)")
    parser.add_argument("--right", type=int, default=100, help="verdicts of every right answer")
    parser.add_argument("--wrong", type=int, default=20, help="verdicts of every wrong answer")
    parser.add_argument("--busy", type=int, default=0, help="busy processes beside it")
    parser.add_argument("--out", type=Path, help="keep every verdict here")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no verdict after this long")
    asked = parser.parse_args()
    wanted = asked.labs.split(",") if asked.labs else None
    lines = [json.loads(line) for line in asked.out.open()] if asked.out and asked.out.exists() else []
    missing = wanted_verdicts(wanted, asked, {key_of(line) for line in lines})
    until = time.monotonic() + 60 * asked.minutes
    print(f"{len(lines)} verdicts are there, {len(missing)} are missing", file=sys.stderr, flush=True)
    with neighbours(asked.busy), contextlib.suppress(KeyboardInterrupt):
        for number, (answer, learner) in enumerate(missing, start=1):
            if time.monotonic() > until:
                print(f"the time is up: {len(missing) - number + 1} are still missing", file=sys.stderr)
                break
            lines.append(judged(answer, learner))
            if asked.out:
                with asked.out.open("a") as stream:
                    stream.write(json.dumps(lines[-1]) + "\n")
            if number % 100 == 0:
                print(f"  {number} of {len(missing)}", file=sys.stderr, flush=True)
    report(lines, asked.busy)


def key_of(line: dict[str, Any]) -> tuple[Any, ...]:
    """Which verdict a line is of."""
    return line["item"], line["name"], line["set"], line["learner"], line["right"]


def wanted_verdicts(
    labs: list[str] | None, asked: argparse.Namespace, done: set[tuple[Any, ...]]
) -> list[tuple[answers.Answer, str]]:
    """Every answer and learner that is not judged yet: a round over all answers, in random order, then the next."""
    sources = sorted(path.parent for path in SOURCES.glob("*/lab.py"))
    every = [answer for one in sources if not labs or one.name[:2] in labs for answer in answers.of_lab(one)]
    found = []
    for number in range(max(asked.right, asked.wrong)):
        turn = [one for one in every if number < (asked.right if one.is_right else asked.wrong)]
        random.Random(number).shuffle(turn)
        learner = f"learner {number}"
        for one in turn:
            if (one.item, one.name, one.set_number, learner, one.is_right) not in done:
                found.append((one, learner))
    return found


def report(lines: list[dict[str, Any]], busy: int) -> None:
    """The table, and what was confused with what."""
    print(f"with {busy} busy processes beside it\n")
    print("| lab | set | right: failed, undecided, of | wrong: passed, undecided, of | misconception as intended |")
    print("| --- | --- | --- | --- | --- |")
    for lab, number in sorted({(line["item"][:2], line["set"]) for line in lines}):
        own = [line for line in lines if line["item"][:2] == lab and line["set"] == number]
        right, wrong = [one for one in own if one["right"]], [one for one in own if not one["right"]]
        decided = [one for one in wrong if not one["undecided"]]
        as_intended = sum(one["found"] == one["expected"] for one in decided)
        share = f"{as_intended} of {len(decided)} ({as_intended / len(decided):.1%})" if decided else "-"
        print(f"| {lab} | {number} | {_counts(right, passed=False)} | {_counts(wrong, passed=True)} | {share} |")
    confused = collections.Counter(
        (one["item"], one["name"], str(one["expected"]), "passed" if one["passed"] else str(one["found"]))
        for one in lines
        if not one["undecided"] and (one["passed"] != one["right"] or one["found"] != one["expected"])
    )
    print("\nconfused: item, answer, intended, found, times" if confused else "\nnothing was confused")
    for (item, name, expected, found), count in confused.most_common():
        print(f"  {item}, {name!r}: {expected} -> {found}, {count}")


def _counts(lines: list[dict[str, Any]], *, passed: bool) -> str:
    decided = [one for one in lines if not one["undecided"]]
    return f"{sum(one['passed'] == passed for one in decided)}, {len(lines) - len(decided)}, {len(lines)}"


if __name__ == "__main__":
    main()
