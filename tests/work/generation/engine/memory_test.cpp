// SPDX-License-Identifier: Apache-2.0
// The engine where memory ends before its cache has grown to its limit.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>
#include <map>

#include "base/error.h"
#include "runtime/tensor/evaluator.h"
#include "transom/caches.h"
#include "transom/engine.h"

namespace transom {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kHasOwnAllocator = true;
#else
constexpr bool kHasOwnAllocator = false;
#endif

// Keys and values of a token take 32 KiB, a block of 128 tokens 4 MiB.
constexpr const char* kWide = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 40,
  "max_position_embeddings": 256, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 4, "head_dim": 512, "intermediate_size": 20, "initializer_range": 0.6})";
EngineOptions options() { return {.block_size = 128, .cache_bytes = int64_t{512} << 20, .max_batched_tokens = 128}; }

std::map<uint64_t, TokenIds> answers_of(Engine& engine, int64_t count = 24) {
  for (int64_t i = 0; i < count; ++i) {
    EngineRequest request{.prompt = {i, 3, 5}};
    request.config.max_new_tokens = 12;
    engine.add(std::move(request));
  }
  std::map<uint64_t, TokenIds> answers;
  const auto collect = [&] {
    for (const EngineEvent& event : engine.take()) {
      TokenIds& tokens = answers[event.request];
      tokens.insert(tokens.end(), event.tokens.begin(), event.tokens.end());
      if (!event.error.empty()) std::fputs((event.error + "\n").c_str(), stderr);
    }
  };
  while (engine.step()) collect();
  collect();
  return answers;
}

// Until the end of the scope no more than `bytes` above what the process has mapped now.
class MemoryLimit {
 public:
  explicit MemoryLimit(uint64_t bytes) {
    std::ifstream file("/proc/self/statm");
    uint64_t pages = 0;
    file >> pages;
    ::getrlimit(RLIMIT_AS, &before_);
    rlimit limit = before_;
    limit.rlim_cur = pages * 4096 + bytes;
    ::setrlimit(RLIMIT_AS, &limit);
  }
  ~MemoryLimit() { ::setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
};

int run_out_of_memory() {
  const auto model = Model::from_config(kWide);
  std::map<uint64_t, TokenIds> answers, expected;
  {
    {
      EngineOptions least = options();
      least.cache_bytes = int64_t{8} << 20;
      Engine first(*model, least);
      answers_of(first, 1);  // weights are packed
    }
    const MemoryLimit limit(uint64_t{60} << 20);
    Engine engine(*model, options());  // has room for a part of its cache
    answers = answers_of(engine);
    if (engine.statistics().preemptions == 0) return 2;
  }
  Engine engine(*model, options());
  expected = answers_of(engine);
  if (engine.statistics().preemptions != 0) return 3;
  return answers == expected ? 0 : 4;
}

EngineOptions small_cache(int64_t bytes) {
  EngineOptions small = options();
  small.block_size = 4, small.cache_bytes = bytes;
  return small;
}

TokenIds written(Engine& engine, int64_t prompt, int64_t tokens) {
  EngineRequest request{.prompt = TokenIds(static_cast<size_t>(prompt), prompt % 40)};
  request.config.max_new_tokens = tokens;
  engine.add(std::move(request));
  TokenIds result;
  while (engine.step())
    for (const EngineEvent& event : engine.take())
      result.insert(result.end(), event.tokens.begin(), event.tokens.end());
  return result;
}

// 24 texts of 15 tokens take 96 blocks, and a step's tokens take 32.
TEST(EngineMemory, ACacheThatGrowsKeepsItsPrograms) {
  const auto model = Model::from_config(kWide);
  Engine engine(*model, small_cache(int64_t{32} << 20));
  std::map<int64_t, TokenIds> before;
  for (int64_t prompt = 1; prompt <= 8; ++prompt) before[prompt] = written(engine, prompt, 2);
  answers_of(engine);
  const CacheStatistics first = cache_statistics();
  for (int64_t prompt = 1; prompt <= 8; ++prompt) EXPECT_EQ(written(engine, prompt, 2), before[prompt]);
  const std::map<uint64_t, TokenIds> again = answers_of(engine);
  EXPECT_EQ(again.size(), 24u);
  EXPECT_EQ(cache_statistics().traces.misses, first.traces.misses);
  EXPECT_EQ(cache_statistics().programs.misses, first.programs.misses);
}

// A second engine finds the programs of the first, although the first's cache has grown.
TEST(EngineMemory, EnginesOfOneSizeShareProgramsWhateverTheyHoldOfIt) {
  const auto model = Model::from_config(kWide);
  Engine one(*model, small_cache(int64_t{32} << 20));
  const auto expected = answers_of(one);
  ASSERT_EQ(expected.size(), 24u);
  Engine two(*model, small_cache(int64_t{32} << 20));
  const size_t programs = cache_statistics().programs.misses;
  EXPECT_EQ(answers_of(two), expected);
  EXPECT_EQ(cache_statistics().programs.misses, programs);
  EXPECT_EQ(answers_of(one).size(), 24u);
}

TEST(EngineMemoryDeathTest, TextsTakeTurnsWhereTheCacheCannotGrow) {
  if (kHasOwnAllocator) GTEST_SKIP() << "a sanitizer maps memory of its own";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(std::exit(run_out_of_memory()), testing::ExitedWithCode(0), "");
}

// One process of several, whose third pass ends with an error.
class FailingEvaluator : public Evaluator {
 public:
  std::vector<Tensor> evaluate(std::span<const Tensor> outputs, const std::vector<Tensor>& state) override {
    if (++passes_ == 3) fail(ErrorKind::kDevice, "a process is lost");
    std::vector<Tensor> all(outputs.begin(), outputs.end());
    all.insert(all.end(), state.begin(), state.end());
    eval(all);
    return state;
  }

 private:
  int passes_ = 0;
};

TEST(EngineTogether, SaysThatItCanComputeNothingAnyMore) {
  const auto model = Model::from_config(kWide);
  FailingEvaluator evaluator;
  const EvaluatorScope scope(&evaluator);
  Engine engine(*model, options());
  EXPECT_EQ(engine.statistics().failure, "");
  answers_of(engine, 1);
  EXPECT_NE(engine.statistics().failure.find("restart them all (a process is lost)"), std::string::npos)
      << engine.statistics().failure;
  // Later requests end with that error, at once.
  engine.add({.prompt = {1, 2}});
  engine.step();
  const std::vector<EngineEvent> events = engine.take();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].finish, FinishReason::kError);
  EXPECT_NE(events[0].error.find("restart them all"), std::string::npos) << events[0].error;
}

}  // namespace
}  // namespace transom
