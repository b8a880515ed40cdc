// SPDX-License-Identifier: Apache-2.0
// A request gets the tokens and log probabilities that it gets alone, to the bit: in any company, order of arrival and
// cut of prompts into chunks, preempted or not, with or without the prefix cache.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "models/generative.h"
#include "transom/engine.h"
#include "transom/error.h"

namespace transom {
namespace {

constexpr int64_t kLongest = 120;  // tokens of a text
constexpr const char* kLlamaModel = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 61,
  "max_position_embeddings": 120, "hidden_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "intermediate_size": 52, "initializer_range": 0.4})";
constexpr const char* kGpt2 = R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 61,
  "n_positions": 120, "n_embd": 36, "n_layer": 2, "n_head": 3, "initializer_range": 0.4})";
constexpr const char* kMistral = R"({"model_type": "mistral", "architectures": ["MistralForCausalLM"],
  "vocab_size": 61, "max_position_embeddings": 120, "hidden_size": 40, "num_hidden_layers": 2, "sliding_window": 9,
  "num_attention_heads": 4, "num_key_value_heads": 1, "intermediate_size": 52, "initializer_range": 0.4})";
constexpr const char* kMixtral = R"({"model_type": "mixtral", "architectures": ["MixtralForCausalLM"],
  "vocab_size": 61, "max_position_embeddings": 120, "hidden_size": 24, "num_hidden_layers": 2,
  "num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 20, "num_local_experts": 3,
  "num_experts_per_tok": 2, "initializer_range": 0.4})";
constexpr const char* kQwenMoe = R"({"model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"],
  "vocab_size": 61, "max_position_embeddings": 120, "hidden_size": 24, "num_hidden_layers": 3, "head_dim": 12,
  "num_attention_heads": 3, "num_key_value_heads": 1, "intermediate_size": 20, "moe_intermediate_size": 14,
  "num_experts": 5, "num_experts_per_tok": 2, "mlp_only_layers": [1], "initializer_range": 0.4})";

// Those of whose texts a state is kept, which goes on from block to block.
constexpr const char* kMamba = R"({"model_type": "mamba", "architectures": ["MambaForCausalLM"], "vocab_size": 61,
  "hidden_size": 20, "num_hidden_layers": 2, "state_size": 4, "time_step_rank": 3, "initializer_range": 0.4})";
constexpr const char* kMamba2 = R"({"model_type": "mamba2", "architectures": ["Mamba2ForCausalLM"], "vocab_size": 61,
  "hidden_size": 20, "num_hidden_layers": 2, "state_size": 4, "num_heads": 5, "head_dim": 8, "n_groups": 1,
  "tie_word_embeddings": true, "initializer_range": 0.4})";

// The same beside attention: convolutions, scans with experts, the delta rule.
constexpr const char* kLfm2 = R"({"model_type": "lfm2", "architectures": ["Lfm2ForCausalLM"], "vocab_size": 61,
  "max_position_embeddings": 120, "hidden_size": 20, "num_hidden_layers": 3, "num_attention_heads": 2,
  "num_key_value_heads": 1, "intermediate_size": 24, "block_auto_adjust_ff_dim": false,
  "layer_types": ["conv", "full_attention", "conv"], "initializer_range": 0.4})";
constexpr const char* kGraniteHybrid = R"({"model_type": "granitemoehybrid",
  "architectures": ["GraniteMoeHybridForCausalLM"], "vocab_size": 61, "max_position_embeddings": 120,
  "hidden_size": 20, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
  "intermediate_size": 12, "shared_intermediate_size": 16, "num_local_experts": 3, "num_experts_per_tok": 2,
  "layer_types": ["linear_attention", "full_attention"], "mamba_n_heads": 5, "mamba_d_state": 4,
  "attention_multiplier": 0.3, "initializer_range": 0.4})";
constexpr const char* kQwenNext = R"({"model_type": "qwen3_next", "architectures": ["Qwen3NextForCausalLM"],
  "vocab_size": 61, "max_position_embeddings": 120, "hidden_size": 20, "num_hidden_layers": 2, "head_dim": 8,
  "num_attention_heads": 2, "num_key_value_heads": 1, "layer_types": ["linear_attention", "full_attention"],
  "linear_num_key_heads": 1, "linear_num_value_heads": 2, "linear_key_head_dim": 6, "linear_value_head_dim": 5,
  "num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 14, "shared_expert_intermediate_size": 12,
  "initializer_range": 0.4})";

// Blocks of one part, of which some keep nothing.
constexpr const char* kNemotronH = R"({"model_type": "nemotron_h", "architectures": ["NemotronHForCausalLM"],
  "vocab_size": 61, "max_position_embeddings": 120, "hidden_size": 20, "num_attention_heads": 2,
  "num_key_value_heads": 1, "head_dim": 8, "layers_block_type": ["linear_attention", "moe", "full_attention", "mlp"],
  "mamba_num_heads": 2, "mamba_head_dim": 4, "n_groups": 1, "ssm_state_size": 4, "intermediate_size": 16,
  "n_routed_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 12,
  "moe_shared_expert_intermediate_size": 8, "initializer_range": 0.4})";
// A layer that reads the keys of another, and vectors of each token for each layer, beside which no rows are given.
constexpr const char* kGemma4 = R"({"model_type": "gemma4_text", "architectures": ["Gemma4ForCausalLM"],
  "vocab_size": 61, "max_position_embeddings": 120, "hidden_size": 20, "num_hidden_layers": 3,
  "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "global_head_dim": 8, "intermediate_size": 16,
  "layer_types": ["sliding_attention", "full_attention", "full_attention"], "num_kv_shared_layers": 1,
  "sliding_window": 9, "hidden_size_per_layer_input": 4, "vocab_size_per_layer_input": 61,
  "initializer_range": 0.4})";

// Keys and values of latent vectors, which each head reads through a matrix of its own.
constexpr const char* kDeepseek = R"({"model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"],
  "vocab_size": 61, "max_position_embeddings": 120, "hidden_size": 20, "num_hidden_layers": 1,
  "num_attention_heads": 3, "num_key_value_heads": 3, "intermediate_size": 24, "moe_intermediate_size": 10,
  "q_lora_rank": 9, "kv_lora_rank": 11, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 5,
  "n_routed_experts": 4, "n_shared_experts": 1, "n_group": 2, "topk_group": 1, "num_experts_per_tok": 2,
  "first_k_dense_replace": 0, "initializer_range": 0.4})";

// What comes out of a sequence.
struct Answer {
  TokenIds tokens;
  std::vector<float> logprobs;  // of tokens, the likeliest beside them, and the prompt's
  std::optional<FinishReason> finish;
  std::optional<int64_t> end_token;
  std::string error;
  bool operator==(const Answer&) const = default;
};
using Answers = std::map<std::pair<uint64_t, int64_t>, Answer>;

void append(std::vector<float>& numbers, const std::vector<TokenLogprobs>& logprobs) {
  for (const TokenLogprobs& at : logprobs) {
    numbers.push_back(at.logprob);
    for (const auto& [token, logprob] : at.top) numbers.insert(numbers.end(), {static_cast<float>(token), logprob});
  }
}

void collect_answers(Engine& engine, Answers& answers) {
  for (const EngineEvent& event : engine.take()) {
    Answer& answer = answers[{event.request, event.index}];
    append(answer.logprobs, event.prompt);
    append(answer.logprobs, event.logprobs);
    answer.tokens.insert(answer.tokens.end(), event.tokens.begin(), event.tokens.end());
    if (event.finish) answer.finish = event.finish;
    if (event.end_token) answer.end_token = event.end_token;
    answer.error += event.error;
  }
}

// Two of three tokens, by the text so far; some masks take some turns.
class ThirdsOfTokens : public TokenConstraint {
 public:
  bool prepare(double /*seconds*/) override { return turns_-- <= 0; }
  void allowed(std::span<uint32_t> mask) override {
    std::fill(mask.begin(), mask.end(), 0);
    for (size_t i = 0; i < mask.size() * 32; ++i)
      if ((i + state_) % 3 != 0) mask[i / 32] |= 1u << (i % 32);
  }
  void accept(int64_t token) override {
    state_ += static_cast<size_t>(token) + 1;
    turns_ = static_cast<int>(state_ % 4);
  }
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<ThirdsOfTokens>(*this); }

 private:
  size_t state_ = 0;
  int turns_ = 2;
};

// Embeddings [n, width] in place of some tokens, one of a few.
AttachedInput random_input(int64_t tokens, int64_t width, std::mt19937& random) {
  const auto begin = static_cast<int64_t>(random() % static_cast<uint64_t>(tokens));
  const int64_t count = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(tokens - begin));
  std::mt19937 of_rows(static_cast<uint32_t>(random() % 3));
  std::vector<float> rows;
  for (int64_t i = 0; i < count * width; ++i) rows.push_back(static_cast<float>(of_rows() % 1000) / 1000 - 0.5f);
  return {.tensors = {{"inputs_embeds", Tensor::from(rows, {count, width})}}, .places = {{begin, count}}};
}

std::vector<EngineRequest> random_requests(int count, int64_t width, std::mt19937& random) {
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  std::vector<TokenIds> beginnings(5);
  for (TokenIds& beginning : beginnings)
    for (int64_t i = 0; i < 40; ++i) beginning.push_back(below(61));
  std::vector<EngineRequest> requests;
  for (int i = 0; i < count; ++i) {
    EngineRequest request;
    const TokenIds& beginning = beginnings[static_cast<size_t>(below(5))];
    request.prompt.tokens.assign(beginning.begin(), beginning.begin() + below(41));
    for (int64_t n = 1 + below(4); n > 0; --n) request.prompt.tokens.push_back(below(61));
    if (below(3) == 0 && width > 0)
      request.prompt.attached = {random_input(static_cast<int64_t>(request.prompt.tokens.size()), width, random)};
    GenerationConfig& config = request.config;
    config.max_new_tokens = below(8) ? 1 + below(8) : 40;
    config.eos_token_id = {below(61)};
    if (below(2)) {
      config.do_sample = true, config.seed = random();
      config.temperature = 0.5 + 0.1 * static_cast<double>(below(10));
      config.top_k = below(2) ? 0 : 10;
      config.top_p = below(2) ? 1 : 0.9;
      config.num_return_sequences = 1 + below(3) / 2;
    }
    if (below(4) == 0) config.repetition_penalty = 1.3;
    if (below(4) == 0) request.frequency_penalty = 0.7;
    if (below(2)) request.logprobs = below(3);
    if (below(8) == 0) request.prompt_logprobs = 1;
    if (below(3) == 0) request.prompt_lookup_num_tokens = 1 + below(4);
    if (i % 7 == 3) request.constraint = std::make_shared<ThirdsOfTokens>();
    requests.push_back(std::move(request));
  }
  return requests;
}

// Requests one after the other, a token at a time.
Answers alone(const Model& model, const std::vector<EngineRequest>& requests, const char* cache_dtype) {
  Engine engine(model, {.cache_dtype = cache_dtype, .max_model_length = kLongest, .prefix_caching = false});
  Answers answers;
  for (EngineRequest request : requests) {
    request.prompt_lookup_num_tokens = 0;
    engine.add(request);
    while (engine.step()) collect_answers(engine, answers);
  }
  return answers;
}

// Requests that arrive at random, a few at each step, among others that are cancelled.
Answers together(const Model& model, const std::vector<EngineRequest>& requests, const EngineOptions& options,
                 std::mt19937& random, EngineStatistics* statistics) {
  Engine engine(model, options);
  Answers answers;
  std::map<uint64_t, uint64_t> numbers;  // of the engine to those of `requests`
  Answers numbered;
  for (size_t next = 0; next < requests.size();) {
    for (size_t n = random() % 6; n > 0 && next < requests.size(); --n, ++next) {
      numbers[engine.add(requests[next])] = next + 1;
      if (random() % 10 == 0) engine.cancel(engine.add(requests[random() % requests.size()]));
    }
    engine.step();
    collect_answers(engine, answers);
  }
  while (engine.step()) collect_answers(engine, answers);
  collect_answers(engine, answers);
  for (auto& [key, answer] : answers)
    if (const auto number = numbers.find(key.first); number != numbers.end())
      numbered[{number->second, key.second}] = std::move(answer);
  *statistics = engine.statistics();
  EXPECT_EQ(statistics->blocks_used, 0);
  return numbered;
}

struct Case {
  const char* name;
  const char* config;
  int64_t token_bytes;  // of keys and values; of states a third of those of a block
  int requests;
  const char* dtype = "float32";
  const char* quantization = "none";
  const char* cache_dtype = "auto";
};

class Company : public testing::TestWithParam<Case> {};

TEST_P(Company, DoesNotShowInTheBits) {
  const auto model =
      Model::from_config(GetParam().config, {.dtype = GetParam().dtype, .quantization = GetParam().quantization});
  std::mt19937 random(17);
  const std::vector<EngineRequest> requests =
      random_requests(GetParam().requests, dynamic_cast<const GenerativeModel&>(*model).embedding_width(), random);
  const Answers lonely = alone(*model, requests, GetParam().cache_dtype);
  for (const auto& [key, answer] : lonely) ASSERT_TRUE(answer.finish) << key.first;
  const int64_t token_bytes = GetParam().token_bytes;
  const auto same = [&](const char* what, EngineOptions options, auto&& check) {
    options.max_waiting = 100000;
    options.max_model_length = kLongest;
    options.cache_dtype = GetParam().cache_dtype;
    EngineStatistics statistics;
    const Answers answers = together(*model, requests, options, random, &statistics);
    ASSERT_EQ(answers.size(), lonely.size()) << what;
    for (const auto& [key, answer] : lonely) {
      ASSERT_EQ(answers.at(key).error, answer.error) << what;
      ASSERT_EQ(answers.at(key).tokens, answer.tokens) << what << ", request " << key.first;
      ASSERT_TRUE(answers.at(key) == answer) << what << ", request " << key.first;
    }
    check(statistics);
  };
  same("many at once", {.prefix_caching = false}, [](const EngineStatistics& s) {
    EXPECT_EQ(s.prefix_hits, 0);
    EXPECT_GT(s.draft_tokens, 0);
  });
  same("prefixes shared", {.block_size = 4}, [](const EngineStatistics& s) { EXPECT_GT(s.prefix_hits, 0); });
  same("chunks by the clock", {.block_size = 4, .step_seconds = 1e-6, .prefix_caching = false},
       [](const EngineStatistics& s) { EXPECT_GT(s.steps, 0); });
  same("small chunks, small cache", {.block_size = 3, .cache_bytes = 123 * token_bytes, .max_batched_tokens = 7},
       [](const EngineStatistics& s) { EXPECT_GT(s.prefix_hits, 0); });
  same("small cache without sharing",
       {.block_size = 5, .cache_bytes = 120 * token_bytes, .max_batched_tokens = 33, .prefix_caching = false},
       [](const EngineStatistics& s) {
         if (GetParam().requests > 100) {
           EXPECT_GT(s.preemptions, 0);
         }
       });
  same("drafts of the engine",
       {.block_size = 4,
        .drafts = {.method = DraftOptions::Method::kSuffix, .suffix_factor = 2, .measured = GetParam().requests > 100}},
       [](const EngineStatistics& s) { EXPECT_GT(s.draft_tokens, 0); });
}

INSTANTIATE_TEST_SUITE_P(
    Models, Company,
    testing::Values(Case{"Llama", kLlamaModel, 320, 1000}, Case{"Gpt2", kGpt2, 576, 40},
                    Case{"SlidingWindow", kMistral, 160, 40}, Case{"Experts", kMixtral, 384, 40},
                    Case{"SomeExperts", kQwenMoe, 288, 40}, Case{"States", kMamba, 747, 40},
                    Case{"StatesOfHeads", kMamba2, 811, 40}, Case{"Convolutions", kLfm2, 187, 40},
                    Case{"StatesBesideKeys", kGraniteHybrid, 486, 40}, Case{"DeltaRule", kQwenNext, 232, 24},
                    Case{"LatentVectors", kDeepseek, 104, 16}, Case{"BlocksOfOnePart", kNemotronH, 171, 24},
                    Case{"SharedKeys", kGemma4, 160, 24}, Case{"Bfloat16", kLlamaModel, 160, 40, "bfloat16"},
                    Case{"Float16", kGpt2, 288, 40, "float16"},
                    Case{"CacheOfFloat16", kLlamaModel, 160, 40, "float32", "none", "float16"},
                    Case{"Int8", kLlamaModel, 320, 40, "float32", "int8"},
                    Case{"Int8Channel", kLlamaModel, 320, 40, "float32", "int8_channel"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace transom
