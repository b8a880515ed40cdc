#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a tarball that runs from wherever it is unpacked, on any Linux of its processor with glibc 2.31 or later:
tarball.py BUILD OUT --patchelf FILE. It holds the C and C++ runtime of the machine that it is made on, for hosts whose
own is older: bin/transom asks the host's loader first, and takes the one in lib/runtime if that is too old."""
import argparse
import gzip
import os
import pathlib
import subprocess
import tarfile
import tempfile

from image import make_root, pack_root
from licences import write_licences
from sbom import write_sbom
from tree import Tree, copy
from wheel import SOURCE, source_time, version_of_source

# The loader and what goes with it. NSS modules find the names of hosts and users.
RUNTIME = ("ld-linux-x86-64.so.2 libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 libresolv.so.2 "
           "libnss_files.so.2 libnss_dns.so.2 libstdc++.so.6 libgcc_s.so.1").split()
# Runs NAME beside lib/: with the host's runtime where it is as new as ours, else with the one of the tarball.
LAUNCHER = """\
#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
here=$(readlink -f "$0")
here=$(dirname "$here")
root=$(CDPATH= cd "$here/{up}" && pwd)
program="$root/{program}"
if [ -z "${{TRANSOM_OWN_RUNTIME:-}}" ] && "$root/lib/runtime-check" 2>/dev/null; then
  exec "$program" "$@"
fi
export TRANSOM_OWN_RUNTIME=1
exec "$root/lib/runtime/ld-linux-x86-64.so.2" --library-path "$root/lib/runtime:$root/lib" "$program" "$@"
"""


def where_is(name):
    for folder in ("/lib64", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu"):
        if os.path.exists(f"{folder}/{name}"):
            return pathlib.Path(folder) / name
    raise SystemExit(f"{name}: not found in the folders of libraries")


def add_runtime(root, tree):
    """The runtime, and small scripts in the place of the two programs."""
    for name in RUNTIME:
        tree.runtime[name] = (where_is(name), root / "lib/runtime" / name)
        copy(*tree.runtime[name])
    # What starts is new enough: it needs the newest symbols that anything here needs.
    check = root / "lib/runtime-check"
    source = root / "check.cpp"
    source.write_text("#include <cmath>\n#include <latch>\n#include <memory_resource>\n#include <cstdlib>\n"
                      "int main() { std::pmr::monotonic_buffer_resource memory; std::latch latch(1); "
                      "latch.count_down(); return memory.allocate(8) ? 0 : 1; }\n")
    subprocess.run(["c++", "-std=c++20", "-O1", "-o", check, source], check=True)
    subprocess.run(["strip", check], check=True)
    source.unlink()
    for script, program in (("bin/transom", "lib/programs/transom"), ("lib/transom/probe-plugin",
                                                                      "lib/programs/probe-plugin")):
        place = root / program
        place.parent.mkdir(parents=True, exist_ok=True)
        (root / script).replace(place)
        tree.adjust(place)
        up = os.path.relpath(root, (root / script).parent)
        (root / script).write_text(LAUNCHER.format(up=up, program=program))
        (root / script).chmod(0o755)


def pack(root, file, when):
    """`root` as a tar archive: names in order, one time, no owners."""
    partial = file.with_name(file.name + ".new")
    with open(partial, "wb") as raw, gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=when,
                                                  compresslevel=9) as packed, tarfile.open(
            fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(root.parent.rglob("*")):
            information = archive.gettarinfo(path, path.relative_to(root.parent).as_posix())
            information.uid = information.gid = 0
            information.uname = information.gname = "root"
            information.mtime = when
            information.mode = 0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644
            if path.is_file():
                with open(path, "rb") as data:
                    archive.addfile(information, data)
            else:
                archive.addfile(information)
    partial.replace(file)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--patchelf", required=True)
    arguments = parser.parse_args()
    version = version_of_source()
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder) / f"transom-{version}"
        tree = Tree(arguments.build.resolve(), root, arguments.patchelf, private_names=False)
        tree.make(SOURCE / "share/transom")
        (root / "README").write_text(
            "Transom: bin/transom --help. Nothing has to be installed; the folder may lie anywhere.\n"
            "Licences of what is inside are in share/doc, the list of parts in share/doc/sbom.spdx.json.\n")
        for name in sorted((arguments.build / "../../include").resolve().glob("transom/*.h*")):
            place = root / "include/transom" / name.name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(name.read_bytes())
        add_runtime(root, tree)
        write_licences(root / "share/doc", tree, SOURCE)
        write_sbom(root / "share/doc/sbom.spdx.json", f"transom-{version}", tree, SOURCE, source_time())
        arguments.out.mkdir(parents=True, exist_ok=True)
        file = arguments.out / f"transom-{version}-linux-x86_64.tar.gz"
        pack(root, file, source_time())
        image = pathlib.Path(folder) / "image"
        make_root(root, image)
        pack_root(image, arguments.out / f"transom-{version}-image.tar", source_time())
        (arguments.out / "sbom.spdx.json").write_bytes((root / "share/doc/sbom.spdx.json").read_bytes())
        tree.symbols.write(arguments.out / f"transom-{version}-debug.tar", source_time())
        unpacked = sum(each.stat().st_size for each in root.rglob("*") if each.is_file())
    print(f"{file}: {file.stat().st_size / 1e6:.1f} MB, {unpacked / 1e6:.1f} MB unpacked")


if __name__ == "__main__":
    main()
