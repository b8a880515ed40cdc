// SPDX-License-Identifier: Apache-2.0
// Phi-3 (Abdin et al., 2024): LLaMA with fused projections; longer texts by two sets of rotary factors.
#include "base/json/json.h"
#include "models/shared/rope_decoder.h"
#include "models/shared/rope_decoder_gguf.h"

namespace transom {
namespace {

constexpr char kPhi3Prefix[] = "model";

std::unique_ptr<Decoder> make_phi3(const Config& given, const Scope& scope) {
  const Config config = with_defaults(given, R"({"vocab_size": 32064, "hidden_size": 3072, "intermediate_size": 8192,
      "max_position_embeddings": 4096, "rms_norm_eps": 1e-5})");
  RopeDecoderConfig c(config);
  if (!json_of(given).contains("pad_token_id")) c.pad_token_id = 32000;
  c.fused_projections = true;
  c.residual_dropout = config.get_float("resid_pdrop", 0);
  c.sliding_windows.assign(c.sliding_windows.size(), int_or_none(config, "sliding_window", 0));
  RotaryDefaults defaults = c.rotary_defaults();
  defaults.partial = true;
  defaults.original_max_positions = 4096;
  defaults.only_longrope = true;
  c.rotary = {rotary_options(config, defaults)};
  // Beyond that length all keys turn at other frequencies than those in the cache.
  if (c.rotary[0].kind == RotaryOptions::Kind::kLongrope)
    c.cache_expires_at = static_cast<int64_t>(c.rotary[0].original_max_positions) + 1;
  return make_rope_decoder(c, scope);
}

GgufFamily phi3_gguf() {
  GgufFamily gguf = gguf_decoder("phi3", "Phi3ForCausalLM");
  gguf.names = gguf_decoder_names(
      {gguf_attention_names(), gguf_norm_names(), {{"ffn_up", "mlp.gate_up_proj"}, {"ffn_down", "mlp.down_proj"}}});
  gguf_key(gguf.keys, "attention.layer_norm_rms_epsilon").written = {GgufUsual::Is::kNumber, 1e-5};
  gguf.keys.push_back({.key = "attention.sliding_window",
                       .field = "sliding_window",
                       .kind = GgufKey::Kind::kCountIfAny,
                       .written = {GgufUsual::Is::kNothing},
                       .read = {GgufUsual::Is::kNothing}});
  gguf.rotary = GgufRotary{.turns_part = true, .two_factor_sets = true};
  return gguf;
}

}  // namespace

static Family phi3_family() {
  return {.model_type = "phi3",
          .base_prefix = kPhi3Prefix,
          .architectures = decoder_architectures<make_phi3, kPhi3Prefix>("Phi3"),
          .inputs = placed_text_inputs(FamilyInput::Export::kStates),
          .processors = {.tokenizer = "Llama",
                         .image_processor = none,
                         .positions = PositionLimit{{"max_position_embeddings"}},
                         .spaced_words = false,
                         .spans = false},
          .weights = {.lora_targets = none,
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = phi3_gguf(), .keras = none, .flax = none},
          .planning = {.fused_attention = true}};
}

const RegisterFamilies kPhi3Family{phi3_family};

}  // namespace transom
