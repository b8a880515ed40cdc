// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/benchmark.h"

#include <gtest/gtest.h>

#include "base/files/files.h"
#include "support/message.h"
#include "support/tiny_classifier.h"

namespace transom {
namespace {

using test::message_of;
using test::TinyClassifier;

BenchOptions options_of(const TinyClassifier& model) {
  BenchOptions options;
  options.model = model.path();
  options.batch_size = 3;
  options.sequence_length = 8;
  options.warmup_runs = 2;
  options.iterations = 4;
  options.duration = 0;
  return options;
}

std::vector<std::pair<std::string, size_t>> runs_of(const Benchmark& benchmark) {
  std::vector<std::pair<std::string, size_t>> result;
  for (const Phase& phase : benchmark.phases()) result.emplace_back(phase.name, phase.seconds.size());
  return result;
}

using Runs = std::vector<std::pair<std::string, size_t>>;

TEST(Benchmark, MeasuresTheForwardPass) {
  const TinyClassifier model;
  std::string told;
  Benchmark benchmark(options_of(model), [&](const std::string& phase, double share) {
    EXPECT_TRUE(share >= 0 && share <= 1);
    if (!told.ends_with(phase)) told += " " + phase;
  });
  benchmark.begin();
  benchmark.measure();
  EXPECT_EQ(runs_of(benchmark), (Runs{{"startup", 1}, {"load_model", 1}, {"first_forward", 1}, {"forward", 4}}));
  EXPECT_EQ(told, " load_model first_forward warmup forward");
  EXPECT_EQ(benchmark.phases().back().samples, 3);
  EXPECT_GT(benchmark.phases().back().max_ram, 0);
  EXPECT_EQ(benchmark.repeat(5).size(), 5u);
  EXPECT_EQ(benchmark.workload().model_type(), "bert");
}

TEST(Benchmark, TrainingCountsItsFirstStepToTheWarmup) {
  const TinyClassifier model;
  BenchOptions options = options_of(model);
  options.task = "train";
  Benchmark benchmark(options);
  benchmark.begin();
  benchmark.measure();
  EXPECT_EQ(runs_of(benchmark),
            (Runs{{"startup", 1}, {"load_model", 1}, {"first_train", 1}, {"overall", 7}, {"warmup", 3}, {"train", 4}}));
}

TEST(Benchmark, TextGenerationHasPrefillAndDecode) {
  const TinyClassifier model;
  BenchOptions options = options_of(model);
  write_file(fs::path(options.model) / "config.json",
             R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 40, "hidden_size": 16,
                 "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "eos_token_id": 0})");
  options.task = "text-generation";
  options.no_weights = true;
  options.max_new_tokens = 5;
  Benchmark benchmark(options);
  benchmark.begin();
  benchmark.measure();
  EXPECT_EQ(runs_of(benchmark), (Runs{{"startup", 1},
                                      {"load_model", 1},
                                      {"first_forward", 1},
                                      {"first_token", 1},
                                      {"prefill", 4},
                                      {"decode", 16},
                                      {"generate", 4}}));
  EXPECT_EQ(benchmark.phases()[4].samples, 24);  // tokens of the prompts
  EXPECT_EQ(benchmark.phases()[5].samples, 3);   // a step's
}

TEST(Benchmark, TranslationHasAStepForEachTokenOfItsBeams) {
  const TinyClassifier model;
  BenchOptions options = options_of(model);
  write_file(fs::path(options.model) / "config.json",
             R"({"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "vocab_size": 40, "d_model": 16,
                 "d_kv": 8, "d_ff": 24, "num_layers": 1, "num_heads": 2, "decoder_start_token_id": 0})");
  options.task = "translation";
  options.no_weights = true;
  options.max_new_tokens = 5;
  for (const int64_t beams : {1, 3}) {
    options.num_beams = beams;
    Benchmark benchmark(options);
    benchmark.begin();
    benchmark.measure();
    EXPECT_EQ(runs_of(benchmark), (Runs{{"startup", 1},
                                        {"load_model", 1},
                                        {"first_forward", 1},
                                        {"first_token", 1},
                                        {"prefill", 4},
                                        {"decode", 16},
                                        {"generate", 4}}))
        << beams;
  }
}

TEST(Benchmark, TheTaskChoosesTheHeadThatIsTrained) {
  const TinyClassifier model;
  for (const char* task : {"token-classification", "question-answering", "fill-mask"}) {
    BenchOptions options = options_of(model);
    options.task = task;
    options.scenario = "training";
    Benchmark benchmark(options);
    EXPECT_NO_THROW(benchmark.begin()) << task;
  }
}

TEST(Benchmark, LinesOfTextGoThroughThePipeline) {
  const TinyClassifier model;
  Model::from_config(read_file(model.file("config.json")))->save_pretrained(model.path());
  write_file(model.file("vocab.txt"), "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nfilm\n");
  write_file(model.file("lines.txt"), "a film\n\na a a\nfilm");
  BenchOptions options = options_of(model);
  options.inputs = model.file("lines.txt");
  EXPECT_NE(message_of([&] { Benchmark(options).begin(); }).find("pipeline"), std::string::npos);
  options.task = "text-classification";
  Benchmark benchmark(options);
  benchmark.begin();
  EXPECT_EQ(benchmark.workload().samples(), 3);
  write_file(model.file("lines.txt"), "\n");
  EXPECT_NE(message_of([&] { Benchmark(options).begin(); }).find("lines.txt"), std::string::npos);
}

TEST(Benchmark, RefusesWrongOptionsByTheirFlag) {
  const auto refused = [](auto change) {
    BenchOptions options;
    change(options);
    return message_of([&] { options.check(); });
  };
  EXPECT_NE(refused([](BenchOptions& o) { o.task = "forwrad"; }).find("did you mean"), std::string::npos);
  EXPECT_NE(refused([](BenchOptions& o) { o.batch_size = 0; }).find("--batch_size"), std::string::npos);
  EXPECT_NE(refused([](BenchOptions& o) { o.iterations = 0; }).find("--iterations"), std::string::npos);
  EXPECT_NE(refused([](BenchOptions& o) { o.dtype = "int8"; }).find("--dtype"), std::string::npos);
  EXPECT_NE(refused([](BenchOptions& o) { o.scenario = "both"; }).find("--scenario"), std::string::npos);
}

}  // namespace
}  // namespace transom
