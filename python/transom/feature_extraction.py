# SPDX-License-Identifier: Apache-2.0
"""Feature extractors: sounds as what models of speech take."""
import os

from .batch_encoding import BatchEncoding
from .errors import UsageError
from .hub import directory_of, hub_arguments
from .image_processing import _preprocessor_fields, copy_files
from .native import library
from .tensors import _numpy, in_kind, is_torch


def load_sound(sound, sampling_rate):
    """A file, or samples of one channel at `sampling_rate`, as the library holds it."""
    if isinstance(sound, (str, os.PathLike)):
        return library.Sound.read(os.fspath(sound))
    if isinstance(sound, (bytes, bytearray)):
        return library.Sound.decode(bytes(sound))
    if isinstance(sound, dict):  # datasets' Audio
        samples = sound.get("array", sound.get("raw"))
        if samples is None:
            return load_sound(sound.get("bytes") or sound["path"], sampling_rate)
        return load_sound(samples, sound.get("sampling_rate", sampling_rate))
    numpy = _numpy("a sound that is no file")
    if is_torch(sound):
        sound = sound.numpy()
    return library.Sound.from_array(numpy.ascontiguousarray(sound, dtype=numpy.float32), int(sampling_rate))


class FeatureExtractor:
    def __init__(self, *_, **__):
        raise UsageError(f"{type(self).__name__} is made by from_pretrained(directory or id)")

    @classmethod
    def from_pretrained(cls, name, **keywords):
        hub, _ = hub_arguments(keywords)
        directory = directory_of(name, hub, weights=False)
        if library.ImageProcessor.is_in(directory) and "sampling_rate" not in _preprocessor_fields(directory):
            from .image_processing import ImageProcessor

            return ImageProcessor.from_pretrained(directory)
        self = FeatureExtractor.__new__(FeatureExtractor)
        self.name_or_path = str(name)
        self._directory = directory
        self._native = library.FeatureExtractor.read(directory)
        return self

    def __reduce__(self):
        return FeatureExtractor.from_pretrained, (self._directory,)

    @property
    def sampling_rate(self):
        return self._native.sampling_rate

    @property
    def padding_value(self):
        return self._native.padding_value

    @property
    def model_input_names(self):
        fields = _preprocessor_fields(self._directory)
        if "feature_size" in fields and fields["feature_size"] > 1:
            return ["input_features"]
        return ["input_values", "attention_mask"] if fields.get("return_attention_mask") else ["input_values"]

    def __getattr__(self, name):
        fields = {} if name.startswith("_") else _preprocessor_fields(self._directory)
        if name in fields:
            return fields[name]
        raise AttributeError(f"the feature extractor has no {name!r}")

    def __call__(self, raw_speech=None, sampling_rate=None, padding=False, max_length=None, truncation=False,
                 return_tensors=None, return_attention_mask=None, audio=None, **keywords):
        raw_speech = audio if raw_speech is None else raw_speech
        rate = self.sampling_rate
        if sampling_rate is not None and sampling_rate != rate:
            raise UsageError(f"sampling_rate: the model takes sounds at {rate}, found {sampling_rate}; resample them")
        batched = isinstance(raw_speech, (list, tuple)) and not (raw_speech and isinstance(raw_speech[0], (int, float)))
        if hasattr(raw_speech, "ndim") and raw_speech.ndim == 2:
            batched = True
        sounds = [load_sound(sound, rate) for sound in (raw_speech if batched else [raw_speech])]
        if truncation and max_length:
            sounds = [library.Sound.from_array(sound.samples.numpy()[:max_length], rate) for sound in sounds]
        if return_tensors is None and not padding:  # rows of their own lengths
            rows = [self._native([sound])[0] for sound in sounds]
            data = {name: [row[name].numpy()[0] for row in rows] for name in rows[0]}
            return BatchEncoding(data)
        tensors, _ = self._native(sounds)
        if return_attention_mask is False:
            tensors.pop("attention_mask", None)
        kind = return_tensors or "np"
        return BatchEncoding({name: in_kind(tensor, kind) for name, tensor in tensors.items()})

    def pad(self, features, padding=True, max_length=None, return_tensors=None, **_):
        """Rows {"input_values": [...]} filled up to the longest."""
        numpy = _numpy("pad()")
        name = "input_values" if "input_values" in features[0] else "input_features"
        rows = [numpy.asarray(row[name], dtype=numpy.float32) for row in features]
        length = max(len(row) for row in rows) if max_length is None else max_length
        padded = numpy.full((len(rows), length, *rows[0].shape[1:]), self.padding_value, dtype=numpy.float32)
        mask = numpy.zeros((len(rows), length), dtype=numpy.int64)
        for i, row in enumerate(rows):
            padded[i, :len(row)] = row
            mask[i, :len(row)] = 1
        data = {name: padded}
        if "attention_mask" in self.model_input_names:
            data["attention_mask"] = mask
        return BatchEncoding(data).convert_to_tensors(return_tensors or "np")

    def save_pretrained(self, directory, **_):
        return copy_files(self._directory, directory)


Wav2Vec2FeatureExtractor = WhisperFeatureExtractor = FeatureExtractor


class AutoFeatureExtractor(FeatureExtractor):
    """The feature extractor of any model of speech (or the image processor of a model of images)."""
