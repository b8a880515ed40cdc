// SPDX-License-Identifier: Apache-2.0
#include "files/gguf/gguf_rotary_export.h"

#include <cmath>
#include <cstring>

#include "files/gguf/gguf_fields.h"

namespace transom {
namespace {

// What the frequencies of llama3 are divided by (Grattafiori et al., 2024).
std::vector<float> exported_divisors(const Json& scaling, double theta, int64_t width) {
  const double factor = number_of(scaling, {"factor"}, 8), low = number_of(scaling, {"low_freq_factor"}, 1),
               high = number_of(scaling, {"high_freq_factor"}, 4),
               original = number_of(scaling, {"original_max_position_embeddings"}, 8192);
  std::vector<float> divisors;
  for (int64_t i = 0; i < width; i += 2) {
    const double length = 2 * M_PI * std::pow(theta, static_cast<double>(i) / static_cast<double>(width));
    const double smooth = (original / length - low) / (high - low);
    const double divisor = length < original / high  ? 1
                           : length > original / low ? factor
                                                     : 1 / ((1 - smooth) / factor + smooth);
    divisors.push_back(static_cast<float>(divisor));
  }
  return divisors;
}

std::vector<float> factors_of(const Json& scaling, const char* name, int64_t width) {
  std::vector<float> factors;
  if (scaling.contains(name) && scaling[name].is_array())
    for (const Json& factor : scaling[name])
      if (factor.is_number()) factors.push_back(factor.get<float>());
  if (static_cast<int64_t>(factors.size()) != width / 2)
    fail("config.json: {}: expected {} numbers, found {}", name, width / 2, factors.size());
  return factors;
}

void add_numbers(GgufWriter& writer, const char* name, const std::vector<float>& numbers) {
  writer.add_tensor(name, 0, {static_cast<int64_t>(numbers.size())}, [numbers] {
    std::vector<std::byte> bytes(numbers.size() * 4);
    std::memcpy(bytes.data(), numbers.data(), bytes.size());
    return bytes;
  });
}

// Two sets of divisors, for texts up to the first length and beyond (Ding et al., 2024).
void add_longrope(GgufWriter& writer, const std::string& a, const Json& config, const Json& scaling, int64_t width,
                  bool two_factor_sets) {
  const std::vector<float> near = factors_of(scaling, "short_factor", width),
                           far = factors_of(scaling, "long_factor", width);
  const double positions = number_of(config, {"max_position_embeddings"}, 0),
               original = number_of(config, {"original_max_position_embeddings"},
                                    number_of(scaling, {"original_max_position_embeddings"}, positions)),
               stretch = number_of(scaling, {"factor"}, positions / original),
               computed = stretch > 1 ? std::sqrt(1 + std::log(stretch) / std::log(original)) : 1,
               attention = number_of(scaling, {"attention_factor"}, computed);
  if (!two_factor_sets) {
    if (near != far || attention != 1)
      fail(ErrorKind::kUnsupported, "config.json: rope type 'longrope' of {} cannot be written as GGUF", a);
    return add_numbers(writer, "rope_freqs.weight", near);
  }
  add_numbers(writer, "rope_factors_short.weight", near);
  add_numbers(writer, "rope_factors_long.weight", far);
  writer.add_float(a + ".rope.scaling.attn_factor", attention);
  writer.add_count(a + ".rope.scaling.original_context_length", static_cast<int64_t>(original));
}

// Readers multiply by the factor of the YaRN paper themselves (Peng et al., 2023); attn_factor is what is beside it.
// Of latent attention they know yarn_log_multiplier, and take mscale to be mscale_all_dim.
void add_yarn(GgufWriter& writer, const std::string& a, const Json& config, const Json& scaling, const Json& stated) {
  const double factor = number_of(scaling, {"factor"}, 1), logarithm = factor > 1 ? 0.1 * std::log(factor) : 0,
               mscale = number_of(scaling, {"mscale"}, 0), all = number_of(scaling, {"mscale_all_dim"}, 0),
               computed = mscale != 0 && all != 0 ? (mscale * logarithm + 1) / (all * logarithm + 1) : logarithm + 1,
               attention = number_of(scaling, {"attention_factor"}, computed);
  if (scaling.contains("truncate") && scaling["truncate"].is_boolean() && !scaling["truncate"].get<bool>())
    fail(ErrorKind::kUnsupported, "config.json: rope_parameters: truncate false of yarn cannot be written as GGUF");
  const bool is_latent = stated.contains("rope.scaling.yarn_log_multiplier");
  if (is_latent && attention != 1)
    fail(ErrorKind::kUnsupported,
         "config.json: rope_parameters: yarn with mscale {} and mscale_all_dim {} cannot be "
         "written as GGUF, whose readers take them to be one",
         mscale, all);
  if (!is_latent && attention != logarithm + 1)
    writer.add_float(a + ".rope.scaling.attn_factor", attention / (logarithm + 1));
  for (const char* field : {"beta_fast", "beta_slow"})
    if (scaling.contains(field) && scaling[field].is_number())
      writer.add_float(a + ".rope.scaling.yarn_" + field, scaling[field].get<double>());
  writer.add_count(
      a + ".rope.scaling.original_context_length",
      count_of(scaling, {"original_max_position_embeddings"}, count_of(config, {"max_position_embeddings"})));
}

}  // namespace

void add_gguf_rotary(GgufWriter& writer, const std::string& a, const Json& config, const GgufRotary& rotary,
                     int64_t head_width, const Json& stated) {
  const bool writes_width = !stated.contains("rope.dimension_count");
  Json scaling = Json::object();
  for (const char* name : {"rope_scaling", "rope_parameters"})
    if (config.contains(name) && config[name].is_object()) scaling = config[name];
  if (rotary.set_by_layers) {  // one set for each kind of layer, or one, which is for the layers that see all
    // Gemma 3 says which base layers with a window have; for others it is that of all.
    const Json full = scaling.contains("full_attention") ? Json(scaling["full_attention"]) : scaling;
    const double common = number_of(full, {"rope_theta"}, number_of(config, {"rope_theta"}, rotary.theta));
    double sliding = number_of(config, {"rope_local_base_freq"}, stated.empty() ? 10000 : common);
    if (scaling.contains("sliding_attention")) {
      const Json local = scaling["sliding_attention"];
      sliding = number_of(local, {"rope_theta"}, sliding);
      if (text_of(local, {"rope_type"}, "default") != "default")
        fail(ErrorKind::kUnsupported,
             "config.json: rope_parameters: scaled positions of layers with a window cannot "
             "be written as GGUF");
    }
    if (!stated.empty() && sliding != common)
      fail(
          ErrorKind::kUnsupported,
          "config.json: rope_parameters: expected one rope_theta for layers with a window and without, found {} and {}",
          sliding, common);
    writer.add_float(a + ".rope.freq_base_swa", sliding);
    scaling = full;
  }
  const auto given = [&](const char* name, const std::string& older, double usual) {
    return number_of(scaling, {name}, number_of(config, {name, older.empty() ? name : older.c_str()}, usual));
  };
  double theta = given("rope_theta", rotary.theta_field, rotary.theta);
  const double part = given("partial_rotary_factor", rotary.part_field, rotary.part);
  const int64_t width =
      rotary.turns_part && writes_width ? static_cast<int64_t>(static_cast<double>(head_width) * part) : head_width;
  std::string kind = text_of(scaling, {"rope_type", "type"}, "default");
  // Hunyuan: an alpha is a larger base.
  if (kind == "dynamic" && scaling.contains("alpha") && scaling["alpha"].is_number() && width > 2) {
    const auto turning = static_cast<double>(width);
    theta *= std::pow(scaling["alpha"].get<double>(), turning / (turning - 2));
    kind = "default";
  }
  writer.add_float(a + ".rope.freq_base", theta);
  if (writes_width) writer.add_count(a + ".rope.dimension_count", width);
  if (rotary.two_factor_sets && (kind == "su" || kind == "yarn")) kind = "longrope";
  if (kind == "default") return;
  if (kind == "llama3") return add_numbers(writer, "rope_freqs.weight", exported_divisors(scaling, theta, width));
  if (kind == "longrope") return add_longrope(writer, a, config, scaling, width, rotary.two_factor_sets);
  if (kind != "linear" && kind != "yarn")
    fail(ErrorKind::kUnsupported,
         "config.json: rope type {} cannot be written as GGUF; default, linear, yarn, llama3 and longrope can",
         quoted(kind));
  writer.add_string(a + ".rope.scaling.type", kind);
  writer.add_float(a + ".rope.scaling.factor", number_of(scaling, {"factor"}, 1));
  if (kind == "yarn") add_yarn(writer, a, config, scaling, stated);
}

}  // namespace transom
