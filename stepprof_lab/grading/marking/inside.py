"""What runs in the sandbox, beside the learner's code: it does what it is told, and nothing that it says is trusted.

``python -I inside.py`` runs it; nobody imports it. The two pipes to the grader are its standard input and output; the
cells get an empty input and print to its standard error.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

if __name__ == "__main__":  # started by its path, so that it needs no installed package
    sys.path[:0] = [str(Path(__file__).resolve().parents[3])]

import msgspec

from stepprof_lab.grading import items, run_cells
from stepprof_lab.grading.marking import wire
from stepprof_lab.grading.model import Evidence, Verdict
from stepprof_lab.grading.probing import evidence_of


class _Pipes:
    """The sandbox's end of the two pipes."""

    def __init__(self, orders: BinaryIO, answers: BinaryIO) -> None:
        self._orders = orders
        self._answers = answers

    def send(self, message: wire.Message) -> None:
        self._answers.write(msgspec.json.encode(message) + b"\n")
        self._answers.flush()

    def receive(self) -> wire.Script | wire.Try | wire.GoOn:
        order: wire.Script | wire.Try | wire.GoOn = wire.ORDERS.decode(self._orders.readline())
        return order


def main() -> None:
    """Run the cells of a script; at each check, tell what the answer does on the cases that are sent."""
    pipes = _private_pipes()
    run = run_cells.runner()
    pipes.send(wire.Ready())
    script = pipes.receive()
    assert isinstance(script, wire.Script)
    os.environ["STEPPROF_LEARNER"] = script.learner
    for number, line in enumerate(script.lines):
        pipes.send(wire.Begun(cell=number))
        _hand_checks_to(None if line.item is None else _asking(pipes, line.item))
        if (error := run(line.source)) is not None:
            pipes.send(wire.Failed(error=error))
    pipes.send(wire.Finished())


def _private_pipes() -> _Pipes:
    """Keep the two pipes under other numbers, which no program started from a cell inherits."""
    orders, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    return _Pipes(orders, answers)


def _hand_checks_to(judge: Callable[[str, Any], Verdict | None] | None) -> None:
    # The package exports a function of the module's name.
    vars(importlib.import_module("stepprof_lab.grading.check"))["elsewhere"] = judge


def _asking(pipes: _Pipes, wanted: str) -> Callable[[str, Any], Verdict | None]:
    """What `check` calls in the cell of an item's check; it answers once, and nothing that can be learned from."""
    left = [wanted]

    def ask(ident: str, answer: Any) -> Verdict | None:
        if ident not in left:
            return None
        left.remove(ident)
        item = items.item(ident)
        pipes.send(wire.Asked(item=ident))
        while isinstance(order := pipes.receive(), wire.Try):
            case = order.case
            evidence = evidence_of(lambda case=case: item.probe(answer, case))  # type: ignore[misc]
            pipes.send(wire.Told(evidence=_sendable(evidence)))
        return Verdict(item=ident, points=0, of=item.points, undecided=True)

    return ask


def _sendable(evidence: Evidence) -> Evidence:
    """The evidence, or that it cannot cross the border, as the answer's own error."""
    try:
        size = len(msgspec.json.encode(evidence))
    except (TypeError, ValueError, RecursionError) as error:
        return Evidence(error=f"the answer is no plain data: {' '.join(str(error).split())[:200]}")
    if size > wire.LONGEST_LINE // 2:
        return Evidence(error=f"the answer takes {size:,} bytes as JSON, which is too much")
    return evidence


if __name__ == "__main__":
    main()
