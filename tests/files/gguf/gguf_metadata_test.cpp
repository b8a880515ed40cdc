// SPDX-License-Identifier: Apache-2.0
// Nothing of the metadata is ignored: keys that change results are carried out or refused, the others are known or
// said.
#include "files/gguf/gguf_metadata.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json/json.h"
#include "base/terminal/log.h"
#include "files/gguf/gguf_model.h"
#include "files/gguf/gguf_special_tokens.h"
#include "files/gguf/gguf_writer.h"
#include "support/message.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

class Metadata : public testing::Test {
 protected:
  // A file of an architecture with the keys that all have, and one more.
  GgufFile file_with(const std::string& architecture, const std::function<void(GgufWriter&, const std::string&)>& more,
                     bool epsilon = true) {
    GgufWriter writer;
    writer.add_string("general.architecture", architecture);
    for (const auto& [key, value] : {std::pair{"block_count", 2},
                                     {"context_length", 64},
                                     {"embedding_length", 32},
                                     {"feed_forward_length", 48},
                                     {"attention.head_count", 4}})
      writer.add_count(architecture + "." + key, value);
    if (epsilon) {
      writer.add_float(architecture + ".attention.layer_norm_epsilon", 1e-5);
      writer.add_float(architecture + ".attention.layer_norm_rms_epsilon", 1e-5);
    }
    more(writer, architecture + ".");
    writer.add_tensor("output_norm.weight", 0, {1}, [] { return std::vector<std::byte>(4); });
    const fs::path path = folder_ / fmt::format("m{}.gguf", ++number_);
    writer.write(path);
    return GgufFile::open(path);
  }
  std::string refusal(const std::string& architecture, const std::function<void(GgufWriter&, const std::string&)>& more,
                      bool epsilon = true) {
    return test::message_of([&] { gguf_config(file_with(architecture, more, epsilon)); });
  }
  test::TemporaryFolder folder_;
  int number_ = 0;
};

constexpr const char* kArchitectures[] = {"llama", "qwen2",      "qwen3", "gemma",   "gemma2", "gemma3", "phi3",
                                          "gpt2",  "starcoder2", "bloom", "gptneox", "bert",   "t5",     "t5encoder"};

TEST_F(Metadata, OfAPlainFileIsTakenForEveryArchitecture) {
  for (const char* name : kArchitectures) EXPECT_EQ(refusal(name, [](GgufWriter&, const std::string&) {}), "") << name;
}

// Numbers that are neutral in no architecture, of all keys of llama.cpp that change results.
TEST_F(Metadata, ThatChangesResultsIsRefusedByNameInEveryArchitecture) {
  constexpr const char* kCounts[] = {"expert_shared_count",  "expert_group_count", "leading_dense_block_count",
                                     "nextn_predict_layers", "ssm.state_size",     "attention.q_lora_rank",
                                     "wkv.head_size",        "num_loops",          "attention.indexer.top_k",
                                     "moe_every_n_layers",   "shortconv.l_cache",  "embedding_length_per_layer_input"};
  constexpr const char* kFloats[] = {"attention.scale",          "logit_scale",          "residual_scale",
                                     "embedding_scale",          "attention.clamp_kqv",  "attention.logit_softcapping",
                                     "router_logit_softcapping", "expert_weights_scale", "attention.value_scale",
                                     "swiglu_clamp_exp",         "rope.scaling.alpha",   "attention.temperature_scale"};
  for (const char* name : kArchitectures) {
    for (const char* key : kCounts)
      EXPECT_NE(refusal(name, [&](GgufWriter& w, const std::string& at) { w.add_count(at + key, 3); }).find(key),
                std::string::npos)
          << name << " " << key;
    for (const char* key : kFloats)
      EXPECT_NE(refusal(name, [&](GgufWriter& w, const std::string& at) { w.add_float(at + key, 0.37); }).find(key),
                std::string::npos)
          << name << " " << key;
  }
}

TEST_F(Metadata, ThatOneArchitectureReadsIsRefusedInOthers) {
  const auto says = [&](const char* name, const char* key, double value) {
    return refusal(name, [&](GgufWriter& w, const std::string& at) { w.add_float(at + key, value); });
  };
  EXPECT_EQ(says("gemma2", "final_logit_softcapping", 30), "");
  EXPECT_NE(says("llama", "final_logit_softcapping", 30).find("final_logit_softcapping = 30"), std::string::npos);
  EXPECT_NE(says("qwen3", "attn_logit_softcapping", 50).find("expected 0"), std::string::npos);
  EXPECT_EQ(says("qwen3", "attn_logit_softcapping", 0), "");
  EXPECT_EQ(says("bloom", "attention.max_alibi_bias", 8), "");
  EXPECT_NE(says("bloom", "attention.max_alibi_bias", 4).find("max_alibi_bias"), std::string::npos);
  EXPECT_NE(says("llama", "rope.scaling.yarn_log_multiplier", 0.1).find("yarn_log_multiplier"), std::string::npos);
  const auto counts = [&](const char* name, const char* key, int64_t value) {
    return refusal(name, [&](GgufWriter& w, const std::string& at) { w.add_count(at + key, value); });
  };
  EXPECT_NE(counts("qwen2", "attention.sliding_window", 16).find("sliding_window"), std::string::npos);
  EXPECT_NE(counts("qwen2", "expert_count", 4).find("expert_count"), std::string::npos);
  EXPECT_NE(counts("bert", "attention.head_count_kv", 2).find("head_count_kv"), std::string::npos);
  EXPECT_EQ(counts("bert", "attention.head_count_kv", 4), "");
  const auto flag = [&](const char* name, const char* key, bool value) {
    return refusal(name, [&](GgufWriter& w, const std::string& at) { w.add_bool(at + key, value); });
  };
  EXPECT_NE(flag("llama", "attention.causal", false).find("attention.causal"), std::string::npos);
  EXPECT_EQ(flag("bert", "attention.causal", false), "");
  EXPECT_NE(refusal("llama",
                    [](GgufWriter& w, const std::string& at) {
                      w.add_count(at + "attention.key_length", 8), w.add_count(at + "attention.value_length", 16);
                    })
                .find("expected 8"),
            std::string::npos);
}

TEST_F(Metadata, WithoutTheEpsilonOfNormsIsRefusedAsByLlamaCpp) {
  for (const char* name : kArchitectures)
    EXPECT_NE(refusal(
                  name, [](GgufWriter&, const std::string&) {}, false)
                  .find("epsilon' is missing"),
              std::string::npos)
        << name;
}

TEST_F(Metadata, ThatNobodyKnowsIsSaidOnce) {
  std::vector<std::string> said;
  set_log_sink([&](LogLevel, std::string_view text) { said.emplace_back(text); });
  report_gguf_metadata(file_with("llama", [](GgufWriter& w, const std::string& at) {
    w.add_count(at + "flavour", 3), w.add_count("tokenizer.ggml.flavour", 3), w.add_string("flavour", "x");
    w.add_string("general.flavour", "who made it"), w.add_string("tokenizer.chat_template.tool_use", "x");
  }));
  report_gguf_metadata(file_with("llama", [](GgufWriter&, const std::string&) {}));
  set_log_sink({});
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("flavour, llama.flavour, tokenizer.ggml.flavour"), std::string::npos) << said[0];
}

// Llama 3 ends turns with <|eot_id|>, which is another token than eos.
TEST_F(Metadata, NamesEveryTokenThatEndsAText) {
  const GgufFile file = file_with("llama", [](GgufWriter& w, const std::string&) {
    w.add_string("tokenizer.ggml.model", "gpt2");
    w.add_strings("tokenizer.ggml.tokens", {"a", "<|end_of_text|>", "<|eot_id|>", "<|im_end|>", "stop"});
    w.add_ints("tokenizer.ggml.token_type", {1, 3, 3, 1, 3});
    w.add_count("tokenizer.ggml.eos_token_id", 1), w.add_count("tokenizer.ggml.eot_token_id", 4);
  });
  EXPECT_EQ(gguf_end_ids(file), (std::vector<int64_t>{1, 4, 2})) << "<|im_end|> is no control token here";
}

TEST_F(Metadata, OfSamplingBecomesDefaultsOfGeneration) {
  const auto parts = [&](const std::function<void(GgufWriter&, const std::string&)>& more) {
    file_with("llama",
              [&](GgufWriter& w, const std::string& at) { w.add_string("tokenizer.ggml.model", "none"), more(w, at); });
    return read_json(folder_ / fmt::format("m{}.gguf", number_) / "generation_config.json");
  };
  const Json plain = parts([](GgufWriter&, const std::string&) {});
  EXPECT_FALSE(plain.contains("do_sample")) << plain;
  const Json sampled = parts([](GgufWriter& w, const std::string&) {
    w.add_float("general.sampling.temp", 0.6), w.add_float("general.sampling.top_p", 0.9);
    w.add_count("general.sampling.top_k", 20), w.add_float("general.sampling.min_p", 0.01);
  });
  EXPECT_EQ(sampled["do_sample"], true);
  EXPECT_EQ(sampled["temperature"], 0.6);
  EXPECT_EQ(sampled["top_k"], 20);
  const Json greedy = parts([](GgufWriter& w, const std::string&) { w.add_float("general.sampling.temp", 0); });
  EXPECT_FALSE(greedy.contains("do_sample")) << greedy;
}

}  // namespace
}  // namespace transom
