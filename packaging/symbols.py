# SPDX-License-Identifier: Apache-2.0
"""Debugging information apart from the files of a package, found by their build ids.

A linker's id is a digest that counts debugging information, which names the folder of the build. Files of packages get
one of what is left without it, so that two builds in two folders are the same bytes."""
import hashlib
import pathlib
import struct
import subprocess
import tarfile
import tempfile

SECTION = b".note.gnu.build-id"
GNU_NOTE = struct.pack("<III4s", 4, 20, 3, b"GNU\0")  # the sizes of its name and digest, its type, its name


def is_elf(file):
    if file.is_symlink() or not file.is_file():
        return False
    with open(file, "rb") as opened:
        return opened.read(4) == b"\x7fELF"


def place_of_id(data):
    """Where in a 64-bit file the 20 bytes of the build id are; None where it has none."""
    table, = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", data, table + i * size) for i in range(count)]
    if names >= count:
        return None
    for name, _, _, _, offset, length in headers:
        start = headers[names][4] + name
        if data[start:start + len(SECTION) + 1] == SECTION + b"\0" and data[offset:offset + 16] == GNU_NOTE and length == 36:
            return offset + 16
    return None


def own_files(build):
    """The programs and libraries of a build that packages hold, where they are built."""
    places = [*sorted((build / "bin").glob("transom")), *sorted((build / "lib").glob("libtransom.so.*")),
              *sorted((build / "lib/transom").iterdir()), *sorted((build / "packages/static").glob("*.so")),
              *sorted((build / "python/transom").glob("_transom.*.so"))]
    return [file for file in places if is_elf(file)]


class Symbols:
    def __init__(self, build):
        self.ids = {}  # the id of the linker: (that of packages, the file with its debugging information)
        with tempfile.TemporaryDirectory() as folder:
            for file in own_files(pathlib.Path(build)):
                bare = pathlib.Path(folder) / "bare"
                subprocess.run(["strip", "--strip-unneeded", "-o", bare, file], check=True)
                data = bytearray(bare.read_bytes())
                place = place_of_id(data)
                if place is None:
                    continue
                old = bytes(data[place:place + 20])
                data[place:place + 20] = bytes(20)
                self.ids[old] = (hashlib.sha1(data).digest(), file)

    def stamp(self, file):
        """Gives a file of the build, or what was made of it, the id of packages. Others stay as they are."""
        with open(file, "r+b") as opened:
            data = opened.read()
            place = place_of_id(data)
            known = self.ids.get(data[place:place + 20]) if place is not None else None
            if known:
                opened.seek(place)
                opened.write(known[0])

    def write(self, archive, when):
        """A tar file of what debuggers look for below /usr/lib/debug."""
        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(archive, "w", format=tarfile.GNU_FORMAT) as opened:
                for new, file in sorted(self.ids.values()):
                    part = pathlib.Path(folder) / "part"
                    subprocess.run(["objcopy", "--only-keep-debug", "--compress-debug-sections=zlib", file, part],
                                   check=True)
                    self.stamp(part)
                    information = opened.gettarinfo(part, f".build-id/{new.hex()[:2]}/{new.hex()[2:]}.debug")
                    information.uid = information.gid = 0
                    information.uname = information.gname = "root"
                    information.mode, information.mtime = 0o644, when
                    with open(part, "rb") as data:
                        opened.addfile(information, data)
