// SPDX-License-Identifier: Apache-2.0
// Models whose prompts or pictures are seen in both directions, in the engine: what generate() writes, and what is
// refused since it would read a prompt in parts.
#include <gtest/gtest.h>

#include <algorithm>

#include "models/generative.h"
#include "support/golden.h"
#include "support/golden_cases.h"
#include "support/test_names.h"
#include "transom/engine.h"
#include "transom/ops.h"
#include "work/train/loop/model_inputs.h"

namespace transom {
namespace {

class SeenTogether : public testing::TestWithParam<std::string> {
 protected:
  // The first row of the case with its pictures.
  ModelInputs prompt() const {
    const std::vector<int64_t> all = inputs.at("input_ids").to_vector<int64_t>();
    const int64_t row = inputs.at("input_ids").dim(1), token = model->config().get_int("image_token_index");
    const int64_t count = inputs.at("pixel_values").dim(0) * std::count(all.begin(), all.begin() + row, token) /
                          std::count(all.begin(), all.end(), token);
    NamedTensors first;
    for (const char* name : {"input_ids", "attention_mask"}) first.set(name, slice(inputs.at(name), 0, 0, 1));
    first.set("pixel_values", slice(inputs.at("pixel_values"), 0, 0, count));
    const std::vector<int64_t> mask = first.at("attention_mask").to_vector<int64_t>();
    const int64_t length = std::count(mask.begin(), mask.end(), 1);
    for (const char* name : {"input_ids", "attention_mask"}) first.set(name, slice(first.at(name), 1, 0, length));
    const auto& writer = dynamic_cast<const GenerativeModel&>(*model);
    return {first.at("input_ids").to_vector<int64_t>(), writer.attached_inputs(first)[0]};
  }
  const std::filesystem::path folder = test::folder_of_case(GetParam());
  const std::unique_ptr<Model> model = Model::from_pretrained((folder / "model").string());
  const NamedTensors inputs = load_inputs(folder / "inputs.safetensors");
};

TEST_P(SeenTogether, WriteWhatGenerateWritesWithACacheAndWithout) {
  const ModelInputs asked = prompt();
  EngineRequest request{.prompt = asked};
  request.config.update(R"({"max_new_tokens": 6})");
  Engine engine(*model);
  engine.add(request);
  TokenIds written = asked.tokens;
  while (engine.step())
    for (const EngineEvent& event : engine.take()) {
      EXPECT_EQ(event.error, "");
      written.insert(written.end(), event.tokens.begin(), event.tokens.end());
    }
  for (const char* options : {R"({"use_cache": true})", R"({"use_cache": false})"}) {
    GenerationConfig config = request.config;
    config.update(options);
    TokenIds expected = generate(*model, asked, config).sequences.at(0);
    expected.resize(std::min(expected.size(), written.size()));
    EXPECT_EQ(written, expected) << options;
  }
}

TEST_P(SeenTogether, RefuseToReadAPromptTokenByToken) {
  EngineRequest request{.prompt = prompt()};
  request.config.update(R"({"max_new_tokens": 2})");
  request.prompt_logprobs = 0;
  Engine engine(*model);
  engine.add(request);
  std::string error;
  while (engine.step())
    for (const EngineEvent& event : engine.take()) error += event.error;
  EXPECT_NE(error.find("see each other"), std::string::npos) << error;
}

INSTANTIATE_TEST_SUITE_P(Cases, SeenTogether, testing::Values("paligemma", "gemma3-narrow"), test::NameOfCase());

}  // namespace
}  // namespace transom
