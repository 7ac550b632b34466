"""Numbers that identify are found whatever they are joined to, and numbers in names of code are not."""

from __future__ import annotations

import pytest

from stepprof_lab.privacy import secrets_in
from stepprof_lab.trace.addresses import ALWAYS, UNLESS_KEPT, found
from stepprof_lab.trace.names import Namer

ADDRESSES = [
    "192.168.1.7",
    "10.11.12.13",
    "fe80::1ff:fe23:4567:890a",
    "fe80::1",
    "2001:db8:85a3::8a2e:370:7334",
    "2001:0db8:0000:0000:0000:ff00:0042:8329",
    "aa:bb:cc:dd:ee:ff",
    "00:1b:44:11:3a:b7",
    "00-1b-44-11-3a-b7",
    "550e8400-e29b-41d4-a716-446655440000",
    "2026-11-03",
    "2026-11-03T10:22:01",
    "4111111111111111",
    "4111 1111 1111 1111",
]
JOINED = ["{}", "run_{}_step", "aten::{}", "void {}_kernel(int)", "step {} of 4", "GPU-{}", "<{}>", "ids={};"]

OF_CODE = [
    "aten::conv2d",
    "c10::d2::e5",
    "at::native::add::c10::detail::b1",
    "bf16::add_kernel",
    "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_warpgroupsize1x1x1_execute_kernel__5x_cublas",
    "void at::native::unrolled_elementwise_kernel<4, std::array<char*, 3ul> >",
    "autograd::engine::evaluate_function: ConvolutionBackward0",
    "stage:1:2",
    "load:batch:0",
    "feed::forward",
    "1024 1024 1024 1024",
    "step 4398046511104",
    "operator=",
    "the user may wait",
]


@pytest.mark.parametrize("joined", JOINED)
@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_goes_whatever_it_is_joined_to(address: str, joined: str) -> None:
    name = joined.format(address)
    for namer in (Namer(), Namer(frozenset({name}))):
        made = namer.name(name, "kernel")
        assert not any(part in made for part in (address, address[:6], address[-6:])), made


@pytest.mark.parametrize("name", ["x192.168.1.7y", "xfe80::1ff:fe23:4567:890ay", "xaa:bb:cc:dd:ee:ffz", "v2026-11-03x"])
def test_a_letter_before_or_after_hides_nothing(name: str) -> None:
    for namer in (Namer(), Namer(frozenset({name}))):
        made = namer.name(name, "operator")
        assert not any(part in made for part in ("168", "fe23", "bb:cc", "11-03")), made


@pytest.mark.parametrize("name", OF_CODE)
def test_numbers_in_names_of_code_are_no_addresses(name: str) -> None:
    assert list(found(name, ALWAYS)) == []
    assert Namer(frozenset({name})).name(name, "kernel") == name


def test_a_name_that_its_owner_kept_keeps_what_may_be_a_version() -> None:
    name = "cudnn 8.9.2 zorblatt"
    assert Namer(frozenset({name})).name(name, "kernel") == name
    assert [name[a:b] for a, b, _ in found(name, UNLESS_KEPT)] == ["8.9.2"]


@pytest.mark.parametrize(
    "name", ["step user=root", "step_user=root", "run host='root'", "hostname = root", "login=root"]
)
def test_who_or_where_it_was_goes_though_the_word_is_public(name: str) -> None:
    for namer in (Namer(), Namer(frozenset({name}))):
        assert "root" not in namer.name(name, "label")


@pytest.mark.parametrize("text", ["\\\\server\\share", "aten::\\\\server\\share", "run_\\\\server\\share"])
def test_a_network_path_is_found_after_a_scope_or_an_underscore(text: str) -> None:
    assert [secret.kind for secret in secrets_in(text)] == ["network path"]
    assert "server" not in Namer(frozenset({text})).name(text, "operator")


@pytest.mark.parametrize("text", ["C:\\\\data\\\\train", "in 'D:\\\\runs\\\\one'", "data\\\\train\\\\x"])
def test_doubled_separators_of_a_path_are_no_network_path(text: str) -> None:
    assert secrets_in(text) == []
