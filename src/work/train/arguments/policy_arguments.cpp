// SPDX-License-Identifier: Apache-2.0
// The arguments of policy training, by TRL's names.
#include "work/train/arguments/policy_arguments.h"

namespace transom {
namespace {

using P = ScriptArguments;

constexpr std::string_view kOwnEngine =
    "completions are written by the engine of this process, on the weights in place";

const Argument kPolicyArguments[] = {
    section("Policies"),
    field<&P::reward_funcs>("reward_funcs",
                            "What completions are rewarded for: names, and what each needs behind a colon "
                            "(number:answer, pattern:REGEX, command:PROGRAM, a directory of a reward model ...)."),
    field<&P::reward_model_name_or_path>("reward_model_name_or_path", "A reward model, beside reward_funcs."),
    field<&P::reward_weights>("reward_weights", "Weight of each reward (default: 1)."),
    field<&P::num_generations>("num_generations", "Completions of a prompt (default: 8; rloo: 2).").at_least(1),
    field<&P::num_generations_eval>("num_generations_eval", "The same in evaluations.").at_least(1),
    field<&P::max_completion_length>("max_completion_length", "Longest completion in tokens.").at_least(1),
    field<&P::generation_batch_size>("generation_batch_size",
                                     "Completions that are written at once, by all processes (default: those of an "
                                     "update).")
        .at_least(1),
    field<&P::steps_per_generation>("steps_per_generation",
                                    "Batches that completions which are written at once are learnt in.")
        .at_least(1),
    field<&P::num_iterations>("num_iterations", "How often completions are learnt from.").at_least(1),
    field<&P::temperature>("temperature",
                           "Temperature of the completions that a policy writes (default: 1); of other tasks another "
                           "name of distillation_temperature.")
        .above(0),
    field<&P::top_p>("top_p", "Completions are drawn from the likeliest tokens of this probability.")
        .above(0)
        .at_most(1),
    field<&P::top_k>("top_k", "Completions are drawn from so many likeliest tokens; 0: from all.").at_least(0),
    field<&P::min_p>("min_p", "Least probability of a token, as a part of the likeliest one's.").at_least(0).at_most(1),
    field<&P::repetition_penalty>("repetition_penalty", "Penalty on tokens that a text has already.").above(0),
    field<&P::generation_kwargs>("generation_kwargs", "Further fields of the generation's configuration."),
    field<&P::chat_template_kwargs>("chat_template_kwargs", "Further variables of the chat template."),
    field<&P::epsilon>("epsilon", "How far below 1 a ratio of probabilities counts.").at_least(0),
    field<&P::epsilon_high>("epsilon_high", "How far above 1 (default: epsilon).").at_least(0),
    field<&P::delta>("delta", "Largest ratio that counts at all (grpo).").above(0),
    field<&P::importance_sampling_level>("importance_sampling_level",
                                         "Ratios of tokens, or of whole completions (grpo).")
        .one_of({"token", "sequence"}),
    field<&P::scale_rewards>("scale_rewards",
                             "What advantages are divided by: the deviation of a prompt's rewards, of all, or nothing "
                             "(grpo).")
        .one_of({"group", "batch", "none", "true", "false", "True", "False"}),
    field<&P::multi_objective_aggregation>("multi_objective_aggregation", "How several rewards become one (grpo).")
        .one_of({"sum_then_normalize", "normalize_then_sum"}),
    field<&P::mask_truncated_completions>("mask_truncated_completions",
                                          "Learn nothing from completions that were cut at max_completion_length."),
    field<&P::use_bias_correction_kl>("use_bias_correction_kl", "Weigh the divergence by the ratios (grpo)."),
    field<&P::off_policy_mask_threshold>("off_policy_mask_threshold",
                                         "Leave out bad completions that the policy is farther from than this (grpo).")
        .at_least(0),
    field<&P::rollout_quantization>("rollout_quantization",
                                    "Completions are written by weights that are rounded to these codes; those that "
                                    "learn stay as they are.")
        .one_of({"none", "nf4", "fp4", "int8_channel"}),
    field<&P::use_vllm>(
        "use_vllm",
        "Compare the log probabilities of completions as they were written with those of the step, and "
        "correct for what differs (grpo), as TRL does beside vLLM; the engine is that of this process."),
    field<&P::vllm_importance_sampling_correction>(
        "vllm_importance_sampling_correction",
        "Weigh losses by the probability of a completion in the step, as a part of that with which it was written."),
    field<&P::vllm_importance_sampling_mode>("vllm_importance_sampling_mode",
                                             "Weights of tokens or of completions; outside of the bounds they are cut "
                                             "to them, or nothing is learnt.")
        .one_of({"token_truncate", "token_mask", "sequence_truncate", "sequence_mask"}),
    field<&P::vllm_importance_sampling_clip_min>("vllm_importance_sampling_clip_min", "Their lower bound.").at_least(0),
    field<&P::vllm_importance_sampling_clip_max>("vllm_importance_sampling_clip_max", "Their upper bound.").at_least(0),
    field<&P::entropy_coef>("entropy_coef", "Weight of the entropy of tokens, which is made larger (grpo)."),
    field<&P::sapo_temperature_neg>("sapo_temperature_neg", "Temperature of sapo where the advantage is negative.")
        .above(0),
    field<&P::sapo_temperature_pos>("sapo_temperature_pos", "Where it is positive.").above(0),
    field<&P::vespo_k_pos>("vespo_k_pos", "Exponent of vespo where the advantage is positive."),
    field<&P::vespo_lambda_pos>("vespo_lambda_pos", "Rate of vespo there."),
    field<&P::vespo_k_neg>("vespo_k_neg", "Exponent of vespo where the advantage is negative."),
    field<&P::vespo_lambda_neg>("vespo_lambda_neg", "Rate of vespo there."),
    field<&P::normalize_advantages>("normalize_advantages", "Make advantages of mean 0 and deviation 1 (rloo)."),
    field<&P::reward_clip_range>("reward_clip_range", "Least and largest reward (rloo)."),
    field<&P::log_completions>("log_completions",
                               "Show completions with their rewards, and write all into output_dir/completions."),
    field<&P::num_completions_to_print>("num_completions_to_print", "So many of them are shown (default: all).")
        .at_least(0),
    field<&P::log_unique_prompts>("log_unique_prompts", "Show one completion of each prompt."),
    field<&P::completions_file>("completions_file",
                                "Learn from these completions in place of new ones: JSON lines with completion_ids, in "
                                "the order in which they are asked for."),
    alias("max_new_tokens", "max_completion_length"),
    alias("vllm_importance_sampling_cap", "vllm_importance_sampling_clip_max"),
    alias("reward_model_path", "reward_model_name_or_path"),
    only_default("missing_eos_penalty", {"", "null", "none"},
                 "completions without an end have the rewards that reward_funcs give them"),
    only_default("top_entropy_quantile", {"1", "1.0"}, "tokens of low entropy are learnt too"),
    only_default("use_adaptive_entropy", {"false", "0", "no"}, "entropy_coef stays as it is"),
    only_default("max_tool_calling_iterations", {"", "null", "none"}, "completions call no tools"),
    only_default("log_completions_hub_repo", {"", "null", "none"}, "nothing is sent to the Hub"),
    only_default("vllm_structured_outputs_regex", {"", "null", "none"}, "completions are free text"),
    only_default("cast_lm_head_to_fp32", {"false", "0", "no"}, "the head computes in the type of all products"),
    ignored("entropy_coef_min", "it is of use_adaptive_entropy"),
    ignored("entropy_coef_max", "it is of use_adaptive_entropy"),
    ignored("entropy_coef_delta", "it is of use_adaptive_entropy"),
    ignored("entropy_target", "it is of use_adaptive_entropy"),
    ignored("log_multimodal", "prompts have no pictures"),
    ignored("vllm_mode", kOwnEngine),
    ignored("vllm_model_impl", kOwnEngine),
    ignored("vllm_enable_sleep_mode", kOwnEngine),
    ignored("vllm_server_base_url", kOwnEngine),
    ignored("vllm_server_host", kOwnEngine),
    ignored("vllm_server_port", kOwnEngine),
    ignored("vllm_server_timeout", kOwnEngine),
    ignored("vllm_group_port", kOwnEngine),
    ignored("vllm_gpu_memory_utilization", kOwnEngine),
    ignored("vllm_max_model_length", kOwnEngine),
    ignored("vllm_tensor_parallel_size", kOwnEngine),
    ignored("use_transformers_continuous_batching", kOwnEngine),
    ignored("transformers_continuous_batching_config", kOwnEngine),
    ignored("use_transformers_paged", kOwnEngine),
    ignored("cache_implementation", kOwnEngine),
    ignored("ds3_gather_for_generation", kOwnEngine),
};

}  // namespace

ArgumentTable policy_arguments() { return kPolicyArguments; }

}  // namespace transom
