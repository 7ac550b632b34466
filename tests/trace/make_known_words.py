"""Write the words of names that are public, by hand, where torch is installed: `stepprof_lab/trace/known_words.txt`.

The words are the parts of public names: of PyTorch's operators, modules, optimisers, headers and Python functions, of
this package's own sentences, and of the vendors' libraries as listed below. A name in a trace that consists of such
words tells nothing about who recorded it.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from stepprof_lab.trace.stacks import PACKAGES

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(__file__).resolve().parents[2] / "stepprof_lab"
TARGET = PACKAGE / "trace" / "known_words.txt"
HEADERS = ("ATen", "c10", "torch/headeronly", "torch/csrc/autograd/generated")
SOURCES = ("nn", "optim", "autograd", "_inductor", "_dynamo", "_functorch", "utils", "distributed", "profiler", "cuda")
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"", re.DOTALL)
RARE = 3
"""A word of headers that stands there less often may be somebody's name."""

VENDORS = """
all2all
activity addbmm aiter akernel align aligned allgather allreduce alltoall amd ampere arc asynchronous attn autotuner
awaitable awaitables axpy b2b backend backward barrier batch batchnorm bcast bdlm benchmark bert bf bgrad bias bk
blackwell blas blasLt bld block bm bn boffsets broadcast bronze btk buffer bwd bytes c10d c2c c2r calibration cask
cast ccl center ck clmp cluster cnn col2im coll collective collnet combine composable compute conv convert convolve
cooperative copy core cpu criterion ctx cub cublas cublasLt cublaslt cuda cudacc cudnn cufft cunn cupti curand
cusolver cusparse cute cutlass data dataset dbias decode deepep dequant dev device dgemm dgrad dgx dgxs dispatch ditoh
dot dram ds dtod dtoh dynamo eager ediv egx einsum elementwise emb embedding embs end engines entrainement epilogue
epyc eval exp expert experts fast fbgemm fc fft fill finalize flash flashinfer flush fmha forward fp fprop fused
fusion fwd fwdbwd gated gather gb geforce gelu gemm gemmk gemv gemvx gen generate generation gfx ghz gkgs global gmem
gold gpu grace grad graph graphics graphs gridded group grouped gru gtcx gtx half hbm head hfp hgemm hgx hhs hip
hipblas hipblaslt hipify hopper host htod htoh hws igemm im2col implicit inception indexing inductor infer inference
input instinct intel inter interior internode intranode ipc iter iteration jetson kd kernel kineto kjt krsc kv kvm
laptop large latency layernorm layout lazy ldg ldgsts lecture linear ll llm load loader loading loss low lstm main
mainloop matmul max mean medium mem memcpy memory memset metric metrics mha mhz miopen mla mlp mma mnk model moe mul
multi nccl nccldevkernel ncdhw nchw ndhwc net nhwc nhwckrsc nll nn node nonfused norm normal notify nsp nt nvfp nvidia
nvjet nvl nvls oam ocl offset offsets onesweep op ops optimizer orin output overlap pack pageable paged pat pcie peer
per persistent pinned pipeline platinum poi pointwise policy pool pooled pooling postprocess prefill preprocess pro
process processor pt ptr py pyper python qemu qk qkv quadro quant quantize r2c radeon rccl read recat record recv
reduce reducescatter reduction reg relu renormalize reorder req request reshape resnet ring rmsnorm rnn rocblas rocclr
rocm rocprim roctracer rope rotary routing row rs rtx runtime ryzen sampling scale scan scatter scudnn sdd segment
send sendrecv sgemm sglang shared shuffle sigmoid silu silver simple simt sliced sm small smem softmax sort spans
sparse split splitk splitkreduce splits sqrt stage stages start step stream strided sub sum super swiglu swizzle sxm
sync tail tanh tegra tensor tensorop tesla threads thrust tile tiled tilesize titan tma tn top topk torchrec tr traces
train training transfer transfert transform transpose tri triton trt truncated truncation tt turing type unary unfused
unity unpack unspecified unweighted update upsample validation var vec vectorized virtual vllm volta wait warp
warpgroup warpgroupsize warpspecialized weight wgrad window winograd with wmma workspace write wrw ws xdlops xeon xla
xmma xregs zero
category categories driver drivers framework loaders network networks processors trainer trainers
"""
"""Words of the vendors' libraries, kernels and devices, and of labels that anyone would choose."""

TENSILE = """
AAC ABV ACED AF0EM AF1EM AFC AFEM AILK ALIK AMAS APM ASAE ASBE ASCE ASE ASEM ASGT ASLT ASM BBS BH BJLK BL BLJK BS CADS
CIJK CLR CMS DTL DTLA DTLB DTVA DTVB DVO ELFLR EM EMLL EPS ETSP FDSI FL FSSC GLS GLVWA GLVWB GRCGA GRCGB GRPM GRVW
GRVWA GRVWB GRVWN GSU GSUAMB GSUAMBSK GSUASB GSUC GSUWGMRR ISA IU KLA LBSPPA LBSPPB LBSPPM LDL LDSB LDSTI LDW LPA LPB
LPM LRVW LWPM LWPMN MAC MDA MGRIPM MGWVW MI MIAV MIWT MKFGSU MLDS MMFGLC MMFSC MO MT NDTA NDTB NDTC NDTD NDTM NEPBS
NLCA NLCB NSL NT NTA NTB NTC NTD NTM NTN NTSR ONLL OPLV PAP PBD PGR PK PKA PLR POSTGSU PSD RK SAV SCIUI SE SG SGRO SHB
SHIFT SIA SK SKFTR SKXCCM SLW SN SNLL SPO SRVW SS SSO SU SUM SUS SVW SX SY TLDS TSGRA TSGRB TT UIOFGRO ULSGRO UMIGRO
UMLDSA UMLDSB UNMODIFIED USERARGS USFGRO USFGRON USFGROSAV USL VAW VFLRP VS VSN VW VWA VWB WG WGM WGMXCC WS WSGRA
WSGRB WSK
"""
"""Parameters in the names of AMD's generated matrix kernels (Tensile)."""


NOT_PUBLIC = {
    *("word", "secret", "secrets", "password", "passwords", "passwd", "credential", "credentials", "private"),
    *("confidential", "sensitive", "planted", "canary", "leak", "leaked", "alice", "bob", "eve", "mallory", "carol"),
}
"""Words of public names that nobody should meet in a shared copy, and ``word`` itself, which is our stand-in."""


def main() -> None:
    """Collect, sort, write."""
    sure = {word for text in (VENDORS, TENSILE) for word in pieces(text)} | {
        word.lower() for word in (VENDORS + TENSILE).split()
    }
    for names in (schemas(), torch_classes(), own_sentences(), sys.stdlib_module_names, sorted(PACKAGES)):
        sure |= {piece for name in names for piece in pieces(name)}
    counts = Counter(piece for name in [*headers(), *functions()] for piece in pieces(name))
    words = sure | {word for word, n in counts.items() if n >= RARE}
    kept = sorted(word for word in words if len(word) > 1 and word.isascii() and word not in NOT_PUBLIC)
    head = "# Made by tests/trace/make_known_words.py from public names; one word a line, lower case.\n"
    TARGET.write_text(head + "".join(f"{word}\n" for word in kept), encoding="utf-8", newline="\n")
    print(len(kept), "words")


def pieces(name: str) -> list[str]:
    """``CUDAFunctor_add2`` gives cuda, functor, add."""
    return [piece.lower() for piece in PIECE.findall(name)]


def schemas() -> Iterator[str]:
    """Names of all operators with their namespaces and overloads."""
    import torch

    for schema in torch._C._jit_get_all_schemas():
        yield schema.name
        yield schema.overload_name


def torch_classes() -> Iterator[str]:
    """Modules and optimisers."""
    import torch

    for room in (torch.nn, torch.optim, torch.nn.functional, torch.utils.data, torch):
        yield from dir(room)


def own_sentences() -> Iterator[str]:
    """The texts that this package itself writes into records and findings; not what describes its code."""
    files = [*PACKAGE.glob("capturing/*.py"), *PACKAGE.glob("trace/**/*.py"), PACKAGE / "record.py"]
    for path in [*files, PACKAGE / "scenario.py", PACKAGE / "environment.py", PACKAGE / "devices.py"]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        described = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in described:
                yield node.value


def torch_folder() -> Path:
    """Where torch is installed."""
    import torch

    return Path(torch.__file__).parent


def headers() -> Iterator[str]:
    """Identifiers in torch's headers, without comments and texts."""
    for folder in HEADERS:
        for path in (torch_folder() / "include" / folder).rglob("*"):
            if path.suffix in {".h", ".cuh"}:
                yield from IDENTIFIER.findall(COMMENT.sub(" ", path.read_text(encoding="utf-8", errors="replace")))


def functions() -> Iterator[str]:
    """Names of Python files, classes and functions of torch, as they stand in recorded stacks."""
    for folder in SOURCES:
        for path in (torch_folder() / folder).rglob("*.py"):
            yield from [*path.relative_to(torch_folder()).with_suffix("").parts] * RARE
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8", errors="replace"))):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    yield from [node.name] * RARE


if __name__ == "__main__":
    main()
