// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/reasoning/thought_splitter.h"

#include <gtest/gtest.h>

namespace transom {
namespace {

using serve::ReasoningForm;
using serve::ThoughtSplitter;

struct Split {
  std::string thoughts, answer;
  friend bool operator==(const Split&, const Split&) = default;
};

const ReasoningForm& form_of(std::string_view open) {
  for (const ReasoningForm& form : serve::reasoning_forms())
    if (form.open.starts_with(open)) return form;
  throw std::runtime_error("no such form");
}

// Marks of harmony are special tokens where `special` is true; else all is characters. In pieces of so many bytes.
Split split(const std::string& text, const ReasoningForm& form, bool begun, size_t size, bool special = false) {
  ThoughtSplitter splitter({&form, begun});
  Split result;
  const auto take = [&] {
    result.thoughts += splitter.take_thoughts();
    for (const TextPiece& piece : splitter.take_answer())
      if (!piece.special) result.answer += piece.text;
  };
  for (size_t at = 0; at < text.size();) {
    const size_t mark = special && text.compare(at, 2, "<|") == 0 ? text.find("|>", at) + 2 - at : 0;
    const size_t next = special ? std::min(text.find("<|", at + 1), text.size()) - at : text.size() - at;
    const size_t length = mark > 0 ? mark : std::min(size, next);
    splitter.add({text.substr(at, length), mark > 0 ? std::optional<int64_t>(7) : std::nullopt});
    at += length;
    take();
  }
  splitter.finish();
  take();
  return result;
}

TEST(ThoughtSplitter, TellsThoughtsFromTheAnswerWhateverThePieces) {
  struct Case {
    std::string text;
    bool begun;
    Split expected;
  };
  const std::vector<Case> cases{
      {"<think>\nHm.\n</think>\n\nYes.", false, {"Hm.", "Yes."}},
      {"\n <think>a b</think>c </think> d", false, {"a b", "c </think> d"}},
      {"Hm.\n</think>\nYes.", true, {"Hm.", "Yes."}},
      {"<think></think>Yes", false, {"", "Yes"}},
      {"No thoughts <think>here</think>", false, {"", "No thoughts <think>here</think>"}},
      {"<thin", false, {"", "<thin"}},
      {"<think>never </thin ends", false, {"never </thin ends", ""}},
      {"<think>cut </thi", false, {"cut </thi", ""}},
      {"", false, {"", ""}},
      {"  ", false, {"", "  "}},
      {"<think>é😀</think>é", false, {"é😀", "é"}},
  };
  for (const Case& each : cases)
    for (const size_t size : {1u, 2u, 3u, 7u, 1000u}) {
      const Split found = split(each.text, form_of("<think>"), each.begun, size);
      EXPECT_EQ(found.thoughts, each.expected.thoughts) << each.text << " by " << size;
      EXPECT_EQ(found.answer, each.expected.answer) << each.text << " by " << size;
    }
}

TEST(ThoughtSplitter, KnowsChannels) {
  const ReasoningForm& form = form_of("<|channel|>");
  const std::string analysis = "<|channel|>analysis<|message|>", final = "<|channel|>final<|message|>";
  for (const bool special : {true, false})
    for (const size_t size : {1u, 4u, 1000u}) {
      EXPECT_EQ(split(analysis + "Hm.<|end|><|start|>assistant" + final + "Yes.", form, false, size, special),
                (Split{"Hm.", "Yes."}));
      EXPECT_EQ(split(analysis + "A.<|end|><|start|>assistant" + analysis + "B.<|end|><|start|>assistant" + final + "C",
                      form, false, size, special),
                (Split{"A.\n\nB.", "C"}));
      EXPECT_EQ(split(final + "Yes.", form, false, size, special), (Split{"", "Yes."}));
    }
  // A call is left to who reads calls.
  const std::string call = "<|start|>assistant<|channel|>commentary to=functions.f<|message|>{}";
  EXPECT_EQ(split(analysis + "Hm.<|end|>" + call, form, false, 3), (Split{"Hm.", call}));
}

TEST(ThoughtSplitter, SeesWhereThePromptHasBegunThem) {
  const ReasoningForm& form = form_of("<think>");
  EXPECT_TRUE(serve::begins_in_thoughts("<assistant><think>\n", form));
  EXPECT_FALSE(serve::begins_in_thoughts("<assistant><think>\n\n</think>\n\n", form));
  EXPECT_FALSE(serve::begins_in_thoughts("", form));
}

}  // namespace
}  // namespace transom
