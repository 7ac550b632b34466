"""An idle device that waits for the host: what is blamed on a wait, on the host's own work, on small launches."""

from __future__ import annotations

import pytest

from stepprof_lab.construct import Construct
from stepprof_lab.trace.findings import hosts

VENDORS = ("cuda", "rocm")


def ids(analysis):
    return {finding.id for finding in analysis.findings}


def only(analysis, ident):
    (finding,) = [finding for finding in analysis.findings if finding.id == ident]
    return finding


def healthy(vendor="cuda", *, steps=2, kernels=20, ms=1.0, **more):
    """The host launches ahead and waits once at the end of the step; the device is hardly ever empty."""
    t = Construct(vendor, **more)
    for _ in range(steps):
        with t.step():
            with t.label("read_batch"):
                t.cpu(0.05)
            with t.label("transfer"):
                t.copy("HtoD", device=0.2, pinned=True)
            with t.label("train"):
                for i in range(kernels):
                    with t.operator(f"aten::op{i}"):
                        t.launch(f"kernel{i}", device=ms)
                t.wait()
    return t


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_healthy_loop_has_no_finding(analyse, vendor):
    analysis = analyse(healthy(vendor))
    assert analysis.findings == []
    assert analysis.regime == "device"


# ---- host-sync ----


def stopping(vendor="cuda", *, pause=0.3, waits=10, work=0.5):
    """The host reads a value after each piece of work and takes a while to launch the next one."""
    t = Construct(vendor)
    for _ in range(2):
        with t.step(), t.label("train"):
            for i in range(waits):
                with t.operator(f"aten::op{i}"):
                    t.launch(f"kernel{i}", device=work)
                with t.operator("aten::item"):
                    t.wait(stream=7 if vendor == "cuda" else 0)
                t.cpu(pause)
    return t


@pytest.mark.parametrize("vendor", VENDORS)
def test_waits_that_leave_the_device_empty_are_found(analyse, vendor):
    finding = only(analyse(stopping(vendor)), "host-sync")
    # 0.3 ms of pause and some launching after each 0.5 ms of work.
    assert 0.33 < finding.share_of_step < 0.42
    assert finding.evidence["calls"] == 20
    assert finding.evidence["operators"] == ["aten::item"]
    assert len(finding.evidence["waited_for"]) == 3
    assert all(name.startswith("kernel") for name in finding.evidence["waited_for"])
    assert finding.evidence["gpu_busy_during_waits_us"] == pytest.approx(20 * 500, rel=0.05)
    assert "the time of its work and not of the call" in finding.observation
    assert "may keep it from launching ahead" in finding.hypothesis


def test_a_wait_for_a_busy_device_is_the_works_and_not_items(analyse):
    # The host waits for 95 % of the step in item(), and the device works in all of that.
    analysis = analyse(stopping(pause=0.0, waits=3, work=20.0))
    assert "host-sync" not in ids(analysis)
    assert analysis.regime == "device"


@pytest.mark.parametrize(("pause", "found"), [(0.02, False), (0.1, True)])
def test_a_wait_counts_by_the_idle_time_around_it(analyse, pause, found):
    assert ("host-sync" in ids(analyse(stopping(pause=pause)))) is found


def test_a_blocking_copy_back_is_a_wait_too(analyse):
    t = Construct("cuda")
    for _ in range(2):
        with t.step(), t.label("train"):
            for i in range(10):
                t.launch(f"kernel{i}", device=0.5)
                with t.operator("aten::copy_"):
                    t.copy("DtoH", device=0.002, bytes=4)
                t.cpu(0.3)
    finding = only(analyse(t), "host-sync")
    assert finding.evidence["names"] == ["cudaMemcpyAsync"] or "Memcpy" in finding.evidence["names"][0]
    assert finding.evidence["operators"] == ["aten::copy_"]


def test_the_profilers_own_wait_before_the_first_launch_is_not_blamed(analyse):
    t = Construct("cuda")
    for _ in range(2):
        with t.step(), t.label("train"):
            if not t.events[:2]:
                t.call("cudaDeviceSynchronize", 5.0)
            for i in range(20):
                t.launch(f"kernel{i}", device=1.0)
            t.wait()
    assert "host-sync" not in ids(analyse(t))


def test_a_wait_on_a_thread_that_launches_nothing_is_not_the_steps(analyse):
    t = healthy(kernels=10, ms=0.2)
    with t.thread("watchdog", wait=False):
        t.at(0.0)
        t.call("cudaEventSynchronize", 10.0)
    assert "host-sync" not in ids(analyse(t))


def test_long_work_of_the_host_after_a_wait_is_the_hosts(analyse):
    t = Construct("cuda")
    for _ in range(2):
        with t.step(), t.label("train"):
            t.launch("kernel", device=20.0)
            t.wait()
            t.cpu(20.0)
    analysis = analyse(t)
    # After a millisecond the wait is not to blame any more.
    assert "host-sync" not in ids(analysis)
    assert "host-bound" in ids(analysis)


# ---- host-bound ----


def slow_host(vendor="cuda", *, python=1.0, kernels=10, ms=0.5):
    """The host works between the launches and waits for nothing."""
    t = Construct(vendor)
    for _ in range(3):
        with t.step(), t.label("train"):
            for i in range(kernels):
                with t.operator(f"aten::op{i}"):
                    t.cpu(python)
                    t.launch(f"kernel{i}", device=ms)
    return t


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_host_that_does_not_launch_in_time_is_found(analyse, vendor):
    finding = only(analyse(slow_host(vendor)), "host-bound")
    assert 0.45 < finding.share_of_step < 0.55
    assert finding.evidence["operators"][0].startswith("aten::op")
    assert "may not launch as fast" in finding.hypothesis
    assert "or reading that no label names" in finding.hypothesis


def test_some_idle_time_is_not_called_bound_by_the_host(analyse):
    assert analyse(slow_host(python=0.6)).findings == []


def test_an_empty_device_while_a_batch_is_read_is_not_the_hosts(analyse):
    t = Construct("cuda")
    for _ in range(2):
        with t.step():
            with t.label("read_batch"):
                t.cpu(10.0)
            with t.label("train"):
                for i in range(5):
                    t.launch(f"kernel{i}", device=1.0)
                t.wait()
    assert ids(analyse(t)) == {"input-wait"}


def test_work_that_is_queued_but_does_not_start_is_not_the_hosts(analyse):
    t = Construct("cuda")
    for _ in range(2):
        with t.step(), t.label("train"):
            for i in range(5):
                t.launch(f"kernel{i}", device=1.0, delay=3.0 + 4.0 * i)
            t.wait()
    assert "host-bound" not in ids(analyse(t))


def test_a_call_that_is_slow_to_launch_counts_as_the_host(analyse):
    t = Construct("cuda")
    for _ in range(2):
        with t.step(), t.label("train"):
            for i in range(5):
                t.launch(f"kernel{i}", device=1.0, host=2.0)
    assert "host-bound" in ids(analyse(t))


def test_without_steps_nothing_is_said_of_a_step(analyse):
    t = Construct("cuda")
    for i in range(150):
        t.cpu(1.0)
        t.launch(f"kernel{i}", device=0.5)
    finding = only(analyse(t), "host-bound")
    assert finding.share_of_step is None
    assert "the record (no step is marked)" in finding.observation


def test_a_record_without_steps_and_with_little_work_is_not_judged(analyse):
    t = Construct("cuda")
    for i in range(50):
        t.cpu(1.0)
        t.launch(f"kernel{i}", device=0.5)
    assert analyse(t).findings == []


# ---- small-launches ----


def crumbs(vendor="cuda", *, launches=300, us=3.0, host=0.02, **launch):
    t = Construct(vendor)
    for _ in range(2):
        with t.step(), t.label("train"):
            for i in range(launches):
                with t.operator("aten::add_"):
                    t.launch(f"kernel{i % 20}", device=us / 1000, host=host, **launch)
    return t


@pytest.mark.parametrize("vendor", VENDORS)
def test_very_many_tiny_launches_are_found(analyse, vendor):
    analysis = analyse(crumbs(vendor))
    finding = only(analysis, "small-launches")
    assert finding.share_of_step == pytest.approx(17 / 20, abs=0.03)
    assert finding.evidence["operators"] == ["aten::add_"]
    assert "300 launches a step" in finding.observation
    assert "host-bound" in ids(analysis)


@pytest.mark.parametrize(
    "made",
    [
        lambda: crumbs(us=50.0, host=0.06),  # not tiny
        lambda: crumbs(launches=hosts.MANY_LAUNCHES - 10),  # not many
        lambda: crumbs(host=0.002, delay=0.001, us=3.0),  # queued faster than they run
    ],
    ids=["not tiny", "not many", "queued ahead"],
)
def test_near_misses_of_small_launches(analyse, made):
    assert "small-launches" not in ids(analyse(made()))


def test_a_graph_is_one_launch(analyse):
    t = Construct("cuda")
    for _ in range(2):
        with t.step(), t.label("train"):
            t.graph([(f"kernel{i}", 0.003) for i in range(300)])
            t.wait()
    assert "small-launches" not in ids(analyse(t))


# ---- lines ----


def test_the_users_own_line_is_named_where_the_trace_has_stacks(analyse):
    t = Construct("cuda")
    for _ in range(2):
        with t.step(), t.frame("train.py(12): train_step"), t.label("train"):
            for i in range(10):
                t.launch(f"kernel{i}", device=0.5)
                with t.frame("/home/me/lab/metrics.py(7): mean"), t.frame("torch/_tensor.py(33): item"):
                    with t.operator("aten::item"):
                        t.wait(stream=7)
                    t.cpu(0.3)
    finding = only(analyse(t), "host-sync")
    assert finding.evidence["lines"] == ["/home/me/lab/metrics.py:7"]
    assert "In your own code: /home/me/lab/metrics.py:7" in finding.observation
    assert "--stacks" not in finding.next_check


def test_how_to_get_the_line_is_said_where_it_has_none(analyse):
    finding = only(analyse(stopping()), "host-sync")
    assert finding.evidence["lines"] == []
    assert "stepprof profile --stacks" in finding.next_check
