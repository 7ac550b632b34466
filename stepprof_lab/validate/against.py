"""Results of two machines side by side, only where they are of the same thing; never added, never averaged."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from stepprof_lab.errors import AnswerIsNo
from stepprof_lab.validate import fingerprint, identity
from stepprof_lab.validate.model import Against, Machine, Validation


def side_by_side(own: Validation, other: Validation, names: tuple[str, str]) -> Against:
    """Put two results of the same question beside each other.

    They have to agree in the scenario with all its conditions, in the arms' files, in the design, in what each arm
    switches in torch, and in what the arms answered: bit by bit, or within the scenario's tolerance. How often and how
    long each was measured may differ: each interval says what that makes.

    Args:
        own: one result.
        other: the other one.
        names: what the two are called.

    Raises:
        AnswerIsNo: they are not of the same thing; the line says what differs.
    """
    if found := list(_apart(own, other)):
        raise AnswerIsNo(
            f"results {names[0]!r} and {names[1]!r}, which are not of the same thing ({identity.in_words(found)})",
            "the same scenario, arms, design and outputs on both machines",
            "measure the same on both",
        )
    machines = [_machine(own, names[0]), _machine(other, names[1])]
    one, two = machines
    overlap = one.interval[0] <= two.interval[1] and two.interval[0] <= one.interval[1]
    differences = identity.differing(one.environment, two.environment, identity.CHANGES_BY_ITSELF)
    return Against(
        machines=machines,
        intervals_overlap=overlap,
        differences=differences,
        reasons=[_overlap_in_words(one, two, overlap), *_verdicts_in_words(one, two), *_same_machine(differences)],
    )


def beside(own: Validation, other: Validation, names: tuple[str, str]) -> tuple[Validation, AnswerIsNo | None]:
    """A result with the other one beside it, or as it is, with the reason why they do not belong together."""
    try:
        return msgspec.structs.replace(own, against=side_by_side(own, other, names)), None
    except AnswerIsNo as error:
        return own, error


def _apart(own: Validation, other: Validation) -> Iterator[str]:
    """In what two results differ that must not differ."""
    for name, one in (("the first", own), ("the second", other)):
        if one.ratio is None or one.interval is None:
            yield f"{name} has no ratio: {one.verdict}"
        if one.scenario is None or one.environment is None or "fingerprint" not in one.outputs:
            yield f"{name} does not say what it was measured from: an older version wrote it"
    if own.scenario is None or other.scenario is None:
        return
    for what, of_one, of_other in (
        ("scenario", own.scenario, other.scenario),
        ("arms", own.made_from, other.made_from),
        ("settings", own.settings, other.settings),
    ):
        yield from (f"{what}: {one}" for one in identity.differing(of_one, of_other))
    if own.design != other.design:
        yield f"design: {own.design} and {other.design}"
    if own.margin != other.margin:
        yield f"margin: {own.margin:g} and {other.margin:g}"
    mine, theirs = own.outputs.get("fingerprint"), other.outputs.get("fingerprint")
    if mine and theirs and (told := fingerprint.difference(mine, theirs, own.scenario.outputs)):
        yield (
            f"outputs: {told}; machines that round differently need a tolerance with its reason in the scenario's "
            "[outputs]"
        )


def _machine(found: Validation, name: str) -> Machine:
    assert found.environment is not None
    assert found.ratio is not None
    assert found.interval is not None
    return Machine(
        name=name,
        environment=found.environment,
        verdict=found.verdict,
        ratio=found.ratio,
        interval=found.interval,
        arms=found.arms,
    )


def _overlap_in_words(one: Machine, two: Machine, overlap: bool) -> str:
    told = " and ".join(
        f"{machine.interval[0]:.4g} to {machine.interval[1]:.4g} ({machine.name})" for machine in (one, two)
    )
    if overlap:
        return (
            f"the intervals of the ratios overlap, {told}: it is not shown that the change does more on one machine "
            "than on the other, which is no proof that it does the same"
        )
    return f"the intervals of the ratios do not overlap, {told}: the change does not do the same on both machines"


def _verdicts_in_words(one: Machine, two: Machine) -> list[str]:
    if one.verdict == two.verdict:
        return []
    return [f"the verdict is {one.verdict!r} in {one.name} and {two.verdict!r} in {two.name}"]


def _same_machine(differences: list[str]) -> list[str]:
    if differences:
        return []
    return ["nothing tells the two machines apart: these may be two runs of one machine, or of two that are alike"]
