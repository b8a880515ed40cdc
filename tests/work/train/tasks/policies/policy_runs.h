// SPDX-License-Identifier: Apache-2.0
// Runs of --task grpo and rloo on rows that a test writes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "base/json/json.h"
#include "support/golden.h"
#include "support/kept_log.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/fine_tuning.h"

namespace transom {

class Policies : public testing::Test {
 protected:
  using Flags = std::vector<std::string>;

  // The message of an error, or nothing.
  std::string run(const std::string& task, const std::string& rows, Flags flags = {}) {
    write_file(work_.path() / "rows.jsonl", rows);
    const auto set = [&](const std::string& name, const std::string& value) {
      if (std::find(flags.begin(), flags.end(), name) == flags.end()) flags.insert(flags.end(), {name, value});
    };
    set("--task", task);
    set("--model_name_or_path", model_.string());
    set("--train_file", (work_.path() / "rows.jsonl").string());
    set("--output_dir", out().string());
    set("--max_steps", "2");
    set("--num_generations", "4");
    set("--per_device_train_batch_size", "8");
    set("--max_completion_length", "8");
    set("--logging_steps", "1");
    set("--learning_rate", "1e-3");
    set("--save_strategy", "no");
    if (std::find(flags.begin(), flags.end(), "--resume_from_checkpoint") == flags.end())
      flags.emplace_back("--overwrite_output_dir");
    const test::KeptLog log;
    const std::string message = test::message_of([&] { fine_tune(parse_train_arguments(flags)); });
    said_ = log.text();
    return message;
  }
  bool said(const std::string& text) const { return said_.find(text) != std::string::npos; }
  fs::path out() const { return work_.path() / "out"; }
  Json log_of() const {
    Json records = read_json(out() / "trainer_state.json")["log_history"];
    for (Json& record : records)
      for (const char* time : {"train_runtime", "train_samples_per_second", "train_steps_per_second", "eval_runtime",
                               "eval_samples_per_second", "eval_steps_per_second"})
        record.erase(time);
    return records;
  }
  // The records of updates.
  Json updates_of() const {
    Json updates = Json::array();
    for (const Json& record : log_of())
      if (record.contains("loss")) updates.push_back(record);
    return updates;
  }
  std::vector<double> curve(const std::string& name) const {
    std::vector<double> values;
    for (const Json& record : log_of())
      if (record.contains(name) && record.contains("loss")) values.push_back(record[name].get<double>());
    return values;
  }
  std::string completions() const {
    std::string all;
    for (int i = 0; i < 8; ++i)
      if (const fs::path file = out() / "completions" / ("completions_0000" + std::to_string(i) + ".jsonl");
          fs::exists(file))
        all += read_file(file);
    return all;
  }

  test::TemporaryFolder work_;
  fs::path model_ = test::golden_folder() / "sft/qwen2/model";
  std::string said_;
};

inline std::string questions(int count) {
  std::string rows;
  for (int i = 0; i < count; ++i)
    rows +=
        R"({"prompt": "What is )" + std::to_string(i) + R"( and 1? ", "answer": ")" + std::to_string(i + 1) + "\"}\n";
  return rows;
}

inline const std::vector<std::string> kVowels = {"--reward_funcs", "pattern:[aeiou]"};

inline std::vector<std::string> with(std::vector<std::string> first, const std::vector<std::string>& more) {
  first.insert(first.end(), more.begin(), more.end());
  return first;
}

}  // namespace transom
