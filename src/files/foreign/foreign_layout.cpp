// SPDX-License-Identifier: Apache-2.0
#include "files/foreign/foreign_layout.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "base/error.h"
#include "files/family/family.h"

namespace transom {
namespace {

// The family's names in a library: what `names_of` gives of its record. Errors (kUnsupported): there are none, or not
// for this class.
template <typename NamesOf>
const auto& names_in(const ForeignModel& model, const char* library, NamesOf names_of) {
  const Family* family = find_family(model.model_type);
  if (!family || !names_of(*family)) {
    std::vector<std::string_view> types;
    for (const Family& each : families())
      if (names_of(each)) types.push_back(each.model_type);
    fail(ErrorKind::kUnsupported, "model_type {}: Transformers has no such model in {}; it has {}",
         quoted(model.model_type), library, fmt::join(types, ", "));
  }
  for (const std::string& ending : names_of(*family)->without)
    if (model.architecture.ends_with(ending))
      fail(ErrorKind::kUnsupported, "{}: Transformers has no such class in {}; expected safetensors",
           model.architecture, library);
  return *names_of(*family);
}

bool holds(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// What a tensor is to the layer that holds it.
enum class Role { kKernel, kEmbedding, kScale, kShift, kBias, kMean, kVariance, kLength, kDirection, kOther, kNone };

struct Place {
  std::vector<std::string> modules;  // "bert", "encoder", "layer", "0", ...
  std::string leaf;                  // of PyTorch
  Role role = Role::kOther;
};

bool is_table(std::string_view module, size_t rank) {
  if (rank != 2) return false;
  for (const std::string_view end : {"embeddings", "embedding", "embed_tokens", "embed_positions", "wte", "wpe",
                                     "shared", "relative_attention_bias"})
    if (module.ends_with(end)) return true;
  return false;
}

std::vector<Place> places_of(const NamedViews& tensors) {
  std::map<std::string_view, size_t> ranks;
  for (const auto& [name, view] : tensors) ranks.emplace(name, view.shape.size());
  std::vector<Place> result;
  for (const auto& [name, view] : tensors) {
    Place place;
    std::string_view left = name;
    constexpr std::string_view kNorm = ".parametrizations.weight.original";  // weight norm in newer files
    if (const size_t at = left.find(kNorm); at != left.npos && left.size() == at + kNorm.size() + 1) {
      place.role = left.back() == '0' ? Role::kLength : Role::kDirection;
      left = left.substr(0, at);
      place.leaf = place.role == Role::kLength ? "weight_g" : "weight_v";
    }
    for (size_t end; (end = left.find('.')) != left.npos; left.remove_prefix(end + 1))
      place.modules.emplace_back(left.substr(0, end));
    if (place.leaf.empty()) place.leaf = left;
    else place.modules.emplace_back(left);
    const std::string_view module = place.modules.empty() ? std::string_view() : place.modules.back();
    const std::string& leaf = place.leaf;
    if (leaf == "weight") {
      place.role = view.shape.size() == 1                ? Role::kScale
                   : is_table(module, view.shape.size()) ? Role::kEmbedding
                                                         : Role::kKernel;
    } else if (leaf == "bias") {
      const auto scale = ranks.find(name.substr(0, name.size() - leaf.size()) + "weight");
      place.role = scale != ranks.end() && scale->second == 1 ? Role::kShift : Role::kBias;
    } else if (leaf == "running_mean") {
      place.role = Role::kMean;
    } else if (leaf == "running_var") {
      place.role = Role::kVariance;
    } else if (leaf == "num_batches_tracked") {
      place.role = Role::kNone;
    } else if (leaf == "weight_g") {
      place.role = Role::kLength;
    } else if (leaf == "weight_v") {
      place.role = Role::kDirection;
    }
    result.push_back(std::move(place));
  }
  return result;
}

// The axes of a kernel: [out, in] -> [in, out], [out, in, w] -> [w, in, out], [out, in, h, w] -> [h, w, in, out].
std::vector<int64_t> kernel_axes(size_t rank) {
  if (rank == 2) return {1, 0};
  if (rank == 3) return {2, 1, 0};
  if (rank == 4) return {2, 3, 1, 0};
  return {};
}

ForeignWeight weight_of(std::string name, size_t source, const TensorView& view, std::vector<int64_t> axes = {}) {
  ForeignWeight weight{std::move(name), source, std::move(axes), {}};
  if (weight.axes.empty()) weight.shape = view.shape;
  for (const int64_t axis : weight.axes) weight.shape.push_back(view.shape[static_cast<size_t>(axis)]);
  return weight;
}

bool is_index(std::string_view module) {
  return !module.empty() && std::all_of(module.begin(), module.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Keras's name of an object of a class: "TFBertForMaskedLM" -> "tf_bert_for_masked_lm".
std::string snake_case(std::string_view name) {
  const auto upper = [](char c) { return c >= 'A' && c <= 'Z'; };
  const auto lower = [](char c) { return c >= 'a' && c <= 'z'; };
  std::string text;
  for (size_t i = 0; i < name.size(); ++i) {
    const bool begins = upper(name[i]) && i > 0 && ((i + 1 < name.size() && lower(name[i + 1])) || lower(name[i - 1]));
    if (begins) text.push_back('_');
    text.push_back(upper(name[i]) ? static_cast<char>(name[i] | 32) : name[i]);
  }
  return text;
}

// The name of the table in its layer: layers of Transformers' own say "weight", Keras's "embeddings".
const char* keras_table(const KerasNames& names, std::string_view module) {
  const bool own = module == "word_embeddings" || module == "token_embedding" || holds(names.own_tables, module);
  return own ? "weight" : "embeddings";
}

std::string keras_leaf(const Place& place, const KerasNames& names) {
  switch (place.role) {
    case Role::kKernel:
      return holds(names.conv1d, place.modules.back()) ? "weight" : "kernel";
    case Role::kEmbedding:
      return keras_table(names, place.modules.back());
    case Role::kScale:
      return names.scale;
    case Role::kShift:
      return "beta";
    case Role::kMean:
      return "moving_mean";
    case Role::kVariance:
      return "moving_variance";
    default:
      return place.leaf;
  }
}

// "layer", "0" -> "layer_._0"; modules joined with '/'.
std::string keras_modules(const std::vector<std::string>& modules, const KerasNames& names) {
  std::string text;
  for (size_t i = 0; i < modules.size(); ++i) {
    const bool apart = i > 0 && modules[i - 1] == names.separate;
    if (i > 0 && is_index(modules[i]) && !apart) text += names.joint;
    else if (i > 0) text += '/';
    text += modules[i];
  }
  return text;
}

std::string keras_path(const Place& place, const ForeignModel& model, const KerasNames& names) {
  const std::string leaf = keras_leaf(place, names), of_model = snake_case("TF" + model.architecture);
  const auto& modules = place.modules;
  if (modules.empty()) {
    if (leaf == "final_logits_bias") return leaf + "/" + leaf + ":0";
    return fmt::format("{}/{}/{}:0", kKerasTopLevel, of_model, leaf);
  }
  if (modules.back() == "shared") {
    const std::string name = names.body.empty() ? "shared" : "model.shared";
    return fmt::format("{}/{}/{}/{}:0", modules[0], name, name, leaf);
  }
  if (modules.back() == "rel_embeddings") {
    const std::vector<std::string> above(modules.begin(), modules.end() - 1);
    return fmt::format("{}/{}/{}/rel_embeddings.weight:0", modules[0], of_model, keras_modules(above, names));
  }
  const std::string path = keras_modules(modules, names);
  return fmt::format("{}/{}/{}/{}:0", path.substr(0, path.find('/')), of_model, path, leaf);
}

}  // namespace

std::vector<ForeignWeight> keras_weights(const NamedViews& tensors, const ForeignModel& model) {
  const KerasNames& names = names_in(
      model, "TensorFlow", [](const Family& family) -> const auto& { return *family.foreign.keras; });
  const std::string body = names.body + ".";
  const bool bare = !names.body.empty() && std::none_of(tensors.begin(), tensors.end(),
                                                        [&](const auto& item) { return item.first.starts_with(body); });
  // "predictions.bias" is also "predictions.decoder.bias".
  const std::string second = names.doubled.substr(0, names.doubled.rfind('.') + 1) + "decoder.bias";
  const bool has_second =
      std::any_of(tensors.begin(), tensors.end(), [&](const auto& item) { return item.first == second; });
  std::vector<Place> places = places_of(tensors);
  std::vector<ForeignWeight> result;
  for (size_t i = 0; i < places.size(); ++i) {
    Place& place = places[i];
    const TensorView& view = tensors[i].second;
    if (place.role == Role::kNone) continue;
    auto& modules = place.modules;
    if (bare) modules.insert(modules.begin(), names.body);
    if (modules.size() > 1)
      for (const auto& [head, name] : names.renamed)
        if (modules[0] + "/" + modules[1] == head) {
          modules[0] = name;
          break;
        }
    const bool conv1d = !modules.empty() && holds(names.conv1d, modules.back());
    std::vector<int64_t> axes;
    if (place.role == Role::kKernel && !conv1d) axes = kernel_axes(view.shape.size());
    if (place.role == Role::kLength && view.shape.size() == 3) axes = {2, 1, 0};
    result.push_back(weight_of(keras_path(place, model, names), i, view, axes));
    std::vector<int64_t>& shape = result.back().shape;
    if (conv1d && place.role == Role::kBias) shape.insert(shape.begin(), 1);
    if (shape.empty()) shape = {1};  // "logit_scale"
    // Two variables there, one here.
    if (!names.doubled.empty() && tensors[i].first == names.doubled && !has_second) {
      Place copy = place;
      copy.modules.emplace_back("decoder");
      result.push_back(weight_of(keras_path(copy, model, names), i, view));
    }
  }
  return result;
}

std::vector<ForeignWeight> flax_weights(const NamedViews& tensors, const ForeignModel& model) {
  const FlaxNames& names = names_in(
      model, "Flax", [](const Family& family) -> const auto& { return *family.foreign.flax; });
  const std::vector<Place> places = places_of(tensors);
  const bool has_statistics =
      std::any_of(places.begin(), places.end(), [](const Place& p) { return p.role == Role::kMean; });
  std::vector<ForeignWeight> result;
  for (size_t i = 0; i < places.size(); ++i) {
    const Place& place = places[i];
    if (place.role == Role::kNone) continue;
    const bool statistics = place.role == Role::kMean || place.role == Role::kVariance;
    std::string name = !has_statistics ? "" : statistics ? "batch_stats/" : "params/";
    for (const std::string& module : place.modules) name += module + "/";
    switch (place.role) {
      case Role::kKernel:
        name += "kernel";
        break;
      case Role::kEmbedding:
        name += "embedding";
        break;
      case Role::kScale:
        name += names.scale;
        break;
      case Role::kMean:
        name += "mean";
        break;
      case Role::kVariance:
        name += "var";
        break;
      default:
        name += place.leaf;
    }
    if (!names.computed.empty() && name.ends_with(names.computed)) continue;
    const TensorView& view = tensors[i].second;
    result.push_back(weight_of(std::move(name), i, view,
                               place.role == Role::kKernel ? kernel_axes(view.shape.size()) : std::vector<int64_t>()));
  }
  return result;
}

}  // namespace transom
