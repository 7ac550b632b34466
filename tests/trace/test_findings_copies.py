"""Copies to the device: which are called repeated, which pageable, and what a trace cannot tell."""

from __future__ import annotations

import pytest

from stepprof_lab.construct import Construct

BATCH = 1 << 22
CONSTANT = 1 << 16


def ids(analysis):
    return {finding.id for finding in analysis.findings}


def only(analysis, ident):
    (finding,) = [finding for finding in analysis.findings if finding.id == ident]
    return finding


def loop(
    vendor="cuda",
    *,
    constant=0.1,
    transfer="transfer",
    train="train",
    steps=3,
    sizes=None,
    skip=(),
    inside=True,
    **copy,
):
    """A steady loop whose batch is copied in its own label, and which copies something else too."""
    t = Construct(vendor)
    for n in range(steps):
        with t.step():
            with t.label(transfer):
                t.copy("HtoD", device=0.1, bytes=BATCH, pinned=True)
            with t.label(train):
                for i in range(5):
                    t.launch(f"kernel{i}", device=0.4)
                t.wait(stream=7 if vendor == "cuda" else 0)
                if constant and n not in skip and inside:
                    with t.operator("aten::copy_"):
                        t.copy("HtoD", device=constant, bytes=(sizes or [CONSTANT])[n % len(sizes or [0])], **copy)
                for i in range(5):
                    t.launch(f"kernel{5 + i}", device=0.4)
                t.wait(stream=7 if vendor == "cuda" else 0)
            if constant and not inside:
                t.copy("HtoD", device=constant, bytes=CONSTANT, **copy)
    return t


# ---- repeated-copy ----


@pytest.mark.parametrize("vendor", ["cuda", "rocm"])
@pytest.mark.parametrize("pinned", [True, False])
def test_the_same_copy_in_every_step_is_found(analyse, vendor, pinned):
    finding = only(analyse(loop(vendor, pinned=pinned)), "repeated-copy")
    assert 0.02 < finding.share_of_step < 0.06
    assert finding.evidence["bytes"] == [CONSTANT]
    assert finding.evidence["copies"] == 3
    assert finding.evidence["labels"] == ["train"]
    assert finding.evidence["operators"] == ["aten::copy_"]
    assert "not the values" in finding.hypothesis
    assert "may be the same constant" in finding.hypothesis
    assert "compare the outputs" in finding.next_check


def test_roles_say_where_the_batch_is_copied(analyse):
    roles = {"vers la carte": "transfer", "entrainement": "compute"}
    made = loop(transfer="vers la carte", train="entrainement")
    assert "repeated-copy" in ids(analyse(made, roles=roles))
    assert "repeated-copy" not in ids(analyse(made))  # where the batch is copied is not known


@pytest.mark.parametrize(
    "change",
    [
        {"constant": 0},
        {"constant": 0.005},  # next to nothing
        {"sizes": [CONSTANT, CONSTANT + 512, CONSTANT + 1024]},  # not the same
        {"skip": (1,)},  # not in every step
        {"steps": 1},
    ],
    ids=["none", "short", "other sizes", "not in each", "one step"],
)
def test_near_misses_of_a_repeated_copy(analyse, change):
    assert "repeated-copy" not in ids(analyse(loop(**change)))


def test_the_fresh_batch_is_not_taken_for_a_constant(analyse):
    # The only copy of the step lies in the label that computes: it may well be the batch.
    t = Construct("cuda")
    for _ in range(3):
        with t.step(), t.label("train"):
            t.copy("HtoD", device=0.3, bytes=BATCH, pinned=True)
            for i in range(5):
                t.launch(f"kernel{i}", device=1.0)
            t.wait()
    assert analyse(t).findings == []


def test_many_copies_of_a_batch_are_no_fault(analyse):
    t = Construct("cuda")
    for _ in range(3):
        with t.step():
            with t.label("transfer"):
                for _ in range(40):
                    t.copy("HtoD", device=0.01, bytes=4096, pinned=True)
            with t.label("train"):
                for i in range(10):
                    t.launch(f"kernel{i}", device=1.0)
                t.wait()
    assert analyse(t).findings == []


def test_a_copy_without_a_recorded_size_is_not_judged(analyse, build, read):
    built = build()
    for n in (0, 1):
        at = n * 1000
        built.step(n, at, 1000).label("transfer", at, 100).label("train", at + 100, 900)
        for k, start in enumerate((50, 500)):
            number = 10 * n + k + 1
            built.launch(number, at + start, 5, name="cudaMemcpyAsync")
            args = {"device": 0, "stream": 7, "correlation": number}
            name = "Memcpy HtoD (Pinned -> Device)"
            built.add("gpu_memcpy", name, at + start + 10, 100, pid=0, tid=7, args=args)
    assert "repeated-copy" not in ids(read(built).analysis)


# ---- pageable-copy ----


def batches(vendor="cuda", *, copy=1.0, pinned=False, compute=8.0, beside=False):
    """A loop that copies its batch to the device first; or beside the work of another stream."""
    t = Construct(vendor)
    other = 7 if vendor == "cuda" else 0
    for _ in range(3):
        with t.step():
            if not beside:
                with t.label("transfer"):
                    t.copy("HtoD", device=copy, pinned=pinned, bytes=BATCH)
            with t.label("train"):
                for i in range(8):
                    t.launch(f"kernel{i}", device=compute / 8, stream=other)
            if beside:  # the next batch, while this one is worked on
                with t.label("transfer"):
                    t.copy("HtoD", device=copy, pinned=pinned, bytes=BATCH, stream=20)
            t.wait(stream=other)
    return t


def test_copies_from_pageable_memory_that_run_alone_are_found(analyse):
    finding = only(analyse(batches()), "pageable-copy")
    assert finding.share_of_step == pytest.approx(1 / 9, abs=0.02)
    assert finding.evidence["bytes"] == 3 * BATCH
    assert finding.evidence["names"] == ["Memcpy HtoD (Pageable -> Device)"]
    assert "pin_memory=True" in finding.next_check
    assert "pinning has a cost" in finding.next_check


@pytest.mark.parametrize(
    "change", [{"pinned": True}, {"copy": 0.3}, {"beside": True}], ids=["pinned", "short", "beside other work"]
)
def test_near_misses_of_a_pageable_copy(analyse, change):
    assert "pageable-copy" not in ids(analyse(batches(**change)))


def test_staging_on_the_host_counts(analyse, build, read):
    # The call takes 100 us to copy for 20 us, and nothing else runs; what it takes beyond that would be waiting.
    built = build()
    for n in (0, 1):
        at = n * 1000
        built.step(n, at, 1000).label("transfer", at, 200)
        built.launch(2 * n + 1, at + 10, 100, name="cudaMemcpyAsync")
        args = {"device": 0, "stream": 7, "correlation": 2 * n + 1, "bytes": 4096}
        built.add("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", at + 85, 20, pid=0, tid=7, args=args)
        built.launch(2 * n + 2, at + 110).kernel(2 * n + 2, at + 120, 400, name=f"k{n}")
    finding = only(read(built).analysis, "pageable-copy")
    assert finding.share_of_step == pytest.approx(0.1)


def test_rocm_does_not_record_the_memory_and_that_is_said(analyse):
    analysis = analyse(batches("rocm"))
    assert "pageable-copy" not in ids(analysis)
    (note,) = [note for note in analysis.notes if "pageable or pinned" in note]
    assert "cannot be decided" in note
    assert not any("pageable" in note for note in analyse(batches("rocm", copy=0.2)).notes)


# ---- where no label tells the batch ----

UNTOLD = "whether this is the same constant each time cannot be said"


def untold(analysis):
    return [note for note in analysis.notes if UNTOLD in note]


@pytest.mark.parametrize(("transfer", "train", "lacking"), [("send", "train", "transfers"), ("transfer", "go", "comp")])
def test_a_repeated_copy_that_no_label_tells_from_the_batch_is_said_to_be_undecided(analyse, transfer, train, lacking):
    found = analyse(loop(transfer=transfer, train=train))
    assert "repeated-copy" not in ids(found)
    (note,) = untold(found)
    assert "3 copies, 0.345 ms, 2.7 %" in note
    assert f"no label is known that {lacking}" in note


@pytest.mark.parametrize(
    "made",
    [
        loop(),  # it is found
        loop(transfer="send", constant=0.0),  # the batch alone
        loop(transfer="send", skip={1}),  # not in every step
        loop(transfer="send", sizes=[1 << 10, 1 << 11, 1 << 12]),  # never the same
        loop(transfer="send", constant=0.005),  # costs next to nothing
    ],
)
def test_nothing_is_called_undecided_where_nothing_is_repeated_or_it_is_found(analyse, made):
    assert untold(analyse(made)) == []


def test_the_role_of_a_label_decides_it(analyse):
    found = analyse(loop(transfer="send"), roles={"send": "transfer"})
    assert "repeated-copy" in ids(found)
    assert untold(found) == []
