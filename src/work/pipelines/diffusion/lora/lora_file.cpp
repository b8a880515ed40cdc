// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/diffusion/lora/lora_file.h"

#include <array>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/json/json.h"
#include "files/checkpoint/safetensors.h"
#include "files/original/pipeline_files.h"
#include "transom/ops.h"
#include "work/pipelines/diffusion/lora/lora_names.h"

namespace transom {
namespace {

constexpr size_t kMostLoraTensors = 100'000;

enum class Role { kDown, kUp, kAlpha };
struct Ending {
  std::string_view text;
  Role role;
};
// PEFT's, diffusers' older ones, kohya's.
constexpr Ending kEndings[] = {{".lora_A.weight", Role::kDown},
                               {".lora_B.weight", Role::kUp},
                               {".lora_A.default.weight", Role::kDown},
                               {".lora_B.default.weight", Role::kUp},
                               {".lora.down.weight", Role::kDown},
                               {".lora.up.weight", Role::kUp},
                               {".lora_linear_layer.down.weight", Role::kDown},
                               {".lora_linear_layer.up.weight", Role::kUp},
                               {"_lora.down.weight", Role::kDown},
                               {"_lora.up.weight", Role::kUp},
                               {".lora_down.weight", Role::kDown},
                               {".lora_up.weight", Role::kUp},
                               {".alpha", Role::kAlpha}};
struct Beginning {
  std::string_view text, part;
};
constexpr Beginning kBeginnings[] = {{"lora_unet_", "unet"},
                                     {"lora_transformer_", "transformer"},
                                     {"lora_te1_", "text_encoder"},
                                     {"lora_te2_", "text_encoder_2"},
                                     {"lora_te3_", "text_encoder_3"},
                                     {"lora_te_", "text_encoder"},
                                     {"text_encoder_2.", "text_encoder_2"},
                                     {"text_encoder_3.", "text_encoder_3"},
                                     {"text_encoder.", "text_encoder"},
                                     {"transformer.", "transformer"},
                                     {"diffusion_model.", "unet"},  // ComfyUI's
                                     {"text_encoders.clip_l.transformer.", "text_encoder"},
                                     {"text_encoders.clip_g.transformer.", "text_encoder_2"},
                                     {"text_encoders.t5xxl.transformer.", "text_encoder_3"},
                                     {"unet.", "unet"}};

struct LoraKey {
  std::string part, module;
  Role role;
};

LoraKey key_of(std::string name, const std::string& where) {
  LoraKey key;
  const std::string whole = name;
  bool known = false;
  for (const Ending& ending : kEndings) {
    if (!name.ends_with(ending.text)) continue;
    key.role = ending.role;
    name.resize(name.size() - ending.text.size());
    known = true;
    break;
  }
  if (!known)
    fail(ErrorKind::kUnsupported, "{}: {}: expected the two factors of LoRA and alpha (no DoRA, LoHa, LoKr or biases)",
         where, quoted(whole, 120));
  key.part = "unet";  // what diffusers' first files had alone
  for (const Beginning& beginning : kBeginnings) {
    if (!name.starts_with(beginning.text)) continue;
    key.part = beginning.part;
    name.erase(0, beginning.text.size());
    break;
  }
  key.module = std::move(name);
  return key;
}

double number_of(const TensorView& view, const std::string& where) {
  int64_t count = 1;
  for (const int64_t extent : view.shape) count *= extent;
  if (view.shape.size() > 1 || count != 1) fail("{}: alpha: expected one number", where);
  const std::vector<float> values =
      cast(Tensor::from_bytes(view.bytes, {view.dtype, view.shape}), DType::kFloat32).to_vector<float>();
  if (!std::isfinite(values.at(0))) fail("{}: alpha: expected a number, found {}", where, values[0]);
  return values[0];
}

// What save_lora_weights says of each part's adapters: "unet.lora_alpha": 8.
class LoraMetadata {
 public:
  LoraMetadata(const SafetensorsFile& file, std::string where) : where_(std::move(where)) {
    const auto found = file.metadata().find("lora_adapter_metadata");
    if (found == file.metadata().end()) return;
    fields_ = parse_json(found->second, where_ + ": lora_adapter_metadata");
    if (!fields_.is_object()) fail("{}: lora_adapter_metadata: expected an object", where_);
    for (const auto& [key, value] : fields_.items())
      for (const char* other : {".use_dora", ".lora_bias"})
        if (key.ends_with(other) && value.is_boolean() && value.get<bool>())
          fail(ErrorKind::kUnsupported, "{}: lora_adapter_metadata: {}: not carried out", where_, key);
  }
  // alpha of a module; empty: the file does not say.
  std::optional<double> alpha(const std::string& part, const std::string& module) const {
    if (!fields_.is_object()) return std::nullopt;
    if (const auto patterns = fields_.find(part + ".alpha_pattern"); patterns != fields_.end() && patterns->is_object())
      for (const auto& [pattern, value] : patterns->items())
        if (value.is_number() && (module == pattern || module.ends_with("." + pattern))) return value.get<double>();
    const auto alpha = fields_.find(part + ".lora_alpha");
    if (alpha == fields_.end()) return std::nullopt;
    if (!alpha->is_number()) fail("{}: lora_adapter_metadata: {}.lora_alpha: expected a number", where_, part);
    return alpha->get<double>();
  }
  bool divides_by_root(const std::string& part) const {
    return fields_.is_object() && fields_.value(part + ".use_rslora", Json(false)) == Json(true);
  }

 private:
  std::string where_;
  Json fields_;
};

}  // namespace

LoraProducts read_lora(const std::string& path) {
  fs::path file_path = path;
  if (directory_exists(file_path)) file_path /= kLoraWeightsName;
  const std::string where = file_path.string();
  const SafetensorsFile file = SafetensorsFile::open(file_path);
  if (file.tensors().empty() || file.tensors().size() > kMostLoraTensors)
    fail("{}: expected 1 to {} tensors, found {}", where, kMostLoraTensors, file.tensors().size());
  const LoraMetadata metadata(file, where);
  LoraProducts parts;
  std::map<std::string, std::map<std::string, double>> alphas;
  for (const auto& [name, view] : file.tensors()) {
    const LoraKey key = key_of(name, where);
    const std::string flat = flat_module(key.module);
    if (key.role == Role::kAlpha) {
      alphas[key.part][flat] = number_of(view, fmt::format("{}: {}", where, name));
      continue;
    }
    LoraProduct& product = parts[key.part][flat];
    TensorView& factor = key.role == Role::kDown ? product.down : product.up;
    if (!factor.shape.empty()) fail("{}: {} stands there twice", where, quoted(key.module, 120));
    if (view.shape.size() < 2 || view.shape.size() > 4)
      fail("{}: {}: expected a matrix or a kernel", where, quoted(name, 120));
    factor = view;
    product.module = key.module;
  }
  for (auto& [part, products] : parts)
    for (auto& [flat, product] : products) {
      if (product.down.shape.empty() || product.up.shape.empty())
        fail("{}: {}: one of the two factors is missing", where, quoted(product.module, 120));
      const auto r = static_cast<double>(product.down.shape[0]);
      if (r < 1 || product.up.shape[1] != product.down.shape[0])
        fail("{}: {}: the factors have the ranks {} and {}", where, quoted(product.module, 120), product.down.shape[0],
             product.up.shape[1]);
      std::optional<double> alpha = metadata.alpha(part, product.module);
      if (const auto found = alphas[part].find(flat); found != alphas[part].end()) alpha = found->second;
      if (alpha) product.scale = *alpha / (metadata.divides_by_root(part) ? std::sqrt(r) : r);
      alphas[part].erase(flat);
    }
  for (const auto& [part, rest] : alphas)
    if (!rest.empty()) fail("{}: {}: alpha without the two factors", where, quoted(rest.begin()->first, 120));
  return parts;
}

}  // namespace transom
