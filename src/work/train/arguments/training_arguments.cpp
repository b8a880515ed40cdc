// SPDX-License-Identifier: Apache-2.0
#include "transom/training_arguments.h"

#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "work/train/arguments/argument_tables.h"
#include "work/train/arguments/device_arguments.h"

namespace transom {
namespace {

using T = TrainingArguments;

constexpr std::string_view kNoHub = "Transom does not upload; push the output directory with the `hf` program";
constexpr std::string_view kNoTorch = "it steers PyTorch, which Transom does not use";
constexpr std::string_view kOwnLoader = "rows are read and collated beside the computation, by threads of this process";
constexpr std::string_view kOtherSharding = "Transom shards with its own collectives";

const Argument kTrainingArguments[] = {
    section("Duration and batch size"),
    field<&T::output_dir>("output_dir", "Directory for checkpoints, results and the trained model."),
    field<&T::per_device_train_batch_size>("per_device_train_batch_size", "Batch size per device for training.")
        .at_least(1),
    alias("per_gpu_train_batch_size", "per_device_train_batch_size"),
    field<&T::num_train_epochs>("num_train_epochs", "Number of epochs; may be a fraction.").at_least(0),
    field<&T::max_steps>("max_steps", "Number of updates; when positive it overrides num_train_epochs.").at_least(-1),

    section("Learning rate"),
    field<&T::learning_rate>("learning_rate", "Learning rate after warm-up.").at_least(0),
    field<&T::lr_scheduler_type>("lr_scheduler_type", "Learning-rate schedule.")
        .one_of({"linear", "cosine", "cosine_with_restarts", "polynomial", "constant", "constant_with_warmup",
                 "inverse_sqrt", "reduce_lr_on_plateau", "cosine_with_min_lr", "cosine_warmup_with_min_lr",
                 "warmup_stable_decay"}),
    field<&T::lr_scheduler_kwargs>("lr_scheduler_kwargs", "Further arguments of the schedule, as an object or a file."),
    field<&T::warmup_steps>("warmup_steps", "Linear warm-up in updates; below 1, a ratio of all updates.").at_least(0),
    field<&T::warmup_ratio>("warmup_ratio", "Warm-up as a ratio of all updates; warmup_steps overrides it.")
        .at_least(0)
        .at_most(1),

    section("Optimizer"),
    field<&T::optim>("optim", "The optimizer.")
        .one_of({"adamw_torch", "adamw_torch_fused", "adafactor", "sgd", "adagrad", "rmsprop", "lion_32bit"}),
    alias("optimizer", "optim"),
    field<&T::optim_args>("optim_args", "Further arguments of the optimizer, as name=value,name=value."),
    field<&T::weight_decay>("weight_decay", "Weight decay for all weights except biases and norms.").at_least(0),
    field<&T::adam_beta1>("adam_beta1", "Decay of Adam's first moment.").at_least(0).at_most(1),
    field<&T::adam_beta2>("adam_beta2", "Decay of Adam's second moment.").at_least(0).at_most(1),
    field<&T::adam_epsilon>("adam_epsilon", "Epsilon of Adam.").at_least(0),
    only_default("optim_target_modules", {"", "null", "none"}, "GaLore and APOLLO are not implemented"),

    section("Regularisation and stability"),
    field<&T::gradient_accumulation_steps>("gradient_accumulation_steps",
                                           "Number of steps to accumulate gradients before an optimizer update.")
        .at_least(1),
    field<&T::average_tokens_across_devices>("average_tokens_across_devices",
                                             "Divide the loss by the tokens of all devices, not of each."),
    field<&T::max_grad_norm>("max_grad_norm", "Gradients are clipped to this norm; 0 for no clipping.").at_least(0),
    field<&T::label_smoothing_factor>("label_smoothing_factor", "Label smoothing.").at_least(0).at_most(1),
    field<&T::neftune_noise_alpha>("neftune_noise_alpha", "Strength of NEFTune's noise on embeddings.").at_least(0),

    section("Distillation"),
    field<&T::distillation_temperature>("distillation_temperature",
                                        "What the logits of student and teacher are divided by (see teacher_model).")
        .above(0),
    field<&T::distillation_weight>("distillation_weight",
                                   "Weight of the teacher's loss; the label loss gets 1 minus this.")
        .at_least(0)
        .at_most(1),

    section("Precision"),
    field<&T::bf16>("bf16", "Compute in bfloat16 with float32 weights and sums."),
    field<&T::fp16>("fp16", "float16 (not supported; see bf16)."),
    field<&T::bf16_full_eval>("bf16_full_eval", "Use bfloat16 in evaluations outside of training."),
    field<&T::fp16_full_eval>("fp16_full_eval", "float16 in evaluation (not supported; see bf16_full_eval)."),
    field<&T::tf32>("tf32", "Allow TF32 in float32 products where the device has it."),
    ignored("fp16_opt_level", kNoTorch),
    ignored("half_precision_backend", kNoTorch),
    ignored("fp16_backend", kNoTorch),

    section("Memory and speed"),
    field<&T::activation_checkpointing>("activation_checkpointing", "Recompute activations in the backward pass."),
    alias("gradient_checkpointing", "activation_checkpointing"),
    field<&T::activation_checkpointing_kwargs>("activation_checkpointing_kwargs",
                                               "Settings of activation checkpointing."),
    alias("gradient_checkpointing_kwargs", "activation_checkpointing_kwargs"),
    ignored("auto_find_batch_size", "a batch that does not fit into memory is an error; give a smaller one"),
    field<&T::max_predictions_per_seq>("max_predictions_per_seq",
                                       "Most tokens of a sequence to mask; in training the head computes their logits "
                                       "alone (0: no bound, logits of all positions).")
        .at_least(0),
    field<&T::torch_compile>("torch_compile", "Compile the model; Transom always does (see --mode)."),
    ignored("torch_compile_backend", "there is one compiler here"),
    ignored("torch_compile_mode", "there is one compiler here"),
    ignored("use_liger_kernel", "kernels are fused by the compiler"),
    ignored("liger_kernel_config", "kernels are fused by the compiler"),
    ignored("use_cache", "training keeps no key-value cache"),
    ignored("torch_empty_cache_steps", kNoTorch),
    ignored("jit_mode_eval", kNoTorch),
    ignored("use_ipex", kNoTorch),
    ignored("use_mps_device", "the device is found by itself (see --device)"),

    section("Logging"),
    field<&T::logging_strategy>("logging_strategy", "When to log.").one_of({"no", "steps", "epoch"}),
    field<&T::logging_steps>("logging_steps", "Log every N updates; below 1, a ratio of all updates.").at_least(0),
    field<&T::logging_first_step>("logging_first_step", "Log the first update too."),
    field<&T::logging_nan_inf_filter>("logging_nan_inf_filter",
                                      "Leave losses that are NaN or infinite out of the log."),
    field<&T::logging_dir>("logging_dir", "Directory of TensorBoard's files (default: runs/ in output_dir)."),
    field<&T::include_num_input_tokens_seen>("include_num_input_tokens_seen", "Count the input tokens.")
        .one_of({"no", "all", "non_padding", "true", "false"}),
    field<&T::log_level>("log_level", "Level of messages.")
        .one_of({"passive", "debug", "info", "warning", "error", "critical", "detail"}),
    field<&T::disable_tqdm>("disable_tqdm", "Show no progress bar."),
    field<&T::report_to>("report_to", "Where to report: none, tensorboard, or all (which is tensorboard)."),
    field<&T::run_name>("run_name", "A name for the run."),
    ignored("log_on_each_node", "only the first process logs"),
    ignored("log_level_replica", "only the first process logs"),
    ignored("project", "it belongs to Trackio, which is not supported"),
    ignored("trackio_space_id", "it belongs to Trackio, which is not supported"),
    ignored("trackio_bucket_id", "it belongs to Trackio, which is not supported"),
    ignored("trackio_static_space_id", "it belongs to Trackio, which is not supported"),
    field<&T::skip_memory_metrics>("skip_memory_metrics",
                                   "false: add what the run took of memory to its metrics (train_mem_cpu_alloc_delta "
                                   "...)."),
    field<&T::throughput_warmup_steps>("throughput_warmup_steps",
                                       "First updates that the rates of training do not count.")
        .at_least(0),
    field<&T::adjust_throughput>("adjust_throughput",
                                 "Leave logging, evaluating and saving out of the rates of training."),
    ignored("include_tokens_per_second", "rates are always reported"),

    section("Evaluation"),
    field<&T::eval_strategy>("eval_strategy", "When to evaluate.").one_of({"no", "steps", "epoch"}),
    alias("evaluation_strategy", "eval_strategy"),
    field<&T::eval_steps>("eval_steps", "Evaluate every N updates (default: logging_steps); below 1, a ratio.")
        .at_least(0),
    field<&T::eval_delay>("eval_delay", "Updates or epochs before the first evaluation.").at_least(0),
    field<&T::per_device_eval_batch_size>("per_device_eval_batch_size", "Batch size per device for evaluation.")
        .at_least(1),
    alias("per_gpu_eval_batch_size", "per_device_eval_batch_size"),
    field<&T::prediction_loss_only>("prediction_loss_only", "Evaluate only the loss."),
    field<&T::eval_on_start>("eval_on_start", "Evaluate once before the first update."),
    field<&T::inference_mode>("inference_mode",
                              "How the passes of evaluation and prediction are run, where not as --mode says.")
        .one_of({"lazy", "eager", "compile", "graph"}),
    field<&T::eval_accumulation_steps>("eval_accumulation_steps",
                                       "Evaluation steps before outputs are moved to the host.")
        .at_least(1),
    ignored("eval_do_concat_batches", "predictions of all batches are always taken together"),
    ignored("eval_use_gather_object", "only tensors are gathered"),
    ignored("include_for_metrics", "metrics take predictions and labels"),
    ignored("include_inputs_for_metrics", "metrics take predictions and labels"),
    ignored("batch_eval_metrics", "metrics take predictions and labels of the whole set"),

    section("Checkpoints"),
    field<&T::save_strategy>("save_strategy", "When to write a checkpoint.").one_of({"no", "steps", "epoch", "best"}),
    field<&T::save_steps>("save_steps", "Write a checkpoint every N updates; below 1, a ratio of all updates.")
        .at_least(0),
    field<&T::save_total_limit>("save_total_limit", "Keep at most N checkpoints, and the best one.").at_least(0),
    field<&T::save_only_model>("save_only_model", "Write only the weights; such a run cannot be resumed."),
    field<&T::load_best_model_at_end>("load_best_model_at_end", "Load the best checkpoint at the end of training."),
    field<&T::metric_for_best_model>("metric_for_best_model",
                                     "Metric that chooses the best checkpoint (default: loss)."),
    field<&T::greater_is_better>("greater_is_better", "Whether a greater metric is better (default: not for a loss)."),
    field<&T::resume_from_checkpoint>("resume_from_checkpoint",
                                      "Checkpoint directory to resume from; alone, or true: the last in output_dir; "
                                      "auto: that, or from the start where there is none.")
        .alone_means("true"),
    field<&T::ignore_data_skip>("ignore_data_skip", "Resume with the first row of the data, not with the next one."),
    only_default("save_safetensors", {"true"}, "weights are always written as safetensors"),
    ignored("save_on_each_node", "only the first process writes"),
    ignored("enable_jit_checkpoint", "a run that is ended by a signal resumes from its last checkpoint"),
    ignored("restore_callback_states_from_checkpoint", "the state of early stopping is always restored"),

    section("Several devices"),
    field<&T::ddp_backend>(
        "ddp_backend",
        "Communication between processes: mpi or gloo (cpu), nccl (cuda, rocm), or what the device names."),
    field<&T::ddp_bucket_cap_mb>("ddp_bucket_cap_mb", "Size of a gradient bucket in megabytes (25).").at_least(0),
    field<&T::ddp_timeout>("ddp_timeout", "Seconds that processes wait for each other.").at_least(1),
    field<&T::zero_stage>("zero_stage",
                          "What processes keep parts of: 1 the optimizer's state, 2 gradients too, 3 parameters too.")
        .at_least(0)
        .at_most(3),
    field<&T::fsdp>("fsdp",
                    "full_shard: as zero_stage 3; shard_grad_op: parameters are whole from forward to backward; "
                    "offload beside one of them: the optimizer's state is kept in host memory.")
        .alone_means("full_shard"),
    field<&T::fsdp_config>("fsdp_config", "Further arguments of fsdp, as an object or a file."),
    field<&T::offload_optimizer_device>("offload_optimizer_device",
                                        "cpu: the optimizer's state is kept in host memory, and comes to the device "
                                        "in parts for each update; with one process too.")
        .one_of({"none", "cpu"}),
    field<&T::tp_size>("tp_size", "Processes that share each layer (tensor parallel).").at_least(1),
    field<&T::sequence_parallel>("sequence_parallel",
                                 "With tp_size, norms, dropout and residuals share each sequence as well."),
    field<&T::pp_size>("pp_size", "Processes that share the layers in turn (pipeline parallel).").at_least(1),
    field<&T::pipeline_schedule>("pipeline_schedule",
                                 "With pp_size, the order of the micro-batches of an update, which are those of "
                                 "gradient_accumulation_steps.")
        .one_of({"1f1b", "gpipe", "interleaved"}),
    field<&T::pp_chunks>("pp_chunks", "With pipeline_schedule interleaved, the stages of each process.").at_least(1),
    field<&T::cp_size>("cp_size", "Processes that share each sequence (context parallel).").at_least(1),
    field<&T::cp_strategy>("cp_strategy",
                           "With cp_size, what attention exchanges: ulysses, heads for places; allgather, keys and "
                           "values of all; ring, keys and values of one after the other.")
        .one_of({"ulysses", "allgather", "ring"}),
    field<&T::ep_size>("ep_size", "Processes that share the experts (expert parallel).").at_least(1),
    field<&T::parameter_check_steps>("parameter_check_steps",
                                     "Compare the copies of each parameter between processes every so many updates.")
        .at_least(0),

    section("Random numbers"),
    field<&T::seed>("seed", "Seed of everything random.").at_least(0),
    field<&T::data_seed>("data_seed", "Seed of the order of rows (default: seed).").at_least(0),
    field<&T::full_determinism>("full_determinism", "Every run gives the same bits."),

    section("Data"),
    field<&T::dataloader_drop_last>("dataloader_drop_last", "Drop the last batch if it is not full."),
    field<&T::remove_unused_columns>("remove_unused_columns", "Give the model only the columns that it takes."),
    field<&T::label_names>("label_names", "The columns that are labels."),
    field<&T::train_sampling_strategy>("train_sampling_strategy", "The order of rows.")
        .one_of({"random", "sequential", "group_by_length"}),
    field<&T::length_column_name>("length_column_name", "Column with the length of a row, for group_by_length."),
    field<&T::padding_free>(
        "padding_free",
        "Take the padding out of batches before the layers of a text model (default: where it can be)."),
    ignored("dataloader_num_workers", kOwnLoader),
    ignored("dataloader_pin_memory", kOwnLoader),
    ignored("dataloader_persistent_workers", kOwnLoader),
    ignored("dataloader_prefetch_factor", kOwnLoader),
    ignored("dataloader_multiprocessing_context", kOwnLoader),
    ignored("dataloader_in_order", kOwnLoader),

    section("What to do"),
    field<&T::do_train>("do_train", "Train (the default when neither do_train, do_eval nor do_predict is given)."),
    field<&T::do_eval>("do_eval", "Evaluate on the validation file."),
    field<&T::do_predict>("do_predict", "Predict the test file."),
    field<&T::use_cpu>("use_cpu", "Use the CPU whatever else there is."),
    alias("no_cuda", "use_cpu"),
    only_default("tpu_num_cores", {"", "null"}, "there is no backend for TPUs"),
    only_default("tpu_metrics_debug", {"false", "0", "no"}, "there is no backend for TPUs"),
    only_default("mp_parameters", {"", "null"}, "see --tp_size and --fsdp"),

    // Names that are known and mean nothing on this platform.
    ignored("local_rank", "processes are told their rank by the launcher's environment"),
    ignored("ddp_find_unused_parameters", kOtherSharding),
    ignored("ddp_broadcast_buffers", kOtherSharding),
    ignored("ddp_static_graph", kOtherSharding),
    only_default("accelerator_config", {"", "null"}, "Accelerate is not used"),
    only_default("debug", {"", "null", "[]"}, "TRANSOM_LOG shows what the program does"),
    only_default("torchdynamo", {"", "null"}, kNoTorch),
    only_default("push_to_hub", {"false", "0", "no"}, kNoHub),
    ignored("hub_token", kNoHub),
    ignored("hub_private_repo", kNoHub),
    ignored("hub_model_id", kNoHub),
    ignored("hub_strategy", kNoHub),
    ignored("hub_always_push", kNoHub),
    ignored("hub_revision", kNoHub),
};

}  // namespace

ArgumentTable training_table() { return kTrainingArguments; }

int64_t TrainingArguments::warmup_steps_of(int64_t total_steps) const {
  const double steps = warmup_steps == 0 ? warmup_ratio.value_or(0) : warmup_steps;
  const bool is_ratio = steps < 1 || (warmup_steps == 0 && warmup_ratio);
  return static_cast<int64_t>(is_ratio ? std::ceil(static_cast<double>(total_steps) * steps) : steps);
}

void TrainingArguments::resolve() {
  const auto refuse = []<typename... Args>(fmt::format_string<Args...> text, Args&&... args) {
    fail(ErrorKind::kUsage, text, std::forward<Args>(args)...);
  };
  if (include_num_input_tokens_seen == "true") include_num_input_tokens_seen = "all";
  if (include_num_input_tokens_seen == "false") include_num_input_tokens_seen = "no";
  std::erase(report_to, "none");
  for (std::string& place : report_to) {
    if (place == "all") place = "tensorboard";
    if (place != "tensorboard")
      refuse("report_to: expected tensorboard, all or none, found {}", transom::quoted(place));
  }

  // As flags and files write that no checkpoint is meant.
  if (resume_from_checkpoint &&
      (resume_from_checkpoint->empty() || *resume_from_checkpoint == "false" || *resume_from_checkpoint == "False"))
    resume_from_checkpoint.reset();
  if (load_best_model_at_end && eval_strategy == "no")
    refuse("load_best_model_at_end: expected eval_strategy steps or epoch, found no evaluation");
  if (eval_strategy != "no") do_eval = true;
  if (eval_strategy == "steps" && eval_steps.value_or(0) == 0) eval_steps = logging_steps;
  if (eval_strategy == "steps" && *eval_steps == 0)
    refuse("eval_strategy steps: expected eval_steps or logging_steps above 0");
  if (logging_strategy == "steps" && logging_steps == 0) refuse("logging_steps: expected a number above 0, found 0");

  const bool needs_metric =
      load_best_model_at_end || save_strategy == "best" || lr_scheduler_type == "reduce_lr_on_plateau";
  if (needs_metric && !metric_for_best_model) metric_for_best_model = "loss";
  if (metric_for_best_model && !greater_is_better) greater_is_better = !metric_for_best_model->ends_with("loss");

  const auto whole = [&](std::string_view name, double steps) {
    if (steps > 1 && steps != std::floor(steps))
      refuse("{}: expected a whole number or a ratio below 1, found {}", name, steps);
  };
  if (logging_strategy == "steps") whole("logging_steps", logging_steps);
  if (eval_strategy == "steps") whole("eval_steps", *eval_steps);
  if (save_strategy == "steps") whole("save_steps", save_steps);

  if (load_best_model_at_end && save_strategy != "best") {
    if (eval_strategy != save_strategy)
      refuse(
          "load_best_model_at_end: expected the same eval_strategy and save_strategy (or save_strategy best), found {} "
          "and {}",
          eval_strategy, save_strategy);
    // Ratios are compared as whole millionths: their remainder in floating point is rarely 0.
    const bool ratios = save_steps < 1 && eval_steps.value_or(1) < 1;
    const double scale = ratios ? 1e6 : 1;
    if (eval_strategy == "steps" && std::fmod(save_steps, *eval_steps) != 0 &&
        ((save_steps < 1) != (*eval_steps < 1) ||
         std::fmod(std::round(save_steps * scale), std::round(*eval_steps * scale)) != 0))
      refuse("load_best_model_at_end: expected save_steps to be a multiple of eval_steps, found {} and {}", save_steps,
             *eval_steps);
  }
  if (save_strategy == "best" && eval_strategy == "no")
    refuse("save_strategy best: expected eval_strategy steps or epoch, found no evaluation");
  if (lr_scheduler_type == "reduce_lr_on_plateau" && eval_strategy == "no")
    refuse("lr_scheduler_type reduce_lr_on_plateau: expected eval_strategy steps or epoch, found no evaluation");
  if (fp16 && bf16) refuse("fp16 and bf16: expected at most one of the two");
  if (fp16_full_eval && bf16_full_eval) refuse("fp16_full_eval and bf16_full_eval: expected at most one of the two");
  if (fp16) refuse("fp16: training in float16 is not offered; use --bf16");
  if (fp16_full_eval) refuse("fp16_full_eval: evaluation in float16 is not offered; use --bf16_full_eval");
  if (max_predictions_per_seq > 0 && label_smoothing_factor > 0)
    refuse("max_predictions_per_seq and label_smoothing_factor: expected at most one of the two");
  if (!activation_checkpointing_kwargs.text.empty()) {
    const Json settings = parse_json(activation_checkpointing_kwargs.text, "activation_checkpointing_kwargs");
    if (settings.value("every_n_layers", Json(1)) != 1 || settings.value("offload", Json(false)) != false)
      refuse("activation_checkpointing_kwargs: every layer is recomputed, without every_n_layers or offload");
  }
}

std::string TrainingArguments::to_json() const {
  TrainingArguments copy = *this;
  Json all = write_fields({kTrainingArguments, &copy});
  all.update(write_fields({device_table(), &copy.device_arguments}));
  return dump_json(all, 2) + "\n";
}

}  // namespace transom
