# SPDX-License-Identifier: Apache-2.0
"""Trainer: Transformers' Trainer in front of Transom's own. Order of samples, learning rates, log and files are those of
Transformers for the same seed."""
import datetime
import json
import os
import time
import weakref

from .data_collator import DataCollatorWithPadding, default_data_collator
from .errors import UnsupportedError, UsageError
from .modeling import PreTrainedModel
from .native import library
from .tensors import Tensor, _plain, as_numpy, is_torch, to_tensor
from .tokenization import PreTrainedTokenizerBase
from .trainer_callback import (DefaultFlowCallback, EarlyStoppingCallback, PrinterCallback, ProgressCallback,
                               TrainerControl, TrainerState)
from .trainer_utils import EvalPrediction, PredictionOutput, TrainOutput, set_seed
from .training_args import TrainingArguments

# Methods that scripts override to run code of torch, and what to do instead.
_OF_TORCH = {
    "compute_loss": "the loss is the model's own; label_smoothing_factor and problem_type change it",
    "training_step": "TrainerCallback sees every step",
    "prediction_step": "preprocess_logits_for_metrics and compute_metrics see every output",
    "create_optimizer": "TrainingArguments(optim=..., optim_args=...) chooses the optimizer",
    "create_scheduler": "TrainingArguments(lr_scheduler_type=..., lr_scheduler_kwargs=...) chooses the schedule",
    "create_optimizer_and_scheduler": "TrainingArguments(optim=..., lr_scheduler_type=...) choose both",
    "get_train_dataloader": "give train_dataset and data_collator",
    "get_eval_dataloader": "give eval_dataset and data_collator",
    "get_test_dataloader": "give the data set to predict()",
    "evaluation_loop": "compute_metrics gets all predictions",
}
_LABELS = ("labels", "label", "label_ids")


class _Rows:
    """Batches of a data set for the library, which asks for them on a thread of its own."""

    def __init__(self, dataset, collator, columns, keep=()):
        if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
            raise UsageError("a data set: expected a list, a data set of `datasets`, or an object with __len__ and "
                             f"__getitem__; found {type(dataset).__name__}; list(...) makes one of an iterable")
        self.dataset, self.collator, self.columns = dataset, collator, columns
        self.keep, self.kept = keep, {name: [] for name in keep}

    def __len__(self):
        return len(self.dataset)

    def __call__(self, numbers):
        batch = self.collator([self._row(number) for number in numbers])
        result = {}
        for name, value in dict(batch).items():
            if value is None or isinstance(value, str) or isinstance(value, (list, tuple)) and value and isinstance(
                    value[0], str):
                continue
            is_array = is_torch(value) or hasattr(value, "__array_interface__")
            if is_torch(value):
                value = value.detach().cpu().contiguous()
            result[name] = _plain(value) if is_array else to_tensor(value, name)
            if name in self.kept:
                self.kept[name].append(as_numpy(result[name]))
        return result

    def _row(self, number):
        row = self.dataset[number]
        if self.columns is None or not hasattr(row, "keys"):
            return row
        return {name: row[name] for name in row.keys() if name in self.columns}

    def first(self):
        """The names in the first row that the model or its loss reads."""
        if not len(self):
            return ()
        row = self._row(0)
        return tuple(row.keys()) if hasattr(row, "keys") else ()

    def lengths(self, column):
        rows = self.dataset
        try:
            return [int(each) for each in rows[column]]
        except (KeyError, TypeError, IndexError, ValueError):
            return [len(rows[i]["input_ids"]) for i in range(len(rows))]


class Trainer:
    """Trains, evaluates and predicts."""

    def __init__(self, model=None, args=None, data_collator=None, train_dataset=None, eval_dataset=None,
                 processing_class=None, model_init=None, compute_loss_func=None, compute_metrics=None, callbacks=None,
                 optimizers=(None, None), optimizer_cls_and_kwargs=None, preprocess_logits_for_metrics=None,
                 tokenizer=None):
        self._refuse_code_of_torch(compute_loss_func, optimizers, optimizer_cls_and_kwargs)
        if model is None and model_init is not None:
            if args is not None:
                set_seed(args.seed)
            model = model_init()
        if not isinstance(model, PreTrainedModel):
            raise UsageError("Trainer: expected a model of transom (AutoModelFor....from_pretrained), found "
                             f"{type(model).__module__}.{type(model).__name__}; modules of torch are not trained here")
        self.model = self.model_wrapped = model
        self.args = args if args is not None else TrainingArguments("tmp_trainer")
        self.processing_class = processing_class if processing_class is not None else tokenizer
        self.data_collator = data_collator or self._usual_collator()
        self.train_dataset, self.eval_dataset = train_dataset, eval_dataset
        self.compute_metrics = compute_metrics
        self.preprocess_logits_for_metrics = preprocess_logits_for_metrics
        self.state, self.control = TrainerState(), TrainerControl()
        usual = PrinterCallback if getattr(self.args, "disable_tqdm", None) else ProgressCallback
        self.callbacks = [usual()]
        self._native = None
        self._output_types = {}
        for callback in callbacks or ():
            self.add_callback(callback)
        self._tell("on_init_end")

    @property
    def tokenizer(self):
        return self.processing_class

    # ---- callbacks

    def add_callback(self, callback):
        callback = callback() if isinstance(callback, type) else callback
        if not isinstance(callback, DefaultFlowCallback):
            self.callbacks.append(callback)

    def pop_callback(self, callback):
        for each in self.callbacks:
            if each is callback or isinstance(callback, type) and isinstance(each, callback):
                self.callbacks.remove(each)
                return each
        return None

    def remove_callback(self, callback):
        self.pop_callback(callback)

    def _tell(self, event, **extra):
        extra = {"model": self.model, "processing_class": self.processing_class, "tokenizer": self.processing_class,
                 "train_dataloader": None, "eval_dataloader": None, "optimizer": None, "lr_scheduler": None, **extra}
        for callback in self.callbacks:
            if type(callback) is EarlyStoppingCallback and event != "on_train_begin":
                continue  # the library has it, and keeps its state in checkpoints
            function = getattr(callback, event, None)
            answer = function(self.args, self.state, self.control, **extra) if function else None
            if isinstance(answer, TrainerControl):
                self.control = answer

    def _receive(self, event, step, epoch, text, metrics):
        """An event of the library. The answer says what is to be done: 1 stop, 2 log, 4 evaluate, 8 save."""
        self.state.global_step, self.state.epoch = step, epoch
        if text is not None:
            self.state.take(text)
        extra = {}
        if metrics is not None:
            extra["logs" if event == "on_log" else "metrics"] = {name: value for name, value in metrics if name != "step"}
        self._tell(event, **extra)
        control = self.control
        if control.should_epoch_stop:
            raise UnsupportedError("should_epoch_stop: an epoch is not cut short here; max_steps or should_training_stop "
                                   "end the run")
        bits = (1 * control.should_training_stop + 2 * control.should_log
                + 4 * control.should_evaluate + 8 * control.should_save)
        control.should_log = control.should_evaluate = control.should_save = False
        return bits

    # ---- the library's trainer

    def _refuse_code_of_torch(self, compute_loss_func, optimizers, optimizer_cls_and_kwargs):
        for name, instead in _OF_TORCH.items():
            if hasattr(type(self), name):
                raise UnsupportedError(f"{type(self).__name__}.{name}(): code of torch does not run here; {instead}")
        if compute_loss_func is not None:
            raise UnsupportedError(f"compute_loss_func: code of torch does not run here; {_OF_TORCH['compute_loss']}")
        if optimizer_cls_and_kwargs is not None or optimizers is not None and any(optimizers):
            raise UnsupportedError("optimizers: those of torch do not run here; "
                                   f"{_OF_TORCH['create_optimizer_and_scheduler']}")

    def _usual_collator(self):
        if isinstance(self.processing_class, PreTrainedTokenizerBase):
            return DataCollatorWithPadding(self.processing_class)
        return default_data_collator

    def _trainer(self):
        if self._native is None:
            self._native = library.Trainer(self.model._native, self.args.to_native())
            receive = weakref.WeakMethod(self._receive)
            self._native.set_callbacks(lambda *event: receive()(*event))
            self._native.set_save_hook(_Saver(self.processing_class, self.model))
            for callback in self.callbacks:
                if type(callback) is EarlyStoppingCallback:
                    self._native.set_early_stopping(callback.early_stopping_patience,
                                                    callback.early_stopping_threshold)
            if self.preprocess_logits_for_metrics is not None:
                self._native.set_preprocess_outputs(_Preprocess(self.preprocess_logits_for_metrics))
        return self._native

    def _rows(self, dataset, keep=()):
        columns = None
        if self.args.remove_unused_columns:
            columns = set(library.input_names(self.model._native)) | set(_LABELS) | set(self.args.label_names or ())
            if not isinstance(self.data_collator, (DataCollatorWithPadding, type(default_data_collator))):
                columns |= {"special_tokens_mask"} if type(self.data_collator).__name__ == (
                    "DataCollatorForLanguageModeling") else set()
        rows = _Rows(dataset, self.data_collator, columns, keep)
        if len(rows) and columns is not None and not rows.first():
            raise UsageError("a data set: no column is an argument of the model, found "
                             f"{', '.join(map(str, dict(dataset[0]).keys()))}; expected some of "
                             f"{', '.join(sorted(columns))}; for a collator that reads others give "
                             "TrainingArguments(remove_unused_columns=False)")
        return rows

    def _evaluation_rows(self, dataset):
        names = self.args.label_names or ()
        rows = self._rows(dataset)
        positions = [name for name in ("start_positions", "end_positions") if name in rows.first()]
        keep = tuple(name for name in names if name != "labels") or tuple(positions)
        return self._rows(dataset, keep) if keep else rows

    def _metrics_function(self, rows):
        if self.compute_metrics is None:
            return None
        return _Metrics(self.compute_metrics, rows)

    def _set_evaluation(self, dataset):
        if isinstance(dataset, dict):
            raise UnsupportedError("eval_dataset: several sets are evaluated by evaluate(), not while training; give "
                                   "one, or eval_strategy='no'")
        rows = self._evaluation_rows(dataset)
        trainer = self._trainer()
        trainer.set_eval_data(len(rows), rows, self._lengths(rows))
        trainer.set_compute_metrics(self._metrics_function(rows))

    def _lengths(self, rows):
        if self.args.train_sampling_strategy != "group_by_length":
            return []
        return rows.lengths(self.args.length_column_name)

    # ---- what users call

    def train(self, resume_from_checkpoint=None, trial=None, ignore_keys_for_eval=None, **_):
        if self.train_dataset is None:
            raise UsageError("train(): there is no train_dataset")
        trainer = self._trainer()
        rows = self._rows(self.train_dataset)
        trainer.set_train_data(len(rows), rows, self._lengths(rows))
        if self.eval_dataset is not None and (self.args.eval_strategy != "no" or not isinstance(self.eval_dataset,
                                                                                                dict)):
            self._before_evaluation({})
            self._set_evaluation(self.eval_dataset)
        resume = resume_from_checkpoint if resume_from_checkpoint is not None else self.args.resume_from_checkpoint
        if resume in (False, "False", "false"):
            resume = None
        self.state, self.control = TrainerState(), TrainerControl()
        metrics = dict(trainer.train("true" if resume is True else os.fspath(resume) if resume else None))
        self.state.take(trainer.state())
        metrics["epoch"] = self.state.epoch
        return TrainOutput(self.state.global_step, metrics.get("train_loss", 0.0), metrics)

    def evaluate(self, eval_dataset=None, ignore_keys=None, metric_key_prefix="eval", **generation):
        dataset = eval_dataset if eval_dataset is not None else self.eval_dataset
        if isinstance(dataset, dict):
            metrics = {}
            for name, part in dataset.items():
                metrics.update(self.evaluate(part, ignore_keys, f"{metric_key_prefix}_{name}", **generation))
            return metrics
        if dataset is None:
            raise UsageError("evaluate(): there is no eval_dataset")
        self._before_evaluation(generation)
        self._set_evaluation(dataset)
        metrics = dict(self._trainer().evaluate(metric_key_prefix))
        self.state.take(self._trainer().state())
        if self.state.global_step:
            metrics["epoch"] = self.state.epoch
        return metrics

    def predict(self, test_dataset, ignore_keys=None, metric_key_prefix="test", **generation):
        self._before_evaluation(generation)
        rows = self._evaluation_rows(test_dataset)
        begin = time.monotonic()
        answer, memory = self._trainer().predict(len(rows), rows)
        predictions, labels = _arrays(answer, rows)
        metrics = {}
        if answer[2] is not None:
            metrics[f"{metric_key_prefix}_loss"] = answer[2]
        if self.compute_metrics is not None and labels is not None:
            for name, value in self.compute_metrics(EvalPrediction(predictions, labels)).items():
                prefix = "" if name.startswith(metric_key_prefix + "_") else metric_key_prefix + "_"
                metrics[prefix + name] = float(value)
        seconds = time.monotonic() - begin
        batches = -(-len(rows) // self.args.per_device_eval_batch_size)
        metrics[f"{metric_key_prefix}_runtime"] = round(seconds, 4)
        metrics[f"{metric_key_prefix}_samples_per_second"] = round(len(rows) / max(seconds, 1e-9), 3)
        metrics[f"{metric_key_prefix}_steps_per_second"] = round(batches / max(seconds, 1e-9), 3)
        self._tell("on_predict", metrics=metrics)
        metrics.update(memory)
        return PredictionOutput(predictions, labels, metrics)

    def _before_evaluation(self, generation):
        if generation:
            raise UsageError(f"evaluate() takes no argument {next(iter(generation))!r}")

    def save_model(self, output_dir=None, _internal_call=False):
        self._trainer().save_model(os.fspath(output_dir) if output_dir is not None else "")

    def save_state(self):
        os.makedirs(self.args.output_dir, exist_ok=True)
        _write(os.path.join(self.args.output_dir, "trainer_state.json"), self._trainer().state())

    def log(self, logs, start_time=None):
        self.state.log_history.append({**logs, "step": self.state.global_step})
        self._tell("on_log", logs=logs)

    def metrics_format(self, metrics):
        """Metrics as people read them: memory in MB, times as hours, minutes and seconds."""
        formatted = {}
        for name, value in metrics.items():
            if "_mem_" in name:
                value = f"{value >> 20}MB"
            elif "_runtime" in name:
                value = f"{datetime.timedelta(seconds=int(value))}.{int(value % 1 * 100):02d}"
            elif name == "total_flos":
                value = f"{int(value) >> 30}GF"
            elif isinstance(value, float):
                value = round(value, 4)
            formatted[name] = value
        return formatted

    def log_metrics(self, split, metrics):
        print(f"***** {split} metrics *****")
        formatted = self.metrics_format(metrics)
        width = max([len(name) for name in formatted], default=0)
        most = max([len(str(value)) for value in formatted.values()], default=0)
        for name in sorted(formatted):
            print(f"  {name:<{width}} = {formatted[name]:>{most}}")

    def save_metrics(self, split, metrics, combined=True):
        os.makedirs(self.args.output_dir, exist_ok=True)
        _write(os.path.join(self.args.output_dir, f"{split}_results.json"),
               json.dumps(metrics, indent=4, sort_keys=True) + "\n")
        if combined:
            path = os.path.join(self.args.output_dir, "all_results.json")
            everything = {}
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    everything = json.load(file)
            _write(path, json.dumps({**everything, **metrics}, indent=4, sort_keys=True) + "\n")

    def is_world_process_zero(self):
        return True

    is_local_process_zero = is_world_process_zero

    def create_model_card(self, *_, **__):
        """Nothing is uploaded, so there is no card to write."""

    def push_to_hub(self, *_, **__):
        raise UnsupportedError("push_to_hub(): Transom does not upload; push the output directory with the `hf` "
                               "program")


def _write(path, text):
    """The whole file or none of it."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".new", path)


def _arrays(answer, rows):
    """(outputs by name, labels, loss) of the library as (predictions, label_ids)."""
    outputs, labels, _ = answer
    arrays = tuple(outputs.values())
    if set(outputs) == {"generated_tokens"} and arrays:
        arrays = (arrays[0].astype("int64"),)
    if "integers" in outputs.keys():
        arrays = (outputs["integers"].astype("int64"),)
    if rows.kept and any(rows.kept.values()):
        import numpy

        columns = tuple(numpy.concatenate(parts) for parts in rows.kept.values() if parts)
        labels = columns[0] if len(columns) == 1 else columns
        for parts in rows.kept.values():
            parts.clear()
    return arrays[0] if len(arrays) == 1 else arrays, labels


class _Metrics:
    """compute_metrics for the library."""

    def __init__(self, function, rows):
        self.function, self.rows = function, rows

    def __call__(self, answer):
        predictions, labels = _arrays(answer, self.rows)
        metrics = self.function(EvalPrediction(predictions, labels))
        return {name: float(value) for name, value in (metrics or {}).items() if value is not None}


class _Preprocess:
    """preprocess_logits_for_metrics for the library. Whole numbers go by a name of their own."""

    def __init__(self, function):
        self.function = function

    def __call__(self, outputs):
        values = tuple(tensor for name, tensor in outputs.items() if name != "loss")
        result = self.function(values[0] if len(values) == 1 else values, None)
        results = result if isinstance(result, (tuple, list)) else (result,)
        tensors = [each if isinstance(each, Tensor) else to_tensor(each) for each in results]
        if len(tensors) == 1:
            return {"integers" if tensors[0].dtype in ("i64", "i32") else "outputs": tensors[0]}
        return {f"outputs.{number}": tensor for number, tensor in enumerate(tensors)}


class _Saver:
    """Adds what belongs to a saved model besides its weights."""

    def __init__(self, processing_class, model):
        self.processing_class = processing_class

    def __call__(self, directory):
        if hasattr(self.processing_class, "save_pretrained"):
            self.processing_class.save_pretrained(directory)


class Seq2SeqTrainer(Trainer):
    """Evaluates with generated texts where Seq2SeqTrainingArguments(predict_with_generate=True) asks for it."""

    def _before_evaluation(self, generation):
        trainer = self._trainer()
        if not getattr(self.args, "predict_with_generate", False):
            trainer.clear_generation()
            return
        fields = dict(generation)
        if "max_length" not in fields and "max_new_tokens" not in fields and self.args.generation_max_length:
            fields["max_length"] = self.args.generation_max_length
        if fields.get("num_beams") is None and self.args.generation_num_beams:
            fields["num_beams"] = self.args.generation_num_beams
        configured = self.model._generation_config
        if configured is not None:
            fields = {**configured.to_dict(), **fields}
        fields = {name: value for name, value in fields.items()
                  if value is not None and not name.startswith("_") and name != "transformers_version"}
        pad = self.processing_class.pad_token_id if self.processing_class is not None else None
        if pad is None:
            pad = self.model.config.pad_token_id or 0
        trainer.set_generation(self.model._directory, json.dumps(fields), int(pad))
