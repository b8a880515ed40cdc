# SPDX-License-Identifier: Apache-2.0
"""pipeline(): a task on a model, with Transformers' arguments and results."""
import base64
import io
import json
import os
import tempfile

from ..errors import UnsupportedError, UsageError
from ..hub import directory_of, hub_arguments
from ..native import library
from ..tensors import in_kind, to_tensor

# The models that Transformers takes where none is named are not downloaded silently.
_WITHOUT_MEANING = ("framework", "use_fast", "trust_remote_code", "device_map", "num_workers", "feature_extractor",
                    "image_processor", "processor", "binary_output")
_RENAMED = {"topk": "top_k"}


def _device_name(device):
    if device is None or device == -1:
        return None
    if isinstance(device, int):
        names = [name for name in library.device_names() if not name.startswith(("cpu", "reference", "null"))]
        if device >= len(names):
            raise UsageError(f"device={device}: found {', '.join(library.device_names())}")
        return names[device]
    name = str(device)
    return "cuda" if name.startswith("cuda:0") else name


def pipeline(task=None, model=None, tokenizer=None, device=None, dtype=None, torch_dtype=None, batch_size=None,
             quantization="none", **keywords):
    """A callable for a task. `model`: a directory, an id of the Hub, or a loaded model (with `tokenizer`)."""
    if model is None:
        raise UsageError("pipeline: expected a model: pipeline(task, model=DIRECTORY or id)")
    hub, rest = hub_arguments(keywords)
    for refused in ("config", "model_kwargs", "pipeline_class"):
        if rest.pop(refused, None):
            raise UnsupportedError(f"pipeline: {refused} is not supported; load the model with from_pretrained() and "
                                   "give it as model=", "unsupported")
    defaults = {name: value for name, value in rest.items() if name not in _WITHOUT_MEANING}
    name = _device_name(device)
    if name is not None:
        library.set_device(name)
    dtype = dtype if dtype is not None else torch_dtype
    from ..modeling import PreTrainedModel, dtype_name

    kept = None
    if isinstance(model, PreTrainedModel):
        # The pipeline reads files: those of the model as it is now.
        kept = tempfile.TemporaryDirectory(prefix="transom-")
        model.save_pretrained(kept.name)
        for part in (tokenizer, rest.get("feature_extractor"), rest.get("image_processor"), rest.get("processor")):
            if hasattr(part, "save_pretrained"):
                part.save_pretrained(kept.name)
        directory = kept.name
    else:
        directory = directory_of(model, hub)
        if isinstance(tokenizer, (str, os.PathLike)) and directory_of(tokenizer, hub, False) != directory:
            kept = tempfile.TemporaryDirectory(prefix="transom-")
            library.Tokenizer.from_pretrained(directory_of(tokenizer, hub, False)).save_pretrained(kept.name)
            for file in os.listdir(directory):
                if not os.path.exists(os.path.join(kept.name, file)):
                    os.symlink(os.path.join(os.path.abspath(directory), file), os.path.join(kept.name, file))
            directory = kept.name
    if task is None:
        task = library.task_of_model(str(directory))
    loaded = Pipeline(task, directory, dtype_name(dtype) if dtype is not None else "float32", quantization)
    loaded._defaults = defaults
    if batch_size is not None:
        loaded._defaults["batch_size"] = batch_size
    if kept is not None:
        kept.cleanup()
    return loaded


class Pipeline:
    """pipe(inputs, **parameters). Lists give lists; generators and data sets give generators."""

    def __init__(self, task, directory, dtype="float32", quantization="none"):
        self.task = task
        self._kind = library.pipeline_input(task)
        self._parameters = {each["name"] for each in json.loads(library.pipeline_parameters(task))}
        self._native = library.pipeline(task, directory, dtype, quantization)
        self._defaults = {}

    def __call__(self, inputs=None, *more, **keywords):
        parameters = {**self._defaults, **keywords}
        inputs = self._named_inputs(inputs, more, parameters)
        features = self.task.endswith("feature-extraction")
        as_tensors = features and parameters.pop("return_tensors", False)
        parameters = self._translated(parameters)
        if _is_stream(inputs):
            return self._stream(inputs, parameters)
        result = self._answer(inputs, parameters)
        if as_tensors:
            return [to_tensor(each) for each in result] if isinstance(inputs, list) else to_tensor(result)
        return result

    def _answer(self, inputs, parameters):
        prepared = [self._input(each) for each in inputs] if isinstance(inputs, (list, tuple)) else self._input(inputs)
        text, held = self._native.run(json.dumps(prepared), json.dumps(parameters))
        if not held:
            return json.loads(text)
        return json.loads(text, object_hook=lambda each: _shown(held[each["__held__"]]) if "__held__" in each else each)

    def _stream(self, inputs, parameters):
        size, rows = int(parameters.get("batch_size") or 1), []
        for each in inputs:
            rows.append(each)
            if len(rows) == size:
                yield from self._answer(rows, parameters)
                rows = []
        if rows:
            yield from self._answer(rows, parameters)

    def _named_inputs(self, inputs, more, parameters):
        if self._kind == "question":
            question, context = parameters.pop("question", None), parameters.pop("context", None)
            if question is not None:
                if isinstance(question, (list, tuple)):
                    contexts = context if isinstance(context, (list, tuple)) else [context] * len(question)
                    return [{"question": q, "context": c} for q, c in zip(question, contexts)]
                return {"question": question, "context": context}
        if self._kind == "question about pictures":
            return _questions_about_pictures(inputs, more, parameters)
        if self.task == "image-text-to-text":
            return _texts_with_pictures(inputs, more, parameters)
        if more and self.task.startswith("zero-shot"):
            parameters["candidate_labels"] = more[0]
        elif more:
            raise UsageError(f"{self.task}: expected one argument, found {1 + len(more)}")
        if self._kind == "image" and inputs is None:
            inputs = parameters.pop("images", None)
        if inputs is None:
            raise UsageError(f"{self.task}: expected inputs")
        return inputs

    def _translated(self, parameters):
        result = {}
        for name, value in parameters.items():
            name = _RENAMED.get(name, name)
            if name == "generate_kwargs":
                result.update(value)
            elif name == "padding" and "padding" not in self._parameters:
                continue  # each text has the numbers that it has alone
            elif name == "generation_config" and value is not None:
                result.update({key: each for key, each in value.to_dict().items()
                               if each is not None and key != "transformers_version"})
            elif name == "top_k" and value is None and self.task in ("text-classification", "sentiment-analysis"):
                result[name] = None
            elif value is not None:
                result[name] = list(value) if isinstance(value, tuple) else value
        return result

    def _input(self, value):
        if self._kind == "image" and not isinstance(value, str):
            return _data_uri(value)
        if self._kind == "audio" and not isinstance(value, str):
            return _sound_fields(value)
        if self._kind == "video" and isinstance(value, (list, tuple)):
            return {"video": _pictures(value)}
        if hasattr(value, "tolist"):
            return value.tolist()
        return value


def _texts_with_pictures(images, more, parameters):
    """pipe(chat), pipe(text=chat), pipe(images, text=text): chats, and texts with their pictures, one or several."""
    if images is None:
        images = parameters.pop("images", None)
    text = parameters.pop("text", more[0] if more else None)
    if len(more) > 1 or (images is None and text is None):
        raise UsageError("image-text-to-text: expected a chat, or images and text")
    if text is None:
        return _with_pictures_as_text(images)
    if _is_chat(text):
        if images is not None:
            raise UsageError("image-text-to-text: the pictures of a chat stand in its messages")
        return _with_pictures_as_text(text)
    if images is None:
        return text
    if isinstance(text, str):
        return {"text": text, "images": _pictures(images)}
    if len(images) != len(text):
        raise UsageError(f"image-text-to-text: expected pictures for each text, found {len(images)} for {len(text)}")
    return [{"text": each, "images": _pictures(its)} for each, its in zip(text, images)]


def _questions_about_pictures(images, more, parameters):
    """pipe(image, question), pipe(image=..., question=...), pipe({"image", "question"}), or lists of any of them."""
    if images is None:
        images = parameters.pop("image", None)
    question = parameters.pop("question", more[0] if more else None)
    if len(more) > 1 or images is None:
        raise UsageError("expected a picture and a question about it")
    if question is None:
        return _with_pictures_as_text(images)
    if isinstance(images, (list, tuple)):
        questions = question if isinstance(question, (list, tuple)) else [question]
        # As Transformers has it: each question about each picture.
        return [{"image": picture, "question": each} for picture in _pictures(images) for each in questions]
    picture = _pictures(images)[0]
    if isinstance(question, (list, tuple)):
        return [{"image": picture, "question": each} for each in question]
    return {"image": picture, "question": question}


def _is_chat(value):
    return isinstance(value, (list, tuple)) and len(value) > 0 and isinstance(value[0], (list, tuple, dict))


def _pictures(images):
    images = images if isinstance(images, (list, tuple)) else [images]
    return [each if isinstance(each, str) else _data_uri(each) for each in images]


def _with_pictures_as_text(value):
    """Pictures that are no files become URLs that hold them, wherever they stand."""
    if isinstance(value, (list, tuple)):
        return [_with_pictures_as_text(each) for each in value]
    if isinstance(value, dict):
        return {key: _pictures([each])[0] if key == "image" and each is not None else _with_pictures_as_text(each)
                for key, each in value.items()}
    return value


class Picture:
    """A picture that a model made, where PIL is not installed."""

    def __init__(self, png):
        self.png = png

    def save(self, path):
        with open(path, "wb") as file:
            file.write(self.png)


def _shown(value):
    """A picture as one of PIL, numbers as a tensor: of torch where the caller uses it."""
    if not isinstance(value, bytes):
        return in_kind(value, "pt")
    try:
        import PIL.Image
    except ImportError:
        return Picture(value)
    return PIL.Image.open(io.BytesIO(value))


def _is_stream(inputs):
    return hasattr(inputs, "__iter__") and not isinstance(inputs, (str, bytes, list, tuple, dict)) and not hasattr(
        inputs, "ndim") and not hasattr(inputs, "convert")


def _data_uri(image):
    """A picture that is no file, as the text of a URL that holds it."""
    if isinstance(image, dict):
        image = image.get("bytes") or image.get("path") or image.get("image")
        if isinstance(image, str):
            return image
    if isinstance(image, (bytes, bytearray)):
        return "data:image;base64," + base64.b64encode(image).decode()
    if isinstance(image, os.PathLike):
        return os.fspath(image)
    if not hasattr(image, "save"):
        from ..image_processing import load_image

        return "data:image/bmp;base64," + base64.b64encode(bitmap(load_image(image))).decode()
    buffer = io.BytesIO()
    image.convert("RGB").save(buffer, format="PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def bitmap(image):
    """A picture of the library as the bytes of a BMP file."""
    return image.bitmap()


def _sound_fields(sound):
    if isinstance(sound, (bytes, bytearray)):
        held = library.Sound.decode(bytes(sound))
        return {"array": held.samples.tolist(), "sampling_rate": held.sampling_rate}
    if isinstance(sound, dict):
        samples = sound.get("array", sound.get("raw"))
        if samples is None:
            return sound.get("path")
        return {"array": [float(x) for x in samples], "sampling_rate": int(sound["sampling_rate"])}
    if isinstance(sound, os.PathLike):
        return os.fspath(sound)
    return {"array": [float(x) for x in sound], "sampling_rate": 16000}
