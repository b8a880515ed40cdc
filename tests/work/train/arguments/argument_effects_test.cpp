// SPDX-License-Identifier: Apache-2.0
// Each argument of training, tried: a run that has it is not the run that has it not. Those that cannot be tried in one
// process on this device say where they are tried.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/files/files.h"
#include "support/kept_log.h"
#include "support/message.h"
#include "transom/fine_tuning.h"
#include "work/train/arguments/argument_tables.h"
#include "work/train/arguments/effects.h"
#include "work/train/tiny_model.h"

namespace transom {
namespace {

using Flags = std::vector<std::string>;

struct Tried {
  Flags flags;   // with the argument
  Flags beside;  // what both runs have
};

// What the runs are: rows with two labels, six updates of two rows.
const std::map<std::string_view, Tried> kTried = {
    {"per_device_train_batch_size", {{"--per_device_train_batch_size", "4"}, {}}},
    {"num_train_epochs", {{"--num_train_epochs", "1"}, {"--max_steps=-1"}}},
    {"max_steps", {{"--max_steps", "3"}, {}}},
    {"learning_rate", {{"--learning_rate", "0.02"}, {}}},
    {"lr_scheduler_type", {{"--lr_scheduler_type", "cosine"}, {}}},
    {"lr_scheduler_kwargs",
     {{"--lr_scheduler_kwargs", R"({"num_cycles": 3})"}, {"--lr_scheduler_type", "cosine_with_restarts"}}},
    {"warmup_steps", {{"--warmup_steps", "3"}, {}}},
    {"warmup_ratio", {{"--warmup_ratio", "0.5"}, {}}},
    {"optim", {{"--optim", "sgd"}, {}}},
    {"optim_args", {{"--optim_args", "momentum=0.9"}, {"--optim", "sgd"}}},
    {"weight_decay", {{"--weight_decay", "0.9"}, {}}},
    {"adam_beta1", {{"--adam_beta1", "0.5"}, {}}},
    {"adam_beta2", {{"--adam_beta2", "0.5"}, {}}},
    {"adam_epsilon", {{"--adam_epsilon", "0.1"}, {}}},
    {"gradient_accumulation_steps", {{"--gradient_accumulation_steps", "2"}, {}}},
    {"max_grad_norm", {{"--max_grad_norm", "0.001"}, {"--optim", "sgd"}}},
    {"label_smoothing_factor", {{"--label_smoothing_factor", "0.3"}, {}}},
    {"neftune_noise_alpha", {{"--neftune_noise_alpha", "5"}, {}}},
    {"bf16", {{"--bf16"}, {}}},
    {"fp16", {{"--fp16"}, {}}},
    {"bf16_full_eval", {{"--bf16_full_eval"}, {"--do_eval"}}},
    {"fp16_full_eval", {{"--fp16_full_eval"}, {}}},
    {"logging_strategy", {{"--logging_strategy", "epoch"}, {}}},
    {"logging_steps", {{"--logging_steps", "2"}, {}}},
    {"logging_first_step", {{"--logging_first_step"}, {"--logging_steps", "4"}}},
    {"include_num_input_tokens_seen", {{"--include_num_input_tokens_seen", "all"}, {}}},
    {"report_to", {{"--report_to", "tensorboard"}, {}}},
    {"logging_dir", {{"--logging_dir", "OUT/board"}, {"--report_to", "tensorboard"}}},
    {"skip_memory_metrics", {{"--skip_memory_metrics", "false"}, {}}},
    {"eval_strategy", {{"--eval_strategy", "steps"}, {}}},
    {"eval_steps", {{"--eval_steps", "3"}, {"--eval_strategy", "steps"}}},
    {"eval_delay", {{"--eval_delay", "4"}, {"--eval_strategy", "steps", "--eval_steps", "2"}}},
    {"per_device_eval_batch_size", {{"--per_device_eval_batch_size", "1"}, {"--do_eval"}}},
    {"prediction_loss_only", {{"--prediction_loss_only"}, {"--do_eval"}}},
    {"eval_on_start", {{"--eval_on_start"}, {"--eval_strategy", "epoch"}}},
    {"save_strategy", {{"--save_strategy", "epoch"}, {}}},
    {"save_steps", {{"--save_steps", "2"}, {"--save_strategy", "steps"}}},
    {"save_total_limit", {{"--save_total_limit", "1"}, {"--save_strategy", "steps", "--save_steps", "2"}}},
    {"save_only_model", {{"--save_only_model"}, {"--save_strategy", "steps", "--save_steps", "2"}}},
    {"load_best_model_at_end",
     {{"--load_best_model_at_end"},
      {"--eval_strategy", "steps", "--eval_steps", "2", "--save_strategy", "steps", "--save_steps", "2",
       "--metric_for_best_model", "loss", "--greater_is_better", "true"}}},
    {"metric_for_best_model",
     {{"--metric_for_best_model", "accuracy"},
      {"--eval_strategy", "steps", "--eval_steps", "2", "--save_strategy", "steps", "--save_steps", "2",
       "--load_best_model_at_end"}}},
    {"greater_is_better",
     {{"--greater_is_better", "true"},
      {"--eval_strategy", "steps", "--eval_steps", "2", "--save_strategy", "steps", "--save_steps", "2",
       "--load_best_model_at_end"}}},
    {"seed", {{"--seed", "7"}, {}}},
    {"data_seed", {{"--data_seed", "7"}, {}}},
    {"dataloader_drop_last", {{"--dataloader_drop_last"}, {"--per_device_train_batch_size", "5"}}},
    {"train_sampling_strategy", {{"--train_sampling_strategy", "sequential"}, {}}},
    {"max_predictions_per_seq", {{"--max_predictions_per_seq", "1"}, {}}},
    {"do_eval", {{"--do_eval"}, {}}},
    {"do_predict", {{"--do_predict"}, {"--test_file", "VALID"}}},
    {"activation_checkpointing_kwargs",
     {{"--activation_checkpointing_kwargs", R"({"offload": true})"}, {"--activation_checkpointing"}}},
};

const std::map<std::string_view, std::string_view> kElsewhere = {
    {"output_dir", "every run here"},
    {"do_train", "every run here"},
    {"use_cpu", "the device here is the cpu"},
    {"inference_mode", "the same numbers in each mode: tests/work/train/loop/throughput_test.cpp"},
    {"throughput_warmup_steps", "rates, which differ from run to run: tests/work/train/loop/throughput_test.cpp"},
    {"adjust_throughput", "rates, which differ from run to run: tests/work/train/loop/throughput_test.cpp"},
    {"tf32", "devices that have it: tests/runtime/device"},
    {"activation_checkpointing", "memory, not numbers: tests/graph/autodiff"},
    {"padding_free", "memory and time, not numbers: tests/work/train/tasks/chats"},
    {"average_tokens_across_devices", "several processes: tests/runtime/distributed"},
    {"distillation_temperature", "tests/work/train/loop/distillation_test.cpp"},
    {"distillation_weight", "tests/work/train/loop/distillation_test.cpp"},
    {"logging_nan_inf_filter", "losses that are not finite: tests/work/train/loop/trainer_test.cpp"},
    {"log_level", "the program's messages: tests/apps/cli"},
    {"disable_tqdm", "the program's bar: tests/apps/cli"},
    {"resume_from_checkpoint", "tests/work/train/loop/trainer_test.cpp"},
    {"ignore_data_skip", "tests/work/train/loop/trainer_test.cpp"},
    {"length_column_name", "rows of input_ids: tests/inputs/data/tokenised_rows_test.cpp"},
    {"ddp_backend", "several processes: tests/runtime/distributed"},
    {"ddp_bucket_cap_mb", "several processes: tests/runtime/distributed"},
    {"ddp_timeout", "several processes: tests/runtime/distributed"},
    {"zero_stage", "several processes: tests/models/sharding"},
    {"fsdp", "several processes: tests/models/sharding"},
    {"fsdp_config", "several processes: tests/models/sharding"},
    {"offload_optimizer_device", "memory, not numbers: tests/work/train/loop/offloaded_update_test.cpp"},
    {"tp_size", "several processes: tests/models/sharding"},
    {"sequence_parallel", "several processes: tests/models/sharding"},
    {"pp_size", "several processes: tests/models/sharding"},
    {"pipeline_schedule", "several processes: tests/models/sharding"},
    {"pp_chunks", "several processes: tests/models/sharding"},
    {"cp_size", "several processes: tests/models/sharding"},
    {"cp_strategy", "several processes: tests/models/sharding"},
    {"ep_size", "several processes: tests/models/sharding"},
    {"parameter_check_steps", "several processes: tests/work/train/loop/parameter_check_test.cpp"},
};

// All that a run leaves and says, but for times.
std::string run(const TinyModel& model, const Flags& flags) {
  const std::filesystem::path out = model.path() / "run";
  std::filesystem::remove_all(out);
  const auto named = [&](const std::string& name) { return (model.path() / name).string(); };
  const std::pair<std::string, std::string> base[] = {{"--model_name_or_path", named("")},
                                                      {"--output_dir", out.string()},
                                                      {"--task", "text-classification"},
                                                      {"--train_file", named("train.csv")},
                                                      {"--validation_file", named("valid.csv")},
                                                      {"--max_steps", "6"},
                                                      {"--per_device_train_batch_size", "2"},
                                                      {"--logging_steps", "1"},
                                                      {"--learning_rate", "0.01"},
                                                      {"--save_strategy", "no"}};
  Flags all = {"--do_train"};
  for (const auto& pair : base) {
    const std::string &name = pair.first, &value = pair.second;
    if (std::none_of(flags.begin(), flags.end(),
                     [&](const std::string& flag) { return flag == name || flag.starts_with(name + "="); }))
      all.insert(all.end(), {name, value});
  }
  for (const std::string& flag : flags)
    all.push_back(flag.starts_with("OUT/") ? (out / flag.substr(4)).string()
                  : flag == "VALID"        ? named("valid.csv")
                                           : flag);
  const test::KeptLog log;
  std::string result = test::message_of([&] { fine_tune(parse_train_arguments(all)); }) + "\n" + log.text();
  if (!std::filesystem::exists(out)) return result;
  std::set<std::string> lines;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(out)) {
    const std::string name = entry.path().lexically_relative(out).string(), file = entry.path().filename().string();
    if (!entry.is_regular_file() || file == "training_args.json" || file == "training_curve.svg") continue;
    const bool events = file.starts_with("events.");
    lines.insert(events ? entry.path().parent_path().lexically_relative(out).string() + "/events" : name);
    if (events) continue;
    std::string text = read_file(entry.path());
    if (entry.path().extension() == ".json") {
      std::string kept;
      for (size_t begin = 0; begin < text.size();) {
        const size_t end = std::min(text.find('\n', begin), text.size());
        const std::string line = text.substr(begin, end - begin);
        if (line.find("_runtime\"") == line.npos && line.find("_per_second\"") == line.npos) kept += line;
        begin = end + 1;
      }
      text = kept;
    }
    lines.insert(name + ": " + std::to_string(std::hash<std::string>()(text)));
  }
  for (const std::string& line : lines) result += line + "\n";
  return result;
}

TEST(ArgumentEffects, EachArgumentOfTrainingChangesARun) {
  const TinyModel model(R"(, "hidden_dropout_prob": 0.1)");
  model.write(
      "train.csv",
      "text,label\nAnn went to Rome,a\nthe tower is old,b\nwho,a\nRome,b\nAnn is old,a\nvery old,b\nto Rome,a\n");
  model.write("valid.csv", "text,label\nAnn went,a\nthe tower,b\nis Rome old,a\n");
  // The same run twice is the same: otherwise nothing is shown.
  ASSERT_EQ(run(model, {}), run(model, {}));
  std::set<std::string_view> never;
  for (const NeverActs& each : arguments_that_never_act()) never.insert(each.name);
  for (const Argument& argument : training_table()) {
    if (argument.kind != Argument::Kind::kField) continue;
    const auto tried = kTried.find(argument.name);
    EXPECT_EQ((tried != kTried.end()) + kElsewhere.count(argument.name) + never.count(argument.name), 1u)
        << argument.name << ": is tried here, or elsewhere, or known to do nothing";
    if (tried == kTried.end()) continue;
    Flags with = tried->second.beside;
    with.insert(with.end(), tried->second.flags.begin(), tried->second.flags.end());
    EXPECT_NE(run(model, with), run(model, tried->second.beside)) << argument.name << " changes nothing";
  }
}

}  // namespace
}  // namespace transom
