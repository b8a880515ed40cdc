# SPDX-License-Identifier: Apache-2.0
"""Image processors: pictures of PIL, arrays, files or bytes as pixel values."""
import os
import sys

from .batch_encoding import BatchEncoding
from .errors import UsageError
from .hub import directory_of, hub_arguments
from .native import library
from .tensors import _numpy, in_kind, is_torch


def load_image(image):
    """A picture as the library holds it: RGB, 8 bits."""
    if isinstance(image, library.Image):
        return image
    if isinstance(image, (str, os.PathLike)):
        path = os.fspath(image)
        if path.startswith("data:"):
            import base64

            return library.Image.decode(base64.b64decode(path.partition(",")[2]))
        return library.Image.read(path)
    if isinstance(image, (bytes, bytearray)):
        return library.Image.decode(bytes(image))
    if isinstance(image, dict):  # datasets' Image(decode=False)
        return load_image(image["bytes"] if image.get("bytes") is not None else image["path"])
    numpy = _numpy("an image that is no file")
    if hasattr(image, "convert") and "PIL" in sys.modules:
        image = numpy.asarray(image.convert("RGB"))
    elif is_torch(image):
        image = image.numpy()
    array = numpy.asarray(image)
    if array.ndim == 2:
        array = numpy.stack([array] * 3, -1)
    if array.ndim == 3 and array.shape[0] in (1, 3) and array.shape[-1] not in (1, 3):
        array = array.transpose(1, 2, 0)
    if array.ndim == 3 and array.shape[-1] == 1:
        array = numpy.repeat(array, 3, -1)
    if array.dtype != numpy.uint8 or array.ndim != 3 or array.shape[-1] != 3:
        raise UsageError("an image: expected a picture of PIL, a file, or an array of uint8 [height, width, 3], found "
                         f"{array.dtype} {list(array.shape)}")
    return library.Image.from_array(numpy.ascontiguousarray(array))


def is_batched(images):
    return isinstance(images, (list, tuple)) or (hasattr(images, "ndim") and images.ndim == 4)


class ImageProcessor:
    model_input_names = ["pixel_values"]

    def __init__(self, *_, **__):
        raise UsageError(f"{type(self).__name__} is made by from_pretrained(directory or id)")

    @classmethod
    def from_pretrained(cls, name, **keywords):
        hub, _ = hub_arguments(keywords)
        self = ImageProcessor.__new__(ImageProcessor)
        self.name_or_path = str(name)
        self._directory = directory_of(name, hub, weights=False)
        self._native = library.ImageProcessor.from_pretrained(self._directory)
        return self

    def __reduce__(self):
        return ImageProcessor.from_pretrained, (self._directory,)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        fields = _preprocessor_fields(self._directory)
        if name in fields:
            return fields[name]
        raise AttributeError(f"the image processor has no {name!r}")

    def __call__(self, images, return_tensors=None, **keywords):
        return self.preprocess(images, return_tensors, **keywords)

    def preprocess(self, images, return_tensors=None, **keywords):
        for name, value in keywords.items():
            if value is not None and name not in ("data_format", "input_data_format"):
                raise UsageError(f"the image processor takes no argument {name!r}: its files say what it does")
        pictures = [load_image(image) for image in (images if is_batched(images) else [images])]
        if return_tensors is None:
            return BatchEncoding({"pixel_values": [tensor.numpy() for tensor in self._native.each(pictures)]})
        return BatchEncoding({"pixel_values": in_kind(self._native.batch(pictures), return_tensors)})

    def save_pretrained(self, directory, **_):
        return copy_files(self._directory, directory)


def _preprocessor_fields(directory):
    import json

    try:
        with open(os.path.join(directory, "preprocessor_config.json"), encoding="utf-8") as file:
            return json.load(file)
    except OSError:
        return {}


def copy_files(source, directory):
    """The files of a processor, as they were read."""
    import shutil

    os.makedirs(directory, exist_ok=True)
    for name in ("preprocessor_config.json", "processor_config.json"):
        path = os.path.join(source, name)
        if os.path.exists(path) and os.path.abspath(source) != os.path.abspath(directory):
            shutil.copyfile(path, os.path.join(directory, name))


ViTImageProcessor = ImageProcessor


class AutoImageProcessor(ImageProcessor):
    """The image processor of any model."""
