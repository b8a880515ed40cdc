# SPDX-License-Identifier: Apache-2.0
"""Data collators: lists of rows to batches. They are called by the Trainer on a thread of its own."""
from .errors import UnsupportedError, UsageError
from .tensors import as_numpy, in_kind, is_torch, to_tensor


def _batch(data, return_tensors):
    return {name: in_kind(to_tensor(rows, name), return_tensors) for name, rows in data.items()}


def _rows(features):
    rows = [dict(row) if not isinstance(row, dict) and hasattr(row, "keys") else row for row in features]
    if not rows or not isinstance(rows[0], dict):
        raise UsageError("a data collator: expected rows that are dicts with 'input_ids' ...")
    return rows


def _plain(value):
    return value.tolist() if hasattr(value, "tolist") else value


def _expect_numbers(first):
    """Labels that are texts would be left out with the other texts."""
    for name in ("label", "labels", "label_ids"):
        if isinstance(first.get(name), str):
            raise UsageError(f"{name}: expected a number, found the text {first[name]!r}: map the classes to numbers, "
                             "model.config.label2id for instance")


def _with_labels(first, data):
    """`label` and `label_ids` under their name in a batch; classes are whole numbers, scores are not."""
    for name in ("label", "label_ids"):
        if name in data and first.get(name) is not None:
            data["labels"] = data.pop(name)
    return data


def default_data_collator(features, return_tensors="tr"):
    """Columns of numbers and arrays, stacked; texts are left out."""
    rows = _rows(features)
    _expect_numbers(rows[0])
    data = {}
    for name, value in rows[0].items():
        if value is None or isinstance(value, str):
            continue
        column = [row[name] for row in rows]
        if is_torch(value) or hasattr(value, "__array_interface__") or hasattr(value, "__dlpack__"):
            data[name] = [as_numpy(each) for each in column] if getattr(value, "ndim", 0) else [
                _plain(each) for each in column]
        else:
            data[name] = column
    return _batch(_with_labels(rows[0], data), return_tensors)


class DefaultDataCollator:
    def __init__(self, return_tensors="tr"):
        self.return_tensors = return_tensors

    def __call__(self, features, return_tensors=None):
        return default_data_collator(features, return_tensors or self.return_tensors)


class DataCollatorWithPadding:
    """Pads the rows of a batch to its longest."""

    def __init__(self, tokenizer, padding=True, max_length=None, pad_to_multiple_of=None, return_tensors="tr"):
        self.tokenizer, self.padding, self.max_length = tokenizer, padding, max_length
        self.pad_to_multiple_of, self.return_tensors = pad_to_multiple_of, return_tensors

    def __call__(self, features):
        rows = _rows(features)
        _expect_numbers(rows[0])
        data = {name: [_plain(row[name]) for row in rows] for name in rows[0]}
        data = {name: column for name, column in data.items() if not isinstance(column[0], str)}
        padded = self.tokenizer.pad(data, padding=self.padding, max_length=self.max_length,
                                    pad_to_multiple_of=self.pad_to_multiple_of)
        return _batch(_with_labels(rows[0], dict(padded)), self.return_tensors)


class DataCollatorForTokenClassification(DataCollatorWithPadding):
    """Pads labels of tokens, too."""

    def __init__(self, tokenizer, padding=True, max_length=None, pad_to_multiple_of=None, label_pad_token_id=-100,
                 return_tensors="tr"):
        super().__init__(tokenizer, padding, max_length, pad_to_multiple_of, return_tensors)
        self.label_pad_token_id = label_pad_token_id

    def __call__(self, features):
        rows = _rows(features)
        name = "label" if "label" in rows[0] else "labels"
        labels = [list(_plain(row[name])) for row in rows] if name in rows[0] else None
        data = {key: [_plain(row[key]) for row in rows] for key in rows[0] if key != name}
        padded = dict(self.tokenizer.pad(data, padding=self.padding, max_length=self.max_length,
                                         pad_to_multiple_of=self.pad_to_multiple_of))
        if labels is not None:
            length, fill = len(padded["input_ids"][0]), self.label_pad_token_id
            left = self.tokenizer.padding_side == "left"
            padded["labels"] = [[fill] * (length - len(row)) + row if left else row + [fill] * (length - len(row))
                                for row in labels]
        return _batch(padded, self.return_tensors)


class DataCollatorForSeq2Seq(DataCollatorForTokenClassification):
    """Pads the labels among themselves. The model makes the decoder's inputs from them."""

    def __init__(self, tokenizer, model=None, padding=True, max_length=None, pad_to_multiple_of=None,
                 label_pad_token_id=-100, return_tensors="tr"):
        super().__init__(tokenizer, padding, max_length, pad_to_multiple_of, label_pad_token_id, return_tensors)
        self.model = model

    def __call__(self, features, return_tensors=None):
        rows = _rows(features)
        name = "label" if "label" in rows[0] else "labels"
        labels = [list(_plain(row[name])) for row in rows] if rows[0].get(name) is not None else None
        data = {key: [_plain(row[key]) for row in rows] for key in rows[0] if key != name}
        padded = dict(self.tokenizer.pad(data, padding=self.padding, max_length=self.max_length,
                                         pad_to_multiple_of=self.pad_to_multiple_of))
        if labels is not None:
            longest = max(len(row) for row in labels)
            if self.padding == "max_length" and self.max_length is not None:
                longest = self.max_length
            if self.pad_to_multiple_of:
                longest = -(-longest // self.pad_to_multiple_of) * self.pad_to_multiple_of
            left, fill = self.tokenizer.padding_side == "left", self.label_pad_token_id
            padded["labels"] = [[fill] * (longest - len(row)) + row if left else row + [fill] * (longest - len(row))
                                for row in labels]
        return _batch(padded, return_tensors or self.return_tensors)


class DataCollatorForMultipleChoice(DataCollatorWithPadding):
    """Rows of several texts each: [B, choices, T]."""

    def __call__(self, features):
        rows = _rows(features)
        name = "label" if "label" in rows[0] else "labels"
        labels = [_plain(row[name]) for row in rows] if name in rows[0] else None
        choices = len(rows[0]["input_ids"])
        flat = [{key: row[key][i] for key in row if key != name} for row in rows for i in range(choices)]
        padded = self.tokenizer.pad(flat, padding=self.padding, max_length=self.max_length,
                                    pad_to_multiple_of=self.pad_to_multiple_of)
        data = {key: [column[i:i + choices] for i in range(0, len(column), choices)]
                for key, column in padded.items()}
        if labels is not None:
            data["labels"] = labels
        return _batch(data, self.return_tensors)


class DataCollatorForLanguageModeling:
    """Labels for language models: the tokens themselves, or those behind masks. Masks are drawn anew for each batch,
    from the run's seed; `seed` fixes another one. The draws are not those of torch."""

    def __init__(self, tokenizer, mlm=True, whole_word_mask=False, mlm_probability=0.15, mask_replace_prob=0.8,
                 random_replace_prob=0.1, pad_to_multiple_of=None, return_tensors="tr", seed=None, tf_experimental=None):
        if whole_word_mask:
            raise UnsupportedError("whole_word_mask: use `transom train --whole_word_mask`")
        if mlm and tokenizer.mask_token is None:
            raise UsageError("mlm=True: the tokenizer has no mask token; for other language models give mlm=False")
        self.tokenizer, self.mlm, self.mlm_probability = tokenizer, mlm, mlm_probability
        self.mask_replace_prob, self.random_replace_prob = mask_replace_prob, random_replace_prob
        self.pad_to_multiple_of, self.return_tensors, self.seed = pad_to_multiple_of, return_tensors, seed
        self._random = None

    def __call__(self, features, return_tensors=None):
        rows = [dict(row) if hasattr(row, "keys") else {"input_ids": _plain(row)} for row in features]
        special = [row.pop("special_tokens_mask", None) for row in rows]
        rows = [{name: _plain(value) for name, value in row.items()
                 if name not in ("label", "label_ids", "labels")} for row in rows]
        padded = dict(self.tokenizer.pad(rows, pad_to_multiple_of=self.pad_to_multiple_of))
        ids = [list(row) for row in padded["input_ids"]]
        if self.mlm:
            padded["input_ids"], padded["labels"] = self._masked(ids, special)
        else:
            pad = self.tokenizer.pad_token_id
            padded["labels"] = [[-100 if token == pad else token for token in row] for row in ids]
        return _batch(padded, return_tensors or self.return_tensors)

    def _masked(self, ids, special):
        import random

        if self._random is None:
            self._random = random.Random(self.seed if self.seed is not None else random.getrandbits(32))
        draw, vocabulary, mask = self._random.random, len(self.tokenizer), self.tokenizer.mask_token_id
        never = set(self.tokenizer.all_special_ids)
        labels = []
        for number, row in enumerate(ids):
            known = special[number]
            answers = []
            for place, token in enumerate(row):
                fixed = known[place] if known is not None and place < len(known) else token in never
                if fixed or draw() >= self.mlm_probability:
                    answers.append(-100)
                    continue
                answers.append(token)
                kind = draw()
                if kind < self.mask_replace_prob:
                    row[place] = mask
                elif kind < self.mask_replace_prob + self.random_replace_prob:
                    row[place] = self._random.randrange(vocabulary)
            labels.append(answers)
        return ids, labels
