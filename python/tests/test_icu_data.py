# SPDX-License-Identifier: Apache-2.0
"""packaging/icu_data.py: a part of ICU's data as a library. Of the sources; skipped where they or a compiler are not
there."""
import ctypes
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

PACKAGING = pathlib.Path(__file__).resolve().parent.parent.parent / "packaging"
HEADER = struct.pack("<HH8s4s", 32, 0x27DA, b"\x14\0\0\0\0\0\2\0", b"CmnD").ljust(32, b"\0")
ITEMS = {"icudt72l/nfkc.nrm": b"n" * 17, "icudt72l/brkitr/char.brk": b"c" * 40, "icudt72l/brkitr/root.res": b"r",
         "icudt72l/brkitr/cjdict.dict": b"d" * 999, "icudt72l/de.res": b"e" * 5000, "icudt72l/root.res": b"R" * 3}


@unittest.skipUnless(PACKAGING.is_dir() and shutil.which("cc"), "needs the sources and a C compiler")
class IcuDataTest(unittest.TestCase):
    def setUp(self):
        sys.path.insert(0, str(PACKAGING))
        self.addCleanup(sys.path.remove, str(PACKAGING))
        import icu_data
        self.icu_data = icu_data
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def library(self, items):
        """As Debian's: the whole package in one symbol."""
        (self.folder / "all").write_bytes(self.icu_data.package_of(HEADER, items))
        (self.folder / "all.s").write_text(self.icu_data.ASSEMBLY.format(symbol="icudt72_dat").replace(
            '"data"', '"all"'))
        file = self.folder / "libicudata.so.72.1"
        subprocess.run(["cc", "-shared", "-nostdlib", "-o", file, "all.s"], check=True, cwd=self.folder)
        return file

    def test_items_come_back(self):
        header, items = self.icu_data.items_of(self.icu_data.package_of(HEADER, ITEMS))
        self.assertEqual(header, HEADER)
        self.assertEqual({name: item.rstrip(b"\0") for name, item in items.items()}, ITEMS)
        self.assertEqual(list(items), sorted(ITEMS))

    def test_keeps_what_is_asked_for(self):
        place = self.folder / "small" / "libicudata-0.so.72"
        self.icu_data.write_small(self.library(ITEMS), place)
        ctypes.CDLL(str(place)).icudt72_dat  # the symbol that ICU asks the loader for
        items = self.icu_data.items_of(self.icu_data.data_of(place)[1])[1]
        self.assertEqual(sorted(items), sorted(name for name in ITEMS if "dict" not in name and "/de." not in name))
        self.assertEqual(items["icudt72l/brkitr/char.brk"].rstrip(b"\0"), b"c" * 40)
        first = place.read_bytes()
        self.icu_data.write_small(self.folder / "libicudata.so.72.1", place)
        self.assertEqual(place.read_bytes(), first)

    def test_a_library_without_what_is_needed_is_refused(self):
        rest = {name: item for name, item in ITEMS.items() if "char.brk" not in name}
        with self.assertRaisesRegex(SystemExit, "char.brk"):
            self.icu_data.write_small(self.library(rest), self.folder / "small.so")


if __name__ == "__main__":
    unittest.main()
