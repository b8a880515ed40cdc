# SPDX-License-Identifier: Apache-2.0
"""Processors: a tokenizer together with what reads sounds or pictures."""
import json

from .batch_encoding import BatchEncoding
from .feature_extraction import AutoFeatureExtractor
from .hub import directory_of, hub_arguments
from .native import library
from .tokenization import AutoTokenizer


class Processor:
    """text= goes to the tokenizer; images=, or audio= and raw sounds, to the other part."""

    def __init__(self, feature_extractor=None, tokenizer=None, image_processor=None, **_):
        self.tokenizer = tokenizer
        self.feature_extractor = feature_extractor
        self.image_processor = image_processor

    @classmethod
    def from_pretrained(cls, name, **keywords):
        hub, rest = hub_arguments(keywords)
        directory = directory_of(name, hub, weights=False)
        tokenizer = AutoTokenizer.from_pretrained(directory, **rest)
        if library.ImageProcessor.is_in(directory):
            part = AutoFeatureExtractor.from_pretrained(directory)
            if hasattr(part, "preprocess"):
                return Processor(None, tokenizer, part)
            return Processor(part, tokenizer)
        return Processor(AutoFeatureExtractor.from_pretrained(directory), tokenizer)

    def __call__(self, *inputs, text=None, images=None, audio=None, return_tensors=None, **keywords):
        result = BatchEncoding()
        if self.image_processor is not None:
            if inputs:
                text = inputs[0] if text is None else text
                images = inputs[1] if images is None and len(inputs) > 1 else images
            if text is not None:
                result.update(self.tokenizer(text, return_tensors=return_tensors, **keywords))
            if images is not None:
                result.update(self.image_processor(images, return_tensors=return_tensors))
            return result
        audio = inputs[0] if inputs else audio
        if audio is None:
            return self.tokenizer(text, return_tensors=return_tensors, **keywords)
        result = self.feature_extractor(audio, return_tensors=return_tensors, **keywords)
        if text is not None:
            result["labels"] = self.tokenizer(text, return_tensors=return_tensors)["input_ids"]
        return result

    def decode(self, *inputs, **keywords):
        return self.tokenizer.decode(*inputs, **keywords)

    def batch_decode(self, *inputs, **keywords):
        return self.tokenizer.batch_decode(*inputs, **keywords)

    def token2json(self, tokens, **_):
        """The fields of a document, which Donut writes between tags."""
        return json.loads(library.fields_of_tags(self.tokenizer._native, tokens))

    def pad(self, features=None, labels=None, **keywords):
        result = self.feature_extractor.pad(features, **keywords) if features is not None else None
        if labels is None:
            return result
        rows = self.tokenizer.pad(labels, **keywords)
        if result is None:
            return rows
        result["labels"] = rows["input_ids"]
        return result

    def save_pretrained(self, directory, **_):
        for part in (self.tokenizer, self.feature_extractor, self.image_processor):
            if part is not None:
                part.save_pretrained(directory)


Wav2Vec2Processor = WhisperProcessor = CLIPProcessor = BlipProcessor = DonutProcessor = Processor


class AutoProcessor(Processor):
    """The processor of any model; of one that has no tokenizer the part that it has."""

    @classmethod
    def from_pretrained(cls, name, **keywords):
        import os

        hub, rest = hub_arguments(keywords)
        directory = directory_of(name, hub, weights=False)
        texts = any(os.path.exists(os.path.join(directory, file))
                    for file in ("tokenizer.json", "vocab.json", "vocab.txt", "tokenizer_config.json"))
        sounds = os.path.exists(os.path.join(directory, "preprocessor_config.json"))
        if texts and sounds:
            return Processor.from_pretrained(directory, **rest)
        if sounds:
            return AutoFeatureExtractor.from_pretrained(directory)
        return AutoTokenizer.from_pretrained(directory, **rest)
