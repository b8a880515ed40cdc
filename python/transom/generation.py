# SPDX-License-Identifier: Apache-2.0
"""generate(), its configuration and streamers."""
import json
import queue

from .errors import UsageError
from .native import library
from .tensors import as_torch, is_torch, to_tensor


class GenerationConfig:
    """The fields of generation_config.json. Fields that are not set have Transformers' defaults."""

    def __init__(self, **fields):
        self.__dict__.update(fields)

    @classmethod
    def from_pretrained(cls, name, **fields):
        import os

        from .hub import directory_of, hub_arguments

        hub, rest = hub_arguments(fields)
        path = os.path.join(directory_of(name, hub, weights=False), "generation_config.json")
        stored = {}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                stored = json.load(file)
        return cls(**{**stored, **rest})

    @classmethod
    def from_model_config(cls, config):
        names = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id", "max_length", "num_beams")
        return cls(**{name: config.to_dict()[name] for name in names if config.to_dict().get(name) is not None})

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return None

    def to_dict(self):
        return dict(self.__dict__)

    def update(self, **fields):
        self.__dict__.update(fields)
        return {}

    def save_pretrained(self, directory, **_):
        import os

        os.makedirs(directory, exist_ok=True)
        path = os.path.join(directory, "generation_config.json")
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(json.dumps(self.to_dict(), indent=2, sort_keys=True) + "\n")
        os.replace(path + ".new", path)

    def __repr__(self):
        return f"GenerationConfig {json.dumps(self.to_dict(), indent=2, sort_keys=True, default=str)}"


class BaseStreamer:
    """Receives the tokens of one text as they are generated: the prompt first, then one at a time."""

    def put(self, value):
        raise NotImplementedError

    def end(self):
        raise NotImplementedError


class TextStreamer(BaseStreamer):
    """Prints text as it is generated, up to the last whole word."""

    def __init__(self, tokenizer, skip_prompt=False, **decode_kwargs):
        self.tokenizer, self.skip_prompt, self.decode_kwargs = tokenizer, skip_prompt, decode_kwargs
        self.token_cache, self.print_len, self.next_tokens_are_prompt = [], 0, True

    def put(self, value):
        ids = value.tolist() if hasattr(value, "tolist") else list(value)
        ids = ids[0] if ids and isinstance(ids[0], list) else ids
        if self.skip_prompt and self.next_tokens_are_prompt:
            self.next_tokens_are_prompt = False
            return
        self.next_tokens_are_prompt = False
        self.token_cache.extend(ids)
        text = self.tokenizer.decode(self.token_cache, **self.decode_kwargs)
        if text.endswith("\n"):
            printable = text[self.print_len:]
            self._keep_context()
        elif text and self._is_cjk(ord(text[-1])):
            printable = text[self.print_len:]
            self.print_len += len(printable)
        else:
            printable = text[self.print_len: text.rfind(" ") + 1]
            self.print_len += len(printable)
        self.on_finalized_text(printable)

    def _keep_context(self):
        """Of the tokens the last that says something: what follows is decoded behind it, since tokenizers of the LLaMA
        family leave a space out at the beginning of a text."""
        for count in range(1, len(self.token_cache) + 1):
            text = self.tokenizer.decode(self.token_cache[-count:], **self.decode_kwargs)
            if text:
                self.token_cache, self.print_len = self.token_cache[-count:], len(text)
                return

    def end(self):
        printable = ""
        if self.token_cache:
            printable = self.tokenizer.decode(self.token_cache, **self.decode_kwargs)[self.print_len:]
        self.token_cache, self.print_len, self.next_tokens_are_prompt = [], 0, True
        self.on_finalized_text(printable, stream_end=True)

    def on_finalized_text(self, text, stream_end=False):
        print(text, flush=True, end="" if not stream_end else None)

    @staticmethod
    def _is_cjk(code):
        return (0x4E00 <= code <= 0x9FFF or 0x3400 <= code <= 0x4DBF or 0x20000 <= code <= 0x2CEAF
                or 0xF900 <= code <= 0xFAFF or 0x2F800 <= code <= 0x2FA1F)


class TextIteratorStreamer(TextStreamer):
    """The text as an iterator, for another thread than the one that generates."""

    def __init__(self, tokenizer, skip_prompt=False, timeout=None, **decode_kwargs):
        super().__init__(tokenizer, skip_prompt, **decode_kwargs)
        self.text_queue, self.stop_signal, self.timeout = queue.Queue(), None, timeout

    def on_finalized_text(self, text, stream_end=False):
        self.text_queue.put(text, timeout=self.timeout)
        if stream_end:
            self.text_queue.put(self.stop_signal, timeout=self.timeout)

    def __iter__(self):
        return self

    def __next__(self):
        value = self.text_queue.get(timeout=self.timeout)
        if value is self.stop_signal:
            raise StopIteration
        return value


class LogitsProcessor:
    """Changes the scores of the next token: __call__(input_ids, scores) with arrays of numpy, [1, T] and [1, V]."""

    def __call__(self, input_ids, scores):
        raise NotImplementedError


class LogitsProcessorList(list):
    def __call__(self, input_ids, scores, **keywords):
        for processor in self:
            scores = processor(input_ids, scores, **keywords)
        return scores


def _scores_by(processors):
    import numpy

    def change(tokens, scores):
        ids, values = numpy.asarray([tokens]), numpy.asarray([scores], dtype=numpy.float32)
        for processor in processors:
            values = processor(ids, values)
        return [float(value) for value in numpy.asarray(values)[0]]

    return change


_INPUTS = ("input_ids", "inputs_embeds", "attention_mask", "decoder_input_ids", "decoder_attention_mask", "input_features",
           "pixel_values", "encoder_outputs", "token_type_ids", "position_ids")
_WITHOUT_MEANING = ("use_cache", "synced_gpus", "return_legacy_cache", "token_type_ids", "position_ids",
                    "output_attentions", "trust_remote_code", "disable_compile", "cache_implementation")


class GenerationMixin:
    """generate() of models that can."""

    @property
    def generation_config(self):
        if self._generation_config is None:
            self._generation_config = GenerationConfig(**json.loads(self._native.generation_config()))
        return self._generation_config

    @generation_config.setter
    def generation_config(self, config):
        self._generation_config = config

    def can_generate(self):
        return self._native.can_generate()

    def generate(self, inputs=None, generation_config=None, logits_processor=None, stopping_criteria=None,
                 streamer=None, tokenizer=None, **keywords):
        """Token ids [B, T]: those of the prompt and the new ones, or those of the decoder. Keyword arguments are the
        model's inputs and the fields of GenerationConfig; `seed` is that of sampling."""
        if stopping_criteria:
            raise UsageError("stopping_criteria: use stop_strings, max_time, max_new_tokens or a streamer that raises")
        if inputs is not None:
            keywords["input_ids" if "input_ids" in self._inputs() else self._inputs()[0]] = inputs
        as_dict = keywords.pop("return_dict_in_generate", False)
        keywords.pop("output_scores", None)
        given, fields, torch_like = {}, {}, False
        if generation_config is not None:
            fields.update(generation_config.to_dict())
        elif self._generation_config is not None:
            fields.update(self._generation_config.to_dict())
        for name, value in keywords.items():
            if name in _INPUTS and name not in _WITHOUT_MEANING:
                if value is not None:
                    torch_like = torch_like or is_torch(value)
                    given[name] = to_tensor(value, name)
            elif name not in _WITHOUT_MEANING:
                fields[name] = value
        for name in ("transformers_version", "_from_model_config", "return_dict_in_generate", "output_scores"):
            fields.pop(name, None)
        fields = {name: value for name, value in fields.items() if value is not None and not name.startswith("_")}
        if not given and fields.get("bos_token_id", self.config.bos_token_id) is not None:
            given["input_ids"] = to_tensor([[fields.get("bos_token_id", self.config.bos_token_id)]])
        if fields.get("do_sample") and "seed" not in fields:
            fields["seed"] = _next_seed()
        rows, scores = library.generate(self._native, given, self._directory, json.dumps(fields, default=_number),
                                        tokenizer._native if tokenizer is not None else None, streamer,
                                        _scores_by(logits_processor) if logits_processor else None)
        sequences = to_tensor(rows)
        sequences = as_torch(sequences) if torch_like else sequences
        if not as_dict:
            return sequences
        from .outputs import ModelOutput

        return ModelOutput(sequences=sequences, sequences_scores=scores) if scores else ModelOutput(sequences=sequences)


def _number(value):
    if hasattr(value, "tolist"):
        return value.tolist()
    raise UsageError(f"generate: expected numbers, texts and lists, found {type(value).__name__}")


_draws = None
_initial_seed = 42


def initial_seed():
    """That of parameters which a checkpoint lacks: the one of the last set_seed()."""
    return _initial_seed


def _next_seed():
    """Another one at each call, from where set_seed() began, as torch's generator moves on."""
    global _draws
    if _draws is None:
        import random

        _draws = random.Random()
    return _draws.getrandbits(48)


def seed_generation(seed):
    global _draws, _initial_seed
    import random

    _draws, _initial_seed = random.Random(seed), int(seed)
