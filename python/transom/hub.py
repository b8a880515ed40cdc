# SPDX-License-Identifier: Apache-2.0
"""Where a model's files are: a directory, or an id of the Hugging Face Hub."""
import json
import os

from .errors import UnsupportedError
from .native import library

_HUB = ("revision", "token", "use_auth_token", "cache_dir", "local_files_only")
_WITHOUT_MEANING = ("force_download", "proxies", "resume_download", "subfolder", "mirror", "code_revision",
                    "_commit_hash")  # a subfolder that is asked for is refused


def hub_arguments(keywords):
    """Splits the keyword arguments of from_pretrained: those of the Hub, as JSON, and the rest."""
    if keywords.get("subfolder"):
        raise UnsupportedError("subfolder is not supported: give the folder itself", "unsupported")
    rest = {name: value for name, value in keywords.items() if name not in _WITHOUT_MEANING}
    hub = {}
    for name in _HUB:
        value = rest.pop(name, None)
        if value is None or value is True or value is False and name != "local_files_only":
            continue
        hub["token" if name == "use_auth_token" else name] = value if name == "local_files_only" else str(value)
    if keywords.get("local_files_only") is True:
        hub["local_files_only"] = True
    return json.dumps(hub), rest


def directory_of(name, hub="{}", weights=True):
    """The directory of a model that is named by its directory or its id."""
    name = os.fspath(name)
    return library.resolve_model(name, hub) if weights else library.resolve_tokenizer(name, hub)
