// SPDX-License-Identifier: Apache-2.0
#include "models/shared/rotary/rotary_config.h"

#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "base/error.h"
#include "base/json/json.h"

namespace transom {
namespace {

using Kind = RotaryOptions::Kind;

constexpr std::array<std::pair<std::string_view, Kind>, 6> kKinds = {{{"default", Kind::kDefault},
                                                                      {"linear", Kind::kLinear},
                                                                      {"dynamic", Kind::kDynamic},
                                                                      {"yarn", Kind::kYarn},
                                                                      {"llama3", Kind::kLlama3},
                                                                      {"longrope", Kind::kLongrope}}};

std::optional<Config> object_in(const Config& config, const std::string& key) {
  if (!config.has(key)) return std::nullopt;
  const Json& value = json_of(config)[key];
  if (!value.is_object()) fail("{}: {}: expected an object", config.where(), key);
  return make_config(value, config.where() + ": " + key);
}

// The parameters, wherever they stand; empty where there are none.
Config parameters_of(const Config& config, const RotaryDefaults& defaults) {
  if (defaults.layer_type.empty())  // the older name comes first, as in Transformers
    if (auto found = object_in(config, "rope_scaling"); found && !json_of(*found).empty()) return *found;
  if (auto found = object_in(config, "rope_parameters")) {
    if (defaults.layer_type.empty()) return *found;
    // One set for each kind of layer. (A set for all is what a model without kinds of layers has.)
    if (auto nested = object_in(*found, defaults.layer_type)) return *nested;
    if (!found->has("full_attention") && !found->has("sliding_attention")) return *found;
    return make_config(Json::object(), found->where());
  }
  // Layers with a window keep plain positions: rope_scaling is for the others.
  if (defaults.layer_type != "sliding_attention")
    if (auto found = object_in(config, "rope_scaling")) return *found;
  return make_config(Json::object(), config.where());
}

bool is_proportional(const Config& parameters) {
  return parameters.get_string("rope_type", parameters.get_string("type", "")) == "proportional";
}

Kind kind_of(const Config& parameters, const RotaryDefaults& defaults) {
  std::string name = parameters.get_string("rope_type", parameters.get_string("type", "default"));
  if (defaults.only_longrope && (name == "su" || name == "yarn")) name = "longrope";
  std::vector<std::string> names;
  if (is_proportional(parameters)) return Kind::kDefault;  // make_proportional() changes it
  for (const auto& [known, kind] : kKinds) {
    if (name == known) return kind;
    names.emplace_back(known);
  }
  fail(ErrorKind::kUnsupported, "{}: rope_type: {} is not carried out{} Known are: {}", parameters.where(),
       quoted(name), did_you_mean(name, names), fmt::join(names, ", "));
}

std::vector<double> numbers(const Config& parameters, const std::string& key) {
  if (!parameters.has(key)) fail("{}: {} is missing", parameters.where(), key);
  const Json& list = json_of(parameters)[key];
  std::vector<double> values;
  if (list.is_array())
    for (const Json& item : list)
      if (item.is_number()) values.push_back(item.get<double>());
  if (!list.is_array() || values.size() != list.size())
    fail("{}: {}: expected a list of numbers", parameters.where(), key);
  return values;
}

// Pairs are those of whole heads, and the first of them alone turn (Gemma 4): the others have a factor without end.
void make_proportional(RotaryOptions& options, const Config& parameters, const RotaryDefaults& defaults, double part) {
  const int64_t pairs = defaults.head_width / 2;
  const auto turning = static_cast<int64_t>(std::floor(part * static_cast<double>(defaults.head_width) / 2));
  const double factor = parameters.get_float("factor", 1);
  if (!(factor > 0)) fail("{}: factor: expected a number above 0, found {}", parameters.where(), factor);
  options.kind = Kind::kLongrope, options.width = defaults.head_width, options.attention_factor = 1;
  options.short_factor.assign(static_cast<size_t>(turning), factor);
  options.short_factor.resize(static_cast<size_t>(pairs), std::numeric_limits<double>::infinity());
  options.long_factor = options.short_factor;
}

}  // namespace

RotaryOptions rotary_options(const Config& config, const RotaryDefaults& defaults) {
  const Config parameters = parameters_of(config, defaults);
  RotaryOptions result;
  result.kind = kind_of(parameters, defaults);
  const bool local = defaults.layer_type == "sliding_attention";
  result.theta = parameters.get_float("rope_theta",
                                      config.get_float(local ? "rope_local_base_freq" : "rope_theta", defaults.theta));
  if (result.theta <= 0) fail("{}: rope_theta: expected a number above 0, found {}", config.where(), result.theta);

  const double part =
      parameters.get_float("partial_rotary_factor", config.get_float("partial_rotary_factor", defaults.turning_part));
  if (!(part > 0 && part <= 1))
    fail(ErrorKind::kUnsupported, "{}: partial_rotary_factor: expected (0, 1], found {}", config.where(), part);
  if (!defaults.partial && part != 1 && result.kind != Kind::kDefault)
    fail(ErrorKind::kUnsupported, "{}: partial_rotary_factor {} is not carried out for this model", config.where(),
         part);
  result.width =
      defaults.partial ? static_cast<int64_t>(static_cast<double>(defaults.head_width) * part) : defaults.head_width;
  if (result.width < 1)
    fail(ErrorKind::kUnsupported, "{}: partial_rotary_factor {} leaves nothing of heads of {}", config.where(), part,
         defaults.head_width);

  result.max_positions = static_cast<double>(defaults.max_positions);
  if (is_proportional(parameters)) {
    make_proportional(result, parameters, defaults, part);
    return result;
  }
  // What stands outside of the parameters comes first, as in Transformers.
  result.original_max_positions = config.get_float(
      "original_max_position_embeddings",
      defaults.original_max_positions > 0
          ? static_cast<double>(defaults.original_max_positions)
          : parameters.get_float("original_max_position_embeddings", static_cast<double>(defaults.max_positions)));
  const bool stretches = result.kind == Kind::kYarn || result.kind == Kind::kLongrope;
  if (stretches && !parameters.has("factor")) result.factor = result.max_positions / result.original_max_positions;
  else if (result.kind != Kind::kDefault) result.factor = parameters.get_float("factor");
  if (result.kind != Kind::kDefault && !(result.factor > 0))
    fail("{}: factor: expected a number above 0, found {}", parameters.where(), result.factor);
  if (parameters.has("attention_factor")) result.attention_factor = parameters.get_float("attention_factor");

  if (result.kind == Kind::kYarn) {
    // 0 is none, as in Transformers.
    const auto rotations = [&](const char* field, double usual) {
      const double given = parameters.get_float(field, usual);
      return given == 0 ? usual : given;
    };
    result.beta_fast = rotations("beta_fast", 32);
    result.beta_slow = rotations("beta_slow", 1);
    result.mscale = parameters.get_float("mscale", 0);
    result.mscale_all_dim = parameters.get_float("mscale_all_dim", 0);
    // Of sets for kinds of layers Transformers reads this one field beside the sets, not in them.
    const auto outer = object_in(config, "rope_parameters");
    const bool nested = !defaults.layer_type.empty() && outer && outer->has(defaults.layer_type);
    result.truncate = (nested ? *outer : parameters).get_bool("truncate", true);
  } else if (result.kind == Kind::kLlama3) {
    result.low_freq_factor = parameters.get_float("low_freq_factor");
    result.high_freq_factor = parameters.get_float("high_freq_factor");
  } else if (result.kind == Kind::kLongrope) {
    result.short_factor = numbers(parameters, "short_factor");
    result.long_factor = numbers(parameters, "long_factor");
  }
  return result;
}

}  // namespace transom
