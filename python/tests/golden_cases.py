# SPDX-License-Identifier: Apache-2.0
"""Where the golden cases are as models are read: the build writes them."""
import os
import pathlib

SOURCES = pathlib.Path(os.environ.get("TRANSOM_SOURCES") or pathlib.Path(__file__).resolve().parents[2])
GOLDEN = pathlib.Path(os.environ.get("TRANSOM_GOLDEN_CASES") or SOURCES / "build" / "release" / "golden")
