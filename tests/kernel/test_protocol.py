"""Frames and messages: what goes in comes out, in whatever pieces, and nothing else gets in."""

import io
import pickle
import resource
import struct
import tracemalloc
from collections.abc import Callable
from typing import Any

import ml_dtypes
import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel import protocol
from kernel.protocol import DTYPES, MAGIC, Decoder, ProtocolError, decode, encode, messages

HEADER = struct.Struct("<4sI")


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray:
    dtype = DTYPES[draw(st.sampled_from(sorted(DTYPES)))]
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=4)))
    count = int(np.prod(shape))
    raw = draw(st.binary(min_size=count * dtype.itemsize, max_size=count * dtype.itemsize))
    if dtype == np.bool_:
        raw = bytes(b & 1 for b in raw)
    whole = np.frombuffer(raw, dtype).reshape(shape)
    return whole.T if draw(st.booleans()) else whole


texts = st.text(max_size=20)
plain = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | texts
values = st.recursive(plain | arrays(), lambda v: st.lists(v, max_size=3) | st.dictionaries(texts, v, max_size=3))
maps = st.dictionaries(texts, values, max_size=4)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and (a == b or a != a)


def attempt(work: Callable[[], Any]) -> tuple[Any, str]:
    """What comes of it, or the sentence with which it is refused."""
    try:
        return work(), ""
    except ProtocolError as error:
        return None, str(error)


@given(st.lists(maps, max_size=3), st.lists(st.integers(0, 2000), max_size=6))
def test_messages_arrive_whole_however_they_are_cut(sent: list[dict], cuts: list[int]) -> None:
    stream = b"".join(map(encode, sent))
    ends = [*sorted(min(c, len(stream)) for c in cuts), len(stream)]
    decoder, got = Decoder(), []
    for start, end in zip([0, *ends], ends, strict=False):
        got += decoder.feed(stream[start:end])
    assert same(got, sent)
    assert decoder.pending == 0
    assert same(list(messages(io.BufferedReader(io.BytesIO(stream)))), sent)


@given(st.binary(max_size=60))
def test_garbage_is_refused_in_one_sentence(data: bytes) -> None:
    got, sentence = attempt(lambda: list(Decoder().feed(data)))
    assert "\n" not in sentence
    assert sentence or (got == [] and data[:4] == MAGIC[: len(data)])


@given(maps, st.data())
def test_a_damaged_body_is_refused_or_is_another_message(message: dict, data: st.DataObject) -> None:
    body = bytearray(encode(message)[HEADER.size :])
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] ^= data.draw(st.integers(1, 255))
    got, sentence = attempt(lambda: decode(body))
    assert "\n" not in sentence
    assert sentence or isinstance(got, dict)


def test_an_absurd_length_is_refused_before_any_memory_is_taken() -> None:
    tracemalloc.start()
    try:
        for size in (protocol.MAX_FRAME + 1, 0xFFFFFFFF):
            with pytest.raises(ProtocolError, match=f"announces {size:,} bytes; at most 1,073,741,824"):
                list(Decoder().feed(HEADER.pack(MAGIC, size)))
        # a length that could be: memory grows with what arrives
        decoder = Decoder()
        assert list(decoder.feed(HEADER.pack(MAGIC, protocol.MAX_FRAME) + bytes(1000))) == []
        assert decoder.pending == HEADER.size + 1000
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_small_body_that_announces_large_things_takes_little_memory() -> None:
    bombs = [
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\x81\xa1a" + b"\xdc\xff\xff" * 500,
        b"\x81\xa1a" + b"\x91" * 100_000 + b"\xc0",
    ]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for body in bombs:
        with pytest.raises(ProtocolError, match="damaged"):
            decode(body)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


def test_a_stream_that_ends_inside_a_message() -> None:
    frame = encode({"a": np.zeros(100)})
    for cut in (3, HEADER.size, len(frame) - 1):
        with pytest.raises(ProtocolError, match="ended inside a message"):
            list(messages(io.BufferedReader(io.BytesIO(frame[:cut]))))


def test_output_that_is_no_message_is_shown() -> None:
    with pytest.raises(ProtocolError, match="beginning 'Welcome to gpu-box"):
        list(Decoder().feed(b"Welcome to gpu-box\n"))


@pytest.mark.parametrize(
    "name, shape, size, words",
    [
        ("float32", (2, 3), 20, r"float32 with shape \(2, 3\) needs 24 bytes, not 20"),
        ("float32", (1 << 40, 1 << 40), 0, "needs"),
        ("float32", (-1, -6), 24, "no part"),
        ("object", (1,), 8, "'object' with shape"),
        ("float16", (1,) * 9, 2, "no part"),
    ],
)
def test_arrays_that_cannot_be(name: str, shape: tuple[int, ...], size: int, words: str) -> None:
    head = struct.pack("<15sB", name.encode(), len(shape)) + struct.pack(f"<{len(shape)}q", *shape)
    body = msgpack.packb({"x": msgpack.ExtType(protocol.ARRAY, head + bytes(size))})
    assert body is not None
    with pytest.raises(ProtocolError, match=words):
        decode(body)


def test_array_heads_that_are_cut_off() -> None:
    for raw in (b"", b"float32", struct.pack("<15sB", b"float32", 3) + bytes(8)):
        body = msgpack.packb({"x": msgpack.ExtType(protocol.ARRAY, raw)})
        assert body is not None
        with pytest.raises(ProtocolError, match="cut off"):
            decode(body)


def test_no_pickle_gets_in_or_out() -> None:
    for value in (object(), {1, 2}, np.array([print], object), b"".join, 1j):
        with pytest.raises(ProtocolError, match="cannot be sent"):
            encode({"x": value})
    with pytest.raises(ProtocolError):
        decode(pickle.dumps({"a": 1}))
    body = msgpack.packb({"x": msgpack.ExtType(7, b"anything")})
    assert body is not None
    with pytest.raises(ProtocolError, match="unknown kind of value, number 7"):
        decode(body)


def test_a_message_is_a_map_and_not_too_large() -> None:
    body = msgpack.packb([1, 2])
    assert body is not None
    with pytest.raises(ProtocolError, match="must be a map, not list"):
        decode(body)
    with pytest.raises(ProtocolError, match="at most 100 can be sent"):
        encode({"x": np.zeros(100)}, limit=100)


def test_bfloat16_keeps_its_bits() -> None:
    bits = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16)
    got = decode(encode({"x": bits})[HEADER.size :])["x"]
    assert got.dtype == ml_dtypes.bfloat16
    assert got.flags.aligned
    assert np.array_equal(got.view(np.uint16), bits.view(np.uint16))
