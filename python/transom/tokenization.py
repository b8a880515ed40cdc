# SPDX-License-Identifier: Apache-2.0
"""Tokenizers: the calls and results of Transformers' fast tokenizers."""
import json
import os

from .batch_encoding import BatchEncoding
from .errors import UsageError
from .hub import directory_of, hub_arguments
from .native import library
from .padding import pad_rows

VERY_LARGE = int(1e30)  # model_max_length of a tokenizer without a limit
_ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")


def _truncation_name(truncation, has_pairs):
    truncation = getattr(truncation, "value", truncation)
    if truncation is True:
        return "longest_first"
    if truncation in (None, False, "do_not_truncate"):
        return "none"
    if truncation not in ("longest_first", "only_first", "only_second"):
        raise UsageError("truncation: expected True, False, 'longest_first', 'only_first', 'only_second' or "
                         f"'do_not_truncate', found {truncation!r}")
    return truncation


def _padding_name(padding):
    padding = getattr(padding, "value", padding)
    if padding is True or padding == "longest":
        return "longest"
    if padding in (None, False, "do_not_pad"):
        return "none"
    if padding != "max_length":
        raise UsageError(f"padding: expected True, False, 'longest', 'max_length' or 'do_not_pad', found {padding!r}")
    return padding


class PreTrainedTokenizerBase:
    """Text to token ids and back. Made by from_pretrained()."""

    is_fast = True
    padding_side = "right"
    truncation_side = "right"

    def __init__(self, *_, **__):
        raise UsageError(f"{type(self).__name__} is made by from_pretrained(directory or id)")

    @classmethod
    def from_pretrained(cls, name, *_, **keywords):
        hub, rest = hub_arguments(keywords)
        directory = directory_of(name, hub, weights=False)
        self = PreTrainedTokenizerFast.__new__(PreTrainedTokenizerFast)
        self._open(str(name), directory, rest)
        return self

    def _open(self, name, directory, keywords):
        self.name_or_path = name
        self._directory = directory
        self._keywords = dict(keywords)
        self._native = library.Tokenizer.from_pretrained(directory, keywords.get("add_prefix_space"))
        limit = keywords.get("model_max_length") or self._native.model_max_length()
        self.model_max_length = int(limit) if limit is not None else VERY_LARGE
        self.padding_side = keywords.get("padding_side") or self._native.padding_side()
        self.truncation_side = keywords.get("truncation_side") or self._native.truncation_side()
        self.model_input_names = list(self._native.model_input_names())
        self._specials = {role: self._native.special_token(role) for role in _ROLES}
        for role in _ROLES:
            if isinstance(keywords.get(role + "_token"), str):
                self._specials[role] = keywords[role + "_token"]
        self._target = False

    def __reduce__(self):
        return _reopened, (self.name_or_path, self._directory, self._keywords, self._specials, self.padding_side,
                           self.truncation_side, self.model_max_length)

    def __len__(self):
        return self._native.vocab_size()

    @property
    def vocab_size(self):
        return self._native.vocab_size()

    def get_vocab(self):
        tokens = ((self._native.id_to_token(i), i) for i in range(len(self)))
        return {token: i for token, i in tokens if token is not None}

    vocab = property(get_vocab)

    def __repr__(self):
        return f"PreTrainedTokenizerFast(name_or_path={self.name_or_path!r}, vocab_size={self.vocab_size})"

    # ---- special tokens

    def __getattr__(self, name):
        if not name.startswith("_"):
            for role in _ROLES:
                if name == role + "_token":
                    return self._specials[role]
                if name == role + "_token_id":
                    token = self._specials[role]
                    return None if token is None else self._native.token_to_id(token)
        raise AttributeError(f"the tokenizer has no attribute {name!r}")

    def __setattr__(self, name, value):
        for role in _ROLES:
            if name == role + "_token":
                self._specials[role] = None if value is None else str(value)
                return
            if name == role + "_token_id":
                self._specials[role] = None if value is None else self._native.id_to_token(int(value))
                return
        object.__setattr__(self, name, value)

    @property
    def special_tokens_map(self):
        return {role + "_token": token for role, token in self._specials.items() if token is not None}

    @property
    def all_special_tokens(self):
        named = [token for token in self._specials.values() if token is not None]
        others = [self._native.id_to_token(i) for i in self._native.all_special_ids()]
        return list(dict.fromkeys(named + [token for token in others if token is not None]))

    @property
    def all_special_ids(self):
        return [self._native.token_to_id(token) for token in self.all_special_tokens]

    def num_special_tokens_to_add(self, pair=False):
        return len(self._encode([""], [""] if pair else [], self._options(None, None, None, 0, False, True))[0])

    @property
    def max_len_single_sentence(self):
        return self.model_max_length - self.num_special_tokens_to_add()

    def add_special_tokens(self, tokens, *_, **__):
        for name, token in tokens.items():
            if name == "additional_special_tokens" or self._native.token_to_id(str(token)) is None:
                raise UsageError(f"add_special_tokens: {token!r} is not in the vocabulary, which does not grow here; "
                                 "add it in Transformers and save the tokenizer and the model")
            setattr(self, name, token)
        return 0

    def add_tokens(self, tokens, *_, **__):
        new = [token for token in ([tokens] if isinstance(tokens, str) else tokens)
               if self._native.token_to_id(str(token)) is None]
        if new:
            raise UsageError(f"add_tokens: {new[0]!r} is not in the vocabulary, which does not grow here; add it in "
                             "Transformers and save the tokenizer and the model")
        return 0

    # ---- encoding

    def __call__(self, text=None, text_pair=None, text_target=None, text_pair_target=None, add_special_tokens=True,
                 padding=False, truncation=None, max_length=None, stride=0, is_split_into_words=False,
                 pad_to_multiple_of=None, padding_side=None, return_tensors=None, return_token_type_ids=None,
                 return_attention_mask=None, return_overflowing_tokens=False, return_special_tokens_mask=False,
                 return_offsets_mapping=False, return_length=False, verbose=True, **unknown):
        if unknown:
            raise UsageError(f"the tokenizer takes no argument {next(iter(unknown))!r}")
        keywords = dict(add_special_tokens=add_special_tokens, padding=padding, truncation=truncation,
                        max_length=max_length, stride=stride, is_split_into_words=is_split_into_words,
                        pad_to_multiple_of=pad_to_multiple_of, padding_side=padding_side,
                        return_tensors=return_tensors, return_token_type_ids=return_token_type_ids,
                        return_attention_mask=return_attention_mask,
                        return_overflowing_tokens=return_overflowing_tokens,
                        return_special_tokens_mask=return_special_tokens_mask,
                        return_offsets_mapping=return_offsets_mapping, return_length=return_length)
        if text is None and text_target is None:
            raise UsageError("the tokenizer needs a text, or a text_target")
        result = None
        if text is not None:
            result = self._encoded(text, text_pair, self._target, **keywords)
        if text_target is not None:
            target = self._encoded(text_target, text_pair_target, True, **keywords)
            if result is None:
                return target
            result["labels"] = target["input_ids"]
        return result

    def encode_plus(self, text, text_pair=None, **keywords):
        return self(text, text_pair, **keywords)

    batch_encode_plus = encode_plus

    def encode(self, text, text_pair=None, **keywords):
        return self(text, text_pair, **keywords)["input_ids"]

    def tokenize(self, text, pair=None, add_special_tokens=False, **_):
        options = self._options(None, None, None, 0, False, add_special_tokens)
        return list(self._encode([text], [pair] if pair else [], options)[0].tokens)

    def _options(self, truncation, max_length, side, stride, overflowing, add_special_tokens, target=False):
        return library.encode_options(add_special_tokens, truncation or "none", max_length, stride, overflowing,
                                      side or self.truncation_side, target)

    def _encode(self, texts, pairs, options):
        return self._native.encode_batch(texts, pairs, options)

    def _encoded(self, text, pair, target, add_special_tokens, padding, truncation, max_length, stride,
                 is_split_into_words, pad_to_multiple_of, padding_side, return_tensors, return_token_type_ids,
                 return_attention_mask, return_overflowing_tokens, return_special_tokens_mask,
                 return_offsets_mapping, return_length):
        text = text if isinstance(text, (str, list, tuple)) else list(text)  # a column of a data set
        if is_split_into_words:
            is_batch = bool(text) and isinstance(text[0], (list, tuple))
        else:
            is_batch = isinstance(text, (list, tuple))
        texts = list(text) if is_batch else [text]
        pairs = [] if pair is None else (list(pair) if is_batch else [pair])
        if not is_split_into_words and texts and isinstance(texts[0], (list, tuple)):  # [(text, pair), ...]
            texts, pairs = [each[0] for each in texts], [each[1] for each in texts]
        how = _truncation_name(truncation, bool(pairs))
        pad_how = _padding_name(padding)
        if truncation is None and max_length is not None and pad_how != "max_length":
            how = "longest_first"
        limit = max_length
        if how != "none" and limit is None:
            limit = None if self.model_max_length >= VERY_LARGE else self.model_max_length
            if limit is None:
                how = "none"
        options = self._options(how, limit if how != "none" else None, None, stride,
                                return_overflowing_tokens, add_special_tokens, target)
        for each in texts + pairs:
            if not isinstance(each, (list, tuple) if is_split_into_words else str):
                raise UsageError("text: expected a string, a list of strings or a list of pairs"
                                 f"{' of words' if is_split_into_words else ''}, found {type(each).__name__}")
        if is_split_into_words:
            if pairs:
                raise UsageError("is_split_into_words: pairs of lists of words are not supported; join the words")
            encodings = self._native.encode_words([list(each) for each in texts], options)
        else:
            encodings = self._encode(texts, pairs, options)
        samples = []
        if return_overflowing_tokens:
            parts = []
            for number, encoding in enumerate(encodings):
                for part in [encoding, *encoding.overflowing]:
                    parts.append(part)
                    samples.append(number)
            encodings = parts
        names = self.model_input_names
        with_types = return_token_type_ids if return_token_type_ids is not None else "token_type_ids" in names
        with_mask = return_attention_mask if return_attention_mask is not None else "attention_mask" in names
        data = {"input_ids": [list(each.ids) for each in encodings]}
        if with_types:
            data["token_type_ids"] = [list(each.type_ids) for each in encodings]
        if with_mask:
            data["attention_mask"] = [list(each.attention_mask) for each in encodings]
        if return_special_tokens_mask:
            data["special_tokens_mask"] = [list(each.special_tokens_mask) for each in encodings]
        if return_offsets_mapping:
            data["offset_mapping"] = [list(each.offsets) for each in encodings]
        if return_length:
            data["length"] = [len(each) for each in encodings]
        if return_overflowing_tokens:
            data["overflow_to_sample_mapping"] = samples
        single = not is_batch and not return_overflowing_tokens and return_tensors is None
        if pad_how != "none":
            limit = max_length if max_length is not None else self.model_max_length
            if pad_how == "max_length" and limit >= VERY_LARGE:
                pad_how = "longest"
            data = pad_rows(data, self, pad_how, limit, pad_to_multiple_of, padding_side or self.padding_side)
        if single:
            data = {name: rows[0] for name, rows in data.items()}
        result = BatchEncoding(data, encodings, single=single)
        return result.convert_to_tensors(return_tensors) if return_tensors is not None else result

    def pad(self, encoded_inputs, padding=True, max_length=None, pad_to_multiple_of=None, padding_side=None,
            return_attention_mask=None, return_tensors=None, verbose=True):
        """Rows (a list of dicts, or a dict of lists) padded to one length."""
        if isinstance(encoded_inputs, (list, tuple)):
            names = encoded_inputs[0].keys() if encoded_inputs else ()
            data = {name: [row[name] for row in encoded_inputs] for name in names}
        else:
            data = dict(encoded_inputs)
        if "input_ids" not in data and self.model_input_names[0] not in data:
            raise UsageError(f"pad: expected rows with 'input_ids', found {', '.join(data) or 'none'}")
        data = {name: [_listed(row) for row in rows] for name, rows in data.items()}
        first = data["input_ids"]
        if first and not isinstance(first[0], list):
            data = pad_rows({name: [rows] for name, rows in data.items()}, self, _padding_name(padding),
                            max_length or self.model_max_length, pad_to_multiple_of,
                            padding_side or self.padding_side, return_attention_mask is not False)
            result = BatchEncoding({name: rows[0] for name, rows in data.items()})
        else:
            result = BatchEncoding(pad_rows(data, self, _padding_name(padding), max_length or self.model_max_length,
                                            pad_to_multiple_of, padding_side or self.padding_side,
                                            return_attention_mask is not False))
        return result.convert_to_tensors(return_tensors) if return_tensors is not None else result

    # ---- decoding

    def decode(self, token_ids, skip_special_tokens=False, clean_up_tokenization_spaces=None, **_):
        ids = _listed(token_ids)
        if isinstance(ids, int):
            ids = [ids]
        if ids and isinstance(ids[0], list):
            return [self.decode(row, skip_special_tokens, clean_up_tokenization_spaces) for row in ids]
        return self._native.decode([int(i) for i in ids], skip_special_tokens, clean_up_tokenization_spaces)

    def batch_decode(self, sequences, skip_special_tokens=False, clean_up_tokenization_spaces=None, **_):
        return [self.decode(row, skip_special_tokens, clean_up_tokenization_spaces) for row in _listed(sequences)]

    def convert_tokens_to_ids(self, tokens):
        if tokens is None:
            return None
        if isinstance(tokens, str):
            found = self._native.token_to_id(tokens)
            return found if found is not None else self.unk_token_id
        return [self.convert_tokens_to_ids(token) for token in tokens]

    def convert_ids_to_tokens(self, ids, skip_special_tokens=False):
        ids = _listed(ids)
        if isinstance(ids, int):
            return self._native.id_to_token(ids)
        special = set(self.all_special_ids) if skip_special_tokens else ()
        return [self._native.id_to_token(int(i)) for i in ids if int(i) not in special]

    def apply_chat_template(self, conversation, tools=None, documents=None, chat_template=None,
                            add_generation_prompt=False, continue_final_message=False, tokenize=True, padding=False,
                            truncation=False, max_length=None, return_tensors=None, return_dict=True,
                            tokenizer_kwargs=None, **variables):
        batched = bool(conversation) and isinstance(conversation[0], (list, tuple))
        texts = [self._native.apply_chat_template(
            json.dumps(list(messages)), add_generation_prompt, continue_final_message, chat_template or "",
            json.dumps(tools) if tools else "", json.dumps(documents) if documents else "",
            json.dumps(variables) if variables else "") for messages in (conversation if batched else [conversation])]
        if not tokenize:
            return texts if batched else texts[0]
        encoded = self(texts if batched else texts[0], add_special_tokens=False, padding=padding,
                       truncation=truncation, max_length=max_length, return_tensors=return_tensors,
                       **(tokenizer_kwargs or {}))
        return encoded if return_dict else encoded["input_ids"]

    @property
    def chat_template(self):
        return "default" if self._native.has_chat_template() else None

    def save_pretrained(self, save_directory, *_, **__):
        """Writes the files that the tokenizer was read from; returns their paths."""
        self._native.save_pretrained(os.fspath(save_directory))
        return tuple(os.path.join(save_directory, name) for name in sorted(os.listdir(save_directory)))

    def as_target_tokenizer(self):
        import contextlib

        @contextlib.contextmanager
        def targets():
            self._target = True
            try:
                yield
            finally:
                self._target = False

        return targets()


def _listed(value):
    """Lists in the place of arrays and tensors."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, tuple):
        return list(value)
    return value


def _reopened(name, directory, keywords, specials, padding_side, truncation_side, model_max_length):
    self = PreTrainedTokenizerFast.__new__(PreTrainedTokenizerFast)
    self._open(name, directory, keywords)
    self._specials = specials
    self.padding_side, self.truncation_side, self.model_max_length = padding_side, truncation_side, model_max_length
    return self


class PreTrainedTokenizerFast(PreTrainedTokenizerBase):
    pass


PreTrainedTokenizer = PreTrainedTokenizerFast


class AutoTokenizer(PreTrainedTokenizerFast):
    """The tokenizer of any model."""


def __getattr__(name):
    """Transformers' classes of tokenizers: files say which one it is, whatever the class is called."""
    if name.endswith(("Tokenizer", "TokenizerFast")):
        return PreTrainedTokenizerFast
    raise AttributeError(name)
