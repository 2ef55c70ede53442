"""Values between a process and its driver of Ray, over a socket that only the two have: no pickle.

A value is a tree of None, numbers, texts, bytes, lists, tuples, dicts, arrays, classes of this
program and instances of its dataclasses and structs. It travels as MessagePack, in which everything
but the simplest is a list that begins with a tag; the bytes of arrays follow as they lie in memory.
Whatever else comes, or a class that is not this program's, is a WireError.
"""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ppodc.errors import WireError

_ROOMS = ("ppodc", "cloud1", "cloud2", "master")
_INTEGER, _LIST, _TUPLE, _DICT, _ARRAY, _SCALAR, _CLASS, _OBJECT = "iltdascO"
_SMALL = 1 << 63


def send(line: "Connection[Any, Any]", value: Any) -> None:
    """One value; the caller sees to it that only one thread sends."""
    arrays: list[NDArray[Any]] = []
    tree = _down(value, arrays)
    line.send_bytes(msgspec.msgpack.encode((tree, len(arrays))))
    for array in arrays:
        if array.nbytes:
            line.send_bytes(array.reshape(-1).view(np.uint8).data)


def receive(line: "Connection[Any, Any]") -> Any:
    """The next value; EOFError when the other end is gone."""
    try:
        tree, count = msgspec.msgpack.decode(line.recv_bytes())
    except (msgspec.DecodeError, TypeError, ValueError) as error:
        raise WireError("what came from a driver of Ray, or for it, is no value.") from error
    pending = _Arrays(line, count)
    value = _up(tree, pending.take)
    pending.check()
    return value


def _down(value: Any, arrays: list[NDArray[Any]]) -> Any:
    kind = type(value)
    if value is None or kind in (bool, float, str, bytes):
        return value
    if kind is int:
        return value if -_SMALL <= value < _SMALL else [_INTEGER, hex(value)]
    if kind in (list, tuple):
        return [_LIST if kind is list else _TUPLE, *(_down(each, arrays) for each in value)]
    if kind is dict:
        return [_DICT, *(_down(part, arrays) for pair in value.items() for part in pair)]
    if isinstance(value, np.ndarray | np.generic):
        array = np.ascontiguousarray(value)
        if array.dtype.hasobject:
            raise WireError("an array of objects does not go to a driver of Ray.")
        arrays.append(array)
        tag = _ARRAY if isinstance(value, np.ndarray) else _SCALAR
        return [tag, array.dtype.str, list(np.shape(value))]
    if isinstance(value, type):
        return [_CLASS, _name(value)]
    if is_dataclass(value) or isinstance(value, msgspec.Struct):
        parts = {name: _down(getattr(value, name), arrays) for name in _fields(kind)}
        return [_OBJECT, _name(kind), parts]
    raise WireError(f"a value of the type {kind.__name__} does not go to a driver of Ray.")


def _up(tree: Any, take: Callable[[str, list[int]], NDArray[Any]]) -> Any:
    if not isinstance(tree, list):
        return tree
    match tree:
        case [tag, *parts] if tag in (_LIST, _TUPLE):
            values = [_up(part, take) for part in parts]
            return values if tag == _LIST else tuple(values)
        case [tag, *parts] if tag == _DICT:
            values = [_up(part, take) for part in parts]
            return dict(zip(values[::2], values[1::2], strict=True))
        case [tag, str(text)] if tag == _INTEGER:
            return int(text, 16)
        case [tag, str(dtype), list(shape)] if tag in (_ARRAY, _SCALAR):
            array = take(dtype, shape)
            return array if tag == _ARRAY else array[()]
        case [tag, str(name)] if tag == _CLASS:
            return _class(name)
        case [tag, str(name), dict(parts)] if tag == _OBJECT:
            made = _class(name)
            if set(parts) != set(_fields(made)):
                raise WireError(f"the fields of {name} do not fit.")
            return made(**{field: _up(part, take) for field, part in parts.items()})
    raise WireError("what came from a driver of Ray, or for it, is no value.")


class _Arrays:
    """The arrays behind a tree, in their order."""

    def __init__(self, line: "Connection[Any, Any]", count: int) -> None:
        self._line, self._left = line, count

    def take(self, dtype: str, shape: list[int]) -> NDArray[Any]:
        array: NDArray[Any] = np.empty(shape, np.dtype(dtype))
        if array.dtype.hasobject or not self._left:
            raise WireError("an array that came from a driver of Ray, or for it, does not fit.")
        self._left -= 1
        if array.nbytes:
            self._line.recv_bytes_into(array.reshape(-1).view(np.uint8).data)
        return array

    def check(self) -> None:
        if self._left:
            raise WireError("there are more arrays than a value has.")


def _fields(kind: Any) -> tuple[str, ...]:
    """Return the field names of an instance."""
    if is_dataclass(kind):
        return tuple(field.name for field in fields(kind))
    found: tuple[str, ...] = getattr(kind, "__struct_fields__", ())
    return found


def _name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _class(name: str) -> Any:
    module, _, kind = name.partition(":")
    if module.partition(".")[0] not in _ROOMS:
        raise WireError(f"{name} is no class of this program.")
    found = getattr(import_module(module), kind, None)
    if not isinstance(found, type):
        raise WireError(f"{name} is no class of this program.")
    return found
