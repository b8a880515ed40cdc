// SPDX-License-Identifier: Apache-2.0
#include "models/drafts/eagle3_config.h"

#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "files/config/known_keys.h"
#include "files/config/model_config.h"
#include "models/loading/config_keys.h"
#include "models/shared/rotary/rotary_config.h"

namespace transom {
namespace {

constexpr int64_t kMostRows = 1 << 24, kWidest = 1 << 20, kMostRead = 16, kFarthestLayer = 1 << 30;

// Of training, of other layouts, or of what shapes and other keys say.
constexpr KnownKey kWithoutEffect[] = {
    {"sliding_window"},                               // as use_sliding_window and layer_types say
    {"max_window_layers"},  {"tie_word_embeddings"},  // the head has scores of its own, or none is found
    {"target_model_type"},  {"_name_or_path"},           {"speculators_model_type"},     {"speculators_version"},
    {"speculators_config"}, {"has_no_defaults_at_init"}, {"embed_requires_grad"},        {"base_model_ep_plan"},
    {"base_model_pp_plan"}, {"base_model_tp_plan"},      {"enable_sp_ulysses", "false"}, {"fc_norm", "false"}};
constexpr KnownKey kOfEagle[] = {{"use_aux_hidden_state", "true"},   {"use_input_layernorm_in_first_layer", "true"},
                                 {"use_last_layernorm", "true"},     {"use_mtp_layernorm", "false"},
                                 {"next_layer_regular", "true"},     {"parallel_draft_step", "1"},
                                 {"parallel_draft_heads_num_layers"}};

void expect_known(const Config& config, const char* part, std::span<const KnownKey> known, bool everywhere) {
  for (const std::string& key : config.keys()) {
    const Json& value = json_of(config)[key];
    if (value.is_null() || was_read(config, key) || (everywhere && is_known_everywhere(key, value))) continue;
    const auto found = std::ranges::find(known, key, &KnownKey::name);
    if (found != known.end() && (found->neutral.empty() || is_neutral(*found, value))) continue;
    fail(ErrorKind::kUnsupported, "{}: {}{} = {} of a head of EAGLE-3 is not carried out{}", config.where(), part,
         quoted(key), dump_json(value),
         found == known.end() || found->neutral.empty() ? "" : "; expected " + std::string(found->neutral));
  }
}

int64_t sized(const Config& config, const char* key, int64_t otherwise, int64_t most) {
  const int64_t value = otherwise > 0 ? config.get_int(key, otherwise) : config.get_int(key);
  if (value < 1 || value > most)
    fail("{}: {}: expected a number from 1 to {}, found {}", config.where(), key, most, value);
  return value;
}

// The layers whose inputs are read. At the top, as vLLM and Speculators have it, a number n is the input of layer n; in
// eagle_config, as SGLang and SpecForge have it, the output of layer n. Without: one near the beginning, the middle and
// the end.
std::vector<size_t> layers_read(const Config& config, const Config& eagle, int64_t layers) {
  std::vector<int64_t> numbers = config.get_ints("eagle_aux_hidden_state_layer_ids");
  if (numbers.empty())
    for (const int64_t output : eagle.get_ints("eagle_aux_hidden_state_layer_ids"))
      numbers.push_back(std::min(output, kFarthestLayer) + 1);
  if (numbers.empty()) numbers = {2, layers / 2, layers - 3};
  if (std::ssize(numbers) > kMostRead)
    fail("{}: a head of EAGLE-3 that reads {} layers: expected at most {}", config.where(), numbers.size(), kMostRead);
  std::vector<size_t> reads;
  for (const int64_t number : numbers) {
    if (number < 0 || number >= layers)
      fail(
          "{}: a head of EAGLE-3 that reads the inputs of the layers {}, for a model of {}: expected 0 to {}; is it "
          "the head of another model?",
          config.where(), fmt::join(numbers, ", "), layers, layers - 1);
    reads.push_back(static_cast<size_t>(number));
  }
  return reads;
}

void expect_made_for(const Config& config, const Config& layer, const Config& text) {
  const int64_t width = config.get_int("target_hidden_size", layer.get_int("hidden_size")),
                vocabulary = layer.get_int("vocab_size", text.get_int("vocab_size"));
  if (width != text.get_int("hidden_size"))
    fail(
        "{}: {}: the head reads states of {} numbers, the model has {}: expected a head that was trained for this "
        "model",
        config.where(), config.has("target_hidden_size") ? "target_hidden_size" : "hidden_size", width,
        text.get_int("hidden_size"));
  if (vocabulary != text.get_int("vocab_size"))
    fail("{}: vocab_size: the head is for {} tokens, the model has {}: expected a head that was trained for this model",
         config.where(), vocabulary, text.get_int("vocab_size"));
}

void expect_one_full_layer(const Config& layer) {
  if (layer.get_int("num_hidden_layers", 1) != 1)
    fail(ErrorKind::kUnsupported, "{}: a head of EAGLE-3 has one layer, found num_hidden_layers = {}", layer.where(),
         layer.get_int("num_hidden_layers"));
  const std::vector<std::string> kinds = layer.get_strings("layer_types");
  if (layer.get_bool("use_sliding_window", false) ||
      std::ranges::any_of(kinds, [](const std::string& kind) { return kind != "full_attention"; }))
    fail(ErrorKind::kUnsupported,
         "{}: the window of a head of EAGLE-3 (use_sliding_window, layer_types) is not carried out", layer.where());
}

}  // namespace

Eagle3Config eagle3_config(const Config& config, const GenerativeModel& model) {
  const bool of_speculators = config.has("transformer_layer_config");
  const Config layer = of_speculators ? config.get_object("transformer_layer_config") : config;
  const Config text = text_config_of(model.config()), eagle = config.get_object("eagle_config");
  expect_one_full_layer(layer);
  expect_made_for(config, layer, text);
  Eagle3Config own{};
  own.width = sized(layer, "hidden_size", 0, kWidest);
  own.heads = sized(layer, "num_attention_heads", 0, kWidest);
  own.key_heads = sized(layer, "num_key_value_heads", own.heads, kWidest);
  own.head_size = sized(layer, "head_dim", std::max<int64_t>(own.width / own.heads, 1), kWidest);
  own.inner = sized(layer, "intermediate_size", 0, kWidest);
  own.vocabulary = text.get_int("vocab_size");
  own.rows = sized(config, "draft_vocab_size", own.vocabulary, kMostRows);
  own.positions = sized(layer, "max_position_embeddings", 2048, int64_t{1} << 40);
  if (own.heads % own.key_heads != 0 || own.head_size % 2 != 0)
    fail("{}: {} heads of {} numbers with {} heads of keys: expected a multiple, and an even number", config.where(),
         own.heads, own.head_size, own.key_heads);
  own.epsilon = layer.get_float("rms_norm_eps", 1e-6);
  own.bias = layer.get_bool("attention_bias", false);
  own.inner_bias = layer.get_bool("mlp_bias", false);
  own.norms_residual = config.get_bool("norm_before_residual", false);
  own.norms_states = config.get_bool("norm_before_fc", false) || eagle.get_bool("norm_before_fc", false);
  own.passes_normed_on = config.get_bool("norm_output", false);
  own.activation = layer.get_string("hidden_act", "silu");
  own.rotary = rotary_options(layer, {.head_width = own.head_size, .max_positions = own.positions});
  own.reads = layers_read(config, eagle, text.get_int("num_hidden_layers"));
  expect_known(config, "", kWithoutEffect, true);
  expect_known(eagle, "eagle_config: ", kOfEagle, false);
  if (of_speculators) expect_known(layer, "transformer_layer_config: ", kWithoutEffect, true);
  return own;
}

}  // namespace transom
