# SPDX-License-Identifier: Apache-2.0
"""HfArgumentParser: flags or a JSON file to dataclasses and TrainingArguments."""
import argparse
import dataclasses
import json
import sys
import types
import typing

from .errors import UsageError
from .native import library
from .training_args import TrainingArguments


def _truth(text):
    if text.lower() in ("yes", "true", "t", "y", "1"):
        return True
    if text.lower() in ("no", "false", "f", "n", "0"):
        return False
    raise argparse.ArgumentTypeError(f"expected true or false, found {text!r}")


def _kind(annotation):
    """(type, whether it is a list) of an annotation, without its None."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        parts = [part for part in typing.get_args(annotation) if part is not type(None)]
        annotation = str if str in parts and len(parts) > 1 else parts[0]
    if typing.get_origin(annotation) in (list, tuple):
        return (typing.get_args(annotation) or (str,))[0], True
    if typing.get_origin(annotation) is typing.Literal:
        return type(typing.get_args(annotation)[0]), False
    return annotation if isinstance(annotation, type) else str, False


class HfArgumentParser(argparse.ArgumentParser):
    """Of dataclasses, and of (sub)classes of TrainingArguments."""

    def __init__(self, dataclass_types, **keywords):
        keywords.setdefault("formatter_class", argparse.ArgumentDefaultsHelpFormatter)
        super().__init__(**keywords)
        self.dataclass_types = list(dataclass_types) if isinstance(dataclass_types, (list, tuple)) else [dataclass_types]
        for each in self.dataclass_types:
            if not issubclass(each, TrainingArguments):
                self._add(each)

    def _add(self, group):
        hints = typing.get_type_hints(group)
        for field in dataclasses.fields(group):
            if not field.init:
                continue
            kind, is_list = _kind(hints[field.name])
            options = {"help": field.metadata.get("help")}
            if field.metadata.get("choices"):
                options["choices"] = field.metadata["choices"]
            has_default = field.default is not dataclasses.MISSING
            default = field.default if has_default else (
                field.default_factory() if field.default_factory is not dataclasses.MISSING else None)
            options["default"] = default
            options["required"] = not has_default and field.default_factory is dataclasses.MISSING
            names = [f"--{field.name}", f"--{field.name.replace('_', '-')}"]
            if kind is bool:
                options.update(type=_truth, nargs="?", const=True)
                if default is True:
                    self.add_argument(f"--no_{field.name}", f"--no-{field.name.replace('_', '-')}",
                                      action="store_false", dest=field.name, help=argparse.SUPPRESS)
            else:
                options["type"] = kind
                if is_list:
                    options["nargs"] = "+"
            self.add_argument(*dict.fromkeys(names), dest=field.name, **options)

    def parse_args_into_dataclasses(self, args=None, return_remaining_strings=False, look_for_args_file=True,
                                    args_filename=None, args_file_flag=None):
        words = list(sys.argv[1:] if args is None else args)
        known, rest = self.parse_known_args(words)
        results = []
        for each in self.dataclass_types:
            if issubclass(each, TrainingArguments):
                results.append(_training_arguments(each, rest))
                rest = []
            else:
                results.append(each(**{field.name: getattr(known, field.name)
                                       for field in dataclasses.fields(each) if field.init}))
        if return_remaining_strings:
            return (*results, rest)
        if rest:
            raise UsageError(f"unknown arguments: {' '.join(rest)}")
        return tuple(results)

    def parse_dict(self, args, allow_extra_keys=False):
        results, taken = [], set()
        for each in self.dataclass_types:
            if issubclass(each, TrainingArguments):
                continue
            names = {field.name for field in dataclasses.fields(each) if field.init}
            taken |= names & set(args)
        for each in self.dataclass_types:
            if issubclass(each, TrainingArguments):
                results.append(each(**{name: value for name, value in args.items() if name not in taken}))
            else:
                names = {field.name for field in dataclasses.fields(each) if field.init}
                results.append(each(**{name: value for name, value in args.items() if name in names}))
        return tuple(results)

    def parse_json_file(self, json_file, allow_extra_keys=False):
        with open(json_file, encoding="utf-8") as file:
            return self.parse_dict(json.load(file), allow_extra_keys)


def _training_arguments(kind, words):
    text, _, generates, length, beams = library.training_flags(words)
    fields = {name: value for name, value in json.loads(text).items() if value is not None}
    arguments = kind(**fields)
    arguments.predict_with_generate = generates
    arguments.generation_max_length, arguments.generation_num_beams = length, beams
    return arguments
