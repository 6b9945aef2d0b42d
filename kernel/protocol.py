"""Messages between the application and its worker: msgpack in length-prefixed frames, arrays as raw bytes.

A frame is MAGIC, the body's length (uint32, little endian), and the body: one msgpack map with text keys. Arrays are
msgpack extensions that hold dtype, shape and bytes. Nothing here can run code: there is no pickle and no class name.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from io import BufferedReader
from typing import Any, Final

import ml_dtypes
import msgpack
import numpy as np

VERSION: Final = 1
MAGIC: Final = b"FSw1"
MAX_FRAME: Final = 1 << 30
ARRAY: Final = 1
MAX_ITEMS: Final = 4096
MAX_TEXT: Final = 1 << 20
MAX_DIMENSIONS: Final = 8
DTYPES: Final = {
    name: np.dtype(getattr(ml_dtypes, name, name))
    for name in ("bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64")
}
Message = dict[str, Any]
SHOWN: Final = 32
_HEADER: Final = struct.Struct("<4sI")
_ARRAY: Final = struct.Struct("<15sB")
_SHAPE: Final = struct.Struct("<q")


class ProtocolError(ValueError):
    """What arrived is no message, or a message cannot be sent; one sentence."""


def encode(message: Message, limit: int = MAX_FRAME) -> bytes:
    """One frame. Values are None, bool, int, float, str, lists, maps with text keys, and arrays of DTYPES."""
    try:
        body = msgpack.packb(message, default=_pack_array, use_bin_type=True) or b""
    except (TypeError, ValueError, OverflowError) as error:
        raise ProtocolError(f"The message cannot be sent ({error}).") from error
    if len(body) > limit:
        raise ProtocolError(f"The message has {len(body):,} bytes; at most {limit:,} can be sent.")
    return _HEADER.pack(MAGIC, len(body)) + body


def decode(body: bytes | bytearray | memoryview) -> Message:
    """The message in a frame's body. Raises ProtocolError when it is none. Arrays share the body's memory."""
    try:
        message = msgpack.unpackb(
            body,
            ext_hook=_unpack_array,
            strict_map_key=True,
            max_array_len=MAX_ITEMS,
            max_map_len=MAX_ITEMS,
            max_str_len=MAX_TEXT,
            max_bin_len=MAX_TEXT,
        )
    except ProtocolError:
        raise
    except Exception as error:
        raise ProtocolError(
            f"A message of the worker's protocol is damaged ({str(error) or type(error).__name__})."
        ) from error
    if not isinstance(message, dict):
        raise ProtocolError(f"A message of the worker's protocol must be a map, not {type(message).__name__}.")
    return message


def messages(stream: BufferedReader, limit: int = MAX_FRAME) -> Iterator[Message]:
    """The messages of a blocking stream until it ends. Raises ProtocolError as soon as something else arrives."""
    decoder = Decoder(limit)
    # as bytes come, so that memory grows with what arrives and not with what is announced
    while data := stream.read1(1 << 20):
        yield from decoder.feed(data)
    if decoder.pending:
        raise ProtocolError(f"The stream ended inside a message, {decoder.pending:,} bytes after its beginning.")


class Decoder:
    """Turns bytes, in whatever pieces they arrive, into messages."""

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._limit = limit
        self._buffer = bytearray()

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[Message]:
        """The messages that are complete now. Raises ProtocolError at the first that is none; then feed no more."""
        self._buffer += data
        while self._buffer:
            size = _size(bytes(self._buffer[:60]), self._limit)
            if size is None or len(self._buffer) < _HEADER.size + size:
                return
            end = _HEADER.size + size
            body = bytes(memoryview(self._buffer)[_HEADER.size : end])
            del self._buffer[:end]
            yield decode(body)

    @property
    def pending(self) -> int:
        """Bytes of a message that is not complete yet."""
        return len(self._buffer)


def _size(start: bytes, limit: int) -> int | None:
    """The length that the header at `start` announces; None while the header is incomplete."""
    if start[: len(MAGIC)] != MAGIC[: len(start)]:
        text = start[:SHOWN].decode("ascii", "replace").replace("\ufffd", "?")
        raise ProtocolError(f"Bytes that are no message arrived, beginning {text!r}; does the command print something?")
    if len(start) < _HEADER.size:
        return None
    size = _HEADER.unpack_from(start)[1]
    if size > limit:
        raise ProtocolError(f"A message announces {size:,} bytes; at most {limit:,} are taken.")
    return size


def _pack_array(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    if not isinstance(value, np.ndarray):
        raise TypeError(f"a {type(value).__name__} is no part of the protocol")
    if value.dtype.name not in DTYPES or value.ndim > MAX_DIMENSIONS:
        raise TypeError(f"an array of {value.dtype.name} with {value.ndim} dimensions is no part of the protocol")
    head = _ARRAY.pack(value.dtype.name.encode("ascii"), value.ndim) + b"".join(map(_SHAPE.pack, value.shape))
    return msgpack.ExtType(ARRAY, head + np.ascontiguousarray(value).tobytes())


def _unpack_array(code: int, data: bytes) -> np.ndarray:
    if code != ARRAY:
        raise ProtocolError(f"A message of the worker's protocol holds an unknown kind of value, number {code}.")
    if len(data) < _ARRAY.size or len(data) < _ARRAY.size + data[_ARRAY.size - 1] * _SHAPE.size:
        raise ProtocolError("An array in a message of the worker's protocol is cut off.")
    padded, dimensions = _ARRAY.unpack_from(data)
    name = padded.rstrip(b"\0").decode("ascii", "replace")
    end = _ARRAY.size + dimensions * _SHAPE.size
    shape = tuple(n for (n,) in _SHAPE.iter_unpack(data[_ARRAY.size : end]))
    dtype = DTYPES.get(name)
    if dtype is None or dimensions > MAX_DIMENSIONS or min(shape, default=0) < 0:
        raise ProtocolError(f"An array of {name!r} with shape {shape[:8]} is no part of the worker's protocol.")
    size = math.prod(shape) * dtype.itemsize
    if size != len(data) - end:
        raise ProtocolError(f"An array of {name} with shape {shape} needs {size:,} bytes, not {len(data) - end:,}.")
    return np.frombuffer(data, dtype, offset=end).reshape(shape)
