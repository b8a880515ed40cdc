// SPDX-License-Identifier: Apache-2.0
// Every pipeline that this library has, against the results of Transformers' pipeline().
#include <gtest/gtest.h>

#include <cmath>

#include "base/json/json.h"
#include "pipelines/pipeline.h"
#include "support/golden.h"
#include "transom/error.h"

namespace transom {
namespace {

bool near(const Json& got, const Json& expected) {
  if (got.is_number() && expected.is_number())
    return std::abs(got.get<double>() - expected.get<double>()) <= 1e-4 * (1 + std::abs(expected.get<double>()));
  if (got.type() != expected.type() || got.size() != expected.size()) return false;
  if (got.is_array()) {
    for (size_t i = 0; i < got.size(); ++i)
      if (!near(got[i], expected[i])) return false;
    return true;
  }
  if (got.is_object()) {
    for (const auto& [key, value] : got.items())
      if (!expected.contains(key) || !near(value, expected[key])) return false;
    return true;
  }
  return got == expected;
}

struct Case {
  const char *file, *task;
};

class GoldenPipeline : public testing::TestWithParam<Case> {};

TEST_P(GoldenPipeline, EqualsTransformers) {
  const auto folder = test::golden_folder() / "pipelines";
  const auto file = folder / (std::string(GetParam().file) + ".json");
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "no golden case at " << file;
  const Json golden = read_json(file);
  const auto pipeline =
      make_pipeline(GetParam().task, (folder / golden["model"].get<std::string>()).lexically_normal().string());
  for (const Json& run : golden["runs"]) {
    Json inputs = run["inputs"];
    if ((pipeline->takes_images() || pipeline->takes_audio()) && inputs.is_string())  // files beside the case
      inputs = (folder / inputs.get<std::string>()).lexically_normal().string();
    Json got;
    if (inputs.is_array()) {
      got = run_pipeline(*pipeline, std::vector<Json>(inputs.begin(), inputs.end()), run["kwargs"]);
    } else got = run_pipeline(*pipeline, inputs, run["kwargs"]);
    Json expected = run["result"];
    if (expected.is_array())
      for (Json& item : expected)
        if (item.is_object()) item.erase("token_ids");  // beside what pipeline() returns
    EXPECT_TRUE(near(got, expected)) << dump_json(run["kwargs"]) << "\n got      " << dump_json(got).substr(0, 600)
                                     << "\n expected " << dump_json(run["result"]).substr(0, 600);
  }
}

INSTANTIATE_TEST_SUITE_P(Tasks, GoldenPipeline,
                         testing::Values(Case{"text-classification", "text-classification"},
                                         Case{"text-classification-multilabel", "text-classification"},
                                         Case{"token-classification", "token-classification"},
                                         Case{"token-classification-unigram", "token-classification"},
                                         Case{"question-answering", "question-answering"},
                                         Case{"fill-mask", "fill-mask"}, Case{"fill-mask-bpe", "fill-mask"},
                                         Case{"fill-mask-unigram", "fill-mask"},
                                         Case{"feature-extraction", "feature-extraction"},
                                         Case{"zero-shot-classification", "zero-shot-classification"},
                                         Case{"image-classification", "image-classification"},
                                         Case{"image-classification-conv", "image-classification"},
                                         Case{"image-feature-extraction", "image-feature-extraction"},
                                         Case{"zero-shot-image-classification", "zero-shot-image-classification"},
                                         Case{"audio-classification", "audio-classification"},
                                         Case{"automatic-speech-recognition", "automatic-speech-recognition"},
                                         Case{"automatic-speech-recognition-whisper", "automatic-speech-recognition"},
                                         Case{"text-generation", "text-generation"},
                                         Case{"text-generation-llama", "text-generation"},
                                         Case{"text2text-generation", "text2text-generation"},
                                         Case{"summarization", "summarization"}, Case{"translation", "translation"}),
                         [](const auto& info) {
                           std::string name = info.param.file;
                           for (char& c : name)
                             if (c == '-') c = '_';
                           return name;
                         });

TEST(Pipelines, UnknownTasksAreRefusedByName) {
  try {
    make_pipeline("text-clasification", "nowhere");
    FAIL() << "an unknown task was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find("did you mean 'text-classification'?"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace transom
