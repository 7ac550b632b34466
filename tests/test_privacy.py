# ruff: noqa: RUF001 - texts in several scripts
"""Secrets are found, ordinary words of the field are not, and no text takes long."""

from __future__ import annotations

import base64
import gzip
import itertools
import random
import re
import string
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepprof_lab.errors import StepprofError
from stepprof_lab.privacy import refuse_secrets, secrets_in

TRACES = Path(__file__).resolve().parents[1] / ".." / "shared" / "traces"

SECRETS = [
    ("e-mail address", "alice@example.com", "write to alice@example.com please"),
    ("e-mail address", "a.b+c@sub.example.co.uk", "<a.b+c@sub.example.co.uk>"),
    ("e-mail address", "rené.dupont@univ-été.fr", "de rené.dupont@univ-été.fr."),
    ("access token", "hf_" + "aB3" * 11, "with hf_" + "aB3" * 11),
    ("access token", "ghp_" + "a1B2" * 9, "ghp_" + "a1B2" * 9),
    ("access token", "github_pat_11ABC_" + "x7" * 20, "token github_pat_11ABC_" + "x7" * 20 + "!"),
    ("access token", "glpat-abcdefghij0123456789", "glpat-abcdefghij0123456789"),
    ("access token", "sk-proj-" + "Ab1" * 12, "key: sk-proj-" + "Ab1" * 12),
    ("access token", "sk-" + "abcdefghij" * 3, "sk-" + "abcdefghij" * 3),
    ("access token", "xoxb-123456789012-abcDEF", "xoxb-123456789012-abcDEF"),
    ("access token", "AKIAIOSFODNN7EXAMPLE", "id AKIAIOSFODNN7EXAMPLE"),
    ("access token", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln-_x", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln-_x"),
    ("access token", "Bearer abc123def456", "Authorization: Bearer abc123def456"),
    ("access token", "-----BEGIN RSA PRIVATE KEY-----", "-----BEGIN RSA PRIVATE KEY-----\nMII"),
    ("password", "https://user:pa55@", "from https://user:pa55@data.example/x"),
    ("password", "postgresql://u:p@", "postgresql://u:p@localhost/grades"),
    ("password", "password = hunter22", "password = hunter22"),
    ("password", "SECRET_ACCESS_KEY=abcdefgh/ijkl", "AWS_SECRET_ACCESS_KEY=abcdefgh/ijkl"),
    ("password", "api_key: abc123", "api_key: abc123"),
    ("password", 'api_key": "abc123"', '"api_key": "abc123" in a file'),
    ("password", "API_KEY=abcdef", "WANDB_API_KEY=abcdef"),
    ("password", "password: hunter22", "password: hunter22"),
    ("password", "token: abc123def456", "token: abc123def456"),
    ("password", "TOKEN=a1b2c3d4e5f6", "MY_TOKEN=a1b2c3d4e5f6"),
    ("password", "token: 3f786850e387550f", "token: 3f786850e387550f"),
    ("password", "client_secret: x1y2z3", "client_secret: x1y2z3"),
    ("e-mail address", "bob@f5.com", "bob@f5.com"),
    ("e-mail address", "bob@cuda.com", "bob@cuda.com"),
    ("e-mail address", "bob@gpu.example.org", "bob@gpu.example.org"),
    ("e-mail address", "ada@lab.science", "ada@lab.science"),
    ("home directory", "/home/alice", "/home/alice/data/train"),
    ("home directory", "/home/é", "in '/home/é'"),
    ("home directory", "/Users/bob", "open /Users/bob"),
    ("home directory", "/nfs/home2/eve", "PATH=/bin:/nfs/home2/eve/bin"),
    ("home directory", "/mnt/c/Users/eve", "/mnt/c/Users/eve/x"),
    ("home directory", "/home/eve", "file:///home/eve/x"),
    ("home directory", "C:\\Users\\Carol", "C:\\Users\\Carol\\runs"),
    ("home directory", "C:\\\\Users\\\\Carol", "'C:\\\\Users\\\\Carol'"),
    ("home directory", "d:/users/Anna Maria", "d:/users/Anna Maria/x"),
    ("home directory", "~dave", "~dave/runs"),
    ("home directory", "/root", "/root/.cache"),
    ("home directory", "/var/root", "/var/root"),
    ("network path", "\\\\server\\share$", "\\\\server\\share$\\x"),
    ("random text", "0123456789abcdef0123456789abcdef", "sum 0123456789abcdef0123456789abcdef"),
]

HARMLESS = [
    "",
    "batch of 64x1x8x8",
    "torch.nn.Conv2d",
    "ms/step",
    "samples/s, about ~3 ms/step",
    "~/data and ~",
    "data/train/*.png",
    "docs/home/index.html, users/step",
    "https://example.com/home/page",
    "/home/$USER/x, /home/<you>/x, /home/*/x, /home/...",
    "C:\\Users\\Public\\x and /Users/Shared",
    "/data/users.csv",
    "Préparation du lot, été à l'hôpital",
    "データの読み込みは待っていますか？",
    "训练步骤是否在等待数据？",
    "lecture_batch_cpu",
    "a1b2c3d fixes it, deadbeef too",
    "x@self.weight, A @ B, a@b.mean(0), @torch.compile",
    "conv2d@bf16.fast, gemm@fp8_e4m3.slow, softmax@cuda.triton, attention@sm90.tma, x@f32.mean",
    "pad_token: 50256, eos_token: </s>, next_token: bfloat16[1, 128], token: layer12.attention",
    "max_tokens=4096, token=attention, IMAGE_TOKEN=image_token, tokens: 1024x768",
    "the secret: measure first; the password: required; api_key: your_key_here",
    "sk-learn-classifier-digits",
    "bearer of good news, bearer understanding",
    "hf_hub_download",
    "0" * 40,
    "1234567890" * 4,
    "r'\\d+\\w' \\n\\t",
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_",
    "Cijk_Ailk_Bljk_HHS_BH_MT128x128x32_MI32x32x8x1_SN_1LDSB0_APM1_ABV0_ACED0_AF0EM8_AF1EM1_AMAS3_ASE",
    "fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128PersistentContext",
    "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_warpgroupsize1x1x1_execute_kernel__5x_cublas",
    "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
    "1,797 handwritten digits of scikit-learn, one PNG file an image, decoded with Pillow",
]


@pytest.mark.parametrize(("kind", "found", "text"), SECRETS)
def test_a_secret_is_found_whole_and_where_it_stands(kind: str, found: str, text: str) -> None:
    assert [(s.kind, s.found, s.start) for s in secrets_in(text)] == [(kind, found, text.index(found))]


@pytest.mark.parametrize("text", HARMLESS)
def test_words_of_the_field_are_no_secrets(text: str) -> None:
    assert secrets_in(text) == []
    refuse_secrets(text, "label")


def test_several_secrets_come_in_order_and_do_not_overlap() -> None:
    text = "https://u:pass@example.com then bob@example.com in /home/bob, bob@example.com"
    found = secrets_in(text)
    assert [s.kind for s in found] == ["password", "e-mail address", "home directory", "e-mail address"]
    assert all(a.start + len(a.found) <= b.start for a, b in itertools.pairwise(found))


def test_random_words_are_found_nearly_always() -> None:
    draw = random.Random(3)
    keys = [base64.b64encode(draw.randbytes(32)).decode() for _ in range(500)]
    keys += ["".join(draw.choices(string.ascii_letters + string.digits, k=40)) for _ in range(500)]
    assert sum(bool(secrets_in(f"key {key}")) for key in keys) > 0.9 * len(keys)


def test_names_in_real_traces_are_not_taken_for_random_words() -> None:
    if not TRACES.is_dir():
        pytest.skip("the real traces lie beside the repository and are not here")
    names: set[str] = set()
    for path in (TRACES / "cuda_b200_eager.json.gz", TRACES / "rocm_mi300_resnet_train_3steps_ddp.json.gz"):
        text = gzip.decompress(path.read_bytes()).decode()
        names.update(re.findall(r'"name": ?"((?:[^"\\]|\\.)*)"', text))
    assert len(names) > 300
    assert {s.found for name in names for s in secrets_in(name) if s.kind != "home directory"} == set()


@pytest.mark.parametrize(("kind", "found", "text"), SECRETS)
def test_a_refusal_says_why_without_repeating_the_secret(kind: str, found: str, text: str) -> None:
    with pytest.raises(StepprofError, match=f"label holds an? {kind}") as caught:
        refuse_secrets(text, "label")
    assert found not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text() | st.text(alphabet="ab/\\.@:~-_ =+A1\n"))
def test_any_text_is_searched_without_a_crash(text: str) -> None:
    for secret in secrets_in(text):
        assert secret.found
        assert text[secret.start : secret.start + len(secret.found)] == secret.found
        assert secret.found not in secret.sentence


PIECES = [
    *("api_key: ", "token: ", "secret=", "@bf16."),
    *("a", "@", "a@", "a.", "a@a.", "x@a.b", "/", "/a", "/home/", "\\", "\\\\a", "~a", "~", ":", ":a", "a:", "a://"),
    *("eyJ", "eyJaaaaaaaa.", "sk-", "-", "a-", "_", "A1", "aB1", "0", "f", " ", "\n", "bearer ", "-----BEGIN "),
    *("password", "password = ", "C:\\Users\\a", "C:\\Users\\a ", "hf_", "xoxb-", "é", "\ud800", "=", "0x", "glpat-"),
]


@settings(max_examples=5, deadline=None)
@given(st.sampled_from(PIECES), st.sampled_from(PIECES))
def test_two_pieces_repeated_take_no_long_time(one: str, other: str) -> None:
    _search_in_time((one + other) * (100_000 // len(one + other)))


@pytest.mark.parametrize("piece", PIECES)
def test_a_long_text_takes_time_in_proportion(piece: str) -> None:
    _search_in_time(piece * (100_000 // len(piece)))


def _search_in_time(text: str) -> None:
    # A search that tries every start to the end would take minutes here; this one takes about 0.05 s.
    start = time.process_time()
    secrets_in(text + "!")
    assert time.process_time() - start < 5
