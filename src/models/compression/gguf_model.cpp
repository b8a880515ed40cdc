// SPDX-License-Identifier: Apache-2.0
#include "models/compression/gguf_model.h"

#include <algorithm>
#include <cmath>

#include "base/container_files.h"
#include "base/directories.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "io/blocks/ggml_blocks.h"
#include "io/blocks/ggml_encoder.h"
#include "io/config.h"
#include "io/gguf/gguf_export.h"
#include "io/gguf/gguf_names.h"

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

// A parameter's tensor in the file.
struct Place {
  std::string name, part;  // "blk.3.attn_q.weight", "attn_q"
  int64_t layer = -1;
  GgufChange change = GgufChange::kNone;
};

Place place_of(const std::string& name, const GgufNames& names) {
  const size_t dot = name.rfind('.');
  const std::string module = name.substr(0, dot), ending = dot == name.npos ? "" : name.substr(dot);
  for (const GgufName& rule : names.whole)
    if (module == rule.name) return {rule.gguf + ending, rule.gguf, -1, rule.change};
  const std::string layers = names.layers;
  if (name.starts_with(layers)) {
    const size_t behind = name.find('.', layers.size());
    if (behind != name.npos && behind < dot) {
      const std::string number = name.substr(layers.size(), behind - layers.size());
      for (const GgufName& rule : names.of_layer)
        if (module.substr(behind + 1) == rule.name)
          return {fmt::format("blk.{}.{}{}", number, rule.gguf, ending), rule.gguf, std::stoll(number), rule.change};
    }
  }
  fail(ErrorKind::kUnsupported, "{}: GGUF has no name for this tensor", name);
}

class Writer {
 public:
  Writer(const Model& model, const FileType& type)
      : type_(type), config_(json_of(model.config())), names_(gguf_names(gguf_architecture(config_), false)) {
    for (const auto& parameter : model.parameters()) {
      places_.push_back(place_of(parameter->name, names_));
      layers_ = std::max(layers_, places_.back().layer + 1);
      has_head_ |= places_.back().part == "output";
    }
  }

  uint32_t ggml_type_of(const Place& place, const std::vector<int64_t>& shape) const {
    const auto id = [](const char* name) { return find_ggml_type(name)->id; };
    if (shape.size() != 2 || place.part == "position_embd" || place.part == "token_types") return id("F32");
    const char* name = type_.matrices;
    const bool head = place.part == "output" || (place.part == "token_embd" && !has_head_);
    const std::string_view mixture = type_.name;
    if (head) name = type_.head;
    else if (mixture.ends_with("_M")) {
      if ((place.part == "attn_v" || place.part == "ffn_down") && is_finer(place.layer)) name = type_.finer;
      if (place.part == "attn_qkv") name = mixture == "Q4_K_M" ? "Q5_K" : "Q6_K";
    } else if (mixture == "Q4_K_S") {
      if (place.part == "attn_v" && place.layer < 4) name = type_.finer;
      if (place.part == "ffn_down" && place.layer < layers_ / 8) name = type_.finer;
    }
    const std::string_view chosen = name;
    const int64_t depth = shape[1];
    if (chosen.ends_with("_K") && depth % 256 != 0)
      name = chosen == "Q4_K" ? "Q5_0" : chosen == "Q5_K" ? "Q5_1" : "Q8_0";
    if (find_ggml_type(name)->values == 32 && depth % 32 != 0) name = "F16";
    return id(name);
  }

  // The numbers as the file has them.
  std::vector<float> numbers_of(const Parameter& parameter, const Place& place, std::vector<int64_t>& shape) const {
    std::vector<float> numbers = parameter.value.to_vector<float>();
    shape = parameter.value.shape();
    if (place.change == GgufChange::kOneMore)
      for (float& number : numbers) number += 1;
    if (place.change == GgufChange::kTransposed && shape.size() == 2) {
      std::vector<float> turned(numbers.size());
      const auto rows = static_cast<size_t>(shape[0]), columns = static_cast<size_t>(shape[1]);
      for (size_t i = 0; i < rows; ++i)
        for (size_t j = 0; j < columns; ++j) turned[j * rows + i] = numbers[i * columns + j];
      std::swap(shape[0], shape[1]);
      return turned;
    }
    const int64_t heads = config_.value("num_attention_heads", config_.value("n_head", int64_t{0})),
                  key_heads = config_.contains("num_key_value_heads") && config_["num_key_value_heads"].is_number()
                                  ? config_["num_key_value_heads"].get<int64_t>()
                                  : heads;
    const std::vector<int64_t> places =
        gguf_places_of_rows(place.change, shape.empty() ? 1 : shape[0], heads, key_heads, parameter.name);
    if (places.empty()) return numbers;
    std::vector<float> moved(numbers.size());
    const size_t row = numbers.size() / places.size();
    for (size_t i = 0; i < places.size(); ++i)
      std::copy_n(numbers.data() + i * row, row, moved.data() + static_cast<size_t>(places[i]) * row);
    return moved;
  }

  const Json& config() const { return config_; }
  const Place& place(size_t i) const { return places_[i]; }

 private:
  // Some layers count more: the first and last eighth, and every third between.
  bool is_finer(int64_t i) const { return i < layers_ / 8 || i >= 7 * layers_ / 8 || (i - layers_ / 8) % 3 == 2; }
  const FileType& type_;
  const Json& config_;
  const GgufNames& names_;
  std::vector<Place> places_;
  int64_t layers_ = 0;
  bool has_head_ = false;
};

double relative_error(uint32_t type, const std::vector<float>& exact, const std::vector<int64_t>& shape,
                      const std::vector<std::byte>& bytes) {
  const auto matrix = ggml_matrix(type, shape[0], shape[1], bytes, nullptr, "the tensor just written");
  std::vector<float> row(static_cast<size_t>(shape[1]));
  double error = 0, size = 0;
  for (int64_t r = 0; r < shape[0]; ++r) {
    matrix->dequantise_row(r, row.data());
    for (int64_t k = 0; k < shape[1]; ++k) {
      const double value = exact[static_cast<size_t>(r * shape[1] + k)], rest = value - row[static_cast<size_t>(k)];
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
  add_tokenizer(file, tokenizer, writer.config().value("vocab_size", int64_t{0}));
  QuantizeReport report;
  for (size_t i = 0; i < model.parameters().size(); ++i) {
    const Parameter& parameter = *model.parameters()[i];
    const Place& place = writer.place(i);
    std::vector<int64_t> shape = parameter.value.shape();
    if (place.change == GgufChange::kTransposed && shape.size() == 2) std::swap(shape[0], shape[1]);
    const uint32_t tensor_type = writer.ggml_type_of(place, shape);
    report.bytes_before += parameter.value.size() * static_cast<int64_t>(size_of(parameter.value.dtype()));
    file.add_tensor(place.name, tensor_type, shape, [&, tensor_type] {
      std::vector<int64_t> extents;
      const std::vector<float> numbers = writer.numbers_of(parameter, place, extents);
      const int64_t depth = extents.empty() ? 1 : extents.back();
      std::vector<std::byte> bytes = encode_ggml(
          tensor_type, numbers.data(), static_cast<int64_t>(numbers.size()) / std::max<int64_t>(depth, 1), depth);
      if (!ggml_plain_type(tensor_type))
        report.layers.push_back({place.name, relative_error(tensor_type, numbers, extents, bytes)});
      return bytes;
    });
  }
  report.bytes_after = file.tensor_bytes();
  file.write(path, on_layer);
  return report;
}

}  // namespace transom
