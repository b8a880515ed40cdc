# SPDX-License-Identifier: Apache-2.0
"""Callbacks of a Trainer, with Transformers' events, state and control."""
import json


class TrainerState:
    """The fields of trainer_state.json as attributes."""

    def __init__(self, **fields):
        self.epoch, self.global_step, self.max_steps, self.num_train_epochs = 0.0, 0, 0, 0
        self.log_history, self.best_metric, self.best_model_checkpoint = [], None, None
        self.is_local_process_zero = self.is_world_process_zero = True
        self.is_hyper_param_search = False
        self.__dict__.update(fields)

    def take(self, text):
        """The fields of another state's JSON; records of the log that are there already stay the same objects."""
        fields = json.loads(text)
        log = fields.pop("log_history", [])
        self.log_history[:] = self.log_history[:len(log)] + log[len(self.log_history):]
        self.__dict__.update(fields)

    def save_to_json(self, path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(json.dumps(self.__dict__, indent=2, sort_keys=True) + "\n")

    @classmethod
    def load_from_json(cls, path):
        with open(path, encoding="utf-8") as file:
            return cls(**json.load(file))


class TrainerControl:
    """What a callback asks for by setting these."""

    def __init__(self):
        self.should_training_stop = self.should_epoch_stop = False
        self.should_save = self.should_evaluate = self.should_log = False


class TrainerCallback:
    """Override what is needed: each event gets args, state, control, and by keyword model, processing_class, logs ..."""

    def on_init_end(self, args, state, control, **kwargs):
        pass

    def on_train_begin(self, args, state, control, **kwargs):
        pass

    def on_train_end(self, args, state, control, **kwargs):
        pass

    def on_epoch_begin(self, args, state, control, **kwargs):
        pass

    def on_epoch_end(self, args, state, control, **kwargs):
        pass

    def on_step_begin(self, args, state, control, **kwargs):
        pass

    def on_step_end(self, args, state, control, **kwargs):
        pass

    def on_evaluate(self, args, state, control, **kwargs):
        pass

    def on_predict(self, args, state, control, metrics, **kwargs):
        pass

    def on_save(self, args, state, control, **kwargs):
        pass

    def on_log(self, args, state, control, **kwargs):
        pass


class DefaultFlowCallback(TrainerCallback):
    """When to log, evaluate and save: the Trainer does this itself."""


class PrinterCallback(TrainerCallback):
    """Prints the log."""

    def on_log(self, args, state, control, logs=None, **kwargs):
        if state.is_local_process_zero and logs is not None:
            print({name: value for name, value in logs.items() if name != "total_flos"}, flush=True)


class ProgressCallback(PrinterCallback):
    """The log as PrinterCallback has it, and on a terminal a line with the steps so far."""

    def __init__(self):
        self._begin = self._shown = 0.0

    def on_train_begin(self, args, state, control, **kwargs):
        import time

        self._begin = self._shown = time.monotonic()

    def on_step_end(self, args, state, control, **kwargs):
        import sys
        import time

        now = time.monotonic()
        if not sys.stderr.isatty() or (now - self._shown < 0.5 and state.global_step < state.max_steps):
            return
        self._shown = now
        left = (now - self._begin) / max(state.global_step, 1) * (state.max_steps - state.global_step)
        print(f"\r{state.global_step}/{state.max_steps} steps, {left:.0f} s left ", end="", file=sys.stderr, flush=True)

    def on_train_end(self, args, state, control, **kwargs):
        import sys

        if sys.stderr.isatty():
            print(file=sys.stderr)


class EarlyStoppingCallback(TrainerCallback):
    """Stops when the metric for the best model got no better in so many evaluations. Its state is in checkpoints."""

    def __init__(self, early_stopping_patience=1, early_stopping_threshold=0.0):
        self.early_stopping_patience = early_stopping_patience
        self.early_stopping_threshold = early_stopping_threshold
        self.early_stopping_patience_counter = 0

    def on_train_begin(self, args, state, control, **kwargs):
        self.early_stopping_patience_counter = 0
        if args.metric_for_best_model is None:
            raise ValueError("EarlyStoppingCallback needs metric_for_best_model in TrainingArguments")

    def on_evaluate(self, args, state, control, metrics=None, **kwargs):
        name = args.metric_for_best_model
        name = name if name.startswith("eval_") else "eval_" + name
        if name not in (metrics or {}):
            return
        value, best = metrics[name], state.best_metric
        better = best is None or (value > best + self.early_stopping_threshold if args.greater_is_better
                                  else value < best - self.early_stopping_threshold)
        self.early_stopping_patience_counter = 0 if better else self.early_stopping_patience_counter + 1
        if self.early_stopping_patience_counter >= self.early_stopping_patience:
            control.should_training_stop = True
