# SPDX-License-Identifier: Apache-2.0
"""What a tokenizer returns."""
from collections import UserDict

from .tensors import in_kind, to_tensor


class BatchEncoding(UserDict):
    """Lists or tensors by the names of the model's arguments, and where each token came from."""

    def __init__(self, data=None, encodings=None, single=False):
        super().__init__(data or {})
        self._encodings = encodings
        self._single = single

    def __getattr__(self, name):
        if name.startswith("_") or name == "data":
            raise AttributeError(name)
        try:
            return self.data[name]
        except KeyError:
            raise AttributeError(f"the encoding has no {name!r}; it has: {', '.join(self.data)}") from None

    def __getitem__(self, key):
        if isinstance(key, str):
            return self.data[key]
        return self.encodings[key]

    def __getstate__(self):
        return {"data": self.data, "_encodings": None, "_single": self._single}

    def __setstate__(self, state):
        self.__dict__.update(state)

    def keys(self):
        return self.data.keys()

    def values(self):
        return self.data.values()

    def items(self):
        return self.data.items()

    is_fast = True

    @property
    def encodings(self):
        return self._encodings

    def to(self, *_, **__):
        return self

    def convert_to_tensors(self, tensor_type=None, prepend_batch_axis=False):
        for name, value in self.data.items():
            rows = [value] if prepend_batch_axis else value
            self.data[name] = in_kind(to_tensor(rows, name), tensor_type)
        return self

    # ---- tokens, words and characters

    def _one(self, batch_index):
        if self._encodings is None:
            raise ValueError("this encoding no longer knows its texts; tokenize them again")
        return self._encodings[batch_index]

    def tokens(self, batch_index=0):
        return self._padded(batch_index, list(self._one(batch_index).tokens), None)

    def word_ids(self, batch_index=0):
        words = [None if word < 0 else word for word in self._one(batch_index).word_ids]
        return self._padded(batch_index, words, None)

    def sequence_ids(self, batch_index=0):
        parts = [None if part < 0 else part for part in self._one(batch_index).sequence_ids]
        return self._padded(batch_index, parts, None)

    def _padded(self, batch_index, values, fill):
        """As long as the row of ids, which may have been padded, on the side where it was."""
        row = self.data["input_ids"] if self._single else self.data["input_ids"][batch_index]
        missing = len(row) - len(values)
        if missing <= 0:
            return values
        ids = list(self._one(batch_index).ids)
        given = row.tolist() if hasattr(row, "tolist") else list(row)
        return values + [fill] * missing if given[: len(ids)] == ids else [fill] * missing + values

    def _batch_and_place(self, first, second):
        return (0, first) if second is None else (first, second)

    def char_to_token(self, batch_or_char_index, char_index=None, sequence_index=0):
        batch, char = self._batch_and_place(batch_or_char_index, char_index)
        encoding = self._one(batch)
        parts = encoding.sequence_ids
        for place, (begin, end) in enumerate(encoding.offsets):
            if begin <= char < end and parts[place] == sequence_index:
                return place
        return None

    def token_to_chars(self, batch_or_token_index, token_index=None):
        from collections import namedtuple

        batch, token = self._batch_and_place(batch_or_token_index, token_index)
        encoding = self._one(batch)
        if encoding.sequence_ids[token] < 0:
            return None
        return namedtuple("CharSpan", "start end")(*encoding.offsets[token])

    def token_to_word(self, batch_or_token_index, token_index=None):
        batch, token = self._batch_and_place(batch_or_token_index, token_index)
        word = self._one(batch).word_ids[token]
        return None if word < 0 else word
