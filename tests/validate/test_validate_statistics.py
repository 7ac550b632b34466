"""From raw times to a verdict: known values, and how often the verdict is right where the truth is known."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepprof_lab.errors import StepprofError
from stepprof_lab.validate.model import ArmName, Block
from stepprof_lab.validate.statistics import (
    PAIRS,
    SHARED_ERROR,
    WHOLE_ARMS,
    arm_of,
    drifts,
    replicate_ratios,
    spearman,
    t_cdf,
    t_interval,
    t_quantile,
    verdict_from,
    verdict_of,
)


# Two-sided 95 % and other quantiles as printed in tables of Student's distribution (NIST handbook, 1.3.6.7.2).
@pytest.mark.parametrize(
    ("probability", "degrees", "value"),
    [
        (0.975, 1, 12.706),
        (0.975, 2, 4.303),
        (0.975, 5, 2.571),
        (0.975, 7, 2.365),
        (0.975, 10, 2.228),
        (0.975, 30, 2.042),
        (0.975, 100, 1.984),
        (0.95, 7, 1.895),
        (0.995, 7, 3.499),
        (0.999, 3, 10.215),
        (0.9, 20, 1.325),
    ],
)
def test_t_quantiles_are_those_of_the_table(probability: float, degrees: int, value: float) -> None:
    assert t_quantile(probability, degrees) == pytest.approx(value, abs=6e-4)
    assert t_quantile(1 - probability, degrees) == pytest.approx(-value, abs=6e-4)


@given(st.floats(-30, 30), st.integers(1, 500))
def test_t_quantile_inverts_the_distribution(t: float, degrees: int) -> None:
    probability = t_cdf(t, degrees)
    assert t_cdf(-t, degrees) == pytest.approx(1 - probability, abs=1e-12)
    if 1e-6 < probability < 1 - 1e-6:
        assert t_quantile(probability, degrees) == pytest.approx(t, rel=1e-6, abs=1e-8)


def test_t_with_one_degree_is_cauchy_and_with_many_is_normal() -> None:
    for t in (-3.0, -0.5, 0.0, 0.7, 12.0):
        assert t_cdf(t, 1) == pytest.approx(0.5 + math.atan(t) / math.pi, abs=1e-12)
        assert t_cdf(t, 10_000_000) == pytest.approx(0.5 * (1 + math.erf(t / math.sqrt(2))), abs=1e-6)


def test_the_interval_of_a_textbook_sample() -> None:
    mean, low, high, deviation = t_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert mean == 3
    assert deviation == pytest.approx(math.sqrt(2.5))
    assert high - mean == pytest.approx(2.7764 * math.sqrt(0.5), abs=1e-4)
    assert mean - low == pytest.approx(high - mean)


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [
        ((0.90, 0.95), "faster"),
        ((0.90, 0.995), "no difference shown"),
        ((1.02, 1.30), "slower"),
        ((1.005, 1.30), "no difference shown"),
        ((0.99, 1.01), "equivalent"),
        ((0.995, 1.001), "equivalent"),
        ((0.98, 1.02), "no difference shown"),
        ((0.5, 2.0), "no difference shown"),
    ],
)
def test_a_difference_only_where_the_whole_interval_is_beyond_the_margin(
    interval: tuple[float, float], verdict: str
) -> None:
    assert verdict_of(interval, 0.01) == verdict


def blocks_of(ratios: list[float], *, per_block: int = 1, base: float = 2.0) -> list[Block]:
    """One block of each arm a replicate, with exactly these ratios."""
    found = []
    for replicate, ratio in enumerate(ratios):
        for arm, ms in (("before", base), ("after", base * ratio)):
            found.append(block(replicate, arm, [ms] * per_block, order=len(found)))
    return found


def block(replicate: int, arm: ArmName, steps_ms: list[float], *, order: int = 0, pair: int = 0) -> Block:
    return Block(replicate=replicate, pair=pair, arm=arm, order=order, steps_ms=steps_ms, steps=len(steps_ms))


def test_the_ratio_is_the_geometric_mean_over_replicates() -> None:
    conclusion = verdict_from(blocks_of([0.5, 2.0, 1.0]), PAIRS, 0.01)
    assert conclusion.ratio == pytest.approx(1)
    assert conclusion.replicate_ratios == pytest.approx([0.5, 2.0, 1.0])
    assert conclusion.verdict == "no difference shown"
    assert "not a proof" in conclusion.reasons[1]
    assert "replicates would" in conclusion.reasons[1]
    # log ratios -ln2, ln2, 0: standard deviation ln2, t(0.975, 2) = 4.3027, t(0.8, 2) = 1.0607
    assert conclusion.interval[1] == pytest.approx(math.exp(4.3027 * math.log(2) / math.sqrt(3)), rel=1e-4)
    expected = math.expm1((4.3027 + 1.0607) * math.log(2) / math.sqrt(3))
    assert conclusion.smallest_effect_seen == pytest.approx(expected, rel=1e-4)


def test_the_verdict_is_symmetrical_in_the_arms() -> None:
    ratios = [0.90, 0.92, 0.91, 0.905]
    one, other = (
        verdict_from(blocks_of(ratios), PAIRS, 0.01),
        verdict_from(blocks_of([1 / r for r in ratios]), PAIRS, 0.01),
    )
    assert (one.verdict, other.verdict) == ("faster", "slower")
    assert one.ratio == pytest.approx(1 / other.ratio)
    assert one.interval[0] == pytest.approx(1 / other.interval[1])


def test_the_verdict_is_the_same_from_the_json_and_in_any_order_of_blocks() -> None:
    blocks = simulated(11, effect=0.03)
    conclusion = verdict_from(blocks, PAIRS, 0.01)
    again = msgspec.json.decode(msgspec.json.encode(blocks), type=list[Block])
    assert verdict_from(again, PAIRS, 0.01) == conclusion
    assert verdict_from(blocks[::-1], PAIRS, 0.01).ratio == pytest.approx(conclusion.ratio)


def test_steps_of_one_instance_are_not_replicates() -> None:
    """Many steps that agree inside two replicates which do not agree: the interval must stay wide."""
    conclusion = verdict_from(blocks_of([0.9, 1.1], per_block=1000), PAIRS, 0.01)
    assert conclusion.verdict == "no difference shown"
    assert conclusion.interval[0] < 0.5


def test_fewer_than_two_whole_replicates_give_no_verdict() -> None:
    with pytest.raises(StepprofError, match="1 whole replicates; expected at least 2"):
        verdict_from([*blocks_of([0.9]), block(1, "before", [1.0])], PAIRS, 0.01)
    with pytest.raises(StepprofError, match="design 'mine'"):
        verdict_from(blocks_of([1, 1]), "mine", 0.01)
    with pytest.raises(StepprofError, match=r"arm after took 0\.0 ms in replicate 0"):
        verdict_from(blocks_of([1, 1], base=0.0), PAIRS, 0.01)


def test_a_block_that_was_timed_as_a_whole_counts_as_many_steps_as_it_did() -> None:
    blocks = [
        Block(replicate=r, pair=p, arm=arm, order=0, steps_ms=[ms], per_step=False, steps=steps)
        for r in range(2)
        for arm, values in (("before", ((1.0, 9), (11.0, 1))), ("after", ((1.0, 9), (1.0, 1))))
        for p, (ms, steps) in enumerate(values)
    ]
    assert replicate_ratios(blocks, "mean") == pytest.approx([0.5, 0.5])
    arm = arm_of(blocks, "before", samples=4)
    assert (arm.steps, arm.mean_ms, arm.samples_per_s) == (20, pytest.approx(2.0), pytest.approx(2000))


def test_statistics_that_disagree_with_the_verdict_are_named() -> None:
    """A stall in every fourth step: the lower quartile cannot see it, the mean can."""
    blocks = []
    for replicate in range(4):
        jitter = 1 + replicate / 1000
        blocks.append(block(replicate, "before", [5 * jitter, 5, 5, 65] * 10))
        blocks.append(block(replicate, "after", [5 * jitter, 5, 5, 5] * 10))
    by_mean, by_quartile = verdict_from(blocks, WHOLE_ARMS, 0.01), verdict_from(blocks, PAIRS, 0.01)
    assert by_mean.verdict == "faster"
    assert by_mean.ratio == pytest.approx(0.25, rel=0.01)
    assert any("by the lower quartile alone the verdict would be 'equivalent'" in one for one in by_mean.reasons)
    assert by_quartile.verdict == "equivalent"
    assert any("by the mean alone the verdict would be 'faster'" in one for one in by_quartile.reasons)
    assert [one.name for one in by_mean.statistics] == ["q25", "median", "mean"]


def test_a_machine_of_two_speeds_cancels_in_the_pairs() -> None:
    """The speed halves for times of any length; by chance one arm meets more of them, and each pair is in one."""
    for unlucky, lucky in (("after", "before"), ("before", "after")):
        blocks: list[Block] = []
        for replicate in range(4):
            for pair in range(12):
                slow = {unlucky: 2.0 if pair < 9 else 1.0, lucky: 2.0 if pair < 8 else 1.0}
                for arm, cost in (("before", 1.0), ("after", 1.02)):
                    times = [cost * slow[arm] * (1 + 0.1 * step) for step in range(4)]
                    blocks.append(block(replicate, arm, times, order=len(blocks), pair=pair))
        assert replicate_ratios(blocks, "q25") == pytest.approx([1.02] * 4)


def test_blocks_without_the_region_are_left_out_until_most_have_none() -> None:
    def blocks(without: int) -> list[Block]:
        values = [[0.0] * 4 if pair < without else [2.0] * 4 for pair in range(4)]
        return [
            block(replicate, arm, [factor * ms for ms in times], pair=pair)
            for replicate in range(2)
            for arm, factor in (("before", 1.0), ("after", 0.5))
            for pair, times in enumerate(values)
        ]

    assert replicate_ratios(blocks(1), "q25") == pytest.approx([0.5, 0.5])
    with pytest.raises(StepprofError, match=r"took 0\.0 ms"):
        replicate_ratios(blocks(2), "q25")


@given(st.lists(st.floats(0.01, 1e4), min_size=1, max_size=9))
def test_the_quartile_of_a_block_is_numpys(times: list[float]) -> None:
    blocks = [block(0, "before", [1.0]), block(0, "after", times)]
    assert replicate_ratios(blocks, "q25") == pytest.approx([float(np.quantile(times, 0.25))])


def simulated(seed: int, *, effect: float, replicates: int = 8, pairs: int = 8, steps: int = 4) -> list[Block]:
    """Short blocks on a shared machine: skewed noise with rare long stalls, instances that differ, slow drift."""
    chance = np.random.default_rng(seed)
    blocks: list[Block] = []
    for replicate in range(replicates):
        level = {"before": np.exp(chance.normal(0, 0.004)), "after": (1 + effect) * np.exp(chance.normal(0, 0.004))}
        for pair in range(pairs):
            names: list[ArmName] = ["before", "after"] if chance.random() < 0.5 else ["after", "before"]
            for arm in names:
                machine = 1 + 0.05 * np.sin(len(blocks) / 20)
                times = 0.24 * machine * level[arm] * np.exp(np.abs(chance.normal(0, 0.05, steps)))
                times += np.where(chance.random(steps) < 0.02, chance.exponential(4.0, steps), 0.0)
                blocks.append(block(replicate, arm, times.tolist(), order=len(blocks), pair=pair))
    return blocks


def test_two_equal_arms_are_rarely_called_different() -> None:
    """Without a margin the 95 % interval leaves 1 in 20; with the margin of 1 % hardly any is left."""
    verdicts = {
        margin: [verdict_from(simulated(seed, effect=0.0), PAIRS, margin).verdict for seed in range(150)]
        for margin in (0.0, 0.01)
    }
    alarms = {margin: sum(one in ("faster", "slower") for one in found) for margin, found in verdicts.items()}
    assert 1 <= alarms[0.0] <= 18  # 7.5 expected
    assert alarms[0.01] <= 1


@pytest.mark.parametrize(("effect", "right"), [(0.05, "slower"), (-0.05, "faster")])
def test_a_planted_change_of_5_percent_is_found_and_never_in_the_wrong_direction(effect: float, right: str) -> None:
    verdicts = [verdict_from(simulated(1000 + seed, effect=effect), PAIRS, 0.01).verdict for seed in range(60)]
    assert verdicts.count(right) >= 54
    assert set(verdicts) <= {right, "no difference shown"}


def test_the_true_ratio_lies_in_the_interval_as_often_as_it_says() -> None:
    inside = 0
    for seed in range(150):
        low, high = verdict_from(simulated(5000 + seed, effect=0.03), PAIRS, 0.01).interval
        inside += low <= 1.03 <= high
    assert 134 <= inside <= 149  # 142.5 expected


def test_the_smallest_effect_seen_is_called_with_the_probability_that_it_states() -> None:
    """Normal log ratios of a known spread, and a change of the margin and that much beyond it."""
    chance = np.random.default_rng(4)
    spread, count = 0.02, 8
    beyond = (2.3646 + 0.8960) * spread / math.sqrt(count)
    called = 0
    for _ in range(400):
        ratios = np.exp(math.log(1.01) + beyond + chance.normal(0, spread, count))
        called += verdict_from(blocks_of(ratios.tolist()), PAIRS, 0.01).verdict == "slower"
    assert 0.72 <= called / 400 <= 0.88


def test_replicates_needed_is_the_fewest_that_suffice() -> None:
    ratios = [0.97, 1.03, 0.97, 1.03, 0.97, 1.03, 0.97, 1.03]
    conclusion = verdict_from(blocks_of(ratios), PAIRS, 0.01)
    needed = conclusion.replicates_needed
    assert needed is not None
    deviation = float(np.std(np.log(ratios), ddof=1))

    def effect(count: int) -> float:
        quantiles = t_quantile(0.975, count - 1) + t_quantile(0.8, count - 1)
        return math.expm1(math.hypot(quantiles * deviation / math.sqrt(count), (1.95996 + 0.84162) * SHARED_ERROR))

    assert effect(needed) <= 0.01 < effect(needed - 1)
    assert verdict_from(blocks_of(ratios), PAIRS, 0.0).replicates_needed is None


def test_what_replicates_share_is_in_the_interval_and_no_number_of_them_averages_it_out() -> None:
    """Replicates that agree to the last digit prove a ratio no better than the machine's state allows."""
    same = verdict_from(blocks_of([1.001] * 8), PAIRS, 0.0)
    assert same.verdict == "no difference shown"
    assert same.interval[1] / same.interval[0] == pytest.approx(math.exp(2 * 1.95996 * SHARED_ERROR), rel=1e-6)
    more = verdict_from(blocks_of([1.001] * 800), PAIRS, 0.002)
    assert more.replicates_needed is None
    assert "no number of replicates" in more.reasons[1]
    assert verdict_from(blocks_of([1.004] * 8), PAIRS, 0.0).verdict == "slower"


def test_spearman_ranks_ties_by_their_mean_rank() -> None:
    assert spearman([1, 2, 3, 4]) == pytest.approx(1)
    assert spearman([8, 4, 2, 1]) == pytest.approx(-1)
    assert spearman([1, 1, 1, 1]) is None
    assert spearman([1, 2]) is None
    # Ranks 1.5, 1.5, 3, 4 against 1, 2, 3, 4: 4.5 / sqrt(4.5 * 5)
    assert spearman([5, 5, 7, 9]) == pytest.approx(4.5 / math.sqrt(4.5 * 5))


def test_a_drift_is_told_from_chance() -> None:
    chance = np.random.default_rng(0)
    steady = chance.normal(10, 1, 100)
    assert not drifts(spearman(steady.tolist()), 100)
    assert drifts(spearman((steady + np.arange(100) / 20).tolist()), 100)
    assert drifts(1.0, 20)
    assert not drifts(None, 20)
