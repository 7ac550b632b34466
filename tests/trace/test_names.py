"""Names of which every word is public stay; whatever else a name holds is replaced, the same everywhere."""

from __future__ import annotations

import importlib.util
import random
import re
import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepprof_lab.trace.names import Namer, hint, is_known, known_words, unjudged

PUBLIC = [
    "aten::conv2d",
    "aten::_scaled_dot_product_flash_attention_backward",
    "ProfilerStep#12",
    "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
    "Optimizer.step#SGD.step",
    "autograd::engine::evaluate_function: ConvolutionBackward0",
    "nccl:all_reduce",
    "cudaLaunchKernel",
    "hipExtModuleLaunchKernel",
    "Memcpy HtoD (Pageable -> Device)",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3> >",
    "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_warpgroupsize1x1x1_execute_kernel__5x_cublas",
    "Cijk_Ailk_Bljk_HHS_BH_MT128x128x32_MI32x32x8x1_SN_1LDSB0_APM1_LWPMn1_K1",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
    "triton_poi_fused_add_mul_0",
    "read_batch",
    "NVIDIA H200",
    "AMD Instinct MI300X",
]

GIVING_AWAY = [
    "alice",
    "zorblatt_fused_kernel",
    "C:\\Users\\carol\\x",
    "/srv/data/falcon/train.parquet",
    "load s3://bucket-7/key",
    "falcon@cluster.example.org",
    "10.12.0.7",
    "00:1b:44:11:3a:b7",
    "2024-07-15 10:52:38",
    "gpu-node-17.cluster.local",
    "GPU-3f1d9c2e-8a4b-4c6d-9e0f-a1b2c3d4e5f6",
    "step 123456789",
    "read on node-01",
    "gpu01",
    "train-node-12.internal",
    "fe80::1",
    "SECRET_TOKEN_12345",
    "k3v9x2q8",
    "aGVsbG8gd29ybGQ",
    "pr\u00e9paration",
    "\u8bad\u7ec3",
    "a\u2028b",
    "password=hunter2",
    "'quoted'",
]


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_stay(name: str) -> None:
    assert unjudged(name) == ()
    assert Namer().name(name, "kernel") == name


@pytest.mark.parametrize("name", GIVING_AWAY)
def test_other_names_do_not(name: str) -> None:
    made = Namer().name(name, "label")
    assert made != name
    for word in ("alice", "zorblatt", "carol", "falcon", "bucket-7", "10.12", "1b:44", "2024", "node-17", "3f1d9c2e"):
        assert word not in made
    assert not any(
        word in made for word in ("123456789", "k3v9x2q8", "aGVsbG8", "\u00e9", "\u8bad", "\u2028", "hunter2")
    )


def test_what_is_known_of_a_name_can_still_be_read() -> None:
    namer = Namer()
    assert namer.name("ncclDevKernel_zorblatt(int)", "kernel") == "ncclDevKernel_word-1(int)"
    assert namer.name("Optimizer.step#Zorblatt.step", "label") == "Optimizer.step#word-2.step"
    assert namer.name("zorblatt", "label") == "label-1"
    assert namer.name("void zorblatt::gemm<float>", "kernel") == "void word-1::gemm<float>"


def test_a_mangled_name_becomes_its_known_identifiers() -> None:
    name = "_ZN2at6native8zorblatt29vectorized_elementwise_kernelILi4EEEvT0_"
    made = Namer().name(name, "kernel")
    assert made == "at::native::vectorized_elementwise_kernel (kernel-1)"


def test_names_that_were_kept_stay_but_for_secrets() -> None:
    namer = Namer(frozenset({"zorblatt", "zorblatt of bob@example.org"}))
    assert namer.name("zorblatt", "label") == "zorblatt"
    assert "bob" not in namer.name("zorblatt of bob@example.org", "label")


@given(st.lists(st.text(max_size=30), unique=True, max_size=30))
def test_different_names_stay_different_and_the_same_name_stays_the_same(names: list[str]) -> None:
    namer = Namer()
    made = [namer.name(name, "kernel") for name in names]
    assert len(set(made)) == len(made)
    assert [namer.name(name, "kernel") for name in names] == made


@given(st.lists(st.sampled_from(["word-1", "label-1", "zorblatt", "alice", "word-1 (name-1)"]), unique=True))
def test_names_that_look_like_stand_ins_do_not_collide(names: list[str]) -> None:
    namer = Namer()
    assert len({namer.name(name, "label") for name in names}) == len(names)


def test_random_words_are_hardly_ever_taken_for_public_ones() -> None:
    draw = random.Random(5)
    for alphabet in (string.ascii_letters + string.digits, string.ascii_lowercase + string.digits, string.hexdigits):
        words = ["".join(draw.choices(alphabet, k=12)) for _ in range(2000)]
        assert sum(map(is_known, words)) == 0


def test_a_hint_never_shows_more_than_a_quarter() -> None:
    assert hint("abc") == "... (3 characters)"
    assert hint("alice-secret-value") == "alic... (18 characters)"


def test_sentences_keep_their_words_and_figures() -> None:
    namer = Namer()
    said = "rejected: this capture is not valid (1049.001 \u00b5s, 23 of 40 steps; see '/home/eve/x'); zorblatt"
    made = namer.sentence(said)
    assert made.startswith("rejected: this capture is not valid (1049.001 \u00b5s, 23 of 40 steps;")
    assert "eve" not in made
    assert "zorblatt" not in made


def test_the_name_of_the_machine_or_the_person_is_looked_for_everywhere() -> None:
    namer = Namer(frozenset({"step of deepthink"}))
    namer.identify("deepthink")
    namer.identify("python")  # a public word
    namer.identify("x")
    assert namer.name("deepthink", "label") == "label-1"
    assert namer.name("step of deepthink", "label") == "step of name-1"
    assert namer.prose("Is Deepthink slow?") == "Is name-2 slow?"
    assert namer.name("python", "thread") == "python"
    assert not namer.is_public("run DEEPTHINK")


def test_models_of_devices_stay() -> None:
    for model in ("NVIDIA A100-SXM4-80GB", "Tesla V100-DGXS-32GB", "NVIDIA GeForce RTX 2080 Ti", "AMD Instinct MI250X"):
        assert Namer().name(model, "device") == model


def test_a_long_name_takes_no_long_time() -> None:
    assert Namer().name("a " * 3_000_000, "kernel") == "kernel-1"
    assert unjudged("/" * 4000)
    assert unjudged("x" * 3999 + "@") != ()


def maker() -> Any:
    """The script beside this test, which is no package's module."""
    spec = importlib.util.spec_from_file_location("make_known_words", Path(__file__).with_name("make_known_words.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_list_of_public_words_is_what_its_script_writes() -> None:
    script = maker()
    head, *lines = script.TARGET.read_text(encoding="utf-8").splitlines()
    assert head.startswith("# Made by tests/trace/make_known_words.py")
    assert lines == sorted(set(lines))
    assert all(re.fullmatch("[a-z0-9_.+-]{2,}", line) for line in lines)
    assert not script.NOT_PUBLIC & set(lines)
    assert {"gemm", "conv", "memcpy", "nccl", "step", "batch", "cijk", "cuda", "hip", "optimizer"} <= set(lines)


def test_every_word_of_our_own_sentences_is_public() -> None:
    script = maker()
    words = {piece for text in script.own_sentences() for piece in script.pieces(text) if len(piece) > 1}
    assert words - known_words() - script.NOT_PUBLIC == set(), "run: python tests/trace/make_known_words.py"


def test_words_are_cut_out_of_names_and_docstrings_are_none_of_ours() -> None:
    script = maker()
    assert script.pieces("CUDAFunctor_add2") == ["cuda", "functor", "add"]
    assert "An allow-list, not a block-list" not in " ".join(script.own_sentences())
