// SPDX-License-Identifier: Apache-2.0
// A small language model as a ranker, in the files of sentence-transformers: cases of tests/golden/sentences.
#pragma once

#include "base/files/files.h"
#include "base/json/json.h"
#include "support/golden.h"

namespace transom::test {

inline fs::path small_writer() { return golden_folder() / "sft" / "qwen2" / "model"; }
inline Json ranker_cases() { return read_json(golden_folder() / "sentences" / "writing-ranker.json"); }

inline void write_ranker(const fs::path& folder, const Json& about) {
  Json settings = about["settings"];
  settings["model_type"] = "CrossEncoder";
  const auto write = [&](const char* name, const Json& json) { write_file(folder / name, dump_json(json)); };
  write_file(folder / "chat_template.jinja", about["chat_template"].get<std::string>());
  write("config_sentence_transformers.json", settings);
  write("sentence_bert_config.json", about["transformer"]);
  write("modules.json", Json::parse(R"([{"idx": 0, "name": "0", "path": "",
                         "type": "sentence_transformers.base.modules.transformer.Transformer"},
                        {"idx": 1, "name": "1", "path": "1_LogitScore",
                         "type": "sentence_transformers.cross_encoder.modules.logit_score.LogitScore"}])"));
  fs::create_directories(folder / "1_LogitScore");
  write("1_LogitScore/config.json", about["logit_score"]);
}

}  // namespace transom::test
