# SPDX-License-Identifier: Apache-2.0
"""What Transom raises. `kind` is one of usage, input, device, out_of_memory, unsupported, device_lost, interrupted,
internal; the text is one line that says what was expected, what was found and what to do."""


class TransomError(RuntimeError):
    kind = "internal"

    def __init__(self, text, kind=None):
        super().__init__(text)
        if kind is not None:
            self.kind = kind


class InputError(TransomError, ValueError, OSError):
    """A file, a field, a tensor or a value is not what it must be."""

    kind = "input"

    def __str__(self):
        return self.args[0] if self.args else ""


class UsageError(TransomError, ValueError):
    """The call itself is wrong."""

    kind = "usage"


class UnsupportedError(TransomError, NotImplementedError):
    """Valid, but not carried out by this version or this device."""

    kind = "unsupported"


class OutOfMemory(TransomError, MemoryError):
    """The memory of the host or of a device is exhausted."""

    kind = "out_of_memory"


_CLASSES = {each.kind: each for each in (InputError, UsageError, UnsupportedError, OutOfMemory)}


def error_of_kind(kind, text):
    """The exception for an error of the library."""
    return _CLASSES.get(kind, TransomError)(text, kind)
