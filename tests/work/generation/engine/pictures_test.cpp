// SPDX-License-Identifier: Apache-2.0
// Texts with pictures in the engine: what generate() writes, one prefix a picture, equal bits in company.
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "base/json/json.h"
#include "models/generative.h"
#include "models/vision_language/token_places.h"
#include "support/golden.h"
#include "support/golden_cases.h"
#include "support/message.h"
#include "transom/device.h"
#include "transom/engine.h"
#include "transom/ops.h"
#include "work/train/loop/model_inputs.h"

namespace transom {
namespace {

struct Answered {
  TokenIds tokens;
  std::vector<float> logprobs;
  int64_t cached = 0;
  std::string error;
  bool operator==(const Answered& other) const {  // whatever was found in the cache
    return tokens == other.tokens && logprobs == other.logprobs && error == other.error;
  }
};

std::map<std::pair<uint64_t, int64_t>, Answered> all_written(Engine& engine) {
  std::map<std::pair<uint64_t, int64_t>, Answered> result;
  while (engine.step())
    for (const EngineEvent& event : engine.take()) {
      Answered& written = result[{event.request, event.index}];
      written.tokens.insert(written.tokens.end(), event.tokens.begin(), event.tokens.end());
      for (const TokenLogprobs& at : event.logprobs) written.logprobs.push_back(at.logprob);
      written.cached += event.cached_tokens;
      written.error += event.error;
    }
  return result;
}

class Pictures : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { set_device("cpu"); }

  // The text of a row with the pictures of these numbers in its places.
  ModelInputs prompt(int64_t row, const std::vector<int64_t>& numbers, double factor = 1) const {
    const Tensor ids = inputs.at("input_ids"), pixels = inputs.at("pixel_values");
    const std::vector<int64_t> kept =
        squeeze(slice(inputs.at("attention_mask"), 0, row, row + 1), 0).to_vector<int64_t>();
    std::vector<int64_t> tokens = squeeze(slice(ids, 0, row, row + 1), 0).to_vector<int64_t>();
    tokens.resize(static_cast<size_t>(std::count(kept.begin(), kept.end(), 1)));
    ModelInputs made(tokens);
    TokenPlaces places(tokens, model->config().get_int("image_token_index"));
    const int64_t each = numbers.empty() ? 0 : places.left() / static_cast<int64_t>(numbers.size());
    for (const int64_t number : numbers) {
      const Tensor one = slice(pixels, 0, number, number + 1) * factor;
      made.attached.push_back({.tensors = {{"pixel_values", Tensor::from(one.to_vector<float>(), one.shape())}},
                               .places = places.take(each)});
    }
    return made;
  }
  static EngineRequest request(ModelInputs prompt, const char* options = R"({"max_new_tokens": 8})") {
    EngineRequest made{.prompt = std::move(prompt)};
    made.config.update(options);
    made.logprobs = 0;
    return made;
  }
  Answered written(Engine& engine, const EngineRequest& one) const {
    engine.add(one);
    return all_written(engine).begin()->second;
  }

  const std::filesystem::path folder = test::folder_of_case(GetParam());
  const std::unique_ptr<Model> model = Model::from_pretrained((folder / "model").string());
  const NamedTensors inputs = load_inputs(folder / "inputs.safetensors");
};

TEST_P(Pictures, GiveWhatGenerateGives) {
  for (const auto& [row, numbers] : {std::pair<int64_t, std::vector<int64_t>>{2, {0}}, {0, {1, 2}}, {1, {}}})
    for (const char* options :
         {R"({"max_new_tokens": 8})", R"({"max_new_tokens": 8, "num_beams": 3, "num_return_sequences": 2})",
          R"({"max_new_tokens": 8, "do_sample": true, "seed": 3, "temperature": 1.5})"}) {
      const ModelInputs one = prompt(row, numbers);
      const EngineRequest asked = request(one, options);
      Engine engine(*model);
      engine.add(asked);
      std::vector<TokenIds> texts;
      for (const auto& [key, each] : all_written(engine)) {
        texts.push_back(one.tokens);
        texts.back().insert(texts.back().end(), each.tokens.begin(), each.tokens.end());
        EXPECT_EQ(each.error, "");
      }
      const GenerationOutput loop = generate(*model, one, asked.config);
      ASSERT_EQ(texts.size(), loop.sequences.size());
      for (size_t i = 0; i < texts.size(); ++i) {
        TokenIds expected = loop.sequences[i];
        expected.resize(std::min(expected.size(), texts[i].size()));  // behind an end stands padding
        EXPECT_EQ(texts[i], expected) << row << " " << options;
      }
    }
}

TEST_P(Pictures, AreFoundAgainByWhatTheyHold) {
  const EngineRequest one = request(prompt(2, {0})), other = request(prompt(2, {1})),
                      brighter = request(prompt(2, {0}, 1.01));
  Engine engine(*model, {.block_size = 4});
  const Answered first = written(engine, one);
  EXPECT_EQ(first.cached, 0);
  const Answered again = written(engine, one);
  EXPECT_GE(again.cached, 16);
  EXPECT_TRUE(again == first);
  // Of other pictures at most the blocks before them are shared, though all tokens are the same.
  const int64_t before = one.prompt.attached[0].places[0].begin / 4 * 4;
  for (const EngineRequest* each : {&other, &brighter}) {
    const Answered seen = written(engine, *each);
    EXPECT_EQ(seen.cached, before);
    Engine alone(*model, {.prefix_caching = false});
    EXPECT_TRUE(written(alone, *each) == seen);
    EXPECT_NE(seen.logprobs, first.logprobs);
  }
  EXPECT_TRUE(written(engine, one) == first);
}

TEST_P(Pictures, KeepTheirBitsInCompany) {
  Engine engine(*model, {.block_size = 4, .max_batched_tokens = 11, .max_sequences = 6});
  std::map<uint64_t, EngineRequest> requests;
  for (int64_t i = 0; i < 9; ++i) {
    const ModelInputs text = i % 3 == 0 ? prompt(2, {i / 3}) : i % 3 == 1 ? prompt(0, {i % 2, 2}) : prompt(1, {});
    const EngineRequest one = request(
        text, i % 2 == 0 ? R"({"max_new_tokens": 8})" : R"({"max_new_tokens": 8, "do_sample": true, "seed": 5})");
    requests[engine.add(one)] = one;
  }
  for (const auto& [key, answer] : all_written(engine)) {
    Engine alone(*model, {.prefix_caching = false});
    const Answered lonely = written(alone, requests.at(key.first));
    EXPECT_EQ(answer.error, "");
    EXPECT_TRUE(answer == lonely) << key.first;
  }
}

TEST_P(Pictures, OfOtherNumbersOfPlacesAreRefusedBeforeTheQueue) {
  Engine engine(*model);
  ModelInputs text = prompt(2, {0});
  std::vector<FilledPlaces>& places = text.attached[0].places;
  --places.back().count;
  const std::string message = test::message_of([&] { engine.add(request(text)); });
  EXPECT_NE(message.find("pixel_values of an input among the tokens: expected ["), std::string::npos) << message;
  EXPECT_NE(message.find("a row for each of its places"), std::string::npos) << message;
  EXPECT_EQ(engine.statistics().waiting, 0);
}

// Those whose pictures are rows of pixel_values.
INSTANTIATE_TEST_SUITE_P(Cases, Pictures, testing::Values("llava", "llava-qwen2"), test::NameOfCase());

// Families whose pictures are tiles, grids or patches: the prompts that Transformers was given.
class SeenPictures : public Pictures {
 protected:
  ModelInputs golden_prompt(int64_t row, double factor = 1) const {
    NamedTensors given;
    const Json golden = read_json(folder / "generate.json");
    for (const Json& run : golden["runs"])
      if (run["name"] == (row == 0 ? "greedy_a" : "greedy_b"))
        for (const auto& [name, value] : run["inputs"].items()) given.set(name, argument(value));
    const std::vector<int64_t> ids = given.at("input_ids").to_vector<int64_t>();  // of one row: without padding
    ModelInputs made(ids, dynamic_cast<const GenerativeModel&>(*model).attached_inputs(given).at(0));
    for (AttachedInput& input : made.attached) {
      NamedTensors tensors;
      for (const auto& [name, tensor] : input.tensors.items())
        tensors.set(
            name, name == "pixel_values" ? Tensor::from((tensor * factor).to_vector<float>(), tensor.shape()) : tensor);
      input.tensors = tensors;
    }
    return made;
  }

 private:
  // Rows of whole numbers, or "inputs.safetensors:pixel_values[0:2]".
  Tensor argument(const Json& value) const {
    if (value.is_string()) {
      const std::string place = value.get<std::string>();
      const size_t colon = place.find(':'), bracket = place.find('['), until = place.find(':', bracket);
      return slice(inputs.at(place.substr(colon + 1, bracket - colon - 1)), 0, std::stoll(place.substr(bracket + 1)),
                   std::stoll(place.substr(until + 1)));
    }
    std::vector<int64_t> numbers;
    const std::function<void(const Json&)> append = [&](const Json& item) {
      if (!item.is_array()) return numbers.push_back(item.get<int64_t>());
      for (const Json& inner : item) append(inner);
    };
    append(value);
    Shape shape;
    for (const Json* level = &value; level->is_array(); level = &level->front())
      shape.push_back(static_cast<int64_t>(level->size()));
    return Tensor::from(numbers, shape);
  }
};

TEST_P(SeenPictures, AreWrittenAboutAsByGenerateAndFoundAgain) {
  for (const int64_t row : {0, 1}) {
    const EngineRequest one = request(golden_prompt(row)), brighter = request(golden_prompt(row, 1.01));
    ASSERT_EQ(one.prompt.attached.empty(), false);
    Engine engine(*model, {.block_size = 4, .max_batched_tokens = 11});
    const Answered first = written(engine, one);
    EXPECT_EQ(first.error, "");
    TokenIds text = one.prompt.tokens;
    text.insert(text.end(), first.tokens.begin(), first.tokens.end());
    TokenIds expected = generate(*model, one.prompt, one.config).sequences.at(0);
    expected.resize(std::min(expected.size(), text.size()));  // an end is not told
    EXPECT_EQ(text, expected) << row;
    const Answered again = written(engine, one);
    EXPECT_GT(again.cached, 0);
    EXPECT_TRUE(again == first);
    const Answered other = written(engine, brighter);
    EXPECT_LE(other.cached, one.prompt.attached[0].places[0].begin);
    EXPECT_NE(other.logprobs, first.logprobs);
  }
}

TEST_P(SeenPictures, KeepTheirBitsInCompanyToo) {
  Engine engine(*model, {.block_size = 4, .max_batched_tokens = 11, .max_sequences = 6});
  std::map<uint64_t, EngineRequest> requests;
  for (int64_t i = 0; i < 6; ++i) {
    const EngineRequest one =
        request(golden_prompt(i % 2, i < 2 ? 1 : 1.01),
                i % 3 == 0 ? R"({"max_new_tokens": 8})" : R"({"max_new_tokens": 8, "do_sample": true, "seed": 5})");
    requests[engine.add(one)] = one;
  }
  for (const auto& [key, answer] : all_written(engine)) {
    Engine alone(*model, {.prefix_caching = false});
    EXPECT_EQ(answer.error, "");
    EXPECT_TRUE(answer == written(alone, requests.at(key.first))) << key.first;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, SeenPictures,
                         testing::Values("idefics3", "smolvlm", "llava-next", "llava-next-siglip", "qwen2-vl",
                                         "qwen2-5-vl", "mllama"),
                         test::NameOfCase());

// Pictures that layers read beside the tokens, of which a text without any has none.
class LookedAtPictures : public SeenPictures {};

TEST_P(LookedAtPictures, LeaveTextsWithoutThemAsTheyAre) {
  const EngineRequest seeing = request(golden_prompt(0)), plain = request(ModelInputs{5, 9, 11, 6, 7});
  Engine engine(*model, {.block_size = 4, .max_batched_tokens = 16});
  engine.add(seeing);
  engine.add(plain);
  engine.add(seeing);
  std::vector<Answered> answers;
  for (const auto& [key, answer] : all_written(engine)) answers.push_back(answer);
  ASSERT_EQ(answers.size(), 3u);
  for (size_t i = 0; i < answers.size(); ++i) {
    Engine alone(*model, {.prefix_caching = false});
    EXPECT_EQ(answers[i].error, "");
    EXPECT_TRUE(answers[i] == written(alone, i == 1 ? plain : seeing)) << i;
  }
  EXPECT_EQ(generate(*model, plain.prompt, plain.config).sequences.at(0).size(), 13u);
}

TEST_P(LookedAtPictures, StandAtOnePlaceOfAKnownToken) {
  Engine engine(*model);
  const auto refused = [&](const std::function<void(ModelInputs&)>& change) {
    EngineRequest one = request(golden_prompt(0));
    change(one.prompt);
    return test::message_of([&] { engine.add(one); });
  };
  EXPECT_NE(refused([](ModelInputs& prompt) { prompt.attached[0].places[0].count = 2; }).find("one place"),
            std::string::npos);
  EXPECT_NE(refused([](ModelInputs& prompt) {
              prompt.tokens[static_cast<size_t>(prompt.attached[0].places[0].begin)] = 1 << 20;
            }).find("the token 1048576 is not among"),
            std::string::npos);
  EXPECT_NE(refused([](ModelInputs& prompt) { prompt.attached.clear(); }).find("is not among the model's"),
            std::string::npos);
  EngineRequest scored = request(golden_prompt(0));
  scored.prompt_logprobs = 0;
  EXPECT_NE(test::message_of([&] { engine.add(scored); }).find("is never written"), std::string::npos);
  EXPECT_EQ(engine.statistics().waiting, 0);
}

INSTANTIATE_TEST_SUITE_P(Cases, LookedAtPictures, testing::Values("mllama"), test::NameOfCase());

}  // namespace
}  // namespace transom
