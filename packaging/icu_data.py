# SPDX-License-Identifier: Apache-2.0
"""Of ICU's data, 31 MB in Debian, the part that Transom asks for: normalization forms and the borders of characters. The
rest is texts in languages, which nothing here reads; letters, cases and scripts are code of ICU, not data."""
import pathlib
import re
import struct
import subprocess
import tempfile

# The rules of borders name each other, so all of them stay; dictionaries (of languages without spaces) do not.
KEPT = re.compile(r"^[^/]*/([^/]*\.nrm|[^/]*\.icu|(root|res_index|pool|icuver|supplementalData)\.res|brkitr/[^/]*\.(brk|res))$")
ASSEMBLY = """\
.section .rodata
.balign 16
.globl {symbol}
.type {symbol}, @object
{symbol}:
.incbin "data"
.size {symbol}, . - {symbol}
.section .note.GNU-stack, "", @progbits
"""


def is_icu_data(name):
    return re.fullmatch(r"libicudata\.so\.\d+", name) is not None


def data_of(library):
    """The symbol that holds the data of a library, and the data: icudt72_dat, b"..."."""
    def read(option):
        return subprocess.run(["readelf", "--wide", option, str(library)], check=True, capture_output=True,
                              text=True).stdout
    symbol = re.search(r"\b([0-9a-f]{16})\s+(\S+)\s+OBJECT\s+GLOBAL\s+DEFAULT\s+\d+ (icudt\d+_dat)\b",
                       read("--dyn-syms"))
    if not symbol:
        raise SystemExit(f"{library}: expected a symbol icudtNN_dat")
    address, size = int(symbol.group(1), 16), int(symbol.group(2), 0)
    section = re.search(r"\s\.rodata\s+PROGBITS\s+([0-9a-f]+) ([0-9a-f]+) ([0-9a-f]+)", read("--section-headers"))
    start, offset, length = (int(part, 16) for part in section.groups())
    if not start <= address <= address + size <= start + length:
        raise SystemExit(f"{library}: {symbol.group(3)} lies outside of .rodata")
    begin = address - start + offset
    return symbol.group(3), pathlib.Path(library).read_bytes()[begin:begin + size]


def items_of(data):
    """The header of a package of ICU's (ucmndata.h, "CmnD"), and its items by name, in order."""
    size, magic = struct.unpack_from("<HH", data)
    if magic != 0x27DA or data[12:16] != b"CmnD":
        raise SystemExit("ICU's data: expected a package (CmnD)")
    count, = struct.unpack_from("<I", data, size)
    places = [struct.unpack_from("<II", data, size + 4 + 8 * i) for i in range(count)]
    ends = [place for _, place in places[1:]] + [len(data) - size]
    items = {}
    for (name, begin), end in zip(places, ends):
        text = data[size + name:data.index(b"\0", size + name)].decode()
        items[text] = data[size + begin:size + end]
    return data[:size], items


def package_of(header, items):
    """The other way round; ICU looks for names by halving, so they stand in order."""
    names = sorted(items)
    table, words, place = b"", b"", 4 + 8 * len(names)
    for name in names:
        table += struct.pack("<I", place + len(words)) + b"\0\0\0\0"
        words += name.encode() + b"\0"
    contents, begin = b"", -(-(place + len(words)) // 16) * 16
    words += b"\0" * (begin - place - len(words))
    table = bytearray(table)
    for i, name in enumerate(names):
        struct.pack_into("<I", table, 8 * i + 4, begin + len(contents))
        contents += items[name] + b"\0" * (-len(items[name]) % 16)
    return header + struct.pack("<I", len(names)) + bytes(table) + words + contents


def write_small(library, place):
    """A library at `place` with what KEPT allows of the data of `library`."""
    symbol, data = data_of(library)
    header, items = items_of(data)
    kept = {name: item for name, item in items.items() if KEPT.match(name)}
    # Without these, answers would be errors: better here than there.
    for needed in ("/nfkc.nrm", "/brkitr/char.brk", "/brkitr/root.res"):
        if not any(name.endswith(needed) for name in kept):
            raise SystemExit(f"{library}: expected the item {needed[1:]} among its data")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "data").write_bytes(package_of(header, kept))
        (folder / "data.s").write_text(ASSEMBLY.format(symbol=symbol))
        place.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cc", "-shared", "-nostdlib", f"-Wl,-soname,{place.name},--build-id=none",
                        "-o", place.resolve(), "data.s"], check=True, cwd=folder)
    place.chmod(0o755)
