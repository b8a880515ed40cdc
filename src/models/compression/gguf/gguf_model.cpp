// SPDX-License-Identifier: Apache-2.0
#include "models/compression/gguf/gguf_model.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/files/container_files.h"
#include "base/files/directories.h"
#include "base/json/json.h"
#include "base/terminal/log.h"
#include "files/blocks/ggml/ggml_blocks.h"
#include "files/blocks/ggml/ggml_encoder.h"
#include "files/config/config.h"
#include "files/gguf/gguf_export.h"
#include "files/gguf/gguf_family.h"
#include "models/compression/gguf/gguf_pooling.h"
#include "models/compression/gguf/gguf_values.h"

namespace transom {
namespace {

// general.file_type, and what matrices and finer matrices of a mixture are.
struct FileType {
  const char* name;
  int64_t id;
  const char *matrices, *head, *finer;
};
constexpr FileType kTypes[] = {{"F32", 0, "F32", "F32", "F32"},        {"F16", 1, "F16", "F16", "F16"},
                               {"BF16", 32, "BF16", "BF16", "BF16"},   {"Q8_0", 7, "Q8_0", "Q8_0", "Q8_0"},
                               {"Q4_0", 2, "Q4_0", "Q6_K", "Q4_0"},    {"Q4_1", 3, "Q4_1", "Q6_K", "Q4_1"},
                               {"Q5_0", 8, "Q5_0", "Q6_K", "Q5_0"},    {"Q5_1", 9, "Q5_1", "Q6_K", "Q5_1"},
                               {"Q4_K_S", 14, "Q4_K", "Q6_K", "Q5_K"}, {"Q4_K_M", 15, "Q4_K", "Q6_K", "Q6_K"},
                               {"Q5_K_S", 16, "Q5_K", "Q6_K", "Q5_K"}, {"Q5_K_M", 17, "Q5_K", "Q6_K", "Q6_K"},
                               {"Q6_K", 18, "Q6_K", "Q6_K", "Q6_K"}};

const FileType& file_type(const std::string& type) {
  std::string upper = type;
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return c - ('a' <= c && c <= 'z') * 32; });
  std::vector<std::string> names;
  for (const FileType& known : kTypes) {
    if (upper == known.name) return known;
    names.emplace_back(known.name);
  }
  fail(ErrorKind::kUsage, "--type: unknown type {}; known are: {}", quoted(type), fmt::join(names, ", "));
}

// A tensor of the file, and what it is made of: one parameter, or the same matrix of all experts of a layer.
struct Entry {
  std::string name, part;  // "blk.3.attn_q.weight", "attn_q"
  int64_t layer = -1;
  const GgufName* rule = nullptr;
  std::vector<const Parameter*> parameters = {};
  std::vector<int64_t> shape = {};
};

// What llama.cpp does without.
bool is_dropped(const GgufNames& names, const std::string& parameter) {
  return std::any_of(names.dropped.begin(), names.dropped.end(),
                     [&](const std::string& module) { return parameter.starts_with(module + "."); });
}

class Writer {
 public:
  Writer(const Model& model, const FileType& type) : type_(type), config_(json_of(model.config())) {
    const GgufFamily& family = gguf_family(config_);
    const GgufNames& names = family.names;
    for (const auto& parameter : model.parameters()) add(*parameter, names);
    for (const auto& buffer : model.buffers()) add(*buffer, names);
    if (gguf_architecture(config_) == family.architecture && !family.encoder_architecture.empty()) add_t5_head();
    for (Entry& entry : entries_)
      if (entry.rule->change == GgufChange::kExperts)
        entry.shape.insert(entry.shape.begin(), static_cast<int64_t>(entry.parameters.size()));
  }

  uint32_t ggml_type_of(const Entry& place) const {
    const auto id = [](const char* name) { return find_ggml_type(name)->id; };
    for (const char* exact : {"position_embd", "token_types", "ffn_gate_inp", "attn_rel_b", "cross_attn_rel_b",
                              "ssm_conv1d", "shortconv.conv"})
      if (place.part == exact) return id("F32");
    if (place.shape.size() < 2 || !place.name.ends_with(".weight") || place.part.ends_with("_norm")) return id("F32");
    const char* name = type_.matrices;
    const bool head = place.part == "output" || (place.part == "token_embd" && !has_head_);
    const std::string_view mixture = type_.name;
    if (head) name = type_.head;
    else if (mixture.ends_with("_M")) {
      if ((place.part == "attn_v" || place.part.starts_with("ffn_down")) && is_finer(place.layer)) name = type_.finer;
      if (place.part == "attn_qkv") name = mixture == "Q4_K_M" ? "Q5_K" : "Q6_K";
    } else if (mixture == "Q4_K_S") {
      if (place.part == "attn_v" && place.layer < 4) name = type_.finer;
      if (place.part.starts_with("ffn_down") && place.layer < layers_ / 8) name = type_.finer;
    }
    const std::string_view chosen = name;
    const int64_t depth = place.shape.back();
    if (chosen.ends_with("_K") && depth % 256 != 0)
      name = chosen == "Q4_K" ? "Q5_0" : chosen == "Q5_K" ? "Q5_1" : "Q8_0";
    if (find_ggml_type(name)->values == 32 && depth % 32 != 0) name = "F16";
    return id(name);
  }

  // The numbers as the file has them.
  std::vector<float> numbers_of(const Entry& entry) const {
    std::vector<float> all;
    for (const Parameter* parameter : entry.parameters) {
      std::vector<float> numbers = gguf_numbers(*entry.rule, parameter->name, parameter->value.to_vector<float>(),
                                                parameter->value.shape(), config_);
      if (entry.parameters.size() == 1) return numbers;
      all.insert(all.end(), numbers.begin(), numbers.end());
    }
    return all;
  }

  const Json& config() const { return config_; }
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  void add(const Parameter& parameter, const GgufNames& names) {
    if (is_dropped(names, parameter.name)) return;
    const std::vector<GgufPlace> places = gguf_places(parameter.name, names, &config_);
    if (places.empty()) fail(ErrorKind::kUnsupported, "{}: GGUF has no name for this tensor", parameter.name);
    for (const GgufPlace& place : places) {
      const auto [at, is_new] = places_.emplace(place.name, entries_.size());
      if (is_new) {
        layers_ = std::max(layers_, place.layer + 1);
        has_head_ |= place.rule->gguf == "output";
        entries_.push_back({place.name,
                            place.rule->gguf,
                            place.layer,
                            place.rule,
                            {},
                            gguf_shape(*place.rule, parameter.name, parameter.value.shape(), config_)});
      }
      entries_[at->second].parameters.push_back(&parameter);
    }
  }

  // A reader of T5 takes a file without a head for a model whose outputs are scaled and multiplied by its table.
  void add_t5_head() {
    const auto flag = [&](const char* name, bool otherwise) {
      return config_.contains(name) && config_[name].is_boolean() ? config_[name].get<bool>() : otherwise;
    };
    const auto is_gate = [](const Entry& entry) { return entry.part == "ffn_gate"; };
    const bool scaled = flag("scale_decoder_outputs", flag("tie_word_embeddings", true)),
               gated = std::any_of(entries_.begin(), entries_.end(), is_gate);
    if (scaled ? has_head_ : !has_head_ && !gated)
      fail(ErrorKind::kUnsupported,
           "config.json: scale_decoder_outputs: {} cannot be written as GGUF of t5 {} a head of its own", scaled,
           has_head_ ? "with" : "without");
    if (scaled || has_head_) return;
    const auto table =
        std::find_if(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.part == "token_embd"; });
    if (table == entries_.end()) return;
    Entry head = *table;
    head.name = "output.weight", head.part = "output";
    has_head_ = true;
    entries_.push_back(std::move(head));
  }
  // Some layers count more: the first and last eighth, and every third between.
  bool is_finer(int64_t i) const { return i < layers_ / 8 || i >= 7 * layers_ / 8 || (i - layers_ / 8) % 3 == 2; }
  const FileType& type_;
  const Json& config_;
  std::vector<Entry> entries_;
  std::map<std::string, size_t> places_;  // of entries, by their names
  int64_t layers_ = 0;
  bool has_head_ = false;
};

double relative_error_of_type(uint32_t type, const std::vector<float>& exact, const std::vector<int64_t>& shape,
                              const std::vector<std::byte>& bytes) {
  const int64_t depth = shape.back(), rows = static_cast<int64_t>(exact.size()) / depth;
  const auto matrix = ggml_matrix(type, rows, depth, bytes, nullptr, "the tensor just written");
  std::vector<float> row(static_cast<size_t>(depth));
  double error = 0, size = 0;
  for (int64_t r = 0; r < rows; ++r) {
    matrix->dequantise_row(r, row.data());
    for (int64_t k = 0; k < depth; ++k) {
      const double value = exact[static_cast<size_t>(r * depth + k)], rest = value - row[static_cast<size_t>(k)];
      error += rest * rest, size += value * value;
    }
  }
  return size > 0 ? std::sqrt(error / size) : 0;
}

void add_tokenizer(GgufWriter& writer, const std::string& directory, int64_t vocabulary) {
  const fs::path folder(directory);
  if (directory.empty() || !path_exists(folder / "tokenizer.json")) {
    log(LogLevel::kWarning, "the file gets no vocabulary: there is no tokenizer.json beside the model");
    writer.add_string("tokenizer.ggml.model", "none");
    return;
  }
  const fs::path file = folder / "tokenizer.json", settings = folder / "tokenizer_config.json";
  Json config = path_exists(settings) ? read_json(settings) : Json::object();
  if (path_exists(folder / "chat_template.jinja")) config["chat_template"] = read_file(folder / "chat_template.jinja");
  const Json tokenizer = parse_large_json(read_file(file), file.string());  // sorted: the ids tell the order
  add_gguf_vocabulary(writer, tokenizer, config, vocabulary);
}

}  // namespace

void check_gguf_type(const std::string& type) { file_type(type); }

QuantizeReport write_gguf_model(const Model& model, const std::string& tokenizer, const std::string& path,
                                const std::string& type,
                                const std::function<void(int64_t, int64_t, const std::string&)>& on_layer) {
  const FileType& chosen = file_type(type);
  const Writer writer(model, chosen);
  GgufWriter file;
  add_gguf_config(file, writer.config());
  file.add_count("general.file_type", chosen.id);
  const std::string architecture = gguf_architecture(writer.config());
  const std::optional<int64_t> pooling = gguf_pooling_type(tokenizer);
  if (pooling || gguf_family(writer.config()).is_encoder)
    file.add_count(architecture + ".pooling_type", pooling.value_or(0));
  add_tokenizer(file, tokenizer, writer.config().value("vocab_size", int64_t{0}));
  QuantizeReport report;
  for (const Entry& entry : writer.entries()) {
    const uint32_t tensor_type = writer.ggml_type_of(entry);
    for (const Parameter* parameter : entry.parameters)
      report.bytes_before += parameter->value.size() * static_cast<int64_t>(size_of(parameter->value.dtype()));
    file.add_tensor(entry.name, tensor_type, entry.shape, [&, tensor_type] {
      const std::vector<float> numbers = writer.numbers_of(entry);
      const int64_t depth = entry.shape.empty() ? 1 : entry.shape.back();
      std::vector<std::byte> bytes = encode_ggml(
          tensor_type, numbers.data(), static_cast<int64_t>(numbers.size()) / std::max<int64_t>(depth, 1), depth);
      if (!ggml_plain_type(tensor_type))
        report.layers.push_back({entry.name, relative_error_of_type(tensor_type, numbers, entry.shape, bytes)});
      return bytes;
    });
  }
  report.bytes_after = file.tensor_bytes();
  file.write(path, on_layer);
  return report;
}

}  // namespace transom
