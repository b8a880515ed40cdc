# SPDX-License-Identifier: Apache-2.0
"""The program `transom`, as the wheel installs it; also python -m transom."""
import os
import sys


def main():
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "transom")
    if not os.path.exists(program):
        raise SystemExit(f"{program}: not found; this copy of the package has no program")
    os.execv(program, ["transom", *sys.argv[1:]])


if __name__ == "__main__":
    main()
