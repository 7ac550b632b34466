"""Several ranks of constructed jobs: what was put in comes back, and what cannot be told is not told."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stepprof_lab import job
from stepprof_lab.construct import Construct
from stepprof_lab.errors import StepprofError
from stepprof_lab.trace import parallel, ranks
from stepprof_lab.trace.model import Context

TRANSFER = 0.5
STEP_MS = 30.0


def one_step(t: Construct, at: float, own: float, augment: float, collective: float) -> None:
    t.at(at)
    with t.step():
        with t.label("read_batch"):
            t.cpu(1.0)
        with t.label("train"):
            with t.label("augment"):
                t.cpu(augment, "aten::rot90")
            with t.operator("aten::mm"):
                t.launch("gemm", device=own)
            t.order(40, after=7)
            t.collective("all_reduce", ms=collective, stream=40)
            t.wait()


def arrival(own: float, augment: float) -> float:
    """How long after its step's beginning a rank begins the collective, in ms."""
    t = Construct("cuda")
    one_step(t, 0.0, own, augment, 0.0)
    (start,) = [event.start for event in t.events if event.category == "kernel" and "nccl" in event.name]
    return start / 1e6 - 1.0


Job = Callable[..., list[Path]]


@pytest.fixture
def make(tmp_path: Path) -> Job:
    """Write the traces of a job: every rank begins its steps together and leaves each collective together."""

    def made(
        own: tuple[float, ...] = (3.0, 5.0, 3.0),
        augment: tuple[float, ...] | None = None,
        *,
        steps: int = 2,
        clocks_ms: tuple[float, ...] | None = None,
        size: int | None = None,
        first_step: tuple[int, ...] | None = None,
        name: str = "trace.rank{}.json",
        more: Callable[[Construct, int], Any] = lambda t, r: None,
        **around: Any,
    ) -> list[Path]:
        augment = augment or (0.0,) * len(own)
        begins = [arrival(o, a) for o, a in zip(own, augment, strict=True)]
        paths = []
        for r in range(len(own)):
            shift = 0 if clocks_ms is None else round(clocks_ms[r] * 1e6)
            t = Construct(
                "cuda",
                rank=r,
                world_size=size or len(own),
                first_step=2 if first_step is None else first_step[r],
                baseTimeNanoseconds=10**9 + shift,
                **around,
            )
            for n in range(steps):
                one_step(t, n * STEP_MS, own[r], augment[r], max(begins) - begins[r] + TRANSFER)
            more(t, r)
            paths.append(t.save(tmp_path / name.format(r)))
        return paths

    return made


def read(paths: list[Path], **given: Any) -> Any:
    return job.read(paths, **{"picture": False, "processes": 1, **given}).ranks


def without(path: Path, *keys: str) -> Path:
    """The same trace without some keys around the events."""
    data = json.loads(path.read_text())
    for key in keys:
        del data[key]
    path.write_text(json.dumps(data))
    return path


# ---- what was put in comes back ----


def test_the_rank_with_more_device_work_is_found_and_the_others_wait_for_it(make: Job) -> None:
    found = read(make((3.0, 5.0, 3.0), steps=3))
    host, device = found.slowest
    assert (device.by, device.rank, device.stands_out, device.in_every_step) == ("gpu", 1, True, True)
    assert (device.own_us, device.others_median_us, device.more_us) == (5000.0, 3000.0, 2000.0)
    assert (device.label.name, device.label.more_us) == ("train", 2000.0)
    assert (device.operator.name, device.operator.own_us) == ("aten::mm", 5000.0)
    assert not host.stands_out, "the hosts wait for their devices, which is not their own time"
    assert (found.arrivals.told, found.arrivals.last_rank, found.arrivals.collectives) == (True, 1, 3)
    assert [one.mean.peers_wait_us for one in found.ranks] == [2000.0, 0.0, 2000.0]
    assert [one.mean.exposed_communication_us for one in found.ranks] == [2500.0, 500.0, 2500.0]
    assert [one.mean.gpu_own_us for one in found.ranks] == [3000.0, 5000.0, 3000.0]
    assert [one.arrives_last for one in found.ranks] == [0, 3, 0]
    assert "Rank 1 has the most own device work" in found.conclusion.observation
    assert "waiting for rank 1" in found.conclusion.hypothesis
    assert len({round(one.mean.cpu_us) for one in found.ranks}) == 1, "the collective makes all walls equal"


def test_the_rank_with_more_host_work_is_found_with_its_innermost_label(make: Job) -> None:
    found = read(make((3.0, 3.0, 3.0, 3.0), (0.0, 0.0, 4.0, 0.0), steps=3))
    host, device = found.slowest
    assert (host.by, host.rank, host.stands_out) == ("cpu", 2, True)
    assert host.more_us == pytest.approx(4000, abs=1)
    assert (host.label.name, host.operator.name) == ("augment", "aten::rot90")
    assert not device.stands_out
    assert found.arrivals.last_rank == 2
    assert "'augment'" in found.conclusion.observation


def test_where_all_do_the_same_nobody_stands_out(make: Job) -> None:
    found = read(make((3.0, 3.0), steps=3))
    assert [one.stands_out for one in found.slowest] == [False, False]
    assert (found.arrivals.told, found.arrivals.last_rank, found.arrivals.spread_us) == (True, None, 0.0)
    assert "No rank stands out" in found.conclusion.observation
    assert "too close" in found.conclusion.observation


def test_a_rank_that_is_slow_in_one_step_alone_does_not_stand_out(make: Job, tmp_path: Path) -> None:
    paths = []
    for r, own in enumerate(((3.0, 9.0), (4.0, 4.0))):
        t = Construct("cuda", rank=r, world_size=2)
        for n, mine in enumerate(own):
            one_step(t, n * STEP_MS, mine, 0.0, 1.0)
        paths.append(t.save(tmp_path / f"r{r}.json"))
    device = read(paths).slowest[1]
    assert (device.rank, device.in_every_step, device.stands_out) == (0, False, False)


def test_other_clocks_do_not_change_what_is_found(make: Job, tmp_path: Path) -> None:
    same = read(make((3.0, 5.0, 4.0), steps=3, name="a{}.json"))
    shifted = read(make((3.0, 5.0, 4.0), steps=3, name="b{}.json", clocks_ms=(0.0, 17.25, -8.5)))
    assert shifted.arrivals == same.arrivals
    assert [one.mean for one in shifted.ranks] == [one.mean for one in same.ranks]
    assert "agree within 0.000 us" in shifted.arrivals.why


def test_the_order_of_the_files_does_not_matter(make: Job) -> None:
    paths = make((3.0, 5.0, 4.0))
    assert read(paths[::-1]) == read(paths)


def test_processes_give_what_one_process_gives(make: Job) -> None:
    paths = make((3.0, 5.0, 4.0), steps=3)
    alone, together = (job.read(paths, processes=n) for n in (1, 2))
    assert together.ranks == alone.ranks
    assert together.timeline is not None
    assert alone.timeline is not None
    assert together.timeline.lanes == alone.timeline.lanes


# ---- collectives ----


def test_collectives_are_told_apart_by_how_they_are_known(make: Job) -> None:
    def more(t: Construct, r: int) -> None:
        t.at(50)
        t.launch("ncclDevKernel_Generic(x)", device=0.1, stream=40)
        t.launch("ncclDevKernel_AllGather_RING_LL(x)", device=0.1, stream=40)

    held = read(make((3.0, 3.0), more=more)).ranks[0].collectives
    assert (held.count, held.by_arguments, held.by_name, held.unclassified) == (4, 2, 1, 1)
    assert (held.in_compared_steps, held.matched, held.ran_on) == (2, 2, ["gpu"])


def test_work_beside_a_collective_hides_it(tmp_path: Path) -> None:
    paths = []
    for r in range(2):
        t = Construct("cuda", rank=r, world_size=2)
        with t.step():
            t.collective("all_reduce", ms=4.0, stream=40)
            t.launch("gemm", device=3.0)
            t.wait()
        paths.append(t.save(tmp_path / f"r{r}.json"))
    mean = read(paths).ranks[0].mean
    assert mean.communication_us == 4000.0
    # The gemm begins two calls later, and lies inside the collective.
    assert mean.exposed_communication_us == pytest.approx(1000.0)
    assert mean.gpu_own_us == 3000.0


def test_a_broadcast_says_nothing_of_who_is_waited_for(tmp_path: Path) -> None:
    paths = []
    for r in range(2):
        t = Construct("cuda", rank=r, world_size=2)
        with t.step():
            for _ in range(4):
                t.collective("broadcast", ms=1.0 + r)
        paths.append(t.save(tmp_path / f"r{r}.json"))
    found = read(paths)
    assert [one.collectives.matched for one in found.ranks] == [0, 0]
    assert not found.arrivals.told
    assert "no collective that waits for all" in found.arrivals.why


def test_other_collectives_on_another_rank_are_not_matched_and_it_is_said(make: Job) -> None:
    def more(t: Construct, r: int) -> None:
        if r:
            t.at(2 * STEP_MS)
            with t.step():
                t.collective("all_gather", ms=1.0)
                t.collective("all_reduce", ms=1.0)
        else:
            t.at(2 * STEP_MS)
            with t.step():
                t.collective("all_reduce", ms=1.0)

    found = read(make((3.0, 3.0), more=more))
    assert found.steps_compared == 3
    assert found.arrivals.collectives == 2
    assert any("compared step 3" in note and "1 and 2 collectives" in note for note in found.notes)


def test_payloads_that_differ_are_not_the_same_collective(tmp_path: Path) -> None:
    paths = []
    for r in range(2):
        t = Construct("cuda", rank=r, world_size=2)
        with t.step():
            t.collective("all_reduce", ms=1.0, elements=100 + r)
        paths.append(t.save(tmp_path / f"r{r}.json"))
    assert read(paths).arrivals.collectives == 0


# ---- what cannot be told is not told ----


def keys(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value) | {key for part in value.values() for key in keys(part)}
    return {key for part in value for key in keys(part)} if isinstance(value, list) else set()


def test_too_few_collectives_on_unknown_machines_tell_nothing_about_waiting(make: Job) -> None:
    found = read(make((3.0, 5.0), steps=2))
    assert not found.arrivals.told
    assert "too few" in found.arrivals.why
    plain = msgspec.to_builtins(found)
    assert not {"peers_wait_us", "peers_wait_exposed_us", "arrives_last", "spread_us"} & keys(plain)
    assert "cannot be told" in found.conclusion.observation
    assert "was not observed" in found.conclusion.hypothesis
    assert found.slowest[1].stands_out, "own times need no common clock"


def test_one_machine_needs_no_collectives_to_agree(make: Job) -> None:
    found = read(make((3.0, 5.0), steps=2, host_name="node7"))
    assert (found.arrivals.told, found.arrivals.last_rank) == (True, 1)
    assert found.ranks[0].mean.peers_wait_us == 2000.0
    assert "node7" not in msgspec.json.encode(found).decode(), "a host's name is nobody's business"


def test_a_clock_that_would_end_a_collective_before_it_begins_is_not_believed(make: Job) -> None:
    found = read(make((3.0, 5.0), steps=2, host_name="node7", clocks_ms=(0.0, 12.0)))
    assert not found.arrivals.told
    assert "ends a collective before another one begins it" in found.arrivals.why


def test_ends_that_disagree_put_no_clocks_together(tmp_path: Path) -> None:
    paths = []
    for r in range(2):
        t = Construct("cuda", rank=r, world_size=2)
        with t.step():
            for n in range(5):
                t.at(10.0 * n + (3.0 * n if r else 0.0))
                t.collective("all_reduce", ms=1.0)
        paths.append(t.save(tmp_path / f"r{r}.json"))
    found = read(paths)
    assert not found.arrivals.told
    assert "apart however the clocks are shifted" in found.arrivals.why


def test_ranks_without_a_device_have_no_key_of_one(tmp_path: Path) -> None:
    paths = []
    for r in range(2):
        t = Construct("cpu", rank=r, world_size=2, host_name="here")
        for _ in range(2):
            with t.step():
                with t.label("train"):
                    t.cpu(3.0 + 2 * r, "aten::mm")
                t.collective("all_reduce", ms=3.0 - 2 * r)
        paths.append(t.save(tmp_path / f"r{r}.json"))
    found = read(paths)
    assert not {key for key in keys(msgspec.to_builtins(found)) if key.startswith("gpu")}
    assert [one.by for one in found.slowest] == ["cpu"]
    assert (found.slowest[0].rank, found.slowest[0].more_us) == (1, 2000.0)
    assert [one.mean.cpu_own_us for one in found.ranks] == [3000.0, 5000.0]
    assert [one.mean.exposed_communication_us for one in found.ranks] == [3000.0, 1000.0]
    assert found.ranks[0].collectives.ran_on == ["cpu"]
    assert all("CPU alone" in one.device_not_observed for one in found.ranks)


def test_ranks_without_collectives_have_no_zero_for_them(tmp_path: Path) -> None:
    paths = []
    for r in range(2):
        t = Construct("cpu", rank=r, world_size=2)
        with t.step():
            t.cpu(3.0, "aten::mm")
        paths.append(t.save(tmp_path / f"r{r}.json"))
    found = read(paths)
    assert found.ranks[0].mean.communication_us is msgspec.UNSET
    assert found.ranks[0].collectives.count == 0


def test_a_device_seen_on_some_ranks_alone_is_compared_among_these(make: Job, tmp_path: Path) -> None:
    paths = make((3.0, 5.0), size=3)
    t = Construct("cpu", rank=2, world_size=3)
    for _ in range(2):
        with t.step():
            t.cpu(40.0, "aten::mm")
    found = read([*paths, t.save(tmp_path / "c.json")])
    assert [(one.by, one.rank) for one in found.slowest] == [("cpu", 2), ("gpu", 1)]
    assert any("no device work was observed on rank 2" in note for note in found.notes)


# ---- which rank each file is of ----


def test_two_files_of_one_rank_are_refused_by_both_names(make: Job, tmp_path: Path) -> None:
    paths = make((3.0, 5.0))
    copy = tmp_path / "again.json"
    copy.write_bytes(paths[1].read_bytes())
    with pytest.raises(StepprofError, match=r"again\.json.* are both of rank 1; expected one trace of each rank"):
        read([*paths, copy])
    with pytest.raises(StepprofError, match="both of rank 0"):
        read([paths[0], paths[0]])


@pytest.mark.parametrize(
    "name", ["trace.rank{}.json", "rank-{}.Jul_15.pt.trace.json", "Rank{}of8.json", "worker{}.1623.pt.trace.json"]
)
def test_the_name_of_the_file_tells_the_rank_where_nothing_else_does(make: Job, name: str) -> None:
    found = read([without(path, "distributedInfo") for path in make((3.0, 5.0), name=name)])
    assert [(one.rank, one.rank_from) for one in found.ranks] == [(0, "file name"), (1, "file name")]
    assert found.world_size is None
    assert any("from the name of the file" in note for note in found.notes)


def test_a_file_that_says_no_rank_is_refused_with_what_to_do(make: Job) -> None:
    paths = make((3.0, 5.0), name="x{}.json")
    without(paths[1], "distributedInfo")
    with pytest.raises(
        StepprofError, match=r"x1\.json.* does not say which rank it is of.*name the file after its rank"
    ):
        read(paths)


def test_the_record_tells_the_rank_where_the_trace_does_not(make: Job) -> None:
    paths = [without(path, "distributedInfo") for path in make((3.0, 5.0), name="x{}.json")]
    sources = [ranks.Source(path, Context(), rank=n, world_size=4) for n, path in enumerate(paths)]
    found = ranks.read(sources, picture=False, processes=1).ranks
    assert [(one.rank, one.rank_from) for one in found.ranks] == [(0, "record"), (1, "record")]
    assert (found.world_size, found.missing) == (4, [2, 3])


def test_missing_ranks_are_said(make: Job) -> None:
    found = read(make((3.0, 5.0), size=8))
    assert found.missing == [2, 3, 4, 5, 6, 7]
    assert any("6 of the job's ranks (2 to 7)" in note for note in found.notes)
    assert "may be among them" in found.conclusion.observation


@pytest.mark.parametrize(
    ("around", "doubt", "ruled_out"),
    [
        ({"distributedInfo": {"rank": 1, "world_size": 4}}, "jobs of different sizes (rank 0: 2; rank 1: 4)", True),
        ({"distributedInfo": {"rank": 5, "world_size": 2}}, "rank 5 of a job of 2 ranks", True),
        ({"baseTimeNanoseconds": 10**12}, "999.0 s apart", False),
        ({"baseTimeNanoseconds": 10**16}, "s apart", True),
        ({"trace_id": "T0"}, "same session number", False),
    ],
)
def test_what_speaks_against_one_run_comes_first(
    make: Job, around: dict[str, Any], doubt: str, ruled_out: bool
) -> None:
    paths = make((3.0, 5.0), trace_id="T0")
    for path, change in ((paths[0], {}), (paths[1], {"trace_id": "T1", **around})):
        path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    found = read(paths)
    (said,) = found.doubts
    assert doubt in said
    assert (found.slowest == []) == ruled_out
    assert found.conclusion.observation.startswith("These traces are not of one run") == ruled_out
    assert found.conclusion.hypothesis.startswith("If these traces are of one run: ") != ruled_out


@pytest.mark.parametrize("info", [None, [], "x", {"rank": "0"}, {"rank": -1}, {"rank": True}, {"rank": 1e300}])
def test_a_rank_that_is_no_number_is_no_rank(make: Job, info: Any) -> None:
    paths = make((3.0, 5.0))
    paths[0].write_text(json.dumps({**json.loads(paths[0].read_text()), "distributedInfo": info}))
    assert read(paths).ranks[0].rank_from == "file name"


# ---- which steps stand beside each other ----


def test_steps_are_matched_by_number_and_the_rest_is_said_to_be_left_out(make: Job) -> None:
    found = read(make((3.0, 5.0), steps=3, first_step=(2, 3)))
    assert (found.matched_by, found.steps_compared) == ("number", 2)
    assert [[step.name for step in one.steps] for one in found.ranks] == [["ProfilerStep#3", "ProfilerStep#4"]] * 2
    assert [note for note in found.notes if "left out" in note] == [
        "rank 0: ProfilerStep#2 without a partner on every other rank, left out",
        "rank 1: ProfilerStep#5 without a partner on every other rank, left out",
    ]


def test_without_a_common_number_they_are_matched_by_position(make: Job) -> None:
    found = read(make((3.0, 5.0), first_step=(2, 40)))
    assert (found.matched_by, found.steps_compared) == ("position", 2)
    assert any("matched by position" in note for note in found.notes)


def test_without_steps_the_whole_records_are_compared(tmp_path: Path) -> None:
    paths = []
    for r in range(2):
        t = Construct("cuda", rank=r, world_size=2)
        for _ in range(3):
            t.launch("gemm", device=2.0 + r)
            t.collective("all_reduce", ms=2.0 - r)
        paths.append(t.save(tmp_path / f"r{r}.json"))
    found = read(paths)
    assert (found.matched_by, found.steps_compared) == ("whole record", 0)
    assert [one.mean.gpu_own_us for one in found.ranks] == [6000.0, 9000.0]
    assert any("no step is marked" in note for note in found.notes)


def test_steps_in_some_traces_alone_are_refused(make: Job, tmp_path: Path) -> None:
    t = Construct("cuda", rank=2, world_size=3)
    t.launch("gemm", device=1.0)
    with pytest.raises(StepprofError, match="no step is marked in the trace of rank 2"):
        read([*make((3.0, 5.0), size=3), t.save(tmp_path / "r2.json")])


# ---- files that cannot be read, and how they are read ----


@pytest.mark.parametrize("processes", [1, 2])
def test_a_bad_file_is_one_line_that_names_it(make: Job, tmp_path: Path, processes: int) -> None:
    bad = tmp_path / "bad.rank2.json"
    bad.write_text("{}")
    with pytest.raises(StepprofError, match=r"bad\.rank2\.json") as caught:
        read([*make((3.0, 5.0)), bad], processes=processes)
    assert "\n" not in str(caught.value)


def test_a_process_that_dies_is_one_line_that_names_the_file(make: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "CHILD", "import os; os._exit(9)")
    with pytest.raises(StepprofError, match=r"reads trace .*rank1\.json' ended with 9; .*read this trace alone"):
        read(make((3.0, 5.0)), processes=2)


def test_of_several_bad_files_the_first_is_named(make: Job, tmp_path: Path) -> None:
    bad = [tmp_path / f"bad.rank{n}.json" for n in (7, 3)]
    bad[1].write_text("{}" + " " * 5000)  # larger, so that it is read first
    with pytest.raises(StepprofError, match=r"bad\.rank7\.json' does not exist"):
        read([*make((3.0, 5.0)), *bad], processes=2)


@pytest.mark.parametrize(("sizes", "count"), [([5, 5, 5, 5], 2), ([100, 1, 1, 1], 2), ([0, 0, 0], 3), ([7], 1)])
def test_every_trace_is_in_one_share_and_no_share_is_empty(sizes: list[int], count: int) -> None:
    shares = parallel._shares(sizes, count)
    assert sorted(place for share in shares for place in share) == list(range(len(sizes)))
    assert all(shares)
    totals = [sum(sizes[place] for place in share) for share in shares]
    assert max(totals) <= max(*sizes, sum(sizes) / count)


def test_one_trace_is_no_job(make: Job) -> None:
    with pytest.raises(StepprofError, match="expected the traces of two ranks or more"):
        read(make((3.0,)))


def test_a_script_without_a_main_guard_runs_once(make: Job, tmp_path: Path) -> None:
    paths = [str(path) for path in make((3.0, 5.0))]
    script = tmp_path / "script.py"
    script.write_text(
        "from pathlib import Path\nfrom stepprof_lab import job\nprint('ran')\n"
        f"found = job.read([Path(p) for p in {paths!r}], processes=2)\nprint(found.ranks.slowest[1].rank)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, cwd=Path.cwd())
    assert done.stdout.split() == ["ran", "1"]


# ---- the picture ----


def test_every_rank_has_its_lanes_on_one_clock(make: Job) -> None:
    picture = job.read(make((3.0, 5.0), steps=3, clocks_ms=(0.0, 11.0)), processes=1).timeline
    assert picture is not None
    titles = [lane.title for lane in picture.lanes]
    assert [title for title in titles if title.endswith(": steps")] == ["rank 0: steps", "rank 1: steps"]
    ends = [
        [round(span.start_us + span.duration_us, 3) for span in lane.spans if span.kind == "collective"]
        for lane in picture.lanes
        if lane.kind == "device"
    ]
    held = [lane for lane in ends if lane]
    assert len(held) == 2
    assert held[0] == held[1], "the collectives end together"
    assert "One clock for all ranks" in picture.note


def test_the_picture_says_where_there_is_no_common_clock(make: Job) -> None:
    picture = job.read(make((3.0, 5.0)), processes=1).timeline
    assert picture is not None
    assert "could not be put together" in picture.note
    first = [lane.spans[0].start_us for lane in picture.lanes if lane.kind == "steps"]
    assert first == [0.0, 0.0]


def test_the_detail_holds_the_same_lanes(make: Job) -> None:
    picture = job.read(make((3.0, 5.0), steps=3), processes=1).timeline
    assert picture is not None
    detail = picture.detail
    assert detail is not None
    for n, lane in enumerate(picture.lanes):
        rows = detail.lane == n
        assert int(detail.count[rows].sum()) == sum(span.count for span in lane.spans)
        assert {detail.kinds[i] for i in detail.kind_id[rows]} == {span.kind for span in lane.spans}
    launched = detail.launch >= 0
    assert launched.any()
    assert (detail.start[detail.launch[launched]] <= detail.start[launched]).all()


def test_of_many_ranks_the_slowest_are_drawn(make: Job) -> None:
    own = tuple(3.0 + (r == 9) for r in range(10))
    picture = job.read(make(own, steps=3), processes=1).timeline
    assert picture is not None
    drawn = {lane.title.split(":")[0] for lane in picture.lanes}
    assert len(drawn) == 8
    assert "rank 9" in drawn
    assert "2 ranks with less own time are left out" in picture.note
