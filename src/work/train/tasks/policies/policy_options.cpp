// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/policies/policy_options.h"

#include <algorithm>

#include "base/error.h"
#include "runtime/distributed/process_group.h"
#include "transom/distributed.h"
#include "work/train/setup/sharding_layout.h"

namespace transom {
namespace {

const std::vector<std::string> kPolicyLosses = {"grpo", "bnpo", "dr_grpo", "dapo", "luspo", "cispo", "sapo", "vespo"};

const std::vector<std::string> kPairLosses = {"sigmoid", "ipo"};

bool is_leave_one_out(const ScriptArguments& script) { return script.task == "rloo"; }
bool is_of_pairs(const ScriptArguments& script) { return script.task == kOnlinePreferences; }

std::string policy_loss_of(const ScriptArguments& script) {
  const std::vector<std::string>& known = is_of_pairs(script) ? kPairLosses : kPolicyLosses;
  if (script.loss_type.empty()) return is_of_pairs(script) ? "sigmoid" : "dapo";
  const std::string& type = script.loss_type[0];
  if (script.loss_type.size() == 1 && std::find(known.begin(), known.end(), type) != known.end()) return type;
  fail(ErrorKind::kUsage, "--loss_type: expected one of {}, found {}{}", fmt::join(known, ", "),
       fmt::join(script.loss_type, ", "), did_you_mean(type, known));
}

// Two completions of each prompt of a batch, which stay together.
GenerationPlan plan_of_pairs(GenerationPlan plan, const TrainArguments& arguments) {
  const ScriptArguments& script = arguments.script;
  for (const auto& [name, given] : {std::pair("num_generations", script.num_generations),
                                    std::pair("num_generations_eval", script.num_generations_eval)})
    if (given.value_or(2) != 2)
      fail(ErrorKind::kUsage, "--{}: a preference is of 2 completions, found {}", name, *given);
  plan.generations = plan.evaluated_generations = 2;
  plan.batch_rows *= 2, plan.evaluated_rows *= 2;
  plan.steps = plan.iterations = 1;
  plan.keeps_order = true;
  plan.masks_truncated = false;  // which TRL knows for grpo and rloo alone
  return plan;
}

}  // namespace

PolicyLossOptions policy_loss_options(const TrainArguments& arguments) {
  const ScriptArguments& script = arguments.script;
  PolicyLossOptions options;
  options.leave_one_out = is_leave_one_out(script);
  options.type = options.leave_one_out ? "rloo" : policy_loss_of(script);
  options.beta = script.beta;
  options.epsilon_low = script.epsilon;
  options.epsilon_high = script.epsilon_high.value_or(script.epsilon);
  options.delta = script.delta;
  options.off_policy_threshold = script.off_policy_mask_threshold;
  options.of_sequences = script.importance_sampling_level == "sequence";
  options.corrects_divergence = script.use_bias_correction_kl;
  options.entropy_coefficient = script.entropy_coef;
  options.of_pairs = is_of_pairs(script);
  options.temperature = options.of_pairs ? 1 : script.temperature.value_or(1);  // as TRL: pairs are judged without it
  options.most_tokens = script.max_completion_length;
  options.sapo_negative = script.sapo_temperature_neg, options.sapo_positive = script.sapo_temperature_pos;
  options.k_positive = script.vespo_k_pos, options.lambda_positive = script.vespo_lambda_pos;
  options.k_negative = script.vespo_k_neg, options.lambda_negative = script.vespo_lambda_neg;
  options.drops_out = !script.disable_dropout;
  return options;
}

AdvantageOptions advantage_options(const TrainArguments& arguments, size_t rewards) {
  const ScriptArguments& script = arguments.script;
  AdvantageOptions options;
  options.leave_one_out = is_leave_one_out(script);
  options.weights = script.reward_weights;
  if (options.weights.empty()) options.weights.assign(rewards, 1);
  if (options.weights.size() != rewards)
    fail(ErrorKind::kUsage, "--reward_weights: expected {}, one for each reward, found {}", rewards,
         options.weights.size());
  const std::string& scale = script.scale_rewards;
  options.scale = scale == "batch"                                          ? AdvantageOptions::Scale::kBatch
                  : scale == "none" || scale == "false" || scale == "False" ? AdvantageOptions::Scale::kNone
                                                                            : AdvantageOptions::Scale::kGroup;
  options.normalizes_each = script.multi_objective_aggregation == "normalize_then_sum";
  options.normalizes = script.normalize_advantages;
  if (const auto& range = script.reward_clip_range; !range.empty()) {
    if (range.size() != 2 || !(range[0] <= range[1]))
      fail(ErrorKind::kUsage, "--reward_clip_range: expected two numbers, the smaller one first, found {}",
           fmt::join(range, ", "));
    options.clip.emplace(range[0], range[1]);
  }
  options.beta = script.beta;
  return options;
}

GenerationPlan generation_plan(const TrainArguments& arguments) {
  const ScriptArguments& script = arguments.script;
  const TrainingArguments& training = arguments.training;
  GenerationPlan plan;
  plan.generations = script.num_generations.value_or(is_leave_one_out(script) ? 2 : 8);
  plan.evaluated_generations = script.num_generations_eval.value_or(plan.generations);
  plan.batch_rows = training.per_device_train_batch_size;
  plan.evaluated_rows = training.per_device_eval_batch_size;
  if (const ShardingLayout layout = sharding_layout(training, process_count());
      process_count() > 1 && layout.shards()) {
    if (layout.size(MeshAxis::kContext) > 1)
      fail(ErrorKind::kUsage, "--cp_size: completions of policies are not cut along their tokens; use --zero_stage");
    const int64_t parts = layout.size(MeshAxis::kData) * layout.size(MeshAxis::kShard) * layout.size(MeshAxis::kExpert);
    plan.batch_rows *= parts, plan.evaluated_rows *= parts;
    plan.writers = process_count(), plan.writer = process_rank();
  } else {
    plan.processes = process_count(), plan.process = process_rank();
  }
  plan.seed = training.seed;
  plan.shuffles = training.train_sampling_strategy == "random";
  plan.masks_truncated = script.mask_truncated_completions;
  plan.iterations = script.num_iterations;
  if (training.padding_free.value_or(false))
    fail(ErrorKind::kUsage, "--padding_free: completions are padded; leave it out");
  if (is_of_pairs(script) && training.train_sampling_strategy != "group_by_length")
    return plan_of_pairs(std::move(plan), arguments);
  if (plan.generations < 2)
    fail(ErrorKind::kUsage, "--num_generations: expected at least 2, which are compared with each other, found {}",
         plan.generations);
  if (training.train_sampling_strategy == "group_by_length")
    fail(ErrorKind::kUsage,
         "--train_sampling_strategy: expected random or sequential, found group_by_length: prompts "
         "stand together with their completions");
  const int64_t at_once = plan.batch_rows * plan.processes;
  if (script.generation_batch_size && script.steps_per_generation)
    fail(ErrorKind::kUsage,
         "--generation_batch_size, --steps_per_generation: one follows from the other; leave one out");
  if (script.generation_batch_size && *script.generation_batch_size % at_once != 0)
    fail(ErrorKind::kUsage, "--generation_batch_size: expected a multiple of the {} rows of a batch, found {}", at_once,
         *script.generation_batch_size);
  plan.steps = script.generation_batch_size
                   ? *script.generation_batch_size / at_once
                   : script.steps_per_generation.value_or(training.gradient_accumulation_steps);
  if (training.do_train && plan.rows_of_generation() % plan.generations != 0)
    fail(ErrorKind::kUsage,
         "--num_generations: {} completions are written at once (per_device_train_batch_size {} x steps_per_generation "
         "{}{}), which is no multiple of {}",
         plan.rows_of_generation(), plan.batch_rows, plan.steps,
         plan.processes > 1 ? fmt::format(" x {} processes", plan.processes) : "", plan.generations);
  const bool evaluates = training.do_eval || training.eval_strategy != "no";
  if (evaluates && plan.evaluated_rows * plan.processes % plan.evaluated_generations != 0)
    fail(ErrorKind::kUsage, "--per_device_eval_batch_size: expected a multiple of num_generations_eval {}, found {}",
         plan.evaluated_generations, plan.evaluated_rows * plan.processes);
  return plan;
}

RolloutCorrection rollout_correction(const TrainArguments& arguments) {
  const ScriptArguments& script = arguments.script;
  const bool rounds = script.rollout_quantization != "none";
  if (rounds && is_of_pairs(script))
    fail(ErrorKind::kUsage,
         "--rollout_quantization: expected none, found {}: a preference has no ratio of probabilities that what it "
         "changes could be corrected by",
         script.rollout_quantization);
  RolloutCorrection correction;
  const bool compares = rounds || (script.use_vllm && !is_leave_one_out(script) && !is_of_pairs(script));
  correction.on = compares && script.vllm_importance_sampling_correction;
  if (!correction.on) return correction;
  const std::string& mode = script.vllm_importance_sampling_mode;
  correction.of_sequences = mode.starts_with("sequence");
  correction.masks = mode.ends_with("mask");
  correction.least = script.vllm_importance_sampling_clip_min,
  correction.most = script.vllm_importance_sampling_clip_max;
  if (correction.least && correction.most && *correction.least >= *correction.most)
    fail(ErrorKind::kUsage,
         "--vllm_importance_sampling_clip_min: expected less than vllm_importance_sampling_clip_max {}, found {}",
         *correction.most, *correction.least);
  if (!correction.masks && !correction.least && !correction.most)
    fail(ErrorKind::kUsage,
         "--vllm_importance_sampling_mode {}: expected vllm_importance_sampling_clip_min or "
         "vllm_importance_sampling_clip_max, which weights are cut to, found neither",
         mode);
  if (is_leave_one_out(script) && !correction.of_sequences)
    fail(ErrorKind::kUsage,
         "--vllm_importance_sampling_mode: the losses of rloo are of completions: expected sequence_mask or "
         "sequence_truncate, found {}",
         mode);
  if (policy_loss_of(script) == "vespo" && correction.of_sequences)
    fail(ErrorKind::kUsage,
         "--vllm_importance_sampling_mode: the weights of vespo are of tokens: expected token_truncate or token_mask, "
         "found {}",
         mode);
  return correction;
}

bool keeps_old_probabilities(const TrainArguments& arguments, const GenerationPlan& plan,
                             const RolloutCorrection& correction) {
  if (is_of_pairs(arguments.script)) return false;
  return correction.on || is_leave_one_out(arguments.script) ||
         arguments.training.gradient_accumulation_steps % plan.batches_of_generation() != 0;
}

}  // namespace transom
