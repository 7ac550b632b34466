"""Which frames are the user's own lines."""

from __future__ import annotations

import pytest

from stepprof_lab.trace import interpret, stacks


@pytest.mark.parametrize(
    ("name", "users"),
    [
        ("train.py(54): train_step", True),
        ("/home/me/lab/train.py(54): <module>", True),
        ("C:\\lab\\train.py(3): main", True),
        ("vllm/model_executor/models/llama.py(100): forward", False),
        ("flashinfer/fused_moe/core.py(80): run", False),
        ("typing_extensions.py(30): wrap", False),
        ("/sgl-workspace/sglang/python/sglang/srt/managers/scheduler.py(9): run", False),
        ("/opt/triton-custom/python/triton/runtime/jit.py(9): run", False),
        ("/home/me/vllm/vllm/engine.py(9): run", False),
        ("/home/me/src/datasets/mine.py(9): run", True),
        ("/home/me/vllm/serve.py(9): run", True),
        ("my_vllm/serve.py(9): run", True),
        ("datasets.py(9): run", True),
        ("torch/nn/modules/module.py(1511): _call_impl", False),
        ("/usr/lib/python3.11/contextlib.py(137): __enter__", False),
        ("contextlib.py(137): __enter__", False),
        ("/opt/venv/lib/python3.12/site-packages/thing/core.py(2): run", False),
        ("multiprocessing/process.py(108): run", False),
        ("<built-in method size of Tensor object at 0x7ce2>", False),
        ("<frozen importlib._bootstrap>(1390): _handle_fromlist", False),
        ("nn.Module: Linear_0", False),
        ("", False),
    ],
)
def test_the_users_own_lines(name, users):
    assert stacks.is_users(name) is users


def test_a_line_in_short():
    assert stacks.short("train.py(54): train_step") == "train.py:54"
    assert stacks.short("no line") == "no line"


def test_frames_with_unusable_times_or_names_are_left_out(build, read):
    built = build().step(1, 0, 100).operator("aten::mm", 0, 10)
    for name, start, tid in (("train.py(3): a", 0, 1), (5, 0, 1), (None, 0, 1)):
        built.add("python_function", name, start, 50, tid=tid)
    assert read(built).analysis.steps[0].cpu_us == 100


@pytest.mark.parametrize("name", ["cuda_b200_eager.json.gz", "rocm_mi300_sglang_decode_hipgraph.json.gz"])
def test_frames_of_an_inference_engine_are_not_said_to_be_the_users(name, traces):
    said = [
        finding for finding in interpret(traces / name).analysis.findings if "In your own code" in finding.observation
    ]
    assert said == []
