// SPDX-License-Identifier: Apache-2.0
// Policies whose completions are written by codes: where the step has the same codes, each ratio is exactly 1; where
// codes are of the rollouts alone, weights of losses are the ratios of both, as the models that these are say.
#include <cmath>

#include "models/compression/quantize.h"
#include "transom/gradients.h"
#include "transom/ops.h"
#include "work/train/tasks/policies/policy_runs.h"
#include "work/train/tasks/policies/rollouts/rollout_correction.h"

namespace transom {
namespace {

constexpr const char *kLeast = "sampling/importance_sampling_ratio/min",
                     *kMost = "sampling/importance_sampling_ratio/max",
                     *kDistance = "sampling/sampling_logp_difference/max";

// A model whose layers have groups of 32 and more, with the tokenizer of the golden one.
void write_wide_model(const fs::path& golden, const fs::path& folder) {
  Json config = read_json(golden / "config.json");
  for (const char* name : {"hidden_size", "intermediate_size"}) config[name] = 64;
  config["initializer_range"] = 0.2;
  fs::create_directories(folder);
  Model::from_config(dump_json(config), {.seed = 3})->save_pretrained(folder.string());
  for (const char* file : {"tokenizer.json", "tokenizer_config.json"})
    fs::copy_file(golden / file, folder / file, fs::copy_options::overwrite_existing);
}

struct CodedBase {
  const char* name;
  const char* format;  // of the checkpoint; empty: a plain one
  std::vector<std::string> flags;
};

class PoliciesOfCodes : public Policies, public testing::WithParamInterface<CodedBase> {};

TEST_P(PoliciesOfCodes, HaveRatiosOfOneBesideAdaptersThatMove) {
  const fs::path plain = work_.path() / "plain";
  write_wide_model(model_, plain);
  model_ = plain;
  if (const std::string format = GetParam().format; !format.empty()) {
    const bool is_file = format == "gguf";
    model_ = work_.path() / (is_file ? "model.gguf" : "coded");
    quantize_model(plain.string(), model_.string(),
                   {.group_size = 32, .format = format, .type = is_file ? "q4_0" : ""});
    for (const char* file : {"tokenizer.json", "tokenizer_config.json"})
      if (!is_file) fs::copy_file(plain / file, model_ / file, fs::copy_options::overwrite_existing);
  }
  const auto flags =
      with(kVowels, {"--use_peft", "--lora_target_modules", "q_proj", "v_proj", "down_proj", "--use_vllm", "true",
                     "--max_steps", "3", "--learning_rate", "1e-2", "--lr_scheduler_type", "constant"});
  ASSERT_EQ(run("grpo", questions(8), with(flags, GetParam().flags)), "");
  EXPECT_EQ(curve(kDistance), std::vector<double>(3, 0));
  EXPECT_EQ(curve(kLeast), std::vector<double>(3, 1));
  EXPECT_EQ(curve(kMost), std::vector<double>(3, 1));
  const std::vector<double> norms = curve("grad_norm");
  EXPECT_GT(*std::max_element(norms.begin(), norms.end()), 0);
}

INSTANTIATE_TEST_SUITE_P(Bases, PoliciesOfCodes,
                         testing::Values(CodedBase{"Plain", "", {}}, CodedBase{"Nf4", "", {"--load_in_4bit"}},
                                         CodedBase{"Nf4InBfloat16", "", {"--load_in_4bit", "--bf16"}},
                                         CodedBase{"Int8", "", {"--load_in_8bit"}}, CodedBase{"Gptq", "gptq", {}},
                                         CodedBase{"Awq", "awq", {}}, CodedBase{"Gguf", "gguf", {}}),
                         [](const auto& info) { return std::string(info.param.name); });

// Of a completion what a model says of its tokens, in a row of its own.
std::vector<float> said_of(const Model& model, const TokenIds& tokens, size_t prompt) {
  const NoGradient only_numbers;
  const auto count = static_cast<int64_t>(tokens.size());
  const Tensor ids = Tensor::from(tokens, {1, count});
  const ForwardContext context{.computing = {.batch_invariant = true}};
  const Tensor logits = model.forward({{"input_ids", ids}}, context).at("logits");
  const Tensor rows = reshape(slice(logits, 1, 0, count - 1), {count - 1, logits.dim(2)});
  const Tensor logs = -cross_entropy(rows, reshape(slice(ids, 1, 1, count), {-1}), -100, kAsGiven);
  const std::vector<float> all = logs.to_vector<float>();
  return {all.begin() + static_cast<std::ptrdiff_t>(prompt) - 1, all.end()};
}

class CompressedRollouts : public Policies {
 protected:
  // The completions of the first generation as a checkpoint holds them.
  Json rollouts() const {
    return parse_json(read_json(out() / "checkpoint-1" / "rollouts.json")["rollouts"].get<std::string>(), "rollouts");
  }
  const std::vector<std::string> kept_ = with(kVowels, {"--learning_rate", "0", "--max_steps", "1", "--save_strategy",
                                                        "steps", "--save_steps", "1", "--rollout_quantization", "nf4"});
};

TEST_F(CompressedRollouts, AreWeighedByTheRatioOfBothModels) {
  const fs::path plain = work_.path() / "plain";
  write_wide_model(model_, plain);
  model_ = plain;
  const auto as_step = Model::from_pretrained(plain.string(), {}),
             as_writer = Model::from_pretrained(plain.string(), {.quantization = "nf4"});
  for (const auto& [mode, by_token] : {std::pair("token_truncate", true), std::pair("sequence_mask", false)}) {
    ASSERT_EQ(run("grpo", questions(8), with(kept_, {"--vllm_importance_sampling_mode", mode})), "");
    double most = 0;
    const Json written = rollouts();
    ASSERT_EQ(written["rows"].size(), 8u);
    for (const Json& row : written["rows"]) {
      const auto tokens = row["tokens"].get<TokenIds>();
      const size_t prompt = row["prompt"].get<size_t>();
      const std::vector<float> old = said_of(*as_step, tokens, prompt), drawn = said_of(*as_writer, tokens, prompt);
      EXPECT_EQ(row["old"].get<std::vector<float>>(), old);
      EXPECT_EQ(row["sampled"].get<std::vector<float>>(), drawn);
      const auto weights = row["weights"].get<std::vector<float>>();
      ASSERT_EQ(weights.size(), by_token ? old.size() : 1);
      double all = 0;
      for (size_t i = 0; i < old.size(); ++i) {
        all += old[i] - drawn[i];
        most = std::max(most, std::abs(double{old[i]} - drawn[i]));
        if (by_token) EXPECT_FLOAT_EQ(weights[i], std::min(std::exp(old[i] - drawn[i]), 3.0f));
      }
      if (!by_token) EXPECT_NEAR(weights[0], std::exp(all) > 3 ? 0 : std::exp(all), 1e-6);
    }
    EXPECT_GT(most, 1e-3) << "codes say the same as what they were rounded from";
    EXPECT_NEAR(curve(kDistance)[0], most, 1e-6);
  }
}

// The expectation over what codes write, weighed by the ratios, is that of the policy: here of all texts of one token.
TEST_F(CompressedRollouts, LeaveTheExpectationThatOfThePolicy) {
  const fs::path plain = work_.path() / "plain";
  write_wide_model(model_, plain);
  const auto as_step = Model::from_pretrained(plain.string(), {}),
             as_writer = Model::from_pretrained(plain.string(), {.quantization = "nf4"});
  const TokenIds prompt{7, 20, 3};
  double of_policy = 0, weighed = 0, unweighed = 0;
  for (int64_t token = 0; token < 363; ++token) {
    TokenIds text = prompt;
    text.push_back(token);
    const Rollout row{.tokens = text,
                      .prompt = 3,
                      .old = said_of(*as_step, text, 3),
                      .reference = {},
                      .sampled = said_of(*as_writer, text, 3),
                      .weights = {}};
    const double p = std::exp(double{row.old[0]}), q = std::exp(double{row.sampled[0]}), value = token % 7;
    of_policy += p * value, unweighed += q * value;
    weighed += q * value * weights_of_rollout(row, {.on = true, .most = std::nullopt})[0];
  }
  EXPECT_NEAR(weighed, of_policy, 1e-5);
  EXPECT_GT(std::abs(unweighed - of_policy), 1e-3);
}

TEST_F(CompressedRollouts, LeaveTheWeightsThatLearnAsTheyAre) {
  for (const char* task : {"grpo", "rloo"})
    for (const char* codes : {"nf4", "fp4", "int8_channel"}) {
      ASSERT_EQ(run(task, questions(8),
                    with(kVowels, {"--rollout_quantization", codes, "--num_iterations", "2", "--steps_per_generation",
                                   "2", "--max_steps", "4"})),
                "");
      EXPECT_GT(curve(kDistance)[0], 0) << task << " " << codes;
      EXPECT_EQ(curve("clip_ratio/region_mean")[0], 0) << "ratios of a step are those of the weights that learn";
      const auto saved = Model::from_pretrained(out().string(), {});
      EXPECT_TRUE(saved->frozen().empty());
    }
}

TEST_F(CompressedRollouts, GoOnWhereARunWasKilled) {
  for (const char* task : {"grpo", "rloo"}) {
    const auto flags = with(kVowels, {"--max_steps", "6", "--steps_per_generation", "2", "--num_iterations", "2",
                                      "--rollout_quantization", "nf4", "--save_strategy", "steps", "--save_steps", "3",
                                      "--use_peft", "--lr_scheduler_type", "constant"});
    ASSERT_EQ(run(task, questions(8), flags), "");
    const Json whole = updates_of();
    ASSERT_EQ(run(task, questions(8), with(flags, {"--resume_from_checkpoint", (out() / "checkpoint-3").string()})),
              "");
    EXPECT_EQ(updates_of(), whole) << task;
  }
}

// Whose lists of completions say how probable they were.
TEST_F(CompressedRollouts, WhatHasNoMeaningIsRefused) {
  const auto refused = [&](const std::string& task, const Flags& flags, const std::string& part) {
    const std::string message = run(task, questions(8), with(kVowels, flags));
    EXPECT_NE(message.find(part), std::string::npos) << part << ": " << message;
  };
  const std::string mode = "--vllm_importance_sampling_mode", low = "--vllm_importance_sampling_clip_min";
  refused("grpo", {"--rollout_quantization", "int3"}, "rollout_quantization");
  refused("grpo", {"--use_vllm", "true", low, "4"}, "expected less than vllm_importance_sampling_clip_max 3");
  refused("grpo", {"--use_vllm", "true", "--loss_type", "vespo"}, "expected token_truncate or token_mask");
  refused("rloo", {"--rollout_quantization", "nf4", mode, "token_mask"}, "expected sequence_mask or sequence_truncate");
  refused("online-dpo", {"--num_generations", "2", "--rollout_quantization", "nf4"}, "no ratio of probabilities");
  refused("grpo", {"--rollout_quantization", "nf4", "--use_peft", "--load_in_4bit"}, "found none");
  write_file(work_.path() / "said.jsonl", "{\"completion_ids\": [5, 6]}\n");
  refused("grpo", {"--use_vllm", "true", "--completions_file", (work_.path() / "said.jsonl").string()},
          "line 1: expected logprobs");
}

}  // namespace
}  // namespace transom
