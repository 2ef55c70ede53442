"""Halves of results: bytes that add up, whatever the modulus, and refusals of what cannot be."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppodc.errors import InputError, ProtocolError, WireError
from ppodc.records.result_shares import (
    MAX_FACTS,
    OutputShare,
    half_width,
    modulus_from_bytes,
    modulus_to_bytes,
    open_output,
    pack_facts,
    unpack_facts,
)

MODULI = [2, 3, 255, 256, 257, 1 << 64, (1 << 64) + 13, 1 << 71, 2**521 - 1]


@given(st.sampled_from(MODULI), st.data())
def test_halves_add_up_to_the_values(modulus, data):
    numbers = st.integers(0, modulus - 1)
    values = data.draw(st.lists(numbers, max_size=5))
    masks = data.draw(st.lists(numbers, min_size=len(values), max_size=len(values)))
    hidden = [(value - mask) % modulus for value, mask in zip(values, masks, strict=True)]
    halves = [OutputShare.of(modulus, hidden), OutputShare.of(modulus, masks)]
    assert open_output(*halves) == values
    assert open_output(OutputShare.of(modulus, values)) == values  # a kind with one cloud
    assert halves[1].values == masks
    assert halves[1].data.shape == (len(values), half_width(modulus))
    again = OutputShare(modulus_from_bytes(modulus_to_bytes(modulus)), halves[1].data.copy())
    assert again == halves[1]


def test_words_are_numbers_modulo_2_to_the_64():
    words = np.array([[0, 1], [2**64 - 1, 5]], np.uint64)
    assert OutputShare.of_words(words) == OutputShare.of(1 << 64, [0, 1, 2**64 - 1, 5])
    assert open_output(OutputShare.of_words(words), OutputShare.of_words(words))[2] == 2**64 - 2


def test_rows_and_joining():
    half = OutputShare.of(257, [1, 256, 3, 4])
    assert half.rows(1, 2).values == [256, 3]
    assert OutputShare.joined([half.rows(0, 1), half.rows(1, 3)]) == half
    with pytest.raises(InputError, match="different outputs"):
        OutputShare.joined([half, OutputShare.of(256, [1])])


def test_equality_is_of_content():
    half = OutputShare.of(256, [1, 2])
    assert half == OutputShare.of(256, [1, 2])
    assert half != OutputShare.of(256, [1, 3])
    assert half != OutputShare.of(255, [1, 2])
    assert half != [1, 2]
    with pytest.raises(TypeError, match="unhashable"):
        hash(half)


def test_no_half_shows_its_numbers_in_a_repr():
    assert "123" not in repr(OutputShare.of(1 << 16, [123]))


@pytest.mark.parametrize(
    ("modulus", "data"),
    [
        (256, np.zeros((2, 2), np.uint8)),
        (257, np.zeros((2, 1), np.uint8)),
        (256, np.zeros((2, 1), np.uint16)),
        (256, np.zeros(2, np.uint8)),
        (256, np.zeros((2, 1, 1), np.uint8)),
        (256, np.array(0, np.uint8)),
        (1, np.zeros((2, 1), np.uint8)),
        (0, np.zeros((2, 1), np.uint8)),
    ],
)
def test_bytes_that_do_not_fit_the_modulus_are_refused(modulus, data):
    with pytest.raises(WireError, match="does not fit"):
        OutputShare(modulus, data)


def test_values_beyond_the_modulus_are_refused():
    beyond = OutputShare(255, np.array([[255]], np.uint8))
    with pytest.raises(WireError, match="beyond its modulus"):
        open_output(beyond, OutputShare.of(255, [0]))


def test_halves_that_do_not_belong_together():
    for other in (OutputShare.of(256, [1]), OutputShare.of(255, [1, 2])):
        with pytest.raises(ProtocolError, match="do not belong together"):
            open_output(OutputShare.of(256, [1, 2]), other)


@pytest.mark.parametrize("size", [0, 1025])
def test_impossible_moduli(size):
    with pytest.raises(WireError, match="impossible size"):
        modulus_from_bytes(bytes(size))


def test_equal_facts_are_equal_bytes():
    assert pack_facts({"b": True, "a": 3}) == pack_facts({"a": 3, "b": True}) == b'{"a":3,"b":true}'
    assert unpack_facts(pack_facts({"a": 3, "b": True})) == {"a": 3, "b": True}
    with pytest.raises(InputError, match="over 1000 bytes"):
        pack_facts({"a": "x" * MAX_FACTS})


@pytest.mark.parametrize(
    "packed", [b"", b"3", b"[]", b"{", b"\xff", b"[" * 999, b'{"a":1}' + b" " * MAX_FACTS]
)
def test_what_are_no_facts(packed):
    with pytest.raises(WireError, match="do not decode"):
        unpack_facts(packed)
