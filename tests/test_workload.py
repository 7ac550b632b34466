"""A workload file: from its name to a Step, and every way in which that fails in one line."""

from __future__ import annotations

import pickle
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepprof_lab import workload
from stepprof_lab.errors import StepprofError
from stepprof_lab.labels import Step


@pytest.fixture(autouse=True)
def untouched_imports() -> Iterator[None]:
    path, modules, loaded = list(sys.path), set(sys.modules), dict(workload._loaded)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]
    workload._loaded.clear()
    workload._loaded.update(loaded)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


GOOD = """
from stepprof_lab.labels import Step

def build(device):
    return Step(lambda: device, samples=3)

def other(device):
    return Step(lambda: "other")
"""


def test_a_file_means_its_build_and_a_name_another_function(tmp_path: Path) -> None:
    file = write(tmp_path / "w_names.py", GOOD)
    assert workload.build(str(file), "cpu").run() == "cpu"
    assert workload.build(f"{file}:other", "cpu").run() == "other"


@pytest.mark.parametrize(
    ("spec", "path", "name"),
    [
        ("train.py", "train.py", "build"),
        ("train.py:after", "train.py", "after"),
        (r"C:\work\train.py", r"C:\work\train.py", "build"),
        (r"C:\work\train.py:after", r"C:\work\train.py", "after"),
        ("train.py:no-name", "train.py", "no-name"),
        ("train:after", "train", "after"),
        ("a:b/train.py", "a:b/train.py", "build"),
    ],
)
def test_a_colon_separates_only_a_function(spec: str, path: str, name: str) -> None:
    assert workload.parse(spec) == (Path(path), name)


def test_an_existing_path_with_a_colon_is_a_path(tmp_path: Path) -> None:
    file = tmp_path / "odd.py:build"
    try:
        file.write_text("")
    except OSError:
        pytest.skip("this file system has no colons in names")
    assert workload.parse(str(file)) == (file, "build")


@pytest.mark.parametrize(
    ("text", "spec", "said"),
    [
        (None, "{file}", "does not exist"),
        ("", "{directory}", "FILE.py"),
        ("def train(device): ...\ndef _hidden(): ...", "{file}", "has no function 'build' (it has: train)"),
        ("x = 1", "{file}", "(it has: no function)"),
        ("build = 3", "{file}", "is an int"),
        ("def build(): ...", "{file}", "cannot be called with one device"),
        ("def build(device, lr): ...", "{file}", "cannot be called with one device"),
        ("def build(device): return lambda: 1", "{file}", "returned a function; expected a Step"),
        ("def build(device): pass", "{file}", "returned None; expected a Step"),
        (
            "from stepprof_lab.labels import Step\ndef build(device): return Step(3)",
            "{file}",
            "runs an int; expected a function without arguments",
        ),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, text: str | None, spec: str, said: str) -> None:
    file = tmp_path / f"w_{abs(hash(said))}.py"
    if text is not None:
        file.write_text(text)
    with pytest.raises(StepprofError) as caught:
        workload.build(spec.format(file=file, directory=tmp_path), "cpu")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\nraise ValueError('two\\nlines')", "raised ValueError: two lines at w_raises.py:2"),
        ("def build(device:\n", "SyntaxError"),
        ("import no_such_module_anywhere", "ModuleNotFoundError"),
        ("import sys\nsys.exit(3)", "raised SystemExit: 3 at w_raises.py:2"),
        ("def f():\n    1 / 0\nf()", "ZeroDivisionError: division by zero at w_raises.py:2"),
    ],
)
def test_a_file_that_raises_shows_its_own_traceback(tmp_path: Path, text: str, said: str) -> None:
    file = write(tmp_path / "w_raises.py", text)
    with pytest.raises(StepprofError) as caught:
        workload.load(str(file))
    assert said in str(caught.value)
    detail = caught.value.detail
    assert detail is not None
    assert "w_raises.py" in detail
    assert "importlib" not in detail
    assert "workload.py" not in detail
    assert "w_raises" not in sys.modules


def test_build_that_raises_names_the_line_of_the_users_file(tmp_path: Path) -> None:
    write(tmp_path / "w_below.py", "def fail():\n    raise KeyError('x')\n")
    file = write(tmp_path / "w_build.py", "import w_below\ndef build(device):\n    w_below.fail()\n")
    with pytest.raises(StepprofError, match=r"raised KeyError: 'x' at w_build.py:3") as caught:
        workload.build(str(file), "cpu")
    detail = caught.value.detail
    assert detail is not None
    assert detail.splitlines()[1].strip().startswith(f'File "{file}"')


def test_a_step_that_raises_says_which_step(tmp_path: Path) -> None:
    file = write(
        tmp_path / "w_step.py",
        """
        from stepprof_lab.labels import Step

        def build(device):
            def step():
                raise RuntimeError("no")
            return Step(step)
        """,
    )
    with pytest.raises(StepprofError, match=r"step 8 of the workload raised RuntimeError: no at w_step.py:6"):
        workload.run_step(workload.build(str(file), "cpu"), 7)


def test_an_error_of_ours_inside_a_step_is_not_wrapped() -> None:
    def step() -> None:
        raise StepprofError("a", "b", "c")

    with pytest.raises(StepprofError, match=r"^a; expected b; c$"):
        workload.run_step(Step(step), 0)


def test_an_interrupt_inside_a_step_is_not_turned_into_an_error() -> None:
    def step() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        workload.run_step(Step(step), 0)


def generator_step() -> object:
    def values() -> Iterator[object]:
        yield next(iter(()))

    return next(values())


@pytest.mark.parametrize("run", [lambda: next(iter(())), generator_step])
def test_data_that_ends_early_says_how_much_there_was(run: object) -> None:
    with pytest.raises(workload.StepEnded) as caught:
        workload.run_step(Step(run), 9, 24)  # type: ignore[arg-type]
    said = str(caught.value)
    assert "ended after 9 steps; expected data for 24 steps" in said
    assert "while True: yield from loader" in said


def test_neighbours_can_be_imported_also_later(tmp_path: Path) -> None:
    write(tmp_path / "w_neighbour.py", "value = 5\n")
    file = write(
        tmp_path / "w_lazy.py",
        """
        from stepprof_lab.labels import Step

        def build(device):
            def step():
                import w_neighbour
                return w_neighbour.value
            return Step(step)
        """,
    )
    assert workload.build(str(file), "cpu").run() == 5


def test_what_the_file_defines_can_be_pickled_for_workers(tmp_path: Path) -> None:
    file = write(
        tmp_path / "w_pickle.py",
        """
        from stepprof_lab.labels import Step

        class Data:
            pass

        def build(device):
            return Step(Data)

        other = build
        """,
    )
    first, second = workload.build(str(file), "cpu").run(), workload.build(f"{file}:other", "cpu").run()
    # Both arms of one file share one module, or the first arm's classes could not be pickled any more.
    assert type(pickle.loads(pickle.dumps(first))) is type(second)
    assert type(first).__module__ == "w_pickle"


def test_a_name_that_another_module_has_is_not_taken_from_it(tmp_path: Path) -> None:
    import json

    file = write(tmp_path / "json.py", GOOD)
    assert workload.build(str(file), "cpu").run() == "cpu"
    assert sys.modules["json"] is json


def test_a_file_that_was_edited_is_read_again(tmp_path: Path) -> None:
    file = write(tmp_path / "w_edit.py", GOOD)
    assert workload.build(str(file), "cpu").samples == 3
    write(file, GOOD.replace("samples=3", "samples=1234"))
    assert workload.build(str(file), "cpu").samples == 1234


def test_two_arms_never_share_a_neighbour_that_only_has_the_same_name(tmp_path: Path) -> None:
    for arm in ("a", "b"):
        write(tmp_path / arm / "w_model.py", f"name = {arm!r}\n")
        write(tmp_path / arm / f"w_arm_{arm}.py", "import w_model\n" + GOOD)
    workload.load(str(tmp_path / "a" / "w_arm_a.py"))
    with pytest.raises(StepprofError, match=r"two different files named 'w_model\.py'"):
        workload.load(str(tmp_path / "b" / "w_arm_b.py"))


def test_two_arms_may_have_the_same_neighbour_and_the_same_name(tmp_path: Path) -> None:
    for arm in ("a", "b"):
        write(tmp_path / arm / "w_same.py", "value = 1\n")
        write(tmp_path / arm / "w_train.py", f"import w_same\n{GOOD.replace('samples=3', f'samples={ord(arm)}')}")
    found = [workload.build(str(tmp_path / arm / "w_train.py"), "cpu").samples for arm in ("a", "b")]
    assert found == [ord("a"), ord("b")]
