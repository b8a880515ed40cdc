// SPDX-License-Identifier: Apache-2.0
// What is written between tags, as DonutProcessor.token2json() of Transformers 5.24 has it.
#include "work/pipelines/image_text/tagged_fields.h"

#include <gtest/gtest.h>

#include "base/json/json.h"
#include "support/golden_cases.h"
#include "support/message.h"

namespace transom {
namespace {

const Tokenizer& tokenizer() {
  static const Tokenizer one = Tokenizer::from_pretrained((test::folder_of_case("donut") / "model").string());
  return one;
}

std::string fields(const std::string& text) { return dump_json(fields_of_tags(text, tokenizer())); }

TEST(TaggedFields, AreThoseOfTransformers) {
  EXPECT_EQ(fields(""), R"({"text_sequence": ""})");
  EXPECT_EQ(fields("a text"), R"({"text_sequence": "a text"})");
  EXPECT_EQ(fields("<s_a>1</s_a><s_b> 2 </s_b>"), R"({"a": "1", "b": "2"})");
  EXPECT_EQ(fields("<s_menu><s_nm>Tea</s_nm><s_price>3</s_price><sep/><s_nm>Milk</s_nm></s_menu><s_sum>5</s_sum>"),
            R"({"menu": [{"nm": "Tea", "price": "3"}, {"nm": "Milk"}], "sum": "5"})");
  EXPECT_EQ(fields("<s_menu><s_nm>Tea</s_nm></s_menu>"), R"({"menu": {"nm": "Tea"}})");
  EXPECT_EQ(fields("<s_a>1<sep/> 2</s_a>"), R"({"a": ["1", "2"]})");
  EXPECT_EQ(fields("<s_a>1</s_a><sep/><s_a>2</s_a>"), R"([{"a": "1"}, {"a": "2"}])");
  EXPECT_EQ(fields("<s_a>1</s_a><sep/>"), R"([{"a": "1"}])");
  EXPECT_EQ(fields("<s_class><yes/></s_class>"), R"({"class": "yes"})");
  EXPECT_EQ(fields("<s_class><no/></s_class>"), R"({"class": "<no/>"})");
  EXPECT_EQ(fields("<s_a><s_b>1</s_b>"), R"({"b": "1"})");
  EXPECT_EQ(fields("<s_A>x</s_a>"), R"({"A": "x"})");
  EXPECT_EQ(fields("<s_a>"), R"({"text_sequence": ""})");
  EXPECT_EQ(fields("<s_a"), R"({"text_sequence": "<s_a"})");
  EXPECT_EQ(fields("<s_a></s_a>"), R"({"a": ""})");
}

TEST(TaggedFields, LieSoDeepAtMost) {
  std::string text = "x";
  for (int i = 0; i < 2000; ++i) text = "<s_" + std::to_string(i) + ">" + text + "</s_" + std::to_string(i) + ">";
  EXPECT_NE(test::message_of([&] { fields(text); }).find("64 deep"), std::string::npos);
}

TEST(TaggedFields, AreOfATextWithoutTheTagOfItsTask) {
  std::vector<int64_t> ids =
      tokenizer().encode("<s_docvqa><s_answer>the</s_answer>", std::nullopt, {.add_special_tokens = false}).ids;
  ids.push_back(tokenizer().eos_token_id().value());
  ids.push_back(tokenizer().pad_token_id().value());
  EXPECT_EQ(tagged_text(ids, tokenizer()), "<s_answer> the</s_answer>");
}

}  // namespace
}  // namespace transom
