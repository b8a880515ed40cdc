// SPDX-License-Identifier: Apache-2.0
#include "work/train/arguments/effects.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/json/json.h"
#include "models/loading/adapters/adapter_kind.h"
#include "work/train/arguments/argument_table.h"
#include "work/train/arguments/argument_tables.h"

namespace transom {
namespace {

using Given = TrainArguments;
using ArgumentNames = std::vector<std::string_view>;

// Arguments that act in these tasks alone.
struct OfTasks {
  ArgumentNames names, tasks;
};
const OfTasks kOfTasks[] = {
    {{"label_all_tokens", "return_entity_level_metrics"}, {"token-classification"}},
    {{"null_score_diff_threshold", "doc_stride", "n_best_size"}, {"question-answering"}},
    {{"question_column", "context_column", "answer_column"}, {"question-answering", "text2text-generation"}},
    {{"version_2_with_negative", "max_answer_length"}, {"question-answering", "text2text-generation"}},
    {{"line_by_line", "whole_word_mask", "max_predictions_per_seq"}, {"fill-mask"}},
    {{"mlm_probability", "mean_noise_span_length"}, {"fill-mask", "text2text-generation"}},
    {{"max_seq_length"},
     {"text-classification", "token-classification", "question-answering", "multiple-choice", "fill-mask",
      "text2text-generation", "contrastive-image-text", "sft", "dpo", "kto", "orpo", "cpo", "reward",
      "sentence-embedding", "text-ranking", "online-dpo", ""}},
    {{"loss", "loss_kwargs", "prompts", "batch_sampler", "multi_dataset_batch_sampler"},
     {"sentence-embedding", "text-ranking"}},
    {{"matryoshka_dims", "matryoshka_weights", "pooling_mode", "evaluator"}, {"sentence-embedding"}},
    {{"assistant_only_loss", "completion_only_loss", "packing", "packing_strategy", "eval_packing"}, {"sft"}},
    {{"chat_template_path"}, {"sft", "dpo", "kto", "orpo", "cpo", "reward", "grpo", "rloo", "online-dpo"}},
    {{"eos_token"}, {"sft", "dpo", "kto", "orpo", "cpo", "reward"}},
    {{"truncation_mode"}, {"sft", "dpo"}},
    {{"loss_type"}, {"sft", "dpo", "kto", "cpo", "grpo", "online-dpo"}},
    {{"loss_weights", "ld_alpha", "f_divergence_type", "f_alpha_divergence_coef", "use_weighting", "discopop_tau"},
     {"dpo"}},
    {{"beta"}, {"dpo", "kto", "orpo", "cpo", "grpo", "rloo", "online-dpo"}},
    {{"label_smoothing"}, {"dpo", "cpo"}},
    {{"desirable_weight", "undesirable_weight"}, {"kto"}},
    {{"cpo_alpha", "simpo_gamma", "alpha"}, {"cpo"}},
    {{"center_rewards_coefficient"}, {"reward"}},
    {{"disable_dropout"}, {"dpo", "kto", "orpo", "cpo", "reward", "grpo", "rloo", "online-dpo"}},
    {{"precompute_ref_log_probs", "precompute_ref_batch_size"}, {"dpo", "kto"}},
    {{"sync_ref_model", "ref_model_mixup_alpha", "ref_model_sync_steps"}, {"dpo", "kto", "grpo", "rloo", "online-dpo"}},
    {{"reward_funcs", "reward_model_name_or_path", "reward_weights", "num_generations", "num_generations_eval",
      "max_completion_length", "top_p", "top_k", "min_p", "repetition_penalty", "generation_kwargs",
      "chat_template_kwargs", "log_completions", "num_completions_to_print", "log_unique_prompts", "completions_file"},
     {"grpo", "rloo", "online-dpo"}},
    {{"generation_batch_size", "steps_per_generation", "num_iterations", "epsilon", "epsilon_high",
      "mask_truncated_completions", "rollout_quantization", "vllm_importance_sampling_correction",
      "vllm_importance_sampling_mode", "vllm_importance_sampling_clip_min", "vllm_importance_sampling_clip_max"},
     {"grpo", "rloo"}},
    {{"use_vllm"}, {"grpo"}},
    {{"delta", "importance_sampling_level", "scale_rewards", "multi_objective_aggregation", "use_bias_correction_kl",
      "off_policy_mask_threshold", "entropy_coef", "sapo_temperature_neg", "sapo_temperature_pos", "vespo_k_pos",
      "vespo_lambda_pos", "vespo_k_neg", "vespo_lambda_neg"},
     {"grpo"}},
    {{"normalize_advantages", "reward_clip_range"}, {"rloo"}},
    {{"block_size", "keep_linebreaks"}, {"text-generation"}},
    {{"random_crop_area"}, {"image-classification", "video-classification", "masked-image-modeling"}},
    {{"mask_ratio", "mask_patch_size", "norm_pix_loss", "base_learning_rate"}, {"masked-image-modeling"}},
    {{"image_column_name"},
     {"image-classification", "image-segmentation", "instance-segmentation", "object-detection",
      "masked-image-modeling"}},
    {{"image_height", "image_width", "do_reduce_labels"}, {"instance-segmentation"}},
    {{"random_flip"},
     {"image-classification", "video-classification", "image-segmentation", "instance-segmentation", "object-detection",
      "masked-image-modeling", "unconditional-image-generation", "text-to-image", "dreambooth"}},
    {{"image_processor_name"},
     {"image-classification", "video-classification", "image-segmentation", "instance-segmentation", "object-detection",
      "masked-image-modeling", "contrastive-image-text"}},
    {{"image_column", "caption_column"}, {"contrastive-image-text", "text-to-image", "text-to-image-control"}},
    {{"freeze_vision_model", "freeze_text_model"}, {"contrastive-image-text"}},
    {{"center_crop"}, {"unconditional-image-generation", "text-to-image", "dreambooth", "textual-inversion"}},
    {{"resolution", "prediction_type", "snr_gamma", "noise_offset", "input_perturbation", "dream_training",
      "dream_detail_preservation", "timestep_bias_strategy", "timestep_bias_multiplier", "timestep_bias_begin",
      "timestep_bias_end", "timestep_bias_portion", "use_ema", "ema_max_decay"},
     {"unconditional-image-generation", "text-to-image", "dreambooth", "textual-inversion", "text-to-image-control"}},
    {{"ema_inv_gamma", "ema_power", "ddpm_num_steps", "ddpm_beta_schedule"}, {"unconditional-image-generation"}},
    {{"scale_lr", "proportion_empty_prompts", "pretrained_vae_model_name_or_path"},
     {"text-to-image", "dreambooth", "textual-inversion", "text-to-image-control"}},
    {{"controlnet_model_name_or_path", "conditioning_image_column"}, {"text-to-image-control"}},
    {{"image_interpolation_mode"}, {"text-to-image", "dreambooth"}},
    {{"instance_prompt", "class_prompt", "class_data_dir", "with_prior_preservation", "prior_loss_weight",
      "num_class_images"},
     {"dreambooth"}},
    {{"repeats"}, {"dreambooth", "textual-inversion"}},
    {{"placeholder_token", "initializer_token", "num_vectors", "learnable_property", "save_as_full_pipeline"},
     {"textual-inversion"}},
    {{"weighting_scheme", "logit_mean", "logit_std", "mode_scale", "precondition_outputs", "guidance_scale",
      "max_sequence_length", "lora_blocks"},
     {"text-to-image", "dreambooth"}},
    {{"audio_column_name", "feature_extractor_name"},
     {"audio-classification", "automatic-speech-recognition", "text-to-speech"}},
    {{"freeze_feature_encoder"}, {"audio-classification", "automatic-speech-recognition"}},
    {{"max_length_seconds", "attention_mask"}, {"audio-classification"}},
    {{"chars_to_ignore",    "eval_metrics",       "max_duration_in_seconds", "min_duration_in_seconds",
      "unk_token",          "pad_token",          "word_delimiter_token",    "attention_dropout",
      "activation_dropout", "feat_proj_dropout",  "hidden_dropout",          "final_dropout",
      "mask_time_prob",     "mask_time_length",   "mask_feature_prob",       "mask_feature_length",
      "layerdrop",          "ctc_loss_reduction", "ctc_zero_infinity",       "add_adapter"},
     {"automatic-speech-recognition"}},
    {{"freeze_encoder", "apply_spec_augment", "do_lower_case", "language", "speech_task"},
     {"automatic-speech-recognition"}},
    {{"num_samples_to_print"},
     {"translation", "summarization", "text2text-generation", "automatic-speech-recognition", "sft"}},
    {{"max_ind_range"}, {"click-prediction"}},
    {{"source_lang", "target_lang", "source_prefix", "text_column", "summary_column", "max_source_length",
      "max_target_length", "val_max_target_length", "ignore_pad_token_for_loss", "num_beams", "span_corruption"},
     {"translation", "summarization", "text2text-generation"}},
    {{"predict_with_generate", "generation_num_beams"},
     {"translation", "summarization", "text2text-generation", "automatic-speech-recognition"}},
    {{"generation_max_length"},
     {"translation", "summarization", "text2text-generation", "automatic-speech-recognition", "sft"}},
    {{"text_column_names", "text_column_delimiter", "do_regression"}, {"text-classification"}},
    {{"metric_name"},
     {"text-classification", "image-classification", "video-classification", "audio-classification", ""}},
    {{"text_column_name"},
     {"text-classification", "token-classification", "fill-mask", "text-generation", "text2text-generation",
      "automatic-speech-recognition", "text-to-speech", "sft"}},
    {{"label_column_name"},
     {"text-classification", "token-classification", "image-classification", "video-classification",
      "image-segmentation", "instance-segmentation", "audio-classification", "click-prediction"}},
};

// Arguments that act where something else is asked for.
struct With {
  ArgumentNames names;
  std::string_view without;  // behind "has no effect"
  bool (*acts)(const Given& arguments);
};
// The other task whose evaluations write texts; without a name it is that of chats, which predict nothing else.
bool writes_answers(const Given& a) {
  return a.script.task.value_or("sft") == "sft" && !a.script.predict_with_generate;
}
const With kWith[] = {
    {{"lora_r", "lora_alpha", "lora_dropout", "lora_target_modules", "lora_modules_to_save", "lora_task_type",
      "lora_bias", "lora_rank_pattern", "lora_alpha_pattern", "use_rslora", "use_dora", "lora_blocks"},
     "without --use_peft",
     [](const Given& a) { return a.script.use_peft; }},
    {{"peft_type", "peft_config", "num_virtual_tokens", "prompt_tuning_init", "prompt_tuning_init_text",
      "encoder_hidden_size", "encoder_reparameterization_type", "prefix_projection", "feedforward_modules",
      "exclude_modules", "init_lora_weights", "init_r", "target_r", "tinit", "tfinal"},
     "without --use_peft",
     [](const Given& a) { return a.script.use_peft; }},
    {{"lora_r"}, "with this --peft_type", [](const Given& a) { return adapter_kind_takes(a.script.peft_type, "r"); }},
    {{"lora_alpha"},
     "with this --peft_type",
     [](const Given& a) {
       return adapter_kind_takes(a.script.peft_type, "lora_alpha") || adapter_kind_takes(a.script.peft_type, "alpha");
     }},
    {{"lora_dropout"},
     "with this --peft_type",
     [](const Given& a) { return adapter_kind_takes(a.script.peft_type, "lora_dropout"); }},
    {{"bnb_4bit_quant_type"}, "without --load_in_4bit", [](const Given& a) { return a.script.load_in_4bit; }},
    {{"ema_inv_gamma", "ema_power", "ema_max_decay"},
     "without --use_ema",
     [](const Given& a) { return a.script.use_ema; }},
    {{"dream_detail_preservation"}, "without --dream_training", [](const Given& a) { return a.script.dream_training; }},
    {{"timestep_bias_multiplier", "timestep_bias_portion", "timestep_bias_begin", "timestep_bias_end"},
     "without --timestep_bias_strategy",
     [](const Given& a) { return a.script.timestep_bias_strategy != "none"; }},
    {{"timestep_bias_begin", "timestep_bias_end"},
     "without --timestep_bias_strategy range",
     [](const Given& a) { return a.script.timestep_bias_strategy == "range"; }},
    {{"timestep_bias_portion"},
     "with --timestep_bias_strategy range",
     [](const Given& a) { return a.script.timestep_bias_strategy != "range"; }},
    {{"prior_loss_weight", "num_class_images"},
     "without --with_prior_preservation",
     [](const Given& a) { return a.script.with_prior_preservation; }},
    {{"early_stopping_threshold"},
     "without --early_stopping_patience",
     [](const Given& a) { return a.script.early_stopping_patience.has_value(); }},
    {{"early_stopping_patience", "eval_delay", "metric_for_best_model"},
     "without --eval_strategy",
     [](const Given& a) { return a.training.eval_strategy != "no"; }},
    {{"greater_is_better"},
     "without --eval_strategy",
     [](const Given& a) { return a.training.eval_strategy != "no" || a.training.metric_for_best_model.has_value(); }},
    {{"eval_steps"},
     "without --eval_strategy steps",
     [](const Given& a) { return a.training.eval_strategy == "steps"; }},
    {{"distillation_temperature", "distillation_weight"},
     "without --teacher_model",
     [](const Given& a) { return a.script.teacher_model.has_value(); }},
    {{"precompute_ref_batch_size"},
     "without --precompute_ref_log_probs",
     [](const Given& a) { return a.script.precompute_ref_log_probs; }},
    {{"ref_model_mixup_alpha", "ref_model_sync_steps"},
     "without --sync_ref_model",
     [](const Given& a) { return a.script.sync_ref_model; }},
    {{"num_completions_to_print", "log_unique_prompts"},
     "without --log_completions",
     [](const Given& a) { return a.script.log_completions; }},
    {{"vllm_importance_sampling_mode", "vllm_importance_sampling_clip_min", "vllm_importance_sampling_clip_max"},
     "without --vllm_importance_sampling_correction",
     [](const Given& a) { return a.script.vllm_importance_sampling_correction; }},
    {{"vllm_importance_sampling_correction", "vllm_importance_sampling_mode", "vllm_importance_sampling_clip_min",
      "vllm_importance_sampling_clip_max"},
     "without --rollout_quantization or --use_vllm",
     [](const Given& a) { return a.script.use_vllm || a.script.rollout_quantization != "none"; }},
    {{"f_alpha_divergence_coef"},
     "without --f_divergence_type alpha_divergence",
     [](const Given& a) { return a.script.f_divergence_type == "alpha_divergence"; }},
    {{"generation_max_length", "generation_num_beams", "num_beams", "num_samples_to_print"},
     "without --predict_with_generate",
     [](const Given& a) { return a.script.predict_with_generate || writes_answers(a); }},
    {{"generation_max_length"},
     "without --num_samples_to_print",
     [](const Given& a) { return a.script.num_samples_to_print || !writes_answers(a); }},
    {{"packing_strategy"},
     "without --packing",
     [](const Given& a) { return a.script.packing || a.script.eval_packing.value_or(false); }},
    {{"null_score_diff_threshold"},
     "without --version_2_with_negative",
     [](const Given& a) { return a.script.version_2_with_negative; }},
    {{"text_column_delimiter"},
     "without --text_column_names",
     [](const Given& a) { return a.script.text_column_names.has_value(); }},
    {{"shuffle_seed"},
     "without --shuffle_train_dataset",
     [](const Given& a) { return a.script.shuffle_train_dataset; }},
    {{"train_val_split"},
     "where a validation set is given, or nothing is evaluated",
     [](const Given& a) { return a.training.do_eval && !a.script.validation_dir && !a.script.validation_file; }},
    {{"validation_split_percentage"},
     "where a validation file is given, or nothing is evaluated",
     [](const Given& a) { return a.training.do_eval && !a.script.validation_file; }},
    {{"dashboard_host", "dashboard_runs"},
     "without --dashboard_port",
     [](const Given& a) { return a.script.dashboard_port.has_value(); }},
    {{"logging_steps"},
     "with this --logging_strategy",
     [](const Given& a) { return a.training.logging_strategy == "steps" || a.training.eval_strategy == "steps"; }},
    {{"save_steps"},
     "without --save_strategy steps",
     [](const Given& a) { return a.training.save_strategy == "steps"; }},
    {{"save_total_limit", "save_only_model"},
     "with --save_strategy no",
     [](const Given& a) { return a.training.save_strategy != "no"; }},
    {{"ignore_data_skip"},
     "without --resume_from_checkpoint",
     [](const Given& a) { return a.training.resume_from_checkpoint.has_value(); }},
    {{"logging_dir"}, "without --report_to tensorboard", [](const Given& a) { return !a.training.report_to.empty(); }},
    {{"adam_beta1", "adam_beta2"},
     "with this --optim",
     [](const Given& a) { return a.training.optim.starts_with("adamw") || a.training.optim.starts_with("lion"); }},
    {{"adam_epsilon"}, "with this --optim", [](const Given& a) { return a.training.optim.starts_with("adamw"); }},
    {{"warmup_steps", "warmup_ratio"},
     "with this --lr_scheduler_type, which has no warm-up",
     [](const Given& a) {
       return a.training.lr_scheduler_type != "constant" && a.training.lr_scheduler_type != "reduce_lr_on_plateau";
     }},
    {{"activation_checkpointing_kwargs"},
     "without --activation_checkpointing",
     [](const Given& a) { return a.training.activation_checkpointing; }},
    {{"length_column_name"},
     "without --train_sampling_strategy group_by_length",
     [](const Given& a) { return a.training.train_sampling_strategy == "group_by_length"; }},
    {{"sequence_parallel"}, "without --tp_size", [](const Given& a) { return a.training.tp_size > 1; }},
    {{"pipeline_schedule", "pp_chunks"}, "without --pp_size", [](const Given& a) { return a.training.pp_size > 1; }},
    {{"cp_strategy"}, "without --cp_size", [](const Given& a) { return a.training.cp_size > 1; }},
    {{"config_name"},
     "beside --model_name_or_path, whose configuration it is",
     [](const Given& a) { return a.script.model_name_or_path.empty(); }},
    {{"config_overrides"},
     "beside --model_name_or_path: it changes the configuration of a new model",
     [](const Given& a) { return a.script.model_name_or_path.empty(); }},
};

constexpr NeverActs kNever[] = {
    {"eval_accumulation_steps", "the outputs of each batch are moved to the host at once"},
    {"full_determinism", "every run gives the same bits"},
    {"label_names", "the task knows its labels"},
    {"remove_unused_columns", "the task takes the columns that it needs"},
    {"run_name", "no report has a place for it"},
    {"torch_compile", "models are compiled in any case; a device may take it for a mode of its own"},
};

// ArgumentNames of the fields that are not as they are where nothing is given.
std::set<std::string> given_names(const Given& arguments) {
  Given given = arguments, defaults;
  std::set<std::string> names;
  for (const auto& [values, usual] :
       {std::pair(write_fields({training_table(), &given.training}),
                  write_fields({training_table(), &defaults.training})),
        std::pair(write_fields({script_table(), &given.script}), write_fields({script_table(), &defaults.script}))})
    for (const auto& [name, value] : values.items())
      if (value != usual.at(name)) names.insert(name);
  return names;
}

}  // namespace

std::vector<NeverActs> arguments_that_never_act() { return {std::begin(kNever), std::end(kNever)}; }

std::vector<std::string> without_effect(const TrainArguments& arguments, std::string_view task) {
  std::set<std::string> given = given_names(arguments);
  std::vector<std::string> sentences;
  // Each is told one reason.
  const auto tell = [&](const ArgumentNames& names, std::string_view why) {
    std::vector<std::string> found;
    for (const std::string_view name : names)
      if (given.erase(std::string(name)) > 0) found.emplace_back(name);
    if (!found.empty())
      sentences.push_back(
          fmt::format("{} {} no effect{}", fmt::join(found, ", "), found.size() == 1 ? "has" : "have", why));
  };
  for (const auto& [name, reason] : kNever) tell({name}, fmt::format(": {}", reason));
  const std::string where = task.empty() ? " on rows of input_ids" : fmt::format(" in {}", task);
  ArgumentNames of_others;
  for (const auto& [names, tasks] : kOfTasks)
    if (std::find(tasks.begin(), tasks.end(), task) == tasks.end())
      of_others.insert(of_others.end(), names.begin(), names.end());
  tell(of_others, where);
  for (const auto& [names, without, acts] : kWith)
    if (!acts(arguments)) tell(names, fmt::format(" {}", without));
  return sentences;
}

}  // namespace transom
