// SPDX-License-Identifier: Apache-2.0
// The golden tokenizers: what transformers gives for the same files and texts.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/json/json.h"
#include "inputs/text/tokenize_lines.h"
#include "support/golden.h"
#include "transom/error.h"

namespace transom {
namespace {

class GoldenTokenizer : public testing::TestWithParam<std::string> {
 protected:
  std::filesystem::path folder_ = test::folder_of_case(GetParam(), test::GoldenSet::kLibraries, "tokenizers");
};

// A line of vectors.jsonl with what it leaves out, since most texts have it.
Json whole_vector(Json line) {
  const Json usual{{"text_pair", nullptr},
                   {"add_special_tokens", true},
                   {"type_ids", std::vector<int>(line["ids"].size(), 0)},
                   {"attention_mask", std::vector<int>(line["ids"].size(), 1)},
                   {"decoded", line["text"]}};
  for (const auto& [key, value] : usual.items())
    if (!line.contains(key)) line[key] = value;
  if (!line.contains("decoded_skip_special")) line["decoded_skip_special"] = line["decoded"];
  Json& offsets = line["offsets"];
  if (offsets.is_null() || offsets.empty() || offsets[0].is_array()) return line;
  Json pairs = Json::array();
  for (size_t i = 0; i + 1 < offsets.size(); i += 2) pairs.push_back(Json::array({offsets[i], offsets[i + 1]}));
  offsets = pairs;
  return line;
}

TEST_P(GoldenTokenizer, Vectors) {
  const Tokenizer tokenizer = Tokenizer::from_pretrained(folder_.string());
  std::ifstream file(folder_ / "vectors.jsonl");
  int number = 0, wrong = 0;
  for (std::string line; std::getline(file, line) && wrong < 5;) {
    const std::string where = GetParam() + " line " + std::to_string(++number);
    const Json expected = whole_vector(parse_json(line, where));
    const Json found = parse_json(tokenize_line(tokenizer, dump_json(expected), where), where);
    for (const char* key :
         {"ids", "type_ids", "attention_mask", "offsets", "tokens", "decoded", "decoded_skip_special"}) {
      if (found[key] == expected[key]) continue;
      ADD_FAILURE() << where << " " << key << ": " << expected["text"] << " | " << expected["text_pair"]
                    << "\nexpected " << expected[key] << "\nfound    " << found[key] << "\ntokens   "
                    << found["tokens"];
      ++wrong;
      break;
    }
  }
  EXPECT_GT(number, 0);
}

EncodeOptions options_of(const Json& kwargs) {
  EncodeOptions options;
  const Json padding = kwargs.value("padding", Json(false)), truncation = kwargs.value("truncation", Json(false));
  if (padding == true || padding == "longest") options.padding = Padding::kLongest;
  if (padding == "max_length") options.padding = Padding::kMaxLength;
  if (truncation == true || truncation == "longest_first") options.truncation = Truncation::kLongestFirst;
  if (truncation == "only_first") options.truncation = Truncation::kOnlyFirst;
  if (truncation == "only_second") options.truncation = Truncation::kOnlySecond;
  if (kwargs.contains("max_length")) options.max_length = kwargs["max_length"].get<int64_t>();
  options.stride = kwargs.value("stride", 0);
  options.pad_to_multiple_of = kwargs.value("pad_to_multiple_of", 0);
  options.return_overflowing_tokens = kwargs.value("return_overflowing_tokens", false);
  if (kwargs.contains("padding_side"))
    options.padding_side = kwargs["padding_side"] == "left" ? Side::kLeft : Side::kRight;
  return options;
}

TEST_P(GoldenTokenizer, Batches) {
  const Tokenizer tokenizer = Tokenizer::from_pretrained(folder_.string());
  std::ifstream file(folder_ / "batch.jsonl");
  for (std::string line; std::getline(file, line);) {
    const Json expected = parse_json(line, "batch.jsonl");
    EncodeOptions options = options_of(expected["kwargs"]);
    const std::string where = GetParam() + " " + dump_json(expected["kwargs"]);
    const auto texts = expected["texts"].get<std::vector<std::string>>();
    std::vector<std::string> pairs;
    if (expected["text_pairs"].is_array()) pairs = expected["text_pairs"].get<std::vector<std::string>>();
    if (expected.contains("error")) {
      EXPECT_THROW(tokenizer.encode_batch(texts, pairs, options), Error) << where;
      continue;
    }
    options.truncation_side = expected["truncation_side"] == "left" ? Side::kLeft : Side::kRight;
    Json ids = Json::array(), types = Json::array(), masks = Json::array(), samples = Json::array();
    size_t sample = 0;
    for (const Encoding& encoding : tokenizer.encode_batch(texts, pairs, options)) {
      std::vector<Encoding> all = encoding.overflowing;
      all.insert(all.begin(), encoding);
      for (const Encoding& part : all) {
        ids.push_back(part.ids), types.push_back(part.type_ids), masks.push_back(part.attention_mask);
        samples.push_back(sample);
      }
      ++sample;
    }
    EXPECT_EQ(ids, expected["input_ids"]) << where;
    EXPECT_EQ(masks, expected["attention_mask"]) << where;
    if (expected.contains("token_type_ids") && !expected["token_type_ids"].is_null()) {
      EXPECT_EQ(types, expected["token_type_ids"]) << where;
    }
    if (expected.contains("overflow_to_sample_mapping")) {
      EXPECT_EQ(samples, expected["overflow_to_sample_mapping"]) << where;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, GoldenTokenizer,
                         testing::ValuesIn(test::golden_cases("vectors.jsonl", test::GoldenSet::kLibraries,
                                                              "tokenizers")),
                         test::NameOfCase());

}  // namespace
}  // namespace transom
