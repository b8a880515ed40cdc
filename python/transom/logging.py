# SPDX-License-Identifier: Apache-2.0
"""The logger "transom", with the functions of transformers.utils.logging."""
import logging as _logging
import os as _os
import sys as _sys

DEBUG, INFO, WARNING, ERROR, CRITICAL = (_logging.DEBUG, _logging.INFO, _logging.WARNING, _logging.ERROR,
                                         _logging.CRITICAL)
FATAL, WARN = CRITICAL, WARNING
_root = _logging.getLogger("transom")
_handler = None
_progress = True


def _configure():
    global _handler
    if _handler is None:
        _handler = _logging.StreamHandler(_sys.stderr)
        _handler.setFormatter(_logging.Formatter("transom: %(message)s"))
        _root.addHandler(_handler)
        _root.propagate = False
        name = _os.environ.get("TRANSFORMERS_VERBOSITY", "warning").upper()
        _root.setLevel(getattr(_logging, name, WARNING))


def get_logger(name=None):
    _configure()
    return _logging.getLogger(name) if name else _root


def set_verbosity(level):
    _configure()
    _root.setLevel(level)


def get_verbosity():
    _configure()
    return _root.getEffectiveLevel()


def set_verbosity_info():
    set_verbosity(INFO)


def set_verbosity_warning():
    set_verbosity(WARNING)


def set_verbosity_debug():
    set_verbosity(DEBUG)


def set_verbosity_error():
    set_verbosity(ERROR)


def enable_default_handler():
    _configure()
    if _handler not in _root.handlers:
        _root.addHandler(_handler)


def disable_default_handler():
    _configure()
    _root.removeHandler(_handler)


def enable_explicit_format():
    _configure()
    _handler.setFormatter(_logging.Formatter("[%(levelname)s|%(filename)s:%(lineno)s] %(asctime)s >> %(message)s"))


def reset_format():
    _configure()
    _handler.setFormatter(_logging.Formatter("transom: %(message)s"))


def enable_propagation():
    _root.propagate = True


def disable_propagation():
    _root.propagate = False


def enable_progress_bar():
    global _progress
    _progress = True


def disable_progress_bar():
    global _progress
    _progress = False


_configure()
