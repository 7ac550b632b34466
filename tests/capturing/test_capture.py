"""A capture from end to end on the CPU: its forms, its record, what is not valid, and that nothing stays behind."""

from __future__ import annotations

import gzip
import json
import os
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="a capture needs torch")

from stepprof_lab import labels, record  # noqa: E402
from stepprof_lab.capturing import Window, capture, profile_workload  # noqa: E402
from stepprof_lab.capturing.session import Session  # noqa: E402
from stepprof_lab.errors import NotAvailable, StepprofError  # noqa: E402
from stepprof_lab.labels import label  # noqa: E402
from stepprof_lab.scenario import Scenario, inline  # noqa: E402

TRAINING = "read transfer forward backward update"
STEPS = 24
"""Twenty of the approach, four of the window."""


@pytest.fixture(autouse=True)
def nothing_stays_behind() -> Iterator[None]:
    base = torch.utils.data.dataloader._BaseDataLoaderIter
    profile = torch.autograd.profiler.profile
    before = base.__next__, base.__init__, profile._prepare_trace, torch.autograd.backward
    yield
    assert labels._recorder is None
    assert (base.__next__, base.__init__, profile._prepare_trace, torch.autograd.backward) == before
    assert not torch.autograd._profiler_enabled()


def question(**more: Any) -> Scenario:
    return inline("is compute waiting for data?", boundary=TRAINING, unit="ms/step", **more)


def window(path: Path, **more: Any) -> Window:
    return capture(question(), path / "t.json.gz", device="cpu", **more)


def body() -> None:
    with label("read_batch"):
        x = torch.ones(16, 16)
    with label("train"):
        x @ x


def run(made: Window, turn: Callable[[int], object] | None = None) -> None:
    for step in made:
        if turn is None:
            body()
        else:
            turn(step)


def leave(made: Window, at: int, *, before_the_body: bool = False) -> None:
    for step in made:
        if before_the_body and step == at:
            break
        body()
        if step == at:
            break


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


def load(path: Path) -> dict[str, Any]:
    text = gzip.decompress(path.read_bytes()) if path.name.endswith(".gz") else path.read_bytes()
    return json.loads(text)


def spans(path: Path) -> list[str]:
    events = load(path)["traceEvents"]
    return [e["name"] for e in sorted(events, key=lambda e: e.get("ts", 0)) if e.get("cat") == "user_annotation"]


WORKLOAD = """
import torch
from torch.utils.data import DataLoader, TensorDataset
from stepprof_lab.labels import Step, label

def build(device):
    model = torch.nn.Linear(8, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(torch.randn(400, 8), torch.randint(0, 4, (400,))), batch_size=8)
    batches = iter(loader)
    def step():
        with label("lecture_données", role="read"):
            x, y = next(batches)
        with label("transfer"):
            x, y = x.to(device), y.to(device)
        with label("train"):
            optimizer.zero_grad(set_to_none=True)
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        return loss
    return Step(step, state={"model": model, "optimizer": optimizer}, samples=8)
"""


def workload(path: Path, text: str = WORKLOAD) -> str:
    file = path / f"w_{path.name}.py"
    file.write_text(textwrap.dedent(text), encoding="utf-8")
    return str(file)


# --- a workload ------------------------------------------------------------------------------------------------------


def test_a_workload_is_captured_with_its_record(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    captured = profile_workload(
        question(),
        workload(tmp_path),
        device="cpu",
        out=tmp_path / "out",
        progress=lambda what, done, total: told.append((what, done, total)),
    )
    assert captured is not None
    assert names(tmp_path / "out") == ["trace.json.gz", "trace.record.json"]
    found = spans(captured.trace)
    assert [name for name in found if name.startswith("ProfilerStep#")] == ["ProfilerStep#2", "ProfilerStep#3"]
    for name in ("lecture_données", "transfer", "train"):
        assert found.count(name) == 2
    made = captured.record
    assert made.valid
    assert all(check.passed for check in made.checks)
    assert (len(made.approach.steps_ms), made.approach.cut, made.approach.loader_workers) == (20, False, 0)
    assert set(made.approach.labels_ms) >= {"lecture_données", "transfer", "train"}
    assert len(made.window_steps_ms) == 4
    assert (made.observed["shapes"], made.observed["mode"], made.observed["backward"]) == (["8x8"], "train", True)
    assert made.observed["loader_iterators_made_in_window"] == 0
    assert made.contradictions == []
    assert not made.gpu_requested
    assert not any(made.options.values())
    assert {(seen.name, seen.role) for seen in made.labels} >= {("lecture_données", "read"), ("train", "compute")}
    assert load(captured.trace)["stepprof_lab"]["capture"] == made.capture_id
    assert told[0] == ("approach", 1, 20)
    assert told[-1] == ("writing", 1, 1)
    assert ("window", 3, 4) not in told, "nothing is drawn between the active steps"


def test_the_same_seed_gives_the_same_start(tmp_path: Path) -> None:
    drawn = (
        "import torch\nfrom stepprof_lab.labels import Step\ndef build(device):\n    raise ValueError(torch.rand(1))\n"
    )
    said = set()
    for _ in range(2):
        with pytest.raises(StepprofError) as caught:
            profile_workload(question(seed=7), workload(tmp_path, drawn), device="cpu", out=tmp_path / "out")
        said.add(str(caught.value))
    assert len(said) == 1
    assert "tensor" in said.pop()
    assert not (tmp_path / "out").exists(), "no empty directory stays behind"


def test_data_that_ends_early_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    short = WORKLOAD.replace("400", "176")
    with pytest.raises(StepprofError, match="ended after 22 steps; expected data for 24 steps"):
        profile_workload(question(), workload(tmp_path, short), device="cpu", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_name_that_is_taken_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    (tmp_path / "trace.json.gz").write_text("old")
    text = "def build(device):\n    raise SystemExit('was built')\n"
    with pytest.raises(StepprofError, match="exists already"):
        profile_workload(question(), workload(tmp_path, text), device="cpu", out=tmp_path)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_loader_with_workers_is_captured_and_its_reading_timed(tmp_path: Path) -> None:
    text = WORKLOAD.replace("batch_size=8)", "batch_size=8, num_workers=2)")
    captured = profile_workload(question(), workload(tmp_path, text), device="cpu", out=tmp_path / "out")
    assert captured is not None
    made = captured.record
    assert (made.approach.loader_workers, made.observed["loader_workers"]) == (2, 2)
    loader = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    assert len(made.approach.labels_ms[loader]) == 20
    assert made.labels[-1] == record.LabelSeen(name=loader, role="read", role_from="loader")


@pytest.mark.slow
def test_workers_that_start_afresh_find_what_the_file_defines(tmp_path: Path) -> None:
    text = """
    import torch
    from stepprof_lab.labels import Step, label
    from torch.utils.data import DataLoader, Dataset

    class Numbers(Dataset):
        def __len__(self):
            return 100

        def __getitem__(self, index):
            return index

    def build(device):
        batches = iter(DataLoader(Numbers(), num_workers=1, multiprocessing_context="spawn"))

        def step():
            with label("read_batch"):
                return next(batches)

        return Step(step)
    """
    captured = profile_workload(question(), workload(tmp_path, text), device="cpu", out=tmp_path / "out")
    assert captured is not None
    assert captured.record.approach.loader_workers == 1


def test_an_inference_workload_has_a_request_as_its_step(tmp_path: Path) -> None:
    text = """
    import torch
    from stepprof_lab.labels import Step, label

    def build(device):
        model = torch.nn.Linear(8, 4).eval().to(device)

        @torch.inference_mode()
        def request():
            with label("infer"):
                return model(torch.ones(1, 8, device=device))

        return Step(request, state={"model": model}, samples=1)
    """
    asked = inline("how long does one request take?", kind="inference", boundary="forward", unit="ms/request")
    captured = profile_workload(asked, workload(tmp_path, text), device="cpu", out=tmp_path / "out")
    assert captured is not None
    assert captured.record.contradictions == []
    assert captured.record.observed["mode"] == "eval"
    assert captured.record.observed["backward"] is False


def test_options_are_named_in_the_record_and_in_the_trace(tmp_path: Path) -> None:
    captured = profile_workload(
        question(), workload(tmp_path), device="cpu", out=tmp_path / "out", record_shapes=True, with_stack=True
    )
    assert captured is not None
    assert captured.record.options == {"record_shapes": True, "profile_memory": False, "with_stack": True}
    assert load(captured.trace)["record_shapes"] == 1


def test_by_default_a_new_directory_below_runs_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first = profile_workload(question(), workload(tmp_path), device="cpu", name="My scene")
    second = profile_workload(question(), workload(tmp_path), device="cpu", name="My scene")
    assert first is not None
    assert second is not None
    assert first.trace.parent != second.trace.parent
    assert {first.trace.parent.parent, second.trace.parent.parent} == {tmp_path / "runs"}
    assert first.trace.parent.name.startswith("my-scene-2")


# --- the forms of a loop that exists already -------------------------------------------------------------------------


def by_for(path: Path) -> Window:
    made = window(path)
    for _ in made:
        body()
    return made


def by_zip_first(path: Path) -> Window:
    made = window(path)
    for _, _batch in zip(made, range(1000), strict=False):
        body()
    return made


def by_zip_last(path: Path) -> Window:
    made = window(path)
    for _batch, _ in zip(range(1000), made, strict=False):
        body()
    return made


def by_over(path: Path) -> Window:
    made = window(path)
    rest = 0
    for _ in made.over(range(STEPS + 6)):
        rest += made.done
        body()
    assert rest == 6, "the loop goes on to its end"
    return made


def by_with(path: Path) -> Window:
    with window(path) as made:
        for _ in range(STEPS + 6):
            body()
            made.step()
    return made


def by_over_in_epochs(path: Path) -> Window:
    with window(path) as made:
        for _epoch in range(5):
            for _ in made.over(range(7)):
                body()
    return made


def by_callback(path: Path) -> Window:
    made = window(path)
    made.start()

    def train(on_step_end: Callable[[], None]) -> None:
        while not made.done:
            body()
            on_step_end()

    train(made.step)
    made.close()
    return made


def by_micro_batches(path: Path) -> Window:
    made = window(path)
    for _ in made:
        for _micro in range(3):
            body()
    return made


@pytest.mark.parametrize(
    "form",
    [by_for, by_zip_first, by_zip_last, by_over, by_with, by_over_in_epochs, by_callback, by_micro_batches],
    ids=lambda form: form.__name__,
)
def test_every_form_captures(
    form: Callable[[Path], Window], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = form(tmp_path)
    said = [line for line in capsys.readouterr().err.splitlines() if "captured" in line]
    assert said == [f"captured: {tmp_path / 't.json.gz'}; next: stepprof read {tmp_path / 't.json.gz'}"]
    assert made.done
    assert made.captured is not None
    assert names(tmp_path) == ["t.json.gz", "t.record.json"]
    assert len(made.captured.record.approach.steps_ms) == 20
    calls = 6 if form is by_micro_batches else 2
    found = spans(made.captured.trace)
    assert [found.count(name) for name in ("read_batch", "train")] == [calls, calls]
    made.step()
    assert names(tmp_path) == ["t.json.gz", "t.record.json"]


def test_the_window_begins_where_it_is_told_to(tmp_path: Path) -> None:
    made = window(tmp_path, begin=3)
    assert [step for step in made for _ in [body()]] == list(range(7))
    assert made.captured is not None
    assert len(made.captured.record.approach.steps_ms) == 3
    assert made.captured.record.approach.cut_reason == "the window was asked to begin at step 3"


def test_a_window_may_begin_at_once(tmp_path: Path) -> None:
    made = window(tmp_path, begin=0)
    for _ in made:
        body()
    assert made.captured is not None
    assert made.captured.record.approach.steps_ms == []


def test_a_plain_name_gives_a_plain_file(tmp_path: Path) -> None:
    made = capture(question(), tmp_path / "plain.json", device="cpu", begin=1)
    for _ in made:
        body()
    assert b"traceEvents" in (tmp_path / "plain.json").read_bytes()


def test_a_question_can_be_given_inline(tmp_path: Path) -> None:
    made = capture(
        "is a copy repeated?", tmp_path / "t.json.gz", boundary="transfer forward backward update", unit="ms/step",
        device="cpu", begin=1,
    )  # fmt: skip
    for _ in made:
        body()
    assert made.captured is not None
    assert made.captured.record.scenario.question == "is a copy repeated?"


def test_a_loop_without_labels_is_captured_too(tmp_path: Path) -> None:
    made = window(tmp_path, begin=1)
    for _ in made:
        torch.ones(3) + 1
    assert made.captured is not None
    assert made.captured.record.labels == []


def test_an_iterator_made_inside_the_window_is_noted(tmp_path: Path) -> None:
    loader = torch.utils.data.DataLoader(range(4), batch_size=2)
    made = window(tmp_path, begin=1)
    for _ in made:
        list(loader)
    assert made.captured is not None
    assert made.captured.record.observed["loader_iterators_made_in_window"] == 4
    assert any("iterator was made inside the window" in note for note in record.context_of(made.captured.record).notes)


# --- loops that end too early ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("turns", [0, 1, 10, 20, 21])
def test_a_break_before_the_active_steps_leaves_nothing_and_warns(turns: int, tmp_path: Path) -> None:
    with pytest.warns(RuntimeWarning, match="no capture: the loop ended after"):
        leave(window(tmp_path), turns, before_the_body=True)
    assert names(tmp_path) == []


@pytest.mark.parametrize(("turns", "said"), [(22, "turn 3"), (23, "turn 4")])
def test_a_break_in_an_active_step_is_kept_as_rejected(turns: int, said: str, tmp_path: Path) -> None:
    with pytest.warns(RuntimeWarning, match=rf"{said} of 4 .*kept as t.rejected.json.gz"):
        leave(window(tmp_path), turns)
    assert names(tmp_path) == ["t.rejected.json.gz", "t.rejected.record.json"]
    kept, note = record.find(tmp_path / "t.rejected.json.gz")
    assert kept is not None, note
    assert not kept.valid
    failed = {check.name: check.detail for check in kept.checks if not check.passed}
    assert failed["turns"] == f"{turns - 20} of 4 turns were run to their end"


@pytest.mark.parametrize("form", ["zip", "over"])
def test_data_that_ends_inside_the_window_is_kept_as_rejected(form: str, tmp_path: Path) -> None:
    def short() -> None:
        made = window(tmp_path)
        for _ in zip(made, range(22), strict=False) if form == "zip" else made.over(range(23)):
            body()

    with pytest.warns(RuntimeWarning, match=f"the loop ended after {22 if form == 'zip' else 23} of 24 steps"):
        short()
    assert names(tmp_path) == ["t.rejected.json.gz", "t.rejected.record.json"]


def test_what_was_rejected_before_is_not_replaced(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="rejected"):
            leave(window(tmp_path, begin=1), 4)
    assert names(tmp_path) == [
        "t.rejected-2.json.gz",
        "t.rejected-2.record.json",
        "t.rejected.json.gz",
        "t.rejected.record.json",
    ]


def test_a_trainer_that_ends_early_is_warned_about(tmp_path: Path) -> None:
    with pytest.warns(RuntimeWarning, match="ended after 0 of 24 steps, before the window began"), window(tmp_path):
        body()
    assert names(tmp_path) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, SystemExit])
@pytest.mark.parametrize("turn", [5, 20, 21, 22, 23])
def test_an_error_in_the_loop_leaves_nothing(error: type[BaseException], turn: int, tmp_path: Path) -> None:
    def fail(step: int) -> None:
        with label("train"):
            if step == turn:
                raise error

    with pytest.raises(error):
        run(window(tmp_path), fail)
    assert names(tmp_path) == []


@pytest.mark.parametrize("turn", [5, 22, 23])
def test_an_error_where_a_trainer_owns_the_loop_leaves_nothing(turn: int, tmp_path: Path) -> None:
    def train() -> None:
        with window(tmp_path) as made:
            while True:
                with label("train"):
                    if made.steps_run == turn:
                        raise KeyboardInterrupt
                made.step()

    with pytest.raises(KeyboardInterrupt):
        train()
    assert names(tmp_path) == []


def test_a_loader_that_raises_in_an_active_step_leaves_nothing(tmp_path: Path) -> None:
    def broken() -> Iterator[int]:
        yield from range(23)
        raise OSError("the disk with the data has gone")

    def train() -> None:
        for _ in window(tmp_path).over(broken()):
            body()

    with pytest.raises(OSError, match="has gone"):
        train()
    assert names(tmp_path) == []


def test_an_error_that_the_body_handled_is_no_error(tmp_path: Path) -> None:
    kept = []
    for _ in window(tmp_path):
        body()
        try:
            raise ValueError
        except ValueError as error:
            kept.append(error)
    assert names(tmp_path) == ["t.json.gz", "t.record.json"]


# --- windows that are not valid --------------------------------------------------------------------------------------


def rejected(path: Path, turn: Callable[[int], None], match: str) -> None:
    with pytest.raises(StepprofError, match=match) as caught:
        run(window(path, begin=1), turn)
    assert "t.rejected.json.gz" in str(caught.value)
    assert names(path) == ["t.rejected.json.gz", "t.rejected.record.json"]


def test_a_label_that_is_not_in_both_active_steps_is_not_valid(tmp_path: Path) -> None:
    def turn(step: int) -> None:
        with label("train" if step != 4 else "other"):
            torch.ones(3) + 1

    rejected(tmp_path, turn, "label 'other' is in the two active steps 0 times and once")


def test_a_label_around_the_end_of_a_step_is_not_valid(tmp_path: Path) -> None:
    around = label("around")

    def turn(step: int) -> None:
        if step > 1:
            around.__exit__(None, None, None)
        around.__enter__()

    rejected(tmp_path, turn, "label 'around' is not inside one step")
    around.__exit__(None, None, None)


def test_a_step_that_is_counted_twice_is_not_valid(tmp_path: Path) -> None:
    def train() -> None:
        with window(tmp_path, begin=2) as made:
            while not made.done:
                body()
                made.step()
                made.step()

    with pytest.raises(StepprofError, match="label 'train' is in the two active steps once and 0 times"):
        train()
    assert names(tmp_path) == ["t.rejected.json.gz", "t.rejected.record.json"]


class FakeGpu:
    """Stands for a GPU whose collection is on; the activities are those that this build has."""

    is_gpu = True
    origin = "live"
    sentence = "a GPU that is none"

    def __init__(self) -> None:
        self.waits = 0

    def synchronize(self) -> None:
        self.waits += 1

    def activities(self) -> list[Any]:
        return [torch.profiler.ProfilerActivity.CPU]


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    fake = FakeGpu()
    monkeypatch.setattr("stepprof_lab.capturing.window.refuse", lambda plan: fake)
    monkeypatch.setattr("stepprof_lab.capturing.window.environment.describe", lambda device: {})
    return fake


@pytest.mark.parametrize("asked", ["gpu", "auto"])
def test_gpu_events_that_were_asked_for_and_are_missing_exit_with_3(asked: str, gpu: FakeGpu, tmp_path: Path) -> None:
    with pytest.raises(NotAvailable, match="no GPU event was observed") as caught:
        run(capture(question(), tmp_path / "t.json.gz", device=asked, begin=1))
    assert caught.value.exit_code == 3
    assert names(tmp_path) == ["t.rejected.json.gz", "t.rejected.record.json"]


def test_a_gpu_that_was_only_chosen_is_not_asked_of_a_workload_on_the_cpu(gpu: FakeGpu, tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 2)
    made = capture(question(), tmp_path / "t.json.gz", device="auto", begin=2)
    run(made, lambda _: model(torch.ones(1, 2)))
    assert made.captured is not None
    assert made.captured.record.gpu_requested is False
    assert "on the CPU" in made.captured.record.checks[-1].detail


def test_the_device_is_waited_for_before_and_after_the_approach_and_never_between_its_steps(
    gpu: FakeGpu, tmp_path: Path
) -> None:
    waits = []
    model = torch.nn.Linear(2, 2)

    def turn(_: int) -> None:
        waits.append(gpu.waits)
        model(torch.ones(1, 2))

    run(capture(question(), tmp_path / "t.json.gz", device="auto"), turn)
    assert waits == [1] * 20 + [2] * 4


def test_a_name_that_gives_something_away_is_refused_before_the_window(tmp_path: Path) -> None:
    with pytest.raises(StepprofError, match="e-mail"):
        run(window(tmp_path), lambda _: label("ada@example.org").__enter__())
    assert names(tmp_path) == []


# --- writing that fails ----------------------------------------------------------------------------------------------


def test_an_export_that_fails_in_silence_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "_export", lambda self, profile: setattr(self, "handler_calls", 1))
    with pytest.raises(StepprofError, match="the profiler could not write its trace"):
        run(window(tmp_path, begin=1))
    assert names(tmp_path) == []


@pytest.mark.parametrize("written", [1, 2], ids=["the trace does not fit", "the record does not fit"])
def test_a_full_disk_is_one_line_and_leaves_nothing(
    written: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = os.fsync, []
    write_bytes = Path.write_bytes

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    def sync(descriptor: int) -> None:
        calls.append(descriptor)
        full() if written == 2 else real(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    if written == 1:
        monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(StepprofError, match="No space left on device") as caught:
        run(window(tmp_path, begin=1))
    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    assert "\n" not in str(caught.value)
    assert names(tmp_path) == []


def test_a_name_that_was_taken_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    def take(step: int) -> None:
        body()
        if step == 4:
            (tmp_path / "t.json.gz").write_text("from another process")

    with pytest.raises(StepprofError, match="exists already"):
        run(window(tmp_path, begin=1), take)
    assert names(tmp_path) == ["t.json.gz"]
    assert (tmp_path / "t.json.gz").read_text() == "from another process"


# --- refused before a step -------------------------------------------------------------------------------------------


def refused(made: Window, match: str, error: type[StepprofError] = StepprofError) -> None:
    ran: list[int] = []
    with pytest.raises(error, match=match) as caught:
        run(made, ran.append)
    assert ran == []
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("taken", ["t.json.gz", "t.record.json"])
def test_a_name_that_is_taken_is_refused(taken: str, tmp_path: Path) -> None:
    (tmp_path / taken).write_text("old")
    refused(window(tmp_path), "exists already")
    assert (tmp_path / taken).read_text() == "old"


def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused(window(tmp_path / "file" / "below"), "cannot be made")


def test_a_directory_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", denied)
    refused(window(tmp_path), "cannot be written")
    monkeypatch.undo()


def test_a_device_that_is_not_there_is_refused(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    refused(capture(question(), tmp_path / "t.json", device="gpu"), "device 'gpu'", NotAvailable)


def test_an_active_profiler_is_refused(tmp_path: Path) -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        refused(window(tmp_path), "another profiler is active")


def test_a_profiler_in_another_thread_is_refused(tmp_path: Path) -> None:
    started, end = threading.Event(), threading.Event()

    def profile() -> None:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
            started.set()
            end.wait(20)

    thread = threading.Thread(target=profile)
    thread.start()
    started.wait(20)
    try:
        refused(window(tmp_path), "another profiler is active")
    finally:
        end.set()
        thread.join()


def test_a_capture_inside_a_capture_is_refused_and_the_outer_one_goes_on(tmp_path: Path) -> None:
    for step in window(tmp_path / "outer", begin=1):
        body()
        if step == 3:
            refused(window(tmp_path / "inner"), "while another one is made")
    assert names(tmp_path / "outer") == ["t.json.gz", "t.record.json"]
    assert not (tmp_path / "inner").exists()


@pytest.mark.parametrize("name", ["t.txt", "t", ".json", "t.json.zip"])
def test_a_name_that_is_no_traces_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(StepprofError, match=r"ends in \.json or \.json\.gz"):
        capture(question(), tmp_path / name)


def test_a_step_before_the_start_and_a_second_start_are_refused(tmp_path: Path) -> None:
    made = window(tmp_path)
    with pytest.raises(StepprofError, match="before the capture was started"):
        made.step()
    made.start()
    with pytest.raises(StepprofError, match="started already"):
        made.start()
    made.abandon()


def test_a_step_in_another_thread_is_refused(tmp_path: Path) -> None:
    said: list[str] = []

    def elsewhere() -> None:
        try:
            made.step()
        except StepprofError as error:
            said.append(str(error))

    with window(tmp_path) as made:
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        made.abandon()
    assert "all steps in one thread" in said[0]


def test_a_profiler_that_is_started_inside_the_window_is_refused(tmp_path: Path) -> None:
    def nested(step: int) -> None:
        if step == 3:
            torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]).start()

    with pytest.raises(StepprofError, match="another profiler was started inside the window"):
        run(window(tmp_path, begin=1), nested)
    assert names(tmp_path) == []
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as later:
        body()
    assert later.key_averages(), "a profiler works as before afterwards"
