# SPDX-License-Identifier: Apache-2.0
"""Seeds of the generators that draw weights and inputs."""

import hashlib


def seed_of(name):
    """A number that belongs to a name, the same everywhere."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:2], "big")
