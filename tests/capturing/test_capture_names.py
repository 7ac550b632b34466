"""Names of labels: checked once, and in any script although the profiler writes only plain ones."""

from __future__ import annotations

import json

import pytest

from stepprof_lab.capturing.names import LabelNames
from stepprof_lab.errors import StepprofError


@pytest.mark.parametrize("name", ["lecture_batch_cpu", "read batch", "a/b [0]", "</script>"])
def test_a_plain_name_goes_through_the_profiler_as_it_is(name: str) -> None:
    assert LabelNames().see(name, None) == name


@pytest.mark.parametrize("name", ["données", "読み込み", "قراءة", 'say "hi"', "C:\\x", "😀", "a\u2028b", " padded "])
def test_any_other_name_travels_under_a_plain_one_and_comes_back(name: str) -> None:
    names = LabelNames()
    stand_in = names.see(name, "read")
    assert stand_in.isascii()
    assert names.see(name, None) == stand_in
    text = json.dumps([{"name": stand_in}, {"name": "aten::add"}]).encode()
    assert json.loads(names.restore(text)) == [{"name": name}, {"name": "aten::add"}]


def test_two_names_never_share_a_stand_in() -> None:
    names = LabelNames()
    assert names.see("é", None) != names.see("è", None)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "expected a name"),
        ("  ", "expected a name"),
        ("a\nb", "control characters"),
        ("\x1b[31mred", "control characters"),
        ("\ud800", "half a character"),
        ("ProfilerStep#2", "the profiler does not use itself"),
        ("stepprof-label-1", "the profiler does not use itself"),
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "the profiler does not use itself"),
        ("batches of ada@example.org", "e-mail"),
        ("/home/ada/data", "home directory"),
    ],
)
def test_a_name_that_cannot_be_kept_is_refused(name: str, said: str) -> None:
    with pytest.raises(StepprofError, match=said) as caught:
        LabelNames().see(name, None)
    str(caught.value).encode()
    assert "ada@example.org" not in str(caught.value)


def test_a_role_that_is_none_is_refused() -> None:
    with pytest.raises(StepprofError, match="role 'reading'"):
        LabelNames().see("a", "reading")  # type: ignore[arg-type]


def test_a_stated_role_counts_before_a_usual_name() -> None:
    names = LabelNames()
    for name, role in (("train", None), ("transfer", "read"), ("mine", None), ("late", None), ("late", "update")):
        names.see(name, role)  # type: ignore[arg-type]
    loader = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    assert [(label.name, label.role, label.role_from) for label in names.seen([loader])] == [
        ("train", "compute", "usual name"),
        ("transfer", "read", "stated"),
        ("mine", None, "unknown"),
        ("late", "update", "stated"),
        (loader, "read", "loader"),
    ]
