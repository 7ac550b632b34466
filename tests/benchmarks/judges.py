"""How reliable the labs' judges are: every right answer many times, every wrong one, quiet and with busy neighbours.

```
python tests/benchmarks/judges.py --labs 03,04 --right 100 --wrong 20 --busy 2
```

Prints, for the first and the second set of answers apart, how many right answers failed, how many wrong ones passed,
how often the misconception was the intended one, and what was confused with what. Another learner (so other numbers)
each time. ``--out`` keeps every verdict as a line of JSON, and a run that was interrupted goes on there.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import subprocess
import sys
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
    verdict = verdict_of(answer.item, given)
    return {
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
    asked = parser.parse_args()
    wanted = asked.labs.split(",") if asked.labs else None
    lines = [json.loads(line) for line in asked.out.open()] if asked.out and asked.out.exists() else []
    done = {(line["item"], line["name"], line["set"], line["learner"], line["right"]) for line in lines}
    with neighbours(asked.busy):
        for source in sorted(path.parent for path in SOURCES.glob("*/lab.py")):
            if wanted and source.name[:2] not in wanted:
                continue
            for answer in answers.of_lab(source):
                for number in range(asked.right if answer.is_right else asked.wrong):
                    learner = f"learner {number}"
                    if (answer.item, answer.name, answer.set_number, learner, answer.is_right) in done:
                        continue
                    lines.append(judged(answer, learner))
                    if asked.out:
                        with asked.out.open("a") as stream:
                            stream.write(json.dumps(lines[-1]) + "\n")
            print(f"{source.name}: judged", file=sys.stderr, flush=True)
    report(lines, asked.busy)


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
