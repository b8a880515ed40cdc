// SPDX-License-Identifier: Apache-2.0
// Runs of --task sft against trl.SFTTrainer: the tokens and labels of each row, and the whole log.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

#include "base/files/files.h"
#include "base/json/json.h"
#include "files/config/model_config.h"
#include "support/golden.h"
#include "support/kept_log.h"
#include "support/message.h"
#include "support/ranks.h"
#include "support/temporary_folder.h"
#include "transom/fine_tuning.h"
#include "work/train/tasks/chats/chat_tokens.h"

namespace transom {
namespace {

fs::path sft_folder() { return test::golden_folder() / "sft"; }

std::vector<Json> lines_of(const fs::path& file) {
  std::vector<Json> lines;
  std::istringstream text(read_file(file));
  for (std::string line; std::getline(text, line);) lines.push_back(parse_json(line, file.string()));
  return lines;
}

class GoldenSft : public testing::TestWithParam<std::string> {
 protected:
  fs::path folder() const { return test::folder_of_case(GetParam(), test::GoldenSet::kLibraries, "sft"); }
};

TEST_P(GoldenSft, RowsHaveTheTokensAndLabels) {
  const Json about = read_json(folder() / "case.json"), given = read_json(folder() / "training_args.json");
  const fs::path start = (folder() / about["start"].get<std::string>()).lexically_normal();
  const Tokenizer tokenizer = Tokenizer::from_pretrained(start.string());
  const Config config = read_model_config(start);
  const ChatRows rows(Dataset::load((folder() / about["rows"].get<std::string>()).lexically_normal()), {},
                      tokenizer.has_chat_template(), ImageTextProcessor::is_for(config));
  ChatTokenOptions options;
  if (rows.has_pictures()) options.pictures = std::make_shared<const ImageTextProcessor>(start, config, tokenizer);
  options.completion_only_loss = given.value("completion_only_loss", rows.has_prompts());
  options.assistant_only_loss = given.value("assistant_only_loss", false);
  if (!given.contains("max_length")) options.max_length = 1024;
  else if (given["max_length"].is_number()) options.max_length = given["max_length"].get<int64_t>();
  options.eos_token = tokenizer.special_token("eos").value_or("");
  const ChatEncoder encoder(tokenizer, options);
  const std::vector<Json> expected = lines_of(folder() / "samples.jsonl");
  if (given.value("packing", false)) GTEST_SKIP() << "packing_test.cpp";
  size_t next = 0;
  for (int64_t i = 0; i < rows.data().size(); ++i) {
    const ChatTokens found = encoder.encode(rows.row(i), rows.data().where(i));
    if (std::all_of(found.labels.begin(), found.labels.end(), [](int64_t label) { return label == kIgnoredLabel; }))
      continue;
    ASSERT_LT(next, expected.size());
    EXPECT_EQ(found.ids, expected[next]["input_ids"].get<std::vector<int64_t>>()) << "row " << i + 1;
    EXPECT_EQ(found.labels, expected[next]["labels"].get<std::vector<int64_t>>()) << "row " << i + 1;
    ++next;
  }
  EXPECT_EQ(next, expected.size());
}

TEST_P(GoldenSft, ARunLogsTheSame) {
  const Json about = read_json(folder() / "case.json"), expected = read_json(folder() / "log_history.json");
  const test::TemporaryFolder work;
  Json given = read_json(folder() / "training_args.json");
  given["model_name_or_path"] = (folder() / about["start"].get<std::string>()).lexically_normal().string();
  const std::string rows = (folder() / about["rows"].get<std::string>()).lexically_normal().string();
  given["train_file"] = rows;
  if (given.contains("eval_strategy")) given["validation_file"] = rows, given["max_eval_samples"] = 6;
  given["task"] = "sft";
  given["output_dir"] = (work.path() / "out").string();
  given["save_strategy"] = "no";
  if (given.contains("max_length") && given["max_length"].is_null()) given.erase("max_length");
  const test::KeptLog quiet;
  if (const int processes = about.value("processes", 1); processes > 1) {
    write_file(work.path() / "args.json", dump_json(given));
    const std::vector<std::string> words{"train", "--config", (work.path() / "args.json").string()};
    for (const test::Outcome& outcome : test::run_ranks(words, work.path(), processes))
      ASSERT_EQ(outcome.status, 0) << outcome.error;
  } else {
    fine_tune(parse_train_json(dump_json(given), "training_args.json"));
  }
  const Json found = read_json(work.path() / "out" / "trainer_state.json")["log_history"];
  ASSERT_GE(found.size(), expected.size());  // a last evaluation is behind it
  const double rtol = about["tolerance"]["rtol"], atol = about["tolerance"]["atol"];
  for (size_t i = 0; i < expected.size(); ++i)
    for (const auto& [name, value] : expected[i].items()) {
      ASSERT_TRUE(found[i].contains(name)) << name << " of record " << i + 1;
      EXPECT_NEAR(found[i][name].get<double>(), value.get<double>(), atol + rtol * std::abs(value.get<double>()))
          << name << " of record " << i + 1;
    }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenSft,
                         testing::ValuesIn(test::golden_cases("case.json", test::GoldenSet::kLibraries, "sft")),
                         test::NameOfCase());

class SupervisedFineTuning : public testing::Test {
 protected:
  std::string run(std::vector<std::string> flags, const std::string& rows, const std::string& model = "qwen2/model") {
    write_file(work_.path() / "rows.jsonl", rows);
    flags.insert(flags.end(), {"--model_name_or_path", (sft_folder() / model).string(), "--train_file",
                               (work_.path() / "rows.jsonl").string(), "--output_dir", (work_.path() / "out").string(),
                               "--max_steps", "1", "--per_device_train_batch_size", "2", "--overwrite_output_dir"});
    const test::KeptLog log;
    const std::string message = test::message_of([&] { fine_tune(parse_train_arguments(flags)); });
    said_ = log.text();
    return message;
  }
  bool said(const std::string& text) const { return said_.find(text) != std::string::npos; }

  test::TemporaryFolder work_;
  std::string said_;
};

constexpr const char* kChat =
    R"({"messages": [{"role": "user", "content": "And of Italy?"}, {"role": "assistant", "content": "Rome."}]})"
    "\n";

TEST_F(SupervisedFineTuning, RowsOfChatsNeedNoTaskAndASampleIsShown) {
  ASSERT_EQ(run({"--assistant_only_loss"}, std::string(kChat) + kChat), "");
  EXPECT_TRUE(said("chats: column messages; 2 rows")) << said_;
  EXPECT_TRUE(said("»Rome.<|im_end|>«")) << said_;
}

TEST_F(SupervisedFineTuning, DefaultsAreThoseOfSftConfigWhereNothingIsGiven) {
  ASSERT_EQ(run({}, std::string(kChat) + kChat), "");
  Json arguments = read_json(work_.path() / "out" / "training_args.json");
  EXPECT_EQ(arguments["learning_rate"], 2e-5);
  EXPECT_EQ(arguments["logging_steps"], 10);
  ASSERT_EQ(run({"--learning_rate", "5e-5", "--logging_steps", "500"}, std::string(kChat) + kChat), "");
  arguments = read_json(work_.path() / "out" / "training_args.json");
  EXPECT_EQ(arguments["learning_rate"], 5e-5);
  EXPECT_EQ(arguments["logging_steps"], 500);
}

TEST_F(SupervisedFineTuning, BadRowsAreNamedBeforeTheFirstStep) {
  struct Bad {
    const char *row, *message;
  };
  const Bad cases[] = {
      {R"({"messages": [{"role": "user", "content": "Hi"}]})", "expected a message of the assistant"},
      {R"({"messages": [{"role": "usr", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]})",
       "expected a role of system"},
      {R"({"messages": [{"role": "user"}, {"role": "assistant", "content": "Ho"}]})", "message 1: expected content"},
      {R"({"messages": []})", "an empty one"},
      {R"({"conversations": [{"from": "gpt", "value": "Ho"}]})",
       "column messages: expected a list of messages, found nothing"},
      {R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "tool_calls": [{"function": {}}]}]})",
       "expected a function with a name"},
      {R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": "{\"a\": "}}]}]})",
       "arguments of the call of f"},
      {R"({"messages": [{"role": "user", "content": [{"type": "image"}]}, {"role": "assistant", "content": "Ho"}]})",
       "found a picture, expected texts"},
  };
  for (const Bad& bad : cases) {
    const std::string message = run({}, std::string(kChat) + bad.row + "\n");
    EXPECT_NE(message.find("rows.jsonl: row 2"), std::string::npos) << message;
    EXPECT_NE(message.find(bad.message), std::string::npos) << message;
  }
}

TEST_F(SupervisedFineTuning, PicturesAreForModelsThatSee) {
  const std::string row = R"({"images": ["a.png"], "messages": [{"role": "user", "content": "Hi"}, )"
                          R"({"role": "assistant", "content": "Ho"}]})";
  EXPECT_NE(run({}, row + "\n").find("column images: the model sees no pictures"), std::string::npos);
  // A column without any is that of a file whose rows might have had some.
  for (const std::string none : {"null", "[]"})
    EXPECT_EQ(run({}, R"({"images": )" + none + row.substr(row.find(R"(, "messages")")) + "\n"), "");
}

TEST_F(SupervisedFineTuning, RowsThatAreCutToNothingAreNamedAndLeftOut) {
  std::string words;
  for (int i = 0; i < 100; ++i) words += "one two ";
  const std::string rows = std::string(kChat) + R"({"messages": [{"role": "user", "content": ")" + words +
                           R"("}, {"role": "assistant", "content": "No."}]})" + "\n" + kChat;
  ASSERT_EQ(run({"--assistant_only_loss", "--max_length", "80"}, rows), "");
  EXPECT_TRUE(said("1 of 3 rows are left out")) << said_;
  EXPECT_TRUE(said("rows.jsonl: row 2")) << said_;
  const std::string message = run({"--assistant_only_loss", "--max_length", "3"}, kChat);
  EXPECT_NE(message.find("no row is left to train on"), std::string::npos) << message;
}

TEST_F(SupervisedFineTuning, InstructionsBecomeMessagesOrAlpacasText) {
  const std::string row = R"({"instruction": "Translate.", "input": "chat", "output": "cat"})"
                          "\n";
  ASSERT_EQ(run({}, row + row), "");
  EXPECT_TRUE(said("user\nTranslate.\nchat<|im_end|>")) << said_;
  EXPECT_TRUE(said("»cat<|im_end|>")) << said_;
  write_file(work_.path() / "a.jsonl", row);
  const ChatRow text = ChatRows(Dataset::load(work_.path() / "a.jsonl"), {}, /*writes_chats=*/false).row(0);
  EXPECT_FALSE(text.is_chat());
  EXPECT_TRUE(text.prompt.get<std::string>().ends_with("### Input:\nchat\n\n### Response:\n"));
  EXPECT_EQ(text.completion, "cat");
}

TEST_F(SupervisedFineTuning, ShareGptsRolesAreThoseOfTemplates) {
  ASSERT_EQ(run({"--assistant_only_loss"},
                R"({"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Ho"}]})"
                "\n"),
            "");
  EXPECT_TRUE(said("user\nHi<|im_end|>")) << said_;
  EXPECT_TRUE(said("»Ho<|im_end|>«")) << said_;
}

TEST_F(SupervisedFineTuning, ToolArgumentsAreObjects) {
  ASSERT_EQ(run({}, R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "", )"
                    R"("tool_calls": [{"type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]}]})"
                    "\n"),
            "");
  EXPECT_TRUE(said(R"("arguments": {"a": 1})")) << said_;
}

TEST_F(SupervisedFineTuning, ATemplateOfTheRunIsSavedWithTheModel) {
  const fs::path file = work_.path() / "plain.jinja";
  const std::string source =
      "{% for m in messages %}[{{ m.role }}] {{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}"
      "[assistant] {% endif %}";
  write_file(file, source);
  ASSERT_EQ(run({"--assistant_only_loss", "--chat_template_path", file.string()}, kChat), "");
  EXPECT_TRUE(said("[user] And of Italy?<|im_end|>\n[assistant] »Rome.<|im_end|>\n«")) << said_;
  const Tokenizer saved = Tokenizer::from_pretrained((work_.path() / "out").string());
  EXPECT_EQ(saved.chat_template(), source);
}

TEST_F(SupervisedFineTuning, ChatsNeedATemplate) {
  const std::string message = run({}, kChat, "gpt2/model");
  EXPECT_NE(message.find("no chat template"), std::string::npos) << message;
  EXPECT_NE(message.find("--chat_template_path"), std::string::npos) << message;
}

TEST_F(SupervisedFineTuning, LossesOfOtherFormsAreRefused) {
  const std::string text = "{\"text\": \"one two three\"}\n";
  EXPECT_NE(run({"--task", "sft", "--assistant_only_loss"}, text).find("is for chats"), std::string::npos);
  EXPECT_NE(run({"--task", "sft", "--completion_only_loss"}, text).find("a prompt and a completion"),
            std::string::npos);
  EXPECT_NE(run({"--loss_type", "sigmoid"}, kChat).find("expected nll or dft"), std::string::npos);
}

// Packed or not, with padding or without, a step learns the same.
TEST_F(SupervisedFineTuning, APackedStepIsThatOfItsSamplesInRowsOfTheirOwn) {
  const auto curve = [&](std::vector<std::string> flags) {
    flags.insert(
        flags.end(),
        {"--max_length", "180", "--logging_steps", "1", "--per_device_train_batch_size", "12", "--max_steps", "1",
         "--overwrite_output_dir", "--model_name_or_path", (sft_folder() / "qwen2/model").string(), "--train_file",
         (sft_folder() / "rows" / "chats.jsonl").string(), "--output_dir", (work_.path() / "out").string()});
    const test::KeptLog quiet;
    fine_tune(parse_train_arguments(flags));
    return read_json(work_.path() / "out" / "trainer_state.json")["log_history"][0];
  };
  const Json alone = curve({"--padding_free", "false"}), usual = curve({}), free = curve({"--padding_free"}),
             packed = curve({"--packing"}), padded = curve({"--packing", "--padding_free", "false"});
  const Json adapted = curve({"--use_peft", "--lora_dropout", "0"}),
             packed_adapted = curve({"--use_peft", "--lora_dropout", "0", "--packing"});
  EXPECT_NEAR(packed_adapted["grad_norm"].get<double>(), adapted["grad_norm"].get<double>(), 1e-4);
  for (const Json* other : {&usual, &free, &packed, &padded})
    for (const char* name : {"loss", "grad_norm", "entropy", "mean_token_accuracy", "num_tokens"})
      EXPECT_NEAR((*other)[name].get<double>(), alone[name].get<double>(), 2e-5 * std::abs(alone[name].get<double>()))
          << name;
}

// num_tokens leaves padding out whatever else is counted.
TEST_F(SupervisedFineTuning, TokensOfTheLogAreWithoutPaddingWhereInputsAreCountedToo) {
  const std::string longer = R"({"messages": [{"role": "user", "content": "Is the sun a star, or what is it?"}, )"
                             R"({"role": "assistant", "content": "Yes."}]})";
  std::set<double> learnt;
  for (const std::string counted : {"no", "non_padding", "all"}) {
    ASSERT_EQ(run({"--include_num_input_tokens_seen", counted, "--logging_steps", "1"}, kChat + longer + "\n"), "");
    const Json record = read_json(work_.path() / "out" / "trainer_state.json")["log_history"][0];
    learnt.insert(record["num_tokens"].get<double>());
    if (counted == "non_padding") EXPECT_EQ(record["num_input_tokens_seen"], record["num_tokens"]);
    if (counted == "all") EXPECT_GT(record["num_input_tokens_seen"].get<double>(), *learnt.begin());
  }
  EXPECT_EQ(learnt.size(), 1u);
}

TEST_F(SupervisedFineTuning, TheEndTokenOfTheRunIsThatOfTheModel) {
  ASSERT_EQ(run({"--eos_token", "<|im_start|>"}, kChat), "");
  const Tokenizer saved = Tokenizer::from_pretrained((work_.path() / "out").string());
  const int64_t id = *saved.token_to_id("<|im_start|>");
  EXPECT_EQ(read_json(work_.path() / "out" / "config.json")["eos_token_id"], id);
  const Json generation = read_json(work_.path() / "out" / "generation_config.json")["eos_token_id"];
  EXPECT_EQ(generation.is_array() ? generation[0] : generation, id);
}

// A template without marks is asked what it writes with and without each turn: the same tokens as with marks, but for
// the line break behind a turn, which is part of it.
TEST(ChatEncoder, FindsWithoutMarksWhatTheAssistantWrites) {
  const Tokenizer tokenizer = Tokenizer::from_pretrained((sft_folder() / "qwen2/model").string());
  std::string bare = tokenizer.chat_template();
  for (const char* mark : {"{% generation %}", "{% endgeneration %}"}) {
    const size_t at = bare.find(mark);
    ASSERT_NE(at, std::string::npos);
    bare.erase(at, std::string(mark).size());
  }
  const ChatRows rows(Dataset::load(sft_folder() / "rows" / "chats.jsonl"), {}, true);
  const ChatEncoder marked(tokenizer, {.assistant_only_loss = true});
  const ChatEncoder unmarked(tokenizer, {.assistant_only_loss = true, .chat_template = bare});
  for (int64_t i = 0; i < rows.data().size(); ++i) {
    ChatTokens a = marked.encode(rows.row(i), "row"), b = unmarked.encode(rows.row(i), "row");
    ASSERT_EQ(a.ids, b.ids);
    const std::vector<int64_t> learnt = a.labels;
    for (size_t k = 1; k < learnt.size(); ++k)
      if (learnt[k] == kIgnoredLabel && learnt[k - 1] != kIgnoredLabel) a.labels[k] = a.ids[k];  // the line break
    EXPECT_EQ(a.labels, b.labels) << "row " << i + 1;
  }
}

// OpenAI's lists of parts, which a template for texts fails on, or writes as Python shows them.
TEST(ChatEncoder, PartsOfTextAreTexts) {
  const Tokenizer tokenizer = Tokenizer::from_pretrained((sft_folder() / "qwen2/model").string());
  const Json parts = Json::array({{{"type", "text"}, {"text", "Hi"}}});
  for (const char* source : {"{% for m in messages %}{{ m.role + m.content }}|{% endfor %}",
                             "{% for m in messages %}{{ m.role }}{{ m.content }}|{% endfor %}"}) {
    const ChatEncoder encoder(tokenizer, {.assistant_only_loss = true, .chat_template = source});
    ChatRow row;
    row.prompt = Json::array({{{"role", "user"}, {"content", "Hi"}}});
    row.completion = Json::array({{{"role", "assistant"}, {"content", "Ho"}}});
    const ChatTokens expected = encoder.encode(row, "row");
    row.prompt[0]["content"] = parts;
    const ChatTokens found = encoder.encode(row, "row");
    EXPECT_EQ(found.ids, expected.ids) << source;
    EXPECT_EQ(found.labels, expected.labels) << source;
  }
}

TEST(ChatEncoder, LearnsEachTokenOfALastCharacter) {
  const Tokenizer tokenizer = Tokenizer::from_pretrained((sft_folder() / "qwen2/model").string());
  const std::string hand = "\xF0\x9F\x91\x8B";  // four bytes, no token of its own
  const size_t tokens = tokenizer.encode(hand).size();
  ASSERT_GT(tokens, 1u);
  const ChatEncoder encoder(
      tokenizer,
      {.assistant_only_loss = true,
       .chat_template = "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}"});
  ChatRow row;
  row.completion = Json::array({{{"role", "assistant"}, {"content", "a" + hand}}});
  const ChatTokens found = encoder.encode(row, "row");
  EXPECT_EQ(found.labels, found.ids);
}

TEST(ChatEncoder, RefusesATemplateThatWritesFormerTurnsOtherwise) {
  const Tokenizer tokenizer = Tokenizer::from_pretrained((sft_folder() / "qwen2/model").string());
  const std::string forgetful =
      "{% for m in messages %}{% if m.role == 'user' or loop.last %}{{ m.content }}|{% else %}.{% endif %}{% endfor %}";
  const ChatRows rows(Dataset::load(sft_folder() / "rows" / "chats.jsonl"), {}, true);
  const ChatEncoder encoder(tokenizer, {.assistant_only_loss = true, .chat_template = forgetful});
  const std::string message = test::message_of([&] { encoder.encode(rows.row(1), "rows: row 2"); });
  EXPECT_NE(message.find("rows: row 2: message 2"), std::string::npos) << message;
  EXPECT_NE(message.find("--chat_template_path"), std::string::npos) << message;
}

}  // namespace
}  // namespace transom
