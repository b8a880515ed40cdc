// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/diffusion/lora_weights.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/json/json.h"
#include "files/config/config.h"
#include "runtime/tensor/evaluate.h"
#include "transom/ops.h"
#include "work/pipelines/diffusion/lora_file.h"

namespace transom {
namespace {

// "down_blocks_1_resnets_0_conv1": the number behind a word, taken off.
bool take(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}
bool take_number(std::string_view& text, int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || number > 1000) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return take(text, "_");
}

// The name of a module of a U-Net in Stability's own files, which kohya's scripts use for XL; empty: it has none.
std::string stability_name(std::string_view flat, int64_t layers) {
  static constexpr std::pair<std::string_view, std::string_view> kOfResnets[] = {
      {"norm1", "in_layers_0"},  {"conv1", "in_layers_2"},  {"time_emb_proj", "emb_layers_1"},
      {"norm2", "out_layers_0"}, {"conv2", "out_layers_3"}, {"conv_shortcut", "skip_connection"}};
  static constexpr std::pair<std::string_view, std::string_view> kAround[] = {
      {"conv_in", "input_blocks_0_0"},
      {"conv_out", "out_2"},
      {"time_embedding_linear_1", "time_embed_0"},
      {"time_embedding_linear_2", "time_embed_2"},
      {"add_embedding_linear_1", "label_emb_0_0"},
      {"add_embedding_linear_2", "label_emb_0_2"}};
  for (const auto& [name, other] : kAround)
    if (flat == name) return std::string(other);
  const auto of_resnet = [](std::string_view rest) {
    for (const auto& [name, other] : kOfResnets)
      if (rest == name) return std::string(other);
    return std::string(rest);
  };
  int64_t block = 0, layer = 0;
  if (take(flat, "mid_block_")) {
    if (take(flat, "attentions_0_")) return "middle_block_1_" + std::string(flat);
    if (take(flat, "resnets_") && take_number(flat, layer))
      return fmt::format("middle_block_{}_{}", 2 * layer, of_resnet(flat));
    return {};
  }
  const bool down = take(flat, "down_blocks_");
  if ((!down && !take(flat, "up_blocks_")) || !take_number(flat, block)) return {};
  const char* const blocks = down ? "input_blocks" : "output_blocks";
  const int64_t first = block * (layers + 1) + (down ? 1 : 0);
  if (take(flat, "resnets_") && take_number(flat, layer))
    return fmt::format("{}_{}_0_{}", blocks, first + layer, of_resnet(flat));
  if (take(flat, "attentions_") && take_number(flat, layer))
    return fmt::format("{}_{}_1_{}", blocks, first + layer, flat);
  if (take(flat, "downsamplers_0_")) return fmt::format("{}_{}_0_op", blocks, first + layers);
  return {};  // an upsampler's place hangs on its block; kohya's scripts leave it out
}

// The weights of a model by the flat names of their modules.
std::map<std::string, Parameter*> weights_of(const Model& model) {
  std::map<std::string, Parameter*> weights;
  const Json config = json_of(model.config());
  const Json given = config.value("layers_per_block", Json());  // a number, or one for each block
  const Json first = given.is_array() && !given.empty() ? given[0] : given;
  for (const auto* list : {&model.parameters(), &model.frozen()})
    for (const auto& parameter : *list) {
      if (!parameter->name.ends_with(".weight")) continue;
      const std::string flat = flat_module(parameter->name.substr(0, parameter->name.size() - 7));
      weights[flat] = parameter.get();
      if (!first.is_number_integer()) continue;
      const std::string other = stability_name(flat, std::clamp<int64_t>(first.get<int64_t>(), 0, 100));
      if (!other.empty()) weights.emplace(other, parameter.get());
    }
  return weights;
}

Tensor matrix_of(const TensorView& view) {
  const int64_t rows = view.shape[0];
  const Tensor values = cast(Tensor::from_bytes(view.bytes, {view.dtype, view.shape}), DType::kFloat32);
  return reshape(values, {rows, elements(view.shape) / rows});
}

// The weight with the product added to it.
Tensor with_product(const Parameter& weight, const LoraProduct& product, double factor, const std::string& where) {
  if (weight.packed || !weight.value.defined() || weight.use == Parameter::Use::kTransposedLinear)
    fail(ErrorKind::kUnsupported,
         "{}: {}: the weight is packed: LoRA is added to plain weights; load without "
         "quantization",
         where, quoted(product.module, 120));
  const Shape shape = weight.value.shape();
  const int64_t rank = product.down.shape[0];
  const int64_t inputs = elements(product.down.shape) / rank;
  if (shape.size() < 2 || product.up.shape[0] != shape[0] || elements(product.up.shape) != shape[0] * rank ||
      inputs * shape[0] != elements(shape))
    fail("{}: {}: the factors [{}] and [{}] make no weight [{}]", where, quoted(product.module, 120),
         fmt::join(product.up.shape, ", "), fmt::join(product.down.shape, ", "), fmt::join(shape, ", "));
  const Tensor change = matmul(matrix_of(product.up), matrix_of(product.down), Computing{}) * (product.scale * factor);
  return cast(cast(weight.value, DType::kFloat32) + reshape(change, shape), weight.value.dtype());
}

}  // namespace

void LoraWeights::remove() {
  for (auto& [parameter, value] : originals_) parameter->value = value;
  originals_.clear();
  used_.clear();
}

void LoraWeights::add(const LoraFile& file, const Parts& parts) {
  for (const auto& [part, products] : read_lora(file.path)) {
    const auto found =
        std::find_if(parts.begin(), parts.end(), [&, &part = part](const auto& each) { return each.first == part; });
    if (found == parts.end() || !found->second)
      fail("{}: changes the part {}, which the pipeline does not have", file.path, part);
    const std::map<std::string, Parameter*> weights = weights_of(*found->second);
    for (const auto& [flat, product] : products) {
      const auto weight = weights.find(flat);
      if (weight == weights.end())
        fail("{}: {}: the {} has no such module; is the file of another model?", file.path, quoted(product.module, 120),
             part);
      Parameter& parameter = *weight->second;
      const Tensor changed = with_product(parameter, product, file.scale, file.path);
      const auto kept = std::find_if(originals_.begin(), originals_.end(),
                                     [&](const auto& each) { return each.first == &parameter; });
      if (kept == originals_.end()) originals_.emplace_back(&parameter, parameter.value);
      parameter.value = changed;
    }
  }
}

void LoraWeights::use(const std::vector<LoraFile>& files, const Parts& parts) {
  if (files == used_) return;
  remove();
  if (files.empty()) return;
  const NoGradient no_gradient;
  try {
    for (const LoraFile& file : files) add(file, parts);
    std::vector<Tensor> values;
    for (const auto& [parameter, original] : originals_) values.push_back(parameter->value);
    eval(values);
  } catch (...) {
    remove();
    throw;
  }
  used_ = files;
}

}  // namespace transom
