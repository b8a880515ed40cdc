# SPDX-License-Identifier: Apache-2.0
"""Models: from_pretrained, calls with tensors, generate, save_pretrained."""
import json
import os
import sys

from .configuration import PretrainedConfig, _plain
from .errors import UnsupportedError, UsageError
from .generation import GenerationMixin, initial_seed
from .hub import directory_of, hub_arguments
from .native import library
from .outputs import ModelOutput
from .tensors import as_torch, is_torch, to_tensor

# Arguments of from_pretrained that steer how torch loads a model, and change nothing here: the format of the weights is
# found, and the model is where set_device() says.
_WITHOUT_MEANING = ("low_cpu_mem_usage", "trust_remote_code", "use_safetensors", "from_tf", "from_flax", "use_cache",
                    "weights_only", "return_dict")
# Those that say what to load or where: what would be passed over is refused.
_REFUSED = {"state_dict": "weights are read from files", "variant": "the weights of the directory are read",
            "gguf_file": "give the path of the .gguf file as the model",
            "key_mapping": "tensors have the names of Transformers", "adapter_name": "give the adapter's directory",
            "tp_plan": "`transom run --tp_size` shares a model", "output_attentions": "attention weights are not kept"}
# Those that ask for another way to the same numbers.
_NOTED = {"attn_implementation": ("eager", "sdpa"), "device_map": ("auto", "cpu"), "max_memory": (),
          "offload_folder": ()}
# Arguments of a model's call that ask for what is always so.
_OF_TORCH = ("return_dict", "use_cache", "output_attentions", "past_key_values", "head_mask", "cache_position",
             "num_items_in_batch", "num_logits_to_keep")
_SHORT_TYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}


def dtype_name(dtype):
    """"bfloat16" of torch.bfloat16, numpy's float16 or a string."""
    name = str(getattr(dtype, "__name__", dtype)).replace("torch.", "")
    return {"half": "float16", "float": "float32"}.get(name, name)


def load_keywords(keywords):
    """The keyword arguments of from_pretrained as (options of loading, fields of the configuration)."""
    options, fields = {}, {}
    for name, value in keywords.items():
        if name in _WITHOUT_MEANING:
            continue
        if name in _REFUSED:
            if value:
                raise UnsupportedError(f"from_pretrained: {name} is not supported: {_REFUSED[name]}", "unsupported")
            continue
        if name in _NOTED:
            if value is not None and value not in _NOTED[name]:
                _warn("from_pretrained: %s=%r has no effect: set_device() says where a model computes, and how is the "
                      "device's own choice", name, value)
            continue
        if name in ("dtype", "torch_dtype"):
            if value is not None:
                options["dtype"] = dtype_name(value)
        elif name in ("quantization", "activations", "ignore_mismatched_sizes", "seed", "keep_adapters"):
            options[name] = value
        elif name == "quantization_config":
            if value is not None:
                options["quantization"] = quantization_of(value)
                compute = getattr(value, "bnb_4bit_compute_dtype", None)
                if compute is not None:
                    options.setdefault("dtype", dtype_name(compute))
        elif name == "num_labels":
            options["num_labels"] = int(value)
        elif name == "id2label":
            options["labels"] = [label for _, label in sorted((int(i), str(x)) for i, x in dict(value).items())]
            options.setdefault("num_labels", len(options["labels"]))
        elif name == "label2id":
            if "id2label" not in keywords:
                options["labels"] = [label for label, _ in sorted(dict(value).items(), key=lambda item: int(item[1]))]
                options.setdefault("num_labels", len(options["labels"]))
        elif name == "problem_type":
            if value:
                options["problem_type"] = value
        else:
            fields[name] = value
    return options, fields


def _warn(message, *values):
    from .logging import get_logger

    get_logger(__name__).warning(message, *values)


class BitsAndBytesConfig:
    """What from_pretrained(quantization_config=) takes: linear layers with weights of 8 or 4 bits."""

    def __init__(self, load_in_8bit=False, load_in_4bit=False, **keywords):
        if load_in_8bit and load_in_4bit:
            raise UsageError("BitsAndBytesConfig: expected one of load_in_8bit and load_in_4bit")
        self.load_in_8bit, self.load_in_4bit = load_in_8bit, load_in_4bit
        self.bnb_4bit_quant_type = keywords.pop("bnb_4bit_quant_type", "fp4")
        self.bnb_4bit_compute_dtype = keywords.pop("bnb_4bit_compute_dtype", None)
        for name, value in keywords.items():
            if value:
                _warn("BitsAndBytesConfig: %s=%r has no effect", name, value)


def quantization_of(config):
    """The option of loading that a quantization_config asks for."""
    fields = config if isinstance(config, dict) else vars(config)
    if fields.get("load_in_8bit"):
        return "int8"
    if fields.get("load_in_4bit") and fields.get("bnb_4bit_quant_type", "fp4") in ("nf4", "fp4"):
        return fields.get("bnb_4bit_quant_type", "fp4")
    raise UnsupportedError("quantization_config: expected BitsAndBytesConfig with load_in_8bit or load_in_4bit, or a "
                           "checkpoint that `transom quantize` wrote", "unsupported")


def expect_known_fields(fields, directory):
    """Says which keywords are no field of the configuration: a name that is mistyped changes nothing."""
    known = json.loads(library.read_config(directory)) if fields else {}  # a directory of adapters has none
    for name in fields:
        if name not in known:
            _warn("from_pretrained: %r is neither an option nor a field of %s; it is added to the configuration, and "
                  "has an effect only where the model asks for it", name,
                  os.path.join(directory, "config.json"))


def changed_fields(config, directory):
    """What an edited configuration says otherwise than the files of the model."""
    before = json.loads(library.read_config(directory))
    return {name: value for name, value in config.to_dict().items()
            if name != "name_or_path" and before.get(name) != value}


class PreTrainedModel(GenerationMixin):
    """A loaded model. Parameters are changed by a Trainer alone: there are no gradients outside of it."""

    _task = ""  # the task whose head is loaded; empty: the architecture that the configuration names
    main_input_name = "input_ids"

    def __init__(self, *_, **__):
        raise UsageError(f"{type(self).__name__} is made by from_pretrained(directory or id) or from_config(config)")

    @classmethod
    def from_pretrained(cls, name, *_, config=None, output_loading_info=False, **keywords):
        hub, rest = hub_arguments(keywords)
        directory = directory_of(name, hub)
        options, fields = load_keywords(rest)
        expect_known_fields(fields, directory)
        if config is not None:
            fields = {**changed_fields(config, directory), **fields}
            labels = fields.pop("id2label", None)
            fields.pop("label2id", None)
            if labels is not None:
                options.setdefault("labels", [label for _, label in
                                              sorted((int(i), label) for i, label in labels.items())])
                options.setdefault("num_labels", len(options["labels"]))
            if fields.get("problem_type"):
                options.setdefault("problem_type", fields["problem_type"])
            for dropped in ("problem_type", "finetuning_task", "num_labels", "transformers_version", "dtype",
                            "torch_dtype", "architectures"):
                fields.pop(dropped, None)
        if cls._task:
            options["task"] = cls._task
        options.setdefault("seed", initial_seed())
        report = library.LoadReport()
        native = library.Model.load(directory, json.dumps(options), json.dumps(_plain(fields)), report)
        self = cls._of(native, directory, str(name))
        info = {"missing_keys": list(report.missing), "unexpected_keys": list(report.unexpected),
                "mismatched_keys": list(report.mismatched), "error_msgs": []}
        if report.missing:
            from .logging import get_logger

            get_logger(__name__).warning(
                "Some weights of %s were not initialized from the model checkpoint at %s and are newly initialized: "
                "%s", native.architecture(), name, sorted(report.missing))
        return (self, info) if output_loading_info else self

    @classmethod
    def from_config(cls, config, **keywords):
        options, _ = load_keywords(keywords)
        if cls._task:
            options["task"] = cls._task
        options.setdefault("seed", initial_seed())
        return cls._of(library.Model.from_config(config.to_json_string(), json.dumps(options)), "", "")

    _from_config = from_config

    @classmethod
    def _of(cls, native, directory, name):
        self = PreTrainedModel.__new__(PreTrainedModel if cls.__name__.startswith("AutoModel") else cls)
        self._native = native
        self._directory = directory
        self.name_or_path = name
        config = PretrainedConfig.from_dict(json.loads(native.config()))
        config._fields["name_or_path"] = name
        config._model = native
        self.config = config
        self._training = False
        self._generation_config = None
        self.__class__._known_inputs = None
        return self

    # ---- calls

    def __call__(self, *inputs, **keywords):
        return self.forward(*inputs, **keywords)

    def forward(self, *inputs, output_hidden_states=None, return_loss=False, interpolate_pos_encoding=False,
                logits_to_keep=0, return_dict=None, **keywords):
        """Outputs by name. Inputs are tensors of torch, arrays of numpy, Transom's tensors or lists; outputs are of
        torch where an input is, and Transom's otherwise. No gradients are kept."""
        if inputs:
            names = [self.main_input_name if self.main_input_name in self._inputs() else self._inputs()[0],
                     "attention_mask", "token_type_ids"]
            keywords.update(zip(names, inputs))
        given, torch_like = {}, False
        for name, value in keywords.items():
            if value is None or name in ("return_dict", "use_cache"):
                continue
            if name in _OF_TORCH:
                if value is not False:
                    raise UnsupportedError(f"{name}: not supported in a model's call")
                continue
            torch_like = torch_like or is_torch(value)
            given[name] = to_tensor(value, name)
        outputs = self._native.forward(given, bool(output_hidden_states or self.config.output_hidden_states),
                                       bool(return_loss), bool(interpolate_pos_encoding), int(logits_to_keep or 0))
        return self._output(outputs, torch_like, return_dict)

    def _output(self, outputs, torch_like, return_dict):
        result, layers = ModelOutput(), []
        for name, tensor in outputs.items():
            value = as_torch(tensor) if torch_like else tensor
            if name.startswith("hidden_states."):
                layers.append((int(name.rsplit(".", 1)[1]), value))
            else:
                result[name] = value
        if layers:
            result["hidden_states"] = tuple(value for _, value in sorted(layers, key=lambda item: item[0]))
        return result.to_tuple() if return_dict is False else result

    def _inputs(self):
        return library.input_names(self._native)

    # ---- what scripts ask of a module

    @property
    def device(self):
        name = library.device_name()
        torch = sys.modules.get("torch")
        return torch.device("cpu") if torch is not None else name

    @property
    def dtype(self):
        name = _SHORT_TYPES[self._native.dtype()]
        torch = sys.modules.get("torch")
        return getattr(torch, name) if torch is not None else name

    @property
    def training(self):
        return self._training

    def eval(self):
        self._training = False
        return self

    def train(self, mode=True):
        self._training = bool(mode)
        return self

    def to(self, *_, **__):
        """The model stays on the device in use (set_device) and keeps its type (from_pretrained(dtype=...))."""
        return self

    def cpu(self):
        return self

    def num_parameters(self, only_trainable=False, **_):
        trained, everything = self._native.trained_and_all()
        return trained if only_trainable else everything

    def state_dict(self):
        """The tensors of the model by the names of its checkpoint."""
        return self._native.state_dict()

    def gradient_checkpointing_enable(self, *_, **__):
        from .logging import get_logger

        get_logger(__name__).warning("gradient_checkpointing_enable(): give "
                                     "TrainingArguments(gradient_checkpointing=True) instead")

    def resize_token_embeddings(self, new_num_tokens=None, *_, **__):
        rows = self.config.vocab_size
        if new_num_tokens not in (None, rows):
            raise UnsupportedError(f"resize_token_embeddings({new_num_tokens}): the model has {rows} rows, and they do "
                                   "not grow here; resize it in Transformers and save it")

    def get_input_embeddings(self):
        from types import SimpleNamespace

        names = ("embeddings.word_embeddings.weight", "embed_tokens.weight", "wte.weight", "shared.weight",
                 "embed_in.weight")
        for name, tensor in self.state_dict().items():
            if name.endswith(names):
                return SimpleNamespace(weight=tensor, num_embeddings=tensor.shape[0], embedding_dim=tensor.shape[1])
        return None

    def parameters(self, *_):
        raise UnsupportedError("parameters(): weights are trained by transom.Trainer, not by an optimizer of torch; "
                               "state_dict() gives their values")

    named_parameters = parameters

    def register_forward_hook(self, *_, **__):
        raise UnsupportedError("register_forward_hook(): a model here is one compiled program without modules; "
                               "output_hidden_states=True gives the states of its layers")

    def save_pretrained(self, save_directory, max_shard_size=None, **_):
        """Writes config.json and safetensors as Transformers reads them; of a model with adapters PEFT's files."""
        sizes = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
        most = 5 << 30
        if isinstance(max_shard_size, int):
            most = max_shard_size
        elif max_shard_size:
            digits = max_shard_size.upper().rstrip("KMGIB")
            most = int(float(digits) * sizes[max_shard_size.upper()[len(digits):].strip()])
        self._native.save_pretrained(os.fspath(save_directory), most)

    def push_to_hub(self, *_, **__):
        raise UnsupportedError("push_to_hub(): Transom does not upload; save_pretrained(directory), then use the `hf` "
                               "program")

    def __repr__(self):
        return f"{self._native.architecture()}(name_or_path={self.name_or_path!r}, {self.num_parameters():,} values)"


def _auto(name, task, document):
    return type(name, (PreTrainedModel,), {"_task": task, "__doc__": document, "__module__": __name__})


AutoModel = _auto("AutoModel", "feature-extraction", "A model without a head.")
AutoModelForSequenceClassification = _auto("AutoModelForSequenceClassification", "text-classification",
                                           "A class, several labels, or a number for each text.")
AutoModelForTokenClassification = _auto("AutoModelForTokenClassification", "token-classification",
                                        "A class for each token.")
AutoModelForQuestionAnswering = _auto("AutoModelForQuestionAnswering", "question-answering",
                                      "Where an answer begins and ends.")
AutoModelForMaskedLM = _auto("AutoModelForMaskedLM", "fill-mask", "What stands at masked places.")
AutoModelForCausalLM = _auto("AutoModelForCausalLM", "text-generation", "What follows a text.")
AutoModelForSeq2SeqLM = _auto("AutoModelForSeq2SeqLM", "text2text-generation", "A text for a text.")
AutoModelForMultipleChoice = _auto("AutoModelForMultipleChoice", "multiple-choice", "One of several texts.")
AutoModelForImageClassification = _auto("AutoModelForImageClassification", "image-classification",
                                        "A class for each image.")
AutoModelForZeroShotImageClassification = _auto("AutoModelForZeroShotImageClassification",
                                                "zero-shot-image-classification", "Images beside texts.")
AutoModelForObjectDetection = _auto("AutoModelForObjectDetection", "object-detection",
                                    "Classes and boxes for each image.")
AutoModelForZeroShotObjectDetection = _auto("AutoModelForZeroShotObjectDetection", "zero-shot-object-detection",
                                            "Boxes of what texts name.")
AutoModelForVisualQuestionAnswering = _auto("AutoModelForVisualQuestionAnswering", "visual-question-answering",
                                            "The answer to a question about a picture.")
AutoModelForMaskGeneration = _auto("AutoModelForMaskGeneration", "mask-generation", "Masks of what is pointed at.")
AutoModelForSemanticSegmentation = _auto("AutoModelForSemanticSegmentation", "image-segmentation",
                                         "A class for each pixel.")
AutoModelForDepthEstimation = _auto("AutoModelForDepthEstimation", "depth-estimation", "A depth for each pixel.")
AutoModelForCTC = _auto("AutoModelForCTC", "automatic-speech-recognition", "Letters for each part of a sound.")
AutoModelForAudioClassification = _auto("AutoModelForAudioClassification", "audio-classification",
                                        "A class for each sound.")
AutoModelForSpeechSeq2Seq = _auto("AutoModelForSpeechSeq2Seq", "automatic-speech-recognition",
                                  "The text of a sound.")
