"""Changes that keep what a format checks first (lengths, checksums, syntax), so that fuzzing gets behind it.

Each takes the bytes of a file, a source of chance, and the fuzzer's own mutation of bytes. Where the bytes are not such
a file, the fuzzer's own mutation is all.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Any
from xml.etree import ElementTree

Mutation = Callable[[bytes], bytes]
Mutator = Callable[[bytes, Random, Mutation], bytes]

NUMBERS = (
    -1, 0, 1, 2, 3, 31, 32, 33, 255, 2**15, 2**16, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64, 10**30,
    -(2**63), 0.5, -0.0, 1e308, float("nan"), float("inf"),
)  # fmt: skip
_VALUES = (*NUMBERS, None, True, "", "\0", "..", "/", "a" * 300, [], {}, [[]], [{}], "null", "\ud800", "é")


def plain(content: bytes, random: Random, mutate: Mutation) -> bytes:
    """No format: the fuzzer's own mutation."""
    return mutate(content)


def json_text(content: bytes, random: Random, mutate: Mutation) -> bytes:
    """Another value in one place of a JSON document, or one less, or one twice."""
    document = json.loads(content)
    parents = [each for each in containers(document) if each]
    if not parents:
        return mutate(content)
    parent = random.choice(parents)
    key = random.choice(list(parent) if isinstance(parent, dict) else range(len(parent)))
    change = random.randrange(6)
    if change == 0:
        del parent[key]
    elif change == 1:
        other = random.choice(parents)
        parent[key] = random.choice(list(other.values()) if isinstance(other, dict) else other)
    elif change == 2 and isinstance(parent, list):
        parent.insert(key, parent[key])
    elif change == 2:
        parent[str(random.choice(_VALUES))] = parent[key]
    elif change == 3 and isinstance(parent[key], str):
        parent[key] = mutate(parent[key].encode("utf-8", "surrogatepass")).decode("latin-1")
    elif change == 3 and isinstance(parent[key], int):
        parent[key] += random.choice((-1, 1))
    else:
        parent[key] = random.choice(_VALUES)
    return json.dumps(document).encode()


def containers(value: Any) -> list[Any]:
    """All lists and dictionaries in a JSON document."""
    found, left = [], [value]
    while left:
        each = left.pop()
        if isinstance(each, (dict, list)):
            found.append(each)
            left.extend(each.values() if isinstance(each, dict) else each)
    return found


def json_lines(content: bytes, random: Random, mutate: Mutation) -> bytes:
    """A change to one line of JSON."""
    lines = content.splitlines()
    place = random.randrange(len(lines))
    lines[place] = json_text(lines[place], random, mutate)
    return b"".join(line + b"\n" for line in lines)


_TEXTS = (*map(str, NUMBERS), "", "1e5", "nan", "0x10", "1_0", "\u0663", "dog", "]]>", "a" * 300, "&#0;", "\ufffe")


def xml(content: bytes, random: Random, mutate: Mutation) -> bytes:
    """One element of an XML document less, twice, elsewhere, or with another text or name; what may stand before it."""
    root = ElementTree.fromstring(content)
    parents = [each for each in root.iter() if len(each)]
    parent = random.choice(parents)
    child = random.choice(list(parent))
    change = random.randrange(7)
    if change == 0:
        parent.remove(child)
    elif change == 1:
        random.choice(parents).append(deepcopy(child))
    elif change == 2:
        child.tag = random.choice([each.tag for each in root.iter()])
    elif change == 3 and child.text:
        child.text = mutate(child.text.encode()).decode("latin-1")
    elif change == 4:
        kinds = (
            b'<?xml version="1.0" encoding="%s"?>',
            b"<!DOCTYPE %s>",
            b"<!DOCTYPE a [<!ENTITY %s 'x'>]>",
            b"<!--%s-->",
        )
        return random.choice(kinds) % mutate(b"utf-16") + content
    else:
        child.text = random.choice(_TEXTS)
    return ElementTree.tostring(root)


def safetensors(content: bytes, random: Random, mutate: Mutation) -> bytes:
    """A change to the header, whose length is then right."""
    (length,) = struct.unpack_from("<Q", content)
    header = json_text(content[8 : 8 + length], random, mutate)
    return struct.pack("<Q", len(header)) + header + content[8 + length :]


def npz(content: bytes, random: Random, mutate: Mutation) -> bytes:
    """A change to one member of an archive, whose checksums are then right; or to the way in which it is stored."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    chosen = random.choice(list(members))
    change = random.randrange(4)
    if change == 0:
        members[random.choice(("x.npy", "y.npy", "z", ""))] = members[chosen]
    elif change == 1 and len(members) > 1:
        del members[chosen]
    else:
        members[chosen] = npy(members[chosen], random, mutate)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    return file.getvalue()


def npy(content: bytes, random: Random, mutate: Mutation) -> bytes:
    """A change to the header of an array, whose length is then right; or to one of its numbers."""
    if random.random() < 0.3:
        return mutate(content)
    (length,) = struct.unpack_from("<H", content, 8)
    header, values = content[10 : 10 + length].rstrip(), content[10 + length :]
    if random.random() < 0.5:
        header = mutate(header)
    else:
        words = header.split(b" ")
        place = random.randrange(len(words))
        options = [str(number).encode() + b"," for number in NUMBERS]
        options += [
            b"'<f4',",
            b"'|u1',",
            b"'|O',",
            b"'<U9999999',",
            b"True,",
            b"[('a', '<f4')],",
            b"(0, 9999999)",
            b"()",
        ]
        words[place] = random.choice(options)
        header = b" ".join(words)
    header = header[:60_000] + b"\n"
    return content[:8] + struct.pack("<H", len(header)) + header + values


_PNG_CHUNKS = (
    b"tEXt", b"zTXt", b"iTXt", b"iCCP", b"eXIf", b"PLTE", b"tRNS", b"acTL", b"fcTL", b"fdAT", b"gAMA", b"pHYs",
)  # fmt: skip


def png(content: bytes, random: Random, mutate: Mutation) -> bytes:
    """A change to one chunk of a PNG file, whose length and checksum are then right; other images' bytes."""
    if not content.startswith(b"\x89PNG\r\n\x1a\n"):
        return mutate(content)
    chunks, place = [], 8
    while place + 12 <= len(content):
        (length,) = struct.unpack_from(">I", content, place)
        chunks.append((content[place + 4 : place + 8], content[place + 8 : place + 8 + length]))
        place += 12 + length
    chosen = random.randrange(len(chunks))
    kind, data = chunks[chosen]
    change = random.randrange(4)
    if change == 0:
        chunks.insert(chosen, (random.choice(_PNG_CHUNKS), mutate(data)))
    elif kind == b"IDAT" and change == 1:
        chunks[chosen] = kind, zlib.compress(mutate(zlib.decompress(data)))
    elif change == 2:
        chunks.insert(random.randrange(len(chunks)), chunks[chosen])
    else:
        chunks[chosen] = kind, mutate(data)
    parts = (struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks)
    return content[:8] + b"".join(parts)


def rec(content: bytes, random: Random, mutate: Mutation) -> bytes:
    """A change to one record, whose length is then right."""
    records, place = [], 0
    while place + 8 <= len(content):
        magic, word = struct.unpack_from("<II", content, place)
        length = word & (1 << 29) - 1
        records.append((magic, word >> 29, content[place + 8 : place + 8 + length]))
        place += 8 + (length + 3) // 4 * 4
    chosen = random.randrange(len(records))
    magic, flag, data = records[chosen]
    if random.random() < 0.2:
        flag = random.randrange(8)
    data = data[:24] + png(data[24:], random, mutate) if random.random() < 0.5 else mutate(data)
    records[chosen] = magic, flag, data
    return b"".join(
        struct.pack("<II", magic, flag << 29 | len(data)) + data + bytes(-len(data) % 4)
        for magic, flag, data in records
    )


def onnx(content: bytes, random: Random, mutate: Mutation) -> bytes:
    """A network that can be parsed, and says something else."""
    import onnx as library

    from tests.models.test_onnx_fuzz import restructure

    if random.random() < 0.8:
        return restructure(random, content, library)
    model = library.ModelProto.FromString(content)
    entries = [entry for tensor in model.graph.initializer for entry in tensor.external_data]
    if not entries:
        return mutate(content)
    values = ("w.bin", "./w.bin", "w.bin/", "net.onnx", "../w.bin", "", "0", "-1", "1e9", "216", str(2**63), "\0")
    random.choice(entries).value = random.choice(values)
    written: bytes = model.SerializeToString()
    return written


FAILURES = (
    ValueError, TypeError, LookupError, AttributeError, OverflowError, struct.error, zlib.error,
    zipfile.BadZipFile, ElementTree.ParseError, NotImplementedError, RuntimeError, EOFError, OSError,
)  # fmt: skip
"""What these raise where the bytes are not such a file; protobuf's DecodeError is found by its name."""


def mutated(mutator: Mutator, content: bytes, seed: int, mutate: Mutation) -> bytes:
    """A change by ``mutator``, or in every third case, and where that fails, by the fuzzer alone."""
    random = Random(seed)
    if random.random() < 0.33:
        return mutate(content)
    try:
        return mutator(content, random, mutate)
    except FAILURES:
        return mutate(content)
    except Exception as error:
        if type(error).__name__ in ("DecodeError", "EncodeError"):
            return mutate(content)
        raise
