# SPDX-License-Identifier: Apache-2.0
"""The root file system of a container's image: the tree of the tarball in /opt/transom with the C and C++ runtime where
the loader looks for it, certificates, a user, and nothing else: no shell."""
import os
import pathlib
import shutil
import tarfile

CERTIFICATES = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
FILES = {
    "etc/passwd": "root:x:0:0:root:/:/none\ntransom:x:10001:10001:transom:/cache:/none\n",
    "etc/group": "root:x:0:\ntransom:x:10001:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
# With their modes; who writes into models and cache is the user 10001.
FOLDERS = {"tmp": (0o1777, 0), "models": (0o755, 10001), "cache": (0o755, 10001), "data": (0o755, 10001),
           "output": (0o755, 10001), "proc": (0o555, 0), "dev": (0o755, 0), "sys": (0o555, 0)}


def make_root(tree, root):
    """From the unpacked tarball `tree`."""
    target = root / "opt/transom"
    shutil.copytree(tree, target)
    runtime = target / "lib/runtime"
    libraries = root / "usr/lib/x86_64-linux-gnu"
    libraries.mkdir(parents=True)
    for file in sorted(runtime.iterdir()):
        file.replace(libraries / file.name)
    runtime.rmdir()
    (target / "lib/runtime-check").unlink()
    (root / "lib64").mkdir()
    (root / "lib64/ld-linux-x86-64.so.2").symlink_to("../usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2")
    (root / "lib").mkdir()
    (root / "lib/x86_64-linux-gnu").symlink_to("../usr/lib/x86_64-linux-gnu")
    # The programs themselves where the tarball has scripts.
    (target / "bin/transom").unlink()
    (target / "bin/transom").symlink_to("../lib/programs/transom")
    (target / "lib/transom/probe-plugin").unlink()
    (target / "lib/transom/probe-plugin").symlink_to("../programs/probe-plugin")
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    if CERTIFICATES.exists():
        place = root / CERTIFICATES.relative_to("/")
        place.parent.mkdir(parents=True)
        shutil.copyfile(CERTIFICATES, place)
    for name in FOLDERS:
        (root / name).mkdir()


def information_of(archive, path, root, when):
    name = path.relative_to(root).as_posix()
    information = archive.gettarinfo(path, name)
    mode, owner = FOLDERS.get(name, (0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644, 0))
    information.mode, information.uid, information.gid = mode, owner, owner
    information.uname = information.gname = ""
    information.mtime = when
    return information


def pack_root(root, file, when):
    """As a layer: `ADD FILE /` of a Containerfile unpacks it."""
    partial = file.with_name(file.name + ".new")
    with tarfile.open(partial, "w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(root.rglob("*")):
            information = information_of(archive, path, root, when)
            if path.is_file() and not path.is_symlink():
                with open(path, "rb") as data:
                    archive.addfile(information, data)
            else:
                archive.addfile(information)
    partial.replace(file)
