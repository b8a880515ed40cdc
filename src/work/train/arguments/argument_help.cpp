// SPDX-License-Identifier: Apache-2.0
// What `train --help` and `evaluate --help` print: examples, the arguments that are used most, then all others by
// section.
#include <algorithm>
#include <set>

#include "work/train/arguments/argument_tables.h"
#include "work/train/arguments/device_arguments.h"
#include "work/train/arguments/foreign_configs.h"

namespace transom {
namespace {

using Names = std::set<std::string_view>;

constexpr std::string_view kTrainUsage =
    R"(Usage: transom train --model_name_or_path MODEL --train_file FILE --output_dir DIRECTORY [ARGUMENT ...]
       transom train --config ARGUMENTS.json [ARGUMENT ...]

Examples:
  transom train --model_name_or_path bert-base-uncased --train_file train.csv --output_dir out
  transom train --model_name_or_path MODEL --train_file train.csv --validation_file dev.csv --output_dir out \
    --num_train_epochs 3 --learning_rate 5e-5 --per_device_train_batch_size 32 --eval_strategy epoch
  transom train --task fill-mask --model_name_or_path MODEL --train_file text.txt --output_dir out
  transom train --task sentence-embedding --model_name_or_path MODEL --train_file pairs.jsonl \
    --loss MultipleNegativesRankingLoss --output_dir out
  transom train --model_name_or_path MODEL --train_dir images --output_dir out
  transom train --task text-generation --model_name_or_path MODEL --train_file text.txt --output_dir out \
    --use_peft --peft_type PROMPT_TUNING --num_virtual_tokens 20
  transom train --task text-to-image --model_name_or_path PIPELINE --train_dir pictures --use_peft \
    --output_dir out
  transom train --task dreambooth --model_name_or_path PIPELINE --train_dir dog \
    --instance_prompt "a photo of sks dog" --output_dir out --max_steps 400
  transom train --config args.json --resume_from_checkpoint
)";

constexpr std::string_view kEvaluateUsage =
    R"(Usage: transom evaluate --model_name_or_path MODEL --validation_file FILE [ARGUMENT ...]
       transom evaluate --config ARGUMENTS.json [ARGUMENT ...]

Examples:
  transom evaluate --model_name_or_path out --validation_file dev.csv --output_dir scores
  transom evaluate --model_name_or_path out --validation_file dev.csv --quantization int8
  transom evaluate --model_name_or_path out --validation_dir images
A file of arguments for train is taken too; what is about training in it has no effect.
)";

const std::vector<std::string_view> kMostUsedInTraining = {"model_name_or_path",
                                                           "task",
                                                           "train_file",
                                                           "validation_file",
                                                           "output_dir",
                                                           "num_train_epochs",
                                                           "per_device_train_batch_size",
                                                           "learning_rate",
                                                           "max_steps",
                                                           "max_seq_length",
                                                           "eval_strategy",
                                                           "logging_steps",
                                                           "save_steps",
                                                           "resume_from_checkpoint",
                                                           "overwrite_output_dir",
                                                           "bf16",
                                                           "device",
                                                           "json"};
const std::vector<std::string_view> kMostUsedInEvaluation = {
    "model_name_or_path",         "task",           "validation_file", "output_dir",
    "per_device_eval_batch_size", "max_seq_length", "device",          "json"};

const Names kOnlyEvaluation = {"quantization"};
const Names kSectionsOfTraining = {"Learning rate", "Optimizer",      "Distillation", "Regularisation and stability",
                                   "Checkpoints",   "Early stopping", "Adapters",     "Random numbers",
                                   "Policies"};
const Names kOnlyTraining = {
    // Of the model and its files
    "config_name", "config_overrides", "teacher_model", "load_in_4bit", "load_in_8bit", "bnb_4bit_quant_type",
    "ignore_mismatched_sizes", "overfit_batch", "train_file", "train_dir", "dashboard", "dashboard_port",
    "dashboard_host", "dashboard_runs", "train_val_split", "max_train_samples", "overwrite_output_dir",
    "shuffle_train_dataset", "shuffle_seed",
    // Of tasks
    "random_crop_area", "random_flip", "mask_ratio", "mask_patch_size", "norm_pix_loss", "base_learning_rate",
    "freeze_feature_encoder", "freeze_encoder", "apply_spec_augment", "attention_dropout", "activation_dropout",
    "feat_proj_dropout", "hidden_dropout", "final_dropout", "mask_time_prob", "mask_time_length", "mask_feature_prob",
    "mask_feature_length", "layerdrop", "add_adapter", "freeze_vision_model", "freeze_text_model", "sync_ref_model",
    "ref_model_mixup_alpha", "ref_model_sync_steps",
    // Of the loop
    "per_device_train_batch_size", "num_train_epochs", "max_steps", "activation_checkpointing",
    "activation_checkpointing_kwargs", "max_predictions_per_seq", "logging_strategy", "logging_steps",
    "logging_first_step", "logging_nan_inf_filter", "logging_dir", "include_num_input_tokens_seen", "report_to",
    "run_name", "eval_strategy", "eval_steps", "eval_delay", "eval_on_start", "ddp_bucket_cap_mb", "do_train",
    "do_eval", "fp16", "throughput_warmup_steps", "adjust_throughput"};

class Help {
 public:
  Help(std::string_view usage, bool of_training) : devices_(device_table(of_training)), text_(usage) {}

  void most_used(const std::vector<std::string_view>& names) {
    text_ += "\nMost used\n";
    for (const std::string_view name : names)
      for (const BoundTable& bound : tables_)
        for (const Argument& argument : bound.table)
          if (argument.kind == Argument::Kind::kField && argument.name == name)
            text_ += describe({{&argument, 1}, bound.record});
    shown_.insert(names.begin(), names.end());
  }

  // All others, without these sections and names.
  std::string rest(const Names& sections, const Names& names) {
    for (const BoundTable& bound : tables_) {
      std::vector<Argument> kept;
      std::string_view section;
      for (const Argument& argument : bound.table) {
        if (argument.kind == Argument::Kind::kSection) {
          if (!kept.empty() && kept.back().kind == Argument::Kind::kSection) kept.pop_back();
          section = argument.name;
          kept.push_back(argument);
        } else if (argument.kind == Argument::Kind::kField && !sections.contains(section) &&
                   !names.contains(argument.name) && !shown_.contains(argument.name)) {
          kept.push_back(argument);
        }
      }
      if (!kept.empty() && kept.back().kind == Argument::Kind::kSection) kept.pop_back();
      text_ += describe({kept, bound.record});
    }
    return text_;
  }

 private:
  TrainArguments defaults_;
  ForeignConfigs no_configs_;
  const std::vector<Argument> devices_;
  // What trains most first.
  const std::vector<BoundTable> tables_ = {{training_table(), &defaults_.training},
                                           {script_table(), &defaults_.script},
                                           {devices_, &defaults_.training.device_arguments},
                                           {foreign_table(), &no_configs_}};
  std::string text_;
  Names shown_;
};

}  // namespace

std::string train_help() {
  Help help(kTrainUsage, true);
  help.most_used(kMostUsedInTraining);
  return help.rest({}, kOnlyEvaluation);
}

std::string evaluate_help() {
  Help help(kEvaluateUsage, false);
  help.most_used(kMostUsedInEvaluation);
  return help.rest(kSectionsOfTraining, kOnlyTraining);
}

}  // namespace transom
