# SPDX-License-Identifier: Apache-2.0
"""The device that computes."""
from .native import library


def devices():
    """The names of the devices that were found, best first."""
    return library.device_names()


def device_name():
    return library.device_name()


def infer_device():
    """The device that models compute on, by Transformers' name of the function."""
    return device_name()


def set_device(name):
    """Before the first model is loaded: "cpu", "cuda:1" ..."""
    library.set_device(str(name))
