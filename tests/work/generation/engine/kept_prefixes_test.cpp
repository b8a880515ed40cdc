// SPDX-License-Identifier: Apache-2.0
// Engines that find in files what others have read: the same texts with the same bits, sooner.
#include <gtest/gtest.h>

#include "base/files/directories.h"
#include "base/files/files.h"
#include "support/kept_log.h"
#include "support/temporary_folder.h"
#include "transom/config.h"
#include "transom/engine.h"
#include "transom/error.h"
#include "transom/ops.h"

namespace transom {
namespace {

struct KeptCase {
  const char* name;
  const char* config;
};

constexpr const char* kKeptGpt =
    R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 61,
  "n_positions": 100, "n_embd": 16, "n_layer": 2, "n_head": 2, "initializer_range": 0.6})";
constexpr const char* kKeptHybrid = R"({"model_type": "lfm2", "architectures": ["Lfm2ForCausalLM"],
  "vocab_size": 61, "max_position_embeddings": 96, "hidden_size": 20, "num_hidden_layers": 3, "num_attention_heads": 2,
  "num_key_value_heads": 1, "intermediate_size": 24, "block_auto_adjust_ff_dim": false,
  "layer_types": ["conv", "full_attention", "conv"], "initializer_range": 0.4})";

struct KeptText {
  TokenIds tokens;
  std::vector<float> logprobs;
  int64_t cached = 0;
};

class KeptPrefixes : public testing::TestWithParam<KeptCase> {
 protected:
  EngineOptions options(const char* dtype = "auto") const {
    EngineOptions options{.block_size = 4, .cache_dtype = dtype, .max_model_length = 96};
    options.prefix_cache_directory = folder_.string();
    return options;
  }
  static EngineRequest request_of(size_t tokens) {
    EngineRequest request;
    for (size_t i = 0; i < tokens; ++i) request.prompt.tokens.push_back(static_cast<int64_t>((13 * i + 4) % 60));
    request.config.max_new_tokens = 7;
    request.logprobs = 0;
    return request;
  }
  static KeptText written(Engine& engine, EngineRequest request) {
    engine.add(std::move(request));
    KeptText result;
    const auto collect = [&] {
      for (const EngineEvent& event : engine.take()) {
        EXPECT_EQ(event.error, "");
        result.tokens.insert(result.tokens.end(), event.tokens.begin(), event.tokens.end());
        for (const TokenLogprobs& each : event.logprobs) result.logprobs.push_back(each.logprob);
        result.cached += event.cached_tokens;
      }
    };
    while (engine.step()) collect();
    collect();
    return result;
  }
  static KeptText alone(const Model& model, const EngineRequest& request, const char* dtype = "auto") {
    Engine engine(model, {.block_size = 4, .cache_dtype = dtype, .prefix_caching = false});
    return written(engine, request);
  }
  static void expect_same(const KeptText& a, const KeptText& b) {
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(a.logprobs, b.logprobs);
  }
  test::TemporaryFolder folder_;
  const std::unique_ptr<Model> model = Model::from_config(GetParam().config);
};

TEST_P(KeptPrefixes, AreFoundByTheNextEngine) {
  for (const char* dtype : {"auto", "float16"}) {
    {
      Engine first(*model, options(dtype));
      EXPECT_EQ(written(first, request_of(50)).cached, 0);
    }
    Engine second(*model, options(dtype));
    const EngineRequest longer = request_of(63);
    const KeptText found = written(second, longer);
    EXPECT_EQ(found.cached, 48);
    EXPECT_EQ(second.statistics().prefix_disk_hits, 48);
    expect_same(found, alone(*model, longer, dtype));
    EXPECT_EQ(written(second, longer).cached, 60);  // in memory now
    EXPECT_EQ(second.statistics().prefix_disk_hits, 48);
    EXPECT_EQ(second.statistics().blocks_used, 0);
  }
}

TEST_P(KeptPrefixes, OfOtherWeightsOptionsOrSecretsAreNotFound) {
  {
    Engine first(*model, options());
    written(first, request_of(50));
  }
  const auto cached = [&](const Model& other, const EngineOptions& given, const EngineRequest& request) {
    Engine engine(other, given);
    const KeptText found = written(engine, request);
    expect_same(found, alone(other, request));
    return found.cached;
  };
  const std::unique_ptr<Model> copy = Model::from_config(GetParam().config);
  Parameter& last = *copy->parameters().back();
  last.value = last.value + Tensor::scalar(1e-3F);
  EXPECT_EQ(cached(*copy, options(), request_of(50)), 0);
  EngineOptions larger = options();
  larger.block_size = 8;
  EXPECT_EQ(cached(*model, larger, request_of(50)), 0);
  EngineRequest salted = request_of(50);
  salted.cache_salt = "mine";
  EXPECT_EQ(cached(*model, options(), salted), 0);
  EngineRequest of_tenant = request_of(50);
  of_tenant.tenant = "other";
  EXPECT_EQ(cached(*model, options(), of_tenant), 0);
  EXPECT_EQ(cached(*model, options(), request_of(50)), 48);
}

TEST_P(KeptPrefixes, DamagedFilesChangeNoText) {
  {
    Engine first(*model, options());
    written(first, request_of(50));
  }
  size_t number = 0;
  for (const fs::path& path : list_files_below(folder_)) {
    std::string text = read_file(path);
    if (number++ % 2) text[text.size() / 2 + 60] ^= 4;
    else text.resize(text.size() / 2);
    write_file(path, text);
  }
  EXPECT_GE(number, 12u);
  const test::KeptLog log;
  Engine second(*model, options());
  const KeptText found = written(second, request_of(50));
  EXPECT_EQ(found.cached, 0);
  EXPECT_TRUE(log.has("is not used, and removed")) << log.text();
  expect_same(found, alone(*model, request_of(50)));
}

// What the memory has forgotten is read again, by texts in company and by beams.
TEST_P(KeptPrefixes, AreReadAgainWhereMemoryIsShort) {
  EngineOptions tight = options();
  {
    Engine probe(*model, tight);
    tight.cache_bytes = 1;
    EXPECT_THROW(Engine(*model, tight), Error);
  }
  tight = options();
  tight.max_sequences = 1;
  tight.max_model_length = 72;
  Engine engine(*model, tight);  // room for one text of full length, and prefixes of it
  std::vector<EngineRequest> requests;
  for (const size_t tokens : {40, 44, 48, 52})
    for (const int64_t first : {1, 2, 3}) {
      requests.push_back(request_of(tokens));
      requests.back().prompt.tokens[0] = first;
    }
  for (const EngineRequest& request : requests) expect_same(written(engine, request), alone(*model, request));
  EngineRequest beams = request_of(40);
  beams.logprobs.reset();
  beams.config.num_beams = 3;
  tight.max_sequences = 4;
  Engine more(*model, tight);
  EXPECT_EQ(written(more, beams).tokens, alone(*model, beams).tokens);
}

INSTANTIATE_TEST_SUITE_P(Models, KeptPrefixes,
                         testing::Values(KeptCase{"Keys", kKeptGpt}, KeptCase{"States", kKeptHybrid}),
                         [](const auto& info) { return info.param.name; });

TEST(KeptPrefixesOf, ModelsWithoutPagesAreRefused) {
  test::TemporaryFolder folder;
  const auto bloom = Model::from_config(R"({"model_type": "bloom", "architectures": ["BloomForCausalLM"],
    "vocab_size": 30, "hidden_size": 16, "n_layer": 1, "n_head": 2})");
  EngineOptions options;
  options.prefix_cache_directory = folder.string();
  EXPECT_THROW(Engine(*bloom, options), Error);
  const auto gpt = Model::from_config(kKeptGpt);
  options.prefix_caching = false;
  EXPECT_THROW(Engine(*gpt, options), Error);
}

}  // namespace
}  // namespace transom
