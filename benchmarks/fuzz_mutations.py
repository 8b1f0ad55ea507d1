"""How a valid file becomes a hostile one: one case number, one damage.

Damage is done where readers look. A format that has checksums or is compressed is opened, damaged
inside and closed again, so that what lies behind the first check is reached too.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import random
import sqlite3
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

Damage = Callable[[bytes, random.Random], bytes]

_NUMBERS = (0, 1, 2, 127, 128, 255, 256, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1)
_LARGE = (2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
_WORDS = (
    b"\x00",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b'"',
    b"'",
    b",",
    b"\n",
    b"\r",
    b"1e999",
    b"-1",
    b"NaN",
    b"../../../x",
    b"<script>alert(1)</script>",
    b"%s%n",
    b"{}",
    b"[]",
    b"null",
    b"99999999999999999999999999",
)
_TEXTS = (
    "",
    " ",
    "\x00",
    "\x1b[31m",
    "\ud800",
    "../../../../x",
    "/etc/passwd",
    "a" * 10_000,
    "CON",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{ 7 * 7 }}",
    "%",
    "1e400",
    "nan",
    "٣",
    "privet.train/1",
    "add-remove",
    "conv",
)


def raw(content: bytes, draw: random.Random) -> bytes:
    """Bytes turned, taken out, put in, doubled or made into large numbers; some at the ends."""
    changed = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 2, 4, 16))):
        _CHANGES[draw.randrange(len(_CHANGES))](changed, draw)
    return bytes(changed)


def _place(content: bytearray, draw: random.Random) -> int:
    """Anywhere, but often near the ends, where headers and footers are."""
    if not content:
        return 0
    near = min(len(content), 256)
    ends = (draw.randrange(near), len(content) - 1 - draw.randrange(near))
    return draw.choice((*ends, draw.randrange(len(content))))


def _flip(content: bytearray, draw: random.Random) -> None:
    if content:
        content[_place(content, draw)] ^= 1 << draw.randrange(8)


def _byte(content: bytearray, draw: random.Random) -> None:
    if content:
        content[_place(content, draw)] = draw.randrange(256)


def _cut(content: bytearray, draw: random.Random) -> None:
    del content[_place(content, draw) :]


def _take_out(content: bytearray, draw: random.Random) -> None:
    start = _place(content, draw)
    del content[start : start + draw.choice((1, 2, 4, 8, 64, 1024))]


def _put_in(content: bytearray, draw: random.Random) -> None:
    start = _place(content, draw)
    content[start:start] = draw.choice((draw.randbytes(draw.choice((1, 4, 64))), *_WORDS))


def _splice(content: bytearray, draw: random.Random) -> None:
    start, length = _place(content, draw), draw.choice((4, 16, 64, 512))
    there = _place(content, draw)
    content[there : there + length] = content[start : start + length]


def _number(content: bytearray, draw: random.Random) -> None:
    size, order = draw.choice((1, 2, 4, 8)), draw.choice("<>")
    value = draw.choice((*_NUMBERS, *_LARGE)) % 256**size
    start = _place(content, draw)
    content[start : start + size] = struct.pack(order + "BHIQ"[size.bit_length() - 1], value)


_CHANGES = (_flip, _byte, _cut, _take_out, _put_in, _splice, _number, _number)


_FLOATS = 10**300  # whole numbers above it are no floats


def json_text(content: bytes, draw: random.Random) -> bytes:
    """Another value at one or two places of a JSON document; seldom raw damage."""
    if draw.random() < 0.1:
        return raw(content, draw)
    try:
        body = json.loads(content)
    except ValueError:
        return raw(content, draw)
    for _ in range(draw.choice((1, 1, 1, 2))):
        body = _edited(body, draw)
    return _written(body, draw).encode("utf-8", "surrogatepass")


def json_lines(content: bytes, draw: random.Random) -> bytes:
    """The same in one line of several."""
    lines = content.splitlines(keepends=True)
    if not lines:
        return raw(content, draw)
    chosen = draw.randrange(len(lines))
    lines[chosen] = json_text(lines[chosen], draw) + b"\n"
    return b"".join(lines)


def odd_value(draw: random.Random, old: Any = None) -> Any:
    """Of another type, out of range, very long or very deep."""
    kind = draw.randrange(12)
    if kind == 0 and isinstance(old, int | float) and not isinstance(old, bool):
        third = old // 3 if abs(old) > _FLOATS else old / 3
        return draw.choice((-old, old + 1, old - 1, old * 1000, third, -0.0, 1 - old))
    if kind <= 3:
        numbers = (0, -1, 1, 2, 0.5, 1e-300, 1e300, 10**30, 2**31, 2**63, float("nan"))
        return draw.choice((*numbers, float("inf"), float("-inf"), 10**400, -(2**31)))
    if kind <= 5:
        return draw.choice(_TEXTS)
    if kind == 6:
        return draw.choice((None, True, False))
    if kind == 7:
        return draw.choice(([], {}, [[]], [None], {"": None}, [[[]]], [1, 2, 3, 4]))
    if kind == 8:
        return [old] * draw.choice((1, 2, 100))
    if kind == 9:
        return {"kind": old, "name": old}
    if kind == 10:
        return _Deep(draw.choice((50, 900, 5000, 100_000)))
    return str(old)


class _Deep:
    """A list in a list in a list: too deep for `json.dumps`, so it is written by hand."""

    def __init__(self, depth: int) -> None:
        self.depth = depth


def _edited(body: Any, draw: random.Random) -> Any:
    """One node changed, dropped, renamed, moved or doubled."""
    places = list(_places(body, ()))
    if not places:
        return odd_value(draw, body)
    *path, last = draw.choice(places)
    owner = body
    for each in path:
        owner = owner[each]
    kind = draw.randrange(8)
    if kind <= 4:
        owner[last] = odd_value(draw, owner[last])
    elif kind == 5:
        del owner[last]
    elif isinstance(owner, dict):
        value = owner[last]
        name = draw.choice((*_TEXTS, str(last).upper(), *map(str, owner)))
        owner[name] = value
        if kind == 6:
            owner.pop(last) if name != last else None
    else:
        owner.insert(last, owner[draw.randrange(len(owner))])
    return body


def _places(body: Any, path: tuple[Any, ...]) -> Any:
    inside = body.items() if isinstance(body, dict) else ()
    inside = enumerate(body) if isinstance(body, list) else inside
    for key, value in inside:
        yield (*path, key)
        yield from _places(value, (*path, key))


def _written(body: Any, draw: random.Random) -> str:
    """As JSON, now and then with a key twice."""
    deep: list[_Deep] = []

    def marked(value: Any) -> Any:
        deep.append(value)
        return f"\N{WHITE SQUARE}{len(deep)}\N{WHITE SQUARE}"

    text = json.dumps(body, default=marked, ensure_ascii=draw.random() < 0.5)
    for number, each in enumerate(deep, 1):
        mark = f"\N{WHITE SQUARE}{number}\N{WHITE SQUARE}"
        for written in (json.dumps(mark), f'"{mark}"'):
            text = text.replace(written, "[" * each.depth + "]" * each.depth)
    if text.startswith("{") and draw.random() < 0.03:
        first = text.find(":")
        text = f"{text[: first + 1]} {json.dumps(draw.choice(_TEXTS))}, {text[1:]}"
    return text


def safetensors_file(content: bytes, draw: random.Random) -> bytes:
    """The header's JSON, its length, or raw bytes."""
    if draw.random() < 0.35 or len(content) < 8:
        return raw(content, draw)
    length = int.from_bytes(content[:8], "little")
    header = json_text(content[8 : 8 + length], draw)
    if draw.random() < 0.7:  # offsets must be exact, or everything is refused at once
        header = _plausible(content[8 : 8 + length], draw)
    stated = len(header) if draw.random() < 0.9 else draw.choice((*_NUMBERS, *_LARGE))
    return (stated % 2**64).to_bytes(8, "little") + header + content[8 + length :]


def _plausible(header: bytes, draw: random.Random) -> bytes:
    """Other types, shapes, offsets or names, as many bytes as before if possible."""
    try:
        body = json.loads(header)
    except ValueError:
        return raw(header, draw)
    names = [each for each in body if each != "__metadata__"]
    kind = draw.randrange(6)
    if not names or kind == 0:
        metadata = body.get("__metadata__") or {}
        body["__metadata__"] = {**metadata, **dict.fromkeys(metadata or ["a"], draw.choice(_TEXTS))}
    elif kind == 1:
        name, other = draw.choice(names), draw.choice(names)
        body[name]["data_offsets"] = body[other]["data_offsets"]
    elif kind == 2:
        sizes = {"F32": ("I32", "U32"), "F64": ("I64", "U64"), "I64": ("F64",), "U8": ("BOOL",)}
        each = body[draw.choice(names)]
        each["dtype"] = draw.choice(sizes.get(each["dtype"], ("F16", "F8_E4M3", "X")))
    elif kind == 3:
        each = body[draw.choice(names)]
        each["shape"] = draw.choice(([*each["shape"], 1], each["shape"][::-1], [0], [2**62, 4]))
    elif kind == 4:
        body[draw.choice((*_TEXTS, "weights/x", "centre:mean:x"))] = body.pop(draw.choice(names))
    else:
        shuffled = draw.sample(names, len(names))
        body = {key: body.get(other) for key, other in zip(names, shuffled, strict=True)}
    return json.dumps(body).encode("utf-8", "surrogatepass")


def zip_archive(content: bytes, draw: random.Random) -> bytes:
    """A member damaged inside, a member's name, or raw bytes of the archive."""
    if draw.random() < 0.3:
        return raw(content, draw)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = {each.filename: archive.read(each) for each in archive.infolist()}
    except (zipfile.BadZipFile, OSError, zlib.error):
        return raw(content, draw)
    chosen = draw.choice(sorted(members))
    if draw.random() < 0.85:
        members[chosen] = npy_header(members[chosen], draw)
    else:
        members[draw.choice(("../x.npy", "/x.npy", "x.npy", "a" * 300, "images.npy"))] = (
            members.pop(chosen)
        )
    packed = draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    return _zipped(members, packed)


def _zipped(members: dict[str, bytes], packed: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", packed) as archive:
        for name, body in members.items():
            archive.writestr(zipfile.ZipInfo(name), body, packed)
    return file.getvalue()


def npy_header(content: bytes, draw: random.Random) -> bytes:
    """Another shape or type in an array's header, or raw damage."""
    if draw.random() < 0.3 or len(content) < 10:
        return raw(content, draw)
    length = int.from_bytes(content[8:10], "little")
    header = content[10 : 10 + length]
    types = ("|O", "<f8", "<M8[s]", "|V0", "<U99999999", "<c16", "|b1", ">i2", "|S1", "<i8")
    shapes = ("(9223372036854775807,)", "()", "(-1, 4)", "(0,)", "(2, 2, 2, 2, 2, 2)", "('a',)")
    if draw.random() < 0.5:
        before, _, after = header.partition(b"'descr': '")
        header = before + b"'descr': '" + draw.choice(types).encode() + after[after.find(b"'") :]
    else:
        before, _, after = header.partition(b"'shape': ")
        header = (
            before + b"'shape': " + draw.choice(shapes).encode() + after[after.find(b")") + 1 :]
        )
    padded = header.ljust(length)
    return content[:8] + len(padded).to_bytes(2, "little") + padded + content[10 + length :]


def gzipped(content: bytes, draw: random.Random) -> bytes:
    """What is inside, or the bytes of the archive."""
    if draw.random() < 0.4:
        return raw(content, draw)
    return gzip.compress(raw(gzip.decompress(content), draw), 1, mtime=0)


def png(content: bytes, draw: random.Random) -> bytes:
    """A chunk with a checksum that holds, doubled, dropped, or raw bytes."""
    if draw.random() < 0.4:
        return raw(content, draw)
    chunks, place = [], 8
    while place + 12 <= len(content):
        size = int.from_bytes(content[place : place + 4], "big")
        chunks.append((content[place + 4 : place + 8], content[place + 8 : place + 8 + size]))
        place += 12 + size
    chosen = draw.randrange(len(chunks))
    kind, body = chunks[chosen]
    change = draw.randrange(5)
    if change <= 2:
        chunks[chosen] = (kind, raw(body, draw))
    elif change == 3:
        chunks.insert(draw.randrange(len(chunks)), (kind, body))
    else:
        other = draw.choice(
            (b"tRNS", b"PLTE", b"acTL", b"fdAT", b"iCCP", b"zTXt", b"eXIf", b"gAMA")
        )
        text = draw.choice((draw.randbytes(8), b"a\0\0" + zlib.compress(bytes(10**6))))
        chunks.insert(draw.randrange(1, 1 + len(chunks)), (other, text))
    return content[:8] + b"".join(map(_chunk, chunks))


def _chunk(chunk: tuple[bytes, bytes]) -> bytes:
    kind, body = chunk
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def parquet(content: bytes, draw: random.Random) -> bytes:
    """Other types, names, nulls or metadata, by a writer; or raw bytes."""
    if draw.random() < 0.6:
        return raw(content, draw)
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(content))
    name = draw.choice(table.column_names)
    place = table.column_names.index(name)
    others = (
        pa.nulls(len(table)),
        pa.array([float("nan")] * len(table)),
        pa.array([2**62] * len(table)),
        pa.array([-1] * len(table)),
        pa.array(["a\x00b"] * len(table)),
        pa.array([b"\x89PNG"] * len(table)),
        pa.array([[1.0]] * len(table)),
        pa.array([{"bytes": None}] * len(table)),
        pa.array([{"bytes": "text"}] * len(table)),
        pa.array([True] * len(table)),
    )
    change = draw.randrange(5)
    if change <= 1:
        table = table.set_column(place, name, draw.choice(others))
    elif change == 2:
        table = table.rename_columns(
            [
                draw.choice(("", "label", "x")) if each == name else each
                for each in table.column_names
            ]
        )
    elif change == 3:
        table = draw.choice((table.drop_columns([name]), table.slice(0, 0), table.slice(1)))
    else:
        old = (table.schema.metadata or {}).get(b"huggingface", b'{"info": {"features": {}}}')
        table = table.replace_schema_metadata({b"huggingface": json_text(old, draw)})
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


def ledger(content: bytes, draw: random.Random) -> bytes:
    """A record that was edited and sealed again, as anyone can who reads the source; or bytes."""
    if draw.random() < 0.5:
        return raw(content, draw)
    with tempfile.NamedTemporaryFile(suffix=".db") as file:
        Path(file.name).write_bytes(content)
        connection = sqlite3.connect(file.name, isolation_level=None)
        connection.execute("PRAGMA journal_mode = DELETE")
        rows = connection.execute("SELECT key, body FROM records").fetchall()
        key, body = draw.choice(rows)
        changed = json_text(body.encode(), draw).decode("utf-8", "replace")
        text = f"{key}\n{changed}".encode("utf-8", "replace")
        seal = hashlib.blake2b(text, digest_size=16).hexdigest()
        connection.execute(
            "UPDATE records SET body = ?, seal = ? WHERE key = ?",
            (changed.encode("utf-8", "replace").decode(), seal, key),
        )
        connection.close()
        return Path(file.name).read_bytes()


def words(content: bytes, draw: random.Random) -> bytes:
    """Text of settings, such as `mlp:hidden=200-100`: pieces changed, doubled and mixed."""
    text = content.decode()
    for _ in range(draw.choice((1, 1, 2, 3))):
        pieces = [each for each in _split(text) if each]
        place = draw.randrange(len(pieces)) if pieces else 0
        kind = draw.randrange(4)
        if kind == 0:
            pieces[place : place + 1] = [draw.choice(_PIECES)]
        elif kind == 1:
            pieces.insert(place, draw.choice(_PIECES))
        elif kind == 2:
            del pieces[place : place + 1]
        elif pieces:
            pieces.insert(place, draw.choice(pieces))
        text = "".join(pieces)
    return text.encode("utf-8", "surrogatepass")


_PIECES = (
    *(":", "=", ",", "-", "+", "0", "-1", "1", "2", "3", "0.5", "1e-9", "1e9", "nan", "inf"),
    *("-inf", "1_0", "99999999999999999999", "9" * 5000, "true", "false", "none", "None", ""),
    *(" ", "\x00", "é", "٣", "../x", "/", "sgd", "adam", "plain", "public", "last", "width"),
    *("hidden", "depth", "size", "iterations", "per_class", "limit", "radius", "count", "kind"),
)


def _split(text: str) -> list[str]:
    found, piece = [], ""
    for character in text:
        if character in ":=,-+ ":
            found += [piece, character]
            piece = ""
        else:
            piece += character
    return [*found, piece]


def one_setting(content: bytes, draw: random.Random) -> bytes:
    """One of several lines of settings, damaged."""
    return words(draw.choice(content.splitlines()), draw)


def arguments(content: bytes, draw: random.Random) -> bytes:
    """One command, with words changed, dropped, doubled or taken from other commands."""
    commands = json.loads(content)
    chosen = list(draw.choice(commands))
    for _ in range(draw.choice((1, 1, 2, 3))):
        place = draw.randrange(1, len(chosen)) if len(chosen) > 1 else 0
        kind = draw.randrange(6)
        other = draw.choice(draw.choice(commands))
        if kind == 0:
            chosen[place] = other
        elif kind == 1:
            chosen.insert(place, other)
        elif kind == 2:
            del chosen[place]
        elif kind == 3:
            chosen[place] = words(chosen[place].encode(), draw).decode("utf-8", "replace")
        elif kind == 4:
            chosen[place] = str(odd_value(draw, chosen[place]))
        else:
            chosen.insert(place, chosen[draw.randrange(len(chosen))])
        chosen = chosen or ["account"]
    return json.dumps(chosen).encode("utf-8", "surrogatepass")
