// SPDX-License-Identifier: Apache-2.0
// A GPT-2 that says fixed texts, so that what becomes of them can be tested from the tokens to the client. The score of
// a token depends on its place alone: a prompt of a certain length is answered by the text that begins there.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "base/json/json.h"
#include "files/checkpoint/safetensors.h"
#include "inputs/text/unicode/byte_level.h"
#include "inputs/text/unicode/unicode.h"
#include "support/temporary_folder.h"
#include "transom/tokenizer.h"

namespace transom::test {

// Each byte is a token; `special` are special tokens, the first of which ends texts, `pieces` whole words.
inline Json byte_tokenizer(const std::vector<std::string>& special, const std::vector<std::string>& pieces) {
  Json vocabulary = Json::object(), added = Json::array();
  for (int64_t byte = 0; byte < 256; ++byte) {
    std::string name;
    text::append_character(name, text::byte_characters()[static_cast<size_t>(byte)]);
    vocabulary[name] = byte;
  }
  int64_t id = 256;
  for (const auto* list : {&special, &pieces})
    for (const std::string& content : *list)
      added.push_back({{"id", id++},
                       {"content", content},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", list == &special}});
  return {{"version", "1.0"},
          {"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}}}};
}

class ScriptedModel {
 public:
  // The texts, each by a name of one's own.
  ScriptedModel(const std::vector<std::string>& special, const std::vector<std::string>& pieces,
                const std::map<std::string, std::string>& texts,
                const std::string& chat_template = "{{ messages[0]['content'] }}") {
    const std::string json = dump_json(byte_tokenizer(special, pieces));
    const Tokenizer tokenizer = Tokenizer::from_json(json);
    const int64_t end = *tokenizer.token_to_id(special.at(0));
    std::vector<int64_t> script{end};  // what follows each place
    for (const auto& [name, text] : texts) {
      prompts_[name] = std::string(script.size() + 1, 'x');
      for (const int64_t token : tokenizer.encode(text).ids) script.push_back(token);
      script.push_back(end);
    }
    write_file(folder_ / "tokenizer.json", json);
    write_file(folder_ / "tokenizer_config.json",
               dump_json(Json{{"eos_token", special.at(0)}, {"chat_template", chat_template}}));
    write_model(script, tokenizer.vocab_size(), end);
  }

  std::string folder() const { return folder_.string(); }
  // What is answered by the text of that name: so many x, each a token.
  const std::string& prompt(const std::string& name) const { return prompts_.at(name); }

 private:
  void write_model(const std::vector<int64_t>& script, int64_t vocabulary, int64_t end) const {
    constexpr size_t kHead = 32;
    const size_t D = (script.size() + 256 + kHead - 1) / kHead * kHead;  // one number for each place
    const auto V = static_cast<size_t>(vocabulary);
    std::map<std::string, std::vector<float>> values;
    NamedViews views;
    const auto add = [&](const std::string& name, std::vector<size_t> shape) -> std::vector<float>& {
      size_t count = 1;
      for (const size_t extent : shape) count *= extent;
      std::vector<float>& data = values[name];
      data.assign(count, 0.0f);
      views.push_back({name, {DType::kFloat32, {shape.begin(), shape.end()}, std::as_bytes(std::span(data)), nullptr}});
      return data;
    };
    const std::string block = "transformer.h.0.";
    add("transformer.wte.weight", {V, D});
    std::vector<float>& places = add("transformer.wpe.weight", {D, D});
    for (size_t i = 0; i < D; ++i) places[i * D + i] = 1;
    add(block + "attn.c_attn.weight", {D, 3 * D});
    add(block + "attn.c_attn.bias", {3 * D});
    add(block + "attn.c_proj.weight", {D, D});
    add(block + "mlp.c_fc.weight", {D, 4});
    add(block + "mlp.c_fc.bias", {4});
    add(block + "mlp.c_proj.weight", {4, D});
    for (const char* name : {"attn.c_proj.bias", "mlp.c_proj.bias"}) add(block + name, {D});
    for (const std::string& name : {block + "ln_1", block + "ln_2", std::string("transformer.ln_f")}) {
      add(name + ".weight", {D}).assign(D, 1);
      add(name + ".bias", {D});
    }
    std::vector<float>& head = add("lm_head.weight", {V, D});
    for (size_t place = 0; place < D; ++place)
      head[static_cast<size_t>(place < script.size() ? script[place] : end) * D + place] = 1;
    write_safetensors(folder_ / "model.safetensors", views);
    write_file(folder_ / "config.json", dump_json(Json{{"model_type", "gpt2"},
                                                       {"architectures", {"GPT2LMHeadModel"}},
                                                       {"vocab_size", V},
                                                       {"n_positions", D},
                                                       {"n_embd", D},
                                                       {"n_inner", 4},
                                                       {"n_layer", 1},
                                                       {"n_head", D / kHead},
                                                       {"tie_word_embeddings", false},
                                                       {"eos_token_id", end}}));
  }

  TemporaryFolder folder_;
  std::map<std::string, std::string> prompts_;
};

}  // namespace transom::test
