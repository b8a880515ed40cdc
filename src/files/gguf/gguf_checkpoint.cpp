// SPDX-License-Identifier: Apache-2.0
// Tensors of GGUF under their names in Transformers.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>

#include "base/error.h"
#include "base/json/json.h"
#include "files/blocks/ggml/ggml_blocks.h"
#include "files/gguf/gguf_family.h"
#include "files/gguf/gguf_model.h"
#include "files/gguf/gguf_t5.h"
#include "files/gguf/tensors/gguf_joined.h"

namespace transom {
namespace {

TensorView copied(const TensorView& view, std::shared_ptr<std::byte[]> bytes, std::vector<int64_t> shape) {
  return {view.dtype, std::move(shape), {bytes.get(), view.bytes.size()}, bytes};
}

TensorView with_rows(const TensorView& view, const std::vector<int64_t>& places) {
  const size_t row = view.bytes.size() / places.size();
  const std::shared_ptr<std::byte[]> bytes(new std::byte[view.bytes.size()]);
  for (size_t i = 0; i < places.size(); ++i)
    std::memcpy(bytes.get() + i * row, view.bytes.data() + static_cast<size_t>(places[i]) * row, row);
  return copied(view, bytes, view.shape);
}

TensorView transposed(const TensorView& view) {
  const size_t size = size_of(view.dtype), rows = static_cast<size_t>(view.shape[0]),
               columns = static_cast<size_t>(view.shape[1]);
  const std::shared_ptr<std::byte[]> bytes(new std::byte[view.bytes.size()]);
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < columns; ++j)
      std::memcpy(bytes.get() + (j * rows + i) * size, view.bytes.data() + (i * columns + j) * size, size);
  return copied(view, bytes, {view.shape[1], view.shape[0]});
}

template <typename F>
TensorView each_number(const TensorView& view, const std::string& where, const F& change) {
  if (view.dtype != DType::kFloat32) fail("{}: expected F32", where);
  const std::shared_ptr<std::byte[]> bytes(new std::byte[view.bytes.size()]);
  for (size_t i = 0; i < view.bytes.size(); i += 4) {
    float value;
    std::memcpy(&value, view.bytes.data() + i, 4);
    value = change(value);
    std::memcpy(bytes.get() + i, &value, 4);
  }
  return copied(view, bytes, view.shape);
}

// A_log of the rates -exp(A_log).
TensorView logarithms(const TensorView& view, const std::string& where) {
  return each_number(view, where, [&](float rate) {
    if (!(rate < 0)) fail("{}: expected rates below 0, found {}", where, rate);
    return static_cast<float>(std::log(-static_cast<double>(rate)));
  });
}

bool is_bias(const std::string& name) { return name.ends_with(".bias"); }

class Converter {
 public:
  explicit Converter(const GgufFile& file)
      : file_(file),
        names_(gguf_class(file).gguf->names),
        has_encoder_(!gguf_class(file).gguf->encoder_architecture.empty()),
        config_(gguf_config(file)),
        checkpoint_(file.where()) {
    checkpoint_.expect_all_read();
    const std::string architecture = file.get_string("general.architecture");
    // Of layers that differ some have none.
    const auto number = [&](const char* key, int64_t otherwise) {
      const std::vector<int64_t> found = file.get_ints(architecture + "." + key);
      return found.empty() ? otherwise : *std::max_element(found.begin(), found.end());
    };
    heads_ = number("attention.head_count", 0);
    key_heads_ = number("attention.head_count_kv", heads_);
    experts_ = number("expert_count", 0);
    predicts_more_ = number("nextn_predict_layers", 0) > 0;
    layers_ = config_.value("num_hidden_layers", int64_t{0});
  }

  Checkpoint convert() && {
    const bool repeats_head = has_encoder_ && gguf_t5_head_is_tied(file_);
    for (const GgufTensor& tensor : file_.tensors())
      if (!is_computed(tensor.name) && !is_of_next_tokens(tensor.name) &&
          !(repeats_head && tensor.name == "output.weight"))
        add(tensor);
    for (auto& [name, parts] : joined_) {
      const GgufName& rule = *parts.first;
      add_gguf_parts(checkpoint_, name, std::move(parts.second),
                     rule.columns ? rule.columns(config_) : std::vector<int64_t>());
    }
    return std::move(checkpoint_);
  }

 private:
  // What the configuration says already.
  static bool is_computed(const std::string& name) {
    return name == "rope_freqs.weight" || name == "rope_factors_long.weight" || name == "rope_factors_short.weight";
  }
  // Of a layer behind the last one, which predicts tokens after the next one.
  bool is_of_next_tokens(const std::string& name) const {
    constexpr std::string_view kLayers = "blk.";
    if (!predicts_more_ || !name.starts_with(kLayers)) return false;
    return std::strtoll(name.c_str() + kLayers.size(), nullptr, 10) >= layers_;
  }
  std::string where(const GgufTensor& tensor) const {
    return fmt::format("{}: tensor {}", file_.where(), quoted(tensor.name));
  }

  void add(const GgufTensor& tensor) {
    const auto has = [&](const std::string& name) { return file_.find(name + ".weight") != nullptr; };
    const auto place = checkpoint_place(tensor.name, names_, config_, has);
    if (!place) return add_unknown(tensor);
    const GgufName& rule = *place->rule;
    if (rule.change == GgufChange::kExperts) add_experts(tensor, place->name);
    else if (rule.rows || rule.columns || rule.parts) add_part(tensor, place->name, rule);
    else add(tensor, place->name, rule.change == GgufChange::kBare ? GgufChange::kNone : rule.change);
  }

  // The scales of inputs belong to how llama.cpp multiplies codes, which are numbers here; heads that rank texts are
  // said with the metadata.
  void add_unknown(const GgufTensor& tensor) const {
    if (tensor.name.ends_with(".input_scale") || tensor.name.starts_with("cls.")) return;
    fail(ErrorKind::kUnsupported, "{}: no part of {}, which would compute without it; convert the model again",
         where(tensor), config_["architectures"][0].get<std::string>());
  }

  void add(const GgufTensor& tensor, const std::string& name, GgufChange change) {
    const int64_t rows = tensor.shape.empty() ? 1 : tensor.shape[0];
    const std::vector<int64_t> places = gguf_places_of_rows(change, rows, heads_, key_heads_, where(tensor));
    const bool turned = change == GgufChange::kTransposed && tensor.shape.size() == 2;
    if (const std::optional<DType> plain = ggml_plain_type(tensor.type)) {
      TensorView view{*plain, tensor.shape, tensor.bytes, tensor.owner};
      if (!places.empty()) view = with_rows(view, places);
      return checkpoint_.add(name, turned ? transposed(view) : changed(std::move(view), name, change, where(tensor)));
    }
    if (tensor.shape.size() != 2)
      fail("{}: expected a matrix of blocks, found {} axes", where(tensor), tensor.shape.size());
    auto matrix = ggml_matrix(tensor.type, rows, tensor.shape[1], tensor.bytes, tensor.owner, where(tensor));
    if (!places.empty()) matrix = rows_of(std::move(matrix), places);
    checkpoint_.add_compressed(name, {std::move(matrix)});
  }

  // Numbers and shape as the checkpoint has them.
  static TensorView changed(TensorView view, const std::string& name, GgufChange change, const std::string& where) {
    const auto flatten = [&](size_t axes) {
      if (view.shape.size() > axes) view.shape = {static_cast<int64_t>(view.bytes.size() / size_of(view.dtype))};
    };
    switch (change) {
      case GgufChange::kOneMore:
        return is_bias(name) ? view : each_number(view, where, [](float value) { return value - 1; });
      case GgufChange::kRow:
        if (view.shape.size() == 1) view.shape.insert(view.shape.begin(), 1);
        return view;
      case GgufChange::kSqueezed:
        if (view.shape.size() == 2) view.shape.insert(view.shape.begin() + 1, 1);
        return view;
      case GgufChange::kRates:
        return logarithms(view, where);
      case GgufChange::kRateColumn:
        flatten(1);
        return logarithms(view, where);
      case GgufChange::kColumn:
      case GgufChange::kGroups:
        flatten(1);
        return view;
      default:
        return view;
    }
  }

  // Some rows of a tensor, or its rows or columns in another order.
  void add_part(const GgufTensor& tensor, const std::string& name, const GgufName& rule) {
    GgufPart part{.where = where(tensor)};
    std::vector<int64_t> shape = tensor.shape;
    const bool by_heads = rule.change == GgufChange::kHeads || rule.change == GgufChange::kHeadsTurned;
    const int64_t parts = rule.parts ? rule.parts(config_) : 1;
    if (by_heads) {
      if (parts < 1 || shape.size() != 3 || shape[0] != parts)
        fail("{}: expected the matrices of {} heads, found {} axes", part.where, parts, shape.size());
      shape = {shape[0] * shape[1], shape[2]};
    }
    if (shape.empty()) fail("{}: expected rows, found a number", part.where);
    if (const std::optional<DType> plain = ggml_plain_type(tensor.type)) {
      part.view = changed({*plain, shape, tensor.bytes, tensor.owner}, name, rule.change, part.where);
    } else {
      if (shape.size() != 2) fail("{}: expected a matrix of blocks, found {} axes", part.where, shape.size());
      part.matrix = ggml_matrix(tensor.type, shape[0], shape[1], tensor.bytes, tensor.owner, part.where);
    }
    if (rule.change == GgufChange::kHeadsTurned) {
      if (part.matrix) part.view = dequantised_view(*part.matrix);
      part.matrix.reset();
      part.view = turned_heads(part.view, parts);
    }
    part.rows = rule.rows ? rule.rows(config_) : std::vector<int64_t>();
    if (!rule.rows)
      for (int64_t row = 0; row < (part.matrix ? part.matrix->layout().rows : part.view.shape[0]); ++row)
        part.rows.push_back(row);
    auto& [first, all] = joined_[name];
    first = &rule;
    all.push_back(std::move(part));
  }

  // [parts * rows, columns] -> [parts * columns, rows]
  static TensorView turned_heads(const TensorView& view, int64_t parts) {
    const int64_t rows = view.shape[0] / parts, columns = view.shape[1];
    const std::shared_ptr<std::byte[]> bytes(new std::byte[view.bytes.size()]);
    const size_t head = view.bytes.size() / static_cast<size_t>(parts);
    for (size_t p = 0; p < static_cast<size_t>(parts); ++p) {
      const TensorView turned =
          transposed({view.dtype, {rows, columns}, view.bytes.subspan(p * head, head), view.owner});
      std::memcpy(bytes.get() + p * head, turned.bytes.data(), head);
    }
    return copied(view, bytes, {parts * columns, rows});
  }

  // The matrices of all experts as one tensor [experts, out, in], or their biases; a star in the name stands for the
  // expert.
  void add_experts(const GgufTensor& tensor, const std::string& name) {
    if (tensor.shape.size() != (name.ends_with(".bias") ? 2 : 3) || experts_ < 1 || tensor.shape[0] != experts_)
      fail("{}: expected the matrices of {} experts, found {}", where(tensor), experts_,
           tensor.shape.size() > 1 ? fmt::format("{}", tensor.shape[0]) : fmt::format("{} axes", tensor.shape.size()));
    const size_t size = tensor.bytes.size() / static_cast<size_t>(experts_), star = name.find('*');
    for (int64_t e = 0; e < experts_; ++e) {
      GgufTensor part = tensor;
      part.shape.erase(part.shape.begin());
      part.bytes = tensor.bytes.subspan(static_cast<size_t>(e) * size, size);
      add(part, name.substr(0, star) + std::to_string(e) + name.substr(star + 1), GgufChange::kNone);
    }
  }

  const GgufFile& file_;
  const GgufNames& names_;
  bool has_encoder_;
  Json config_;
  int64_t heads_, key_heads_, experts_, layers_;
  bool predicts_more_;
  Checkpoint checkpoint_;
  // Tensors of which the file has rows or columns in another order: a rule of theirs, and their parts.
  std::map<std::string, std::pair<const GgufName*, std::vector<GgufPart>>> joined_;
};

}  // namespace

Checkpoint gguf_checkpoint(const GgufFile& file) { return Converter(file).convert(); }

}  // namespace transom
