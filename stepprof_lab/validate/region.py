"""One label of the step by itself, in a run of its own, and what its change means for the whole step.

The whole step is timed while nobody hears a label. Then the same plan is carried out once more with fresh arms, and
one label alone is heard: its verdict is on the time inside it, by the same rules. No number of the whole step comes
from that run, for a label that is heard costs time.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Sequence

from stepprof_lab.errors import StepprofError
from stepprof_lab.validate.agreement import Answers
from stepprof_lab.validate.beginning import NotComparable
from stepprof_lab.validate.bench import ARMS, Bench
from stepprof_lab.validate.designs import carry_out
from stepprof_lab.validate.model import ArmName, Block, LabelSeen, Region
from stepprof_lab.validate.plan import PairsPlan, WholePlan
from stepprof_lab.validate.statistics import Conclusion, arm_of, verdict_from

DIFFERENT = ("faster", "slower")


def demand_label(bench: Bench) -> None:
    """Refuse a label that neither arm has in the steps whose outputs were compared.

    Raises:
        StepprofError: with the labels that there are.
    """
    known = list(dict.fromkeys(name for arm in ARMS for name in bench.heard.get(arm, [])))
    if bench.region is None or bench.region in known:
        return
    near = difflib.get_close_matches(bench.region, known, n=1)
    raise StepprofError(
        f"region {bench.region!r}, which is no label in a step of either arm",
        f"one of {', '.join(map(repr, known))}" if known else 'a label in both arms (with label("forward"): ...)',
        f"did you mean {near[0]!r}?" if near else "give the name of a label that the steps have",
    )


def measure(bench: Bench, plan: PairsPlan | WholePlan, answers: Answers, margin: float, whole: Conclusion) -> Region:
    """Carry the plan out once more with one label heard, and say what its change means for the whole.

    Args:
        bench: the comparison, whose own timing is done; its region is the label.
        plan: its plan.
        answers: what the arms gave.
        margin: the one in use.
        whole: what was found of the whole step.
    """
    label = bench.region
    assert label is not None
    own = dataclasses.replace(
        bench, label=label, blocks=[], warm_ups=[], build_ms={}, done=0, on_replicate=lambda: None
    )
    if missing := [arm for arm in ARMS if label not in bench.heard[arm]]:
        return _not_comparable(label, [], f"label {label!r} does not occur in a step of arm {missing[0]}")
    try:
        carry_out(own, plan, dataclasses.replace(answers, outputs=dict(answers.outputs), ends=[], remarks={}))
    except NotComparable as error:
        return _not_comparable(label, own.blocks, error.reason)
    finally:
        bench.profilers.refuse("after the run with one label")
    return judge(own.blocks, plan.design, margin, whole)


def judge(blocks: Sequence[Block], design: str, margin: float, whole: Conclusion) -> Region:
    """What the blocks of a label say, and what that means beside the whole step: computed from them alone.

    Args:
        blocks: of a run in which the label alone was heard.
        design: as of the whole step.
        margin: differences smaller than this share are not called differences.
        whole: what was found of the whole step.
    """
    label = _seen(blocks[0]).name
    if gap := _replicate_without(blocks):
        return _not_comparable(label, blocks, f"label {label!r} did not occur in {gap}")
    everywhere = all(_seen(block).steps == block.steps for block in blocks)
    # A label that some steps do not have takes no time there: only the mean over all steps tells what it costs.
    found = verdict_from(blocks, design, margin) if everywhere else verdict_from(blocks, design, margin, decides="mean")
    shares = {arm: _share(blocks, arm) for arm in ARMS}
    return Region(
        label=label,
        verdict=found.verdict,
        ratio=found.ratio,
        interval=found.interval,
        smallest_effect_seen=found.smallest_effect_seen,
        share_of_step=shares,
        calls_per_step={arm: _per_step(blocks, arm) for arm in ARMS},
        arms=[arm_of(blocks, arm, None) for arm in ARMS],
        statistics=found.statistics,
        replicate_ratios=found.replicate_ratios,
        blocks=list(blocks),
        reasons=[beside_whole(label, found, shares["before"], whole), *found.reasons, *_how_often(blocks, everywhere)],
    )


def beside_whole(label: str, found: Conclusion, share: float, whole: Conclusion) -> str:
    """What a label's change means for the whole step, in a sentence."""
    inside = f"in `{label}`, {100 * share:.3g} % of a step of before, {_change(found)}"
    if found.verdict in DIFFERENT and whole.verdict not in DIFFERENT:
        at_most = abs(share * (found.ratio - 1))
        return (
            f"{inside}; in the whole step {_change(whole)}: in all of it this is about {100 * at_most:.2g} %, and less "
            "where it overlaps with other work"
        )
    if found.verdict in DIFFERENT and found.verdict != whole.verdict:
        return f"{inside}, and yet the whole step is {whole.verdict} ({_change(whole)}): something else became slower"
    if found.verdict not in DIFFERENT and whole.verdict in DIFFERENT:
        return f"{inside}; the whole step is {whole.verdict} ({_change(whole)}), so the change acts elsewhere"
    return f"{inside}; in the whole step {_change(whole)}"


def _change(found: Conclusion) -> str:
    low, high = found.interval
    seen = f"ratio {found.ratio:.4g}, {low:.4g} to {high:.4g}"
    if found.verdict in DIFFERENT:
        less = "less" if found.ratio < 1 else "more"
        return f"after takes {100 * abs(1 - found.ratio):.3g} % {less} time ({seen})"
    return f"{found.verdict} ({seen})"


def _not_comparable(label: str, blocks: Sequence[Block], reason: str) -> Region:
    return Region(label=label, verdict="not comparable", reasons=[reason], blocks=list(blocks))


def _seen(block: Block) -> LabelSeen:
    assert block.label is not None
    return block.label


def _replicate_without(blocks: Sequence[Block]) -> str | None:
    """The first replicate of an arm in which the label never occurred, in words."""
    calls: dict[tuple[int, ArmName], int] = {}
    for block in blocks:
        place = block.replicate, block.arm
        calls[place] = calls.get(place, 0) + _seen(block).calls
    return next((f"replicate {number} of arm {arm}" for (number, arm), seen in calls.items() if not seen), None)


def _share(blocks: Sequence[Block], arm: ArmName) -> float:
    """The label's share of the elapsed time of the blocks that it was timed in."""
    own = [block for block in blocks if block.arm == arm]
    inside = sum(sum(block.steps_ms) if block.per_step else block.steps_ms[0] * (block.steps or 1) for block in own)
    return float(inside / max(sum(block.wall_ms or 0.0 for block in own), 1e-9))


def _per_step(blocks: Sequence[Block], arm: ArmName) -> float:
    own = [block for block in blocks if block.arm == arm]
    return sum(_seen(block).calls for block in own) / sum(block.steps or 1 for block in own)


def _how_often(blocks: Sequence[Block], everywhere: bool) -> list[str]:
    """How often the label occurs, where that is not once in each step."""
    often = {arm: _per_step(blocks, arm) for arm in ARMS}
    told = []
    if any(one != 1 for one in often.values()):
        counts = " and ".join(f"{one:.4g} times a step in arm {arm}" for arm, one in often.items())
        told.append(f"the label occurs {counts}; its time in a step is that of all of them")
    if not everywhere:
        told.append("some steps do not have it, so the verdict is on its mean time over all steps")
    if any(_seen(block).nested for block in blocks):
        told.append("it also occurs inside itself: the inner regions are part of the outer one and not counted again")
    return told
