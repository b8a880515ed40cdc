// SPDX-License-Identifier: Apache-2.0
// Tensors of GGUF under their names in Transformers.
#include <cstring>

#include "base/error.h"
#include "files/blocks/ggml/ggml_blocks.h"
#include "files/gguf/gguf_family.h"
#include "files/gguf/gguf_model.h"
#include "files/gguf/gguf_t5.h"

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

TensorView one_less(const TensorView& view, const std::string& where) {
  if (view.dtype != DType::kFloat32) fail("{}: expected F32", where);
  const std::shared_ptr<std::byte[]> bytes(new std::byte[view.bytes.size()]);
  for (size_t i = 0; i < view.bytes.size(); i += 4) {
    float value;
    std::memcpy(&value, view.bytes.data() + i, 4);
    value -= 1;
    std::memcpy(bytes.get() + i, &value, 4);
  }
  return copied(view, bytes, view.shape);
}

class Converter {
 public:
  explicit Converter(const GgufFile& file)
      : file_(file),
        names_(gguf_class(file).gguf->names),
        has_encoder_(!gguf_class(file).gguf->encoder_architecture.empty()),
        checkpoint_(file.where()) {
    const std::string architecture = file.get_string("general.architecture");
    const auto number = [&](const char* key, int64_t otherwise) {
      const std::vector<int64_t> found = file.get_ints(architecture + "." + key);
      return found.empty() ? otherwise : found[0];
    };
    heads_ = number("attention.head_count", 0);
    key_heads_ = number("attention.head_count_kv", heads_);
    experts_ = number("expert_count", 0);
  }

  Checkpoint convert() && {
    const bool repeats_head = has_encoder_ && gguf_t5_head_is_tied(file_);
    for (const GgufTensor& tensor : file_.tensors())
      if (!is_computed(tensor.name) && !(repeats_head && tensor.name == "output.weight")) add(tensor);
    return std::move(checkpoint_);
  }

 private:
  // What the configuration says already.
  static bool is_computed(const std::string& name) {
    return name == "rope_freqs.weight" || name == "rope_factors_long.weight" || name == "rope_factors_short.weight";
  }
  std::string where(const GgufTensor& tensor) const {
    return fmt::format("{}: tensor {}", file_.where(), quoted(tensor.name));
  }

  void add(const GgufTensor& tensor) {
    const size_t dot = tensor.name.rfind('.');
    const auto has = [&](const std::string& name) { return file_.find(name + ".weight") != nullptr; };
    const auto place =
        dot == tensor.name.npos ? std::nullopt : checkpoint_place(tensor.name.substr(0, dot), names_, has);
    if (!place) add(tensor, tensor.name, GgufChange::kNone);
    else if (place->rule->change == GgufChange::kBare) add(tensor, place->name, GgufChange::kNone);
    else if (place->rule->change == GgufChange::kExperts) add_experts(tensor, place->name + tensor.name.substr(dot));
    else add(tensor, place->name + tensor.name.substr(dot), place->rule->change);
  }

  void add(const GgufTensor& tensor, const std::string& name, GgufChange change) {
    const int64_t rows = tensor.shape.empty() ? 1 : tensor.shape[0];
    const std::vector<int64_t> places = gguf_places_of_rows(change, rows, heads_, key_heads_, where(tensor));
    const bool turned = change == GgufChange::kTransposed && tensor.shape.size() == 2;
    if (const std::optional<DType> plain = ggml_plain_type(tensor.type)) {
      TensorView view{*plain, tensor.shape, tensor.bytes, tensor.owner};
      if (!places.empty()) view = with_rows(view, places);
      if (change == GgufChange::kOneMore) view = one_less(view, where(tensor));
      if (change == GgufChange::kRow && view.shape.size() == 1) view.shape.insert(view.shape.begin(), 1);
      return checkpoint_.add(name, turned ? transposed(view) : std::move(view));
    }
    if (tensor.shape.size() != 2)
      fail("{}: expected a matrix of blocks, found {} axes", where(tensor), tensor.shape.size());
    auto matrix = ggml_matrix(tensor.type, rows, tensor.shape[1], tensor.bytes, tensor.owner, where(tensor));
    if (!places.empty()) matrix = rows_of(std::move(matrix), places);
    checkpoint_.add_compressed(name, {std::move(matrix)});
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
  int64_t heads_, key_heads_, experts_;
  Checkpoint checkpoint_;
};

}  // namespace

Checkpoint gguf_checkpoint(const GgufFile& file) { return Converter(file).convert(); }

}  // namespace transom
