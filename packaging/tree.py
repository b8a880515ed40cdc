# SPDX-License-Identifier: Apache-2.0
"""A tree of the program, the library, its plugins and every library that they need besides the C and C++ runtime, which
runs from wherever it is put: bin/, lib/, lib/transom/, share/transom/."""
import hashlib
import os
import pathlib
import re
import shutil
import subprocess

from icu_data import is_icu_data, write_small
from symbols import Symbols

# Of the host: what every Linux has (the list of PEP 600 for manylinux), and LLVM's loader.
HOST = re.compile(r"^(ld-linux.*|lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|util|resolv|nss_.*))\.so(\.\d+)*$")
# Plugins that are no part of packages: templates and what needs a vendor's or a system's launcher.
LEFT_OUT = {"libtransom_null.so", "libtransom_null.json", "transom_mpi.so"}


def run(*words):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout


def needed(file):
    """The names of the libraries that a file names."""
    return re.findall(r"\(NEEDED\)\s+Shared library: \[(.*?)\]", run("readelf", "-d", file))


def found_by_loader(file, build):
    """Where the loader finds each library, of all that the file needs. The file is a copy: what it finds beside its
    place in the build directory is named here."""
    result = {}
    environment = {**os.environ, "LD_LIBRARY_PATH": str(pathlib.Path(build).resolve() / "onednn")}
    found = subprocess.run(["ldd", file], check=True, capture_output=True, text=True, env=environment).stdout
    for line in found.splitlines():
        match = re.match(r"\s*(\S+) => (\S+)", line)
        if match:
            if match.group(2) == "not":
                raise SystemExit(f"{file}: {match.group(1)} is not found")
            result[match.group(1)] = pathlib.Path(match.group(2))
    return result


def copy(source, destination):
    destination.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(os.path.realpath(source), destination)
    destination.chmod(0o755)


class Tree:
    """Made from a build directory; `patchelf` is the program of that name."""

    def __init__(self, build, root, patchelf, private_names):
        self.build, self.root = pathlib.Path(build), pathlib.Path(root)
        self.patchelf, self.private_names = patchelf, private_names
        self.libraries = {}  # the name in the system: (the file there, the file here)
        self.runtime = {}  # as libraries: the C and C++ runtime, where it goes along
        self.symbols = Symbols(self.build)

    def make(self, share, program=True):
        lib = self.root / "lib"
        copy(self.build / "lib/libtransom.so.0", lib / "libtransom.so.0")
        for file in sorted((self.build / "lib/transom").iterdir()):
            if file.name not in LEFT_OUT:
                copy(file, lib / "transom" / file.name)
        static = self.build / "packages/static/transom-cpu-codegen.so"
        if static.exists():
            copy(static, lib / "transom/transom-cpu-codegen.so")
        if program:
            copy(self.build / "bin/transom", self.root / "bin/transom")
        for file in sorted(pathlib.Path(share).rglob("*.json")):
            place = self.root / "share/transom" / file.relative_to(share)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, place)
        self.add_libraries()
        return self

    def own(self):
        """The files of the tree that are programs or libraries."""
        return [file for file in sorted(self.root.rglob("*")) if file.is_file() and not file.is_symlink()
                and file.read_bytes()[:4] == b"\x7fELF"]

    def add_libraries(self, *more):
        """Brings in what all of them need, and has each look for it here."""
        ours = {"libtransom.so.0"}
        for file in [*self.own(), *more]:
            for name, path in found_by_loader(file, self.build).items():
                if name in ours or HOST.match(name) or name in self.libraries:
                    continue
                path = pathlib.Path(os.path.realpath(path))
                self.libraries[name] = (path, self.root / "lib" / self.name_of(name, path))
        for name, (source, place) in self.libraries.items():
            if is_icu_data(name):
                write_small(source, place)
            else:
                copy(source, place)
        for file in [*self.own(), *more]:
            self.adjust(file)

    def name_of(self, name, path):
        """With private names a library cannot be taken for another one of this name in the same process."""
        if not self.private_names:
            return name
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:8]
        stem, _, rest = name.partition(".so")
        return f"{stem}-{digest}.so{rest}"

    def adjust(self, file):
        run("strip", "--strip-unneeded", file)
        words = [self.patchelf]
        for name in needed(file):
            if name in self.libraries and self.libraries[name][1].name != name:
                words += ["--replace-needed", name, self.libraries[name][1].name]
        for _, place in self.libraries.values():
            if place == file:
                words += ["--set-soname", place.name]
        run(*words, "--set-rpath", self.search_path(file), file)
        self.symbols.stamp(file)

    def search_path(self, file):
        folder, lib = pathlib.Path(file).parent, self.root / "lib"
        relative = os.path.relpath(lib, folder)
        return "$ORIGIN" if relative == "." else f"$ORIGIN:$ORIGIN/{relative}"
