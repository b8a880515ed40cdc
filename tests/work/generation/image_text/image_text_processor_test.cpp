// SPDX-License-Identifier: Apache-2.0
// Texts and chats with pictures, against the processors of Transformers: ids, pixels, prompts.
#include "work/generation/image_text/image_text_processor.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "base/json/json.h"
#include "files/config/model_config.h"
#include "support/golden.h"
#include "support/golden_cases.h"
#include "support/golden_values.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/ops.h"
#include "work/generation/image_text/chat_parts.h"
#include "work/train/loop/model_inputs.h"

namespace transom {
namespace {

using Pixels = ImageProcessor::Pixels;

class ProcessedTexts : public testing::TestWithParam<std::string> {
 protected:
  std::filesystem::path folder = test::folder_of_case(GetParam());
  Config config = read_model_config(folder / "model");
  Tokenizer tokenizer = Tokenizer::from_pretrained((folder / "model").string());
  ImageTextProcessor processor{folder / "model", config, tokenizer};

  std::vector<Pixels> pixels(const Json& files, bool in_chat = false) const {
    std::vector<Pixels> all;
    for (const Json& file : files)
      all.push_back(processor.prepared(read_image(folder.parent_path() / "image" / file.get<std::string>()),
                                       in_chat ? static_cast<int64_t>(files.size()) : 1));
    return all;
  }
  ModelInputs inputs(const std::string& text, std::span<const Pixels> images) const {
    return processor(text, images, [&](const std::string& expanded) {
      return tokenizer.encode(expanded, std::nullopt, {.add_special_tokens = adds_special_tokens(expanded, tokenizer)})
          .ids;
    });
  }
  void expect_pixels(const std::string& run, const std::vector<double>& found, double tolerance) const {
    for (const test::KeptValues& expected : test::golden_values(folder / "processed.safetensors")) {
      if (expected.name != run) continue;
      const int64_t count =
          std::accumulate(expected.shape.begin(), expected.shape.end(), int64_t{1}, std::multiplies());
      ASSERT_EQ(static_cast<int64_t>(found.size()), count) << run;
      EXPECT_EQ(difference(expected, found, tolerance, 0), "") << run;
      return;
    }
    ADD_FAILURE() << "no pictures of run " << run;
  }
};

TEST_P(ProcessedTexts, EqualTransformers) {
  const Json golden = read_json(folder / "processed.json");
  size_t with_pictures = 0;
  for (size_t number = 0; number < golden["runs"].size(); ++number) {
    const Json& run = golden["runs"][number];
    std::string text;
    if (run.contains("messages")) {
      const bool goes_on = run["messages"].back()["role"] == "assistant";
      const ChatOptions options{.add_generation_prompt = !goes_on, .continue_final_message = goes_on};
      text = tokenizer.apply_chat_template(
          dump_json(fitting_parts(run["messages"], tokenizer, options, processor.image_token())), options);
      EXPECT_EQ(text, run["prompt"]) << number;
    } else {
      text = run["text"];
    }
    const std::vector<Pixels> images = pixels(run["images"], run.contains("messages"));
    const ModelInputs made = inputs(text, images);
    EXPECT_EQ(made.tokens, run["input_ids"].get<TokenIds>()) << number;
    // A processor whose model reads all of a prompt at once has the other tokens as one input more, behind the
    // pictures.
    ASSERT_TRUE(made.attached.size() == images.size() || made.attached.back().tensors.find("input_ids").defined())
        << number;
    ASSERT_LE(made.attached.size(), images.size() + 1) << number;
    if (images.empty()) continue;
    ++with_pictures;
    std::vector<double> all;
    int64_t end = 0;
    bool exact = true;  // decoders of JPEG may differ by a step
    for (size_t i = 0; i < images.size(); ++i) {
      const std::vector<double> found = made.attached[i].tensors.at("pixel_values").to_vector<double>();
      all.insert(all.end(), found.begin(), found.end());
      exact = exact && !run["images"][i].get<std::string>().ends_with(".jpg");
      for (const FilledPlaces& places : made.attached[i].places) {
        EXPECT_GE(places.begin, end);
        end = places.end();
      }
    }
    expect_pixels(std::to_string(number), all, exact ? 1e-6 : 2 / 255.0 / 0.25);
  }
  EXPECT_GE(with_pictures, 4u);
}

TEST_P(ProcessedTexts, PicturesAndTheirTokensAreAsMany) {
  const std::vector<Pixels> one = pixels({"gray.png"});
  const auto refused = [&](const std::string& text, std::span<const Pixels> images) {
    return test::message_of([&] { inputs(text, images); });
  };
  const std::string& token = processor.image_token();
  EXPECT_EQ(refused("two " + token + " and " + token, one),
            "the text has 2 " + token + " for pictures, and 1 picture is given");
  if (!GetParam().starts_with("paligemma"))  // which puts them before the text
    EXPECT_EQ(refused("none", one), "the text has 0 " + token + " for pictures, and 1 picture is given");
  EXPECT_EQ(refused("one " + token, {}), "the text has 1 " + token + " for pictures, and 0 pictures are given");
}

INSTANTIATE_TEST_SUITE_P(Cases, ProcessedTexts, testing::ValuesIn(test::golden_cases("processed.json")),
                         test::NameOfCase());

TEST(ImageTextProcessor, RefusesATokenizerOfAnotherModel) {
  const std::filesystem::path folder = test::folder_of_case("llava") / "model";
  const Tokenizer tokenizer = Tokenizer::from_pretrained(folder.string());
  Config config = read_model_config(folder);
  config.set_json("image_token_index", "5");
  EXPECT_NE(test::message_of([&] {
              ImageTextProcessor(folder, config, tokenizer);
            }).find("the tokenizer has '<image>' for pictures as token 700, config.json has 5 for it"),
            std::string::npos);
  EXPECT_FALSE(ImageTextProcessor::is_for(Config::parse(R"({"model_type": "llama"})", "a test")));
}

// Files of before Transformers 4.46 have no processor_config.json: then the model says how many places a picture has.
TEST(ImageTextProcessor, CountsAsTheModelDoesWhereItsFileSaysNothing) {
  const std::filesystem::path folder = test::folder_of_case("llava"), model = folder / "model";
  const test::TemporaryFolder older;
  std::filesystem::copy(model / "preprocessor_config.json", older / "preprocessor_config.json");
  const Tokenizer tokenizer = Tokenizer::from_pretrained(model.string());
  const ImageTextProcessor processor(older.path(), read_model_config(model), tokenizer);
  const std::vector<Pixels> images{processor.prepared(read_image(folder.parent_path() / "image" / "gray.png"))};
  const ModelInputs inputs = processor("<image>", images, [&](const std::string& text) {
    return tokenizer.encode(text, std::nullopt, {.add_special_tokens = false}).ids;
  });
  ASSERT_EQ(inputs.attached.size(), 1u);
  EXPECT_EQ(inputs.attached[0].places.at(0).count, 16);
}

// Places in a text that are to be found again, of a processor that changes the text around its pictures.
TEST(ImageTextProcessor, FindsPlacesAgainWhereMarksAndSpacesChange) {
  const std::filesystem::path folder = test::folder_of_case("idefics2") / "model";
  const Tokenizer tokenizer = Tokenizer::from_pretrained(folder.string());
  const ImageTextProcessor processor(folder, read_model_config(folder), tokenizer);
  const Pixels one = processor.prepared(read_image(folder.parent_path().parent_path() / "image" / "gray.png"));
  const std::string text = "a<image><image>b <image> c";
  std::vector<size_t> bytes{0, 1, 8, 15, 16, 17, 24, 25};
  const std::string whole = processor.expanded(text, std::vector<Pixels>{one, one, one}, bytes);
  const std::string mark = "<fake_token_around_image>", part = "<image><image><image>";
  std::string picture = mark;
  for (int i = 0; i < 5; ++i) picture += part + mark;
  const std::string behind = picture.substr(mark.size());
  EXPECT_EQ(whole, "a" + picture + behind + " b " + picture + " c");
  EXPECT_EQ(whole.substr(bytes[0], 1), "a");
  EXPECT_EQ(bytes[1], 1u);
  EXPECT_EQ(whole.substr(bytes[3], 2), "b ");
  EXPECT_EQ(whole.substr(bytes[4], 1), " ");
  EXPECT_EQ(bytes[5], bytes[4] + 1);
  EXPECT_EQ(whole.substr(bytes[6]), " c");
  EXPECT_EQ(whole.substr(bytes[7]), "c");
}

// Templates that know contents as texts alone.
TEST(ChatParts, BecomeTextsWhereATemplateKnowsNone) {
  const Tokenizer tokenizer = Tokenizer::from_pretrained((test::folder_of_case("llava") / "model").string());
  const Json chat = Json::parse(R"([{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "a"}]},
                                    {"role": "assistant", "content": "b"}])");
  const ChatOptions texts{.chat_template = "{% for m in messages %}[{{ m.content }}]{% endfor %}"};
  EXPECT_FALSE(writes_parts(tokenizer, texts));
  const auto write = [&](const ChatOptions& options) {
    return tokenizer.apply_chat_template(dump_json(fitting_parts(chat, tokenizer, options, "<image>")), options);
  };
  EXPECT_EQ(write(texts), "[<image>\na][b]");
  EXPECT_TRUE(writes_parts(tokenizer, {}));
  EXPECT_EQ(write({}), "USER: <image>\na ASSISTANT: b ");
}

// As Transformers hands them on; where a role knows texts alone, on lines of their own, as vLLM and llama.cpp do.
TEST(ChatParts, OfTextsStayApart) {
  const Tokenizer tokenizer = Tokenizer::from_pretrained((test::folder_of_case("llava") / "model").string());
  const Json parts = Json::parse(R"([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])");
  const Json chat = Json::array({{{"role", "system"}, {"content", parts}},
                                 {{"role", "user"}, {"content", parts}},
                                 {{"role", "assistant"}, {"content", "c"}},
                                 {{"role", "tool"}, {"content", parts}}});
  const auto write = [&](const std::string& written) {
    const ChatOptions options{.chat_template = written};
    return tokenizer.apply_chat_template(dump_json(fitting_parts(chat, tokenizer, options, "")), options);
  };
  EXPECT_EQ(write("{% for m in messages %}[{{ m.content }}]{% endfor %}"), "[a\nb][a\nb][c][a\nb]");
  const std::string list = "{% for p in m.content %}<{{ p.text }}>{% endfor %}";
  EXPECT_EQ(write("{% for m in messages %}{% if m.content is string %}[{{ m.content }}]{% else %}" + list +
                  "{% endif %}{% endfor %}"),
            "<a><b><a><b>[c][a\nb]");
  EXPECT_EQ(
      write("{% for m in messages %}{% if m.content is string or m.role == 'system' %}[{{ m.content }}]{% else %}" +
            list + "{% endif %}{% endfor %}"),
      "[a\nb]<a><b>[c][a\nb]");
}

TEST(ChatParts, OfAModelOfTextsAreTextsAlone) {
  const Tokenizer tokenizer = Tokenizer::from_pretrained((test::folder_of_case("llava") / "model").string());
  const ChatOptions options{.chat_template = "{% for m in messages %}{{ m.role + m.content }}{% endfor %}"};
  const Json chat = Json::parse(R"([{"role": "user", "content": [{"type": "text", "text": "a"}]}])");
  EXPECT_EQ(dump_json(fitting_texts(chat, tokenizer, options)), R"([{"role": "user", "content": "a"}])");
  const Json plain = Json::parse(R"([{"role": "user", "content": "a"}])");
  EXPECT_EQ(fitting_texts(plain, tokenizer, options), plain);
  const Json picture = Json::parse(R"([{"role": "user", "content": [{"type": "image"}]}])");
  EXPECT_EQ(test::message_of([&] { fitting_texts(picture, tokenizer, options); }),
            "messages: expected texts, since the model reads no pictures, found '{\"type\": \"image\"}'");
}

}  // namespace
}  // namespace transom
