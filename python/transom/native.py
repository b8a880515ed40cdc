# SPDX-License-Identifier: Apache-2.0
"""The extension module, loaded by the first use of any class, and what belongs to its end."""
import atexit

from . import _transom

# Devices are idle before the interpreter goes.
atexit.register(_transom.finish)

library = _transom
