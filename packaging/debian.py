#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What cpack does not do for a package of Debian, in the tree that it packs: debian.py BUILD TREE. Build ids that do not
depend on the folder of the build, licences and the list of parts in share/doc/transom. What the package asks other
packages for is not inside and not listed."""
import pathlib
import sys
import types

from licences import write_licences
from sbom import write_sbom
from symbols import Symbols, is_elf
from wheel import SOURCE, source_time, version_of_source


def main():
    build, root = map(pathlib.Path, sys.argv[1:])
    symbols = Symbols(build)
    for file in sorted(root.rglob("*")):
        if is_elf(file):
            symbols.stamp(file)
    inside = {file.name: (file, file) for file in root.rglob("libdnnl.so.3")}  # the only library that Debian has not
    tree = types.SimpleNamespace(root=root / "usr", libraries=inside, runtime={})
    folder = root / "usr/share/doc/transom"
    write_licences(folder, tree, SOURCE)
    (folder / "LICENSE").rename(folder / "copyright")
    write_sbom(folder / "sbom.spdx.json", f"transom-{version_of_source()}", tree, SOURCE, source_time())


if __name__ == "__main__":
    main()
