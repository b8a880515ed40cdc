#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From nothing to the first embedding with sentence-transformers; race.py times the whole process."""
import sys

from sentence_transformers import SentenceTransformer

print(SentenceTransformer(sys.argv[1], device="cpu").encode(sys.argv[2])[:3])
