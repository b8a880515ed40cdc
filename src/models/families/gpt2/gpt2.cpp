// SPDX-License-Identifier: Apache-2.0
// GPT-2 (Radford et al., 2019). B batch, T time, D hidden, H heads, d head size.
#include "models/families/gpt2/gpt2_layers.h"

namespace transom {
namespace {

class Gpt2Block {
 public:
  Gpt2Block(const Scope& scope, const Gpt2Config& c, int64_t layer)
      : path_(scope.path()),
        ln_1_(scope / "ln_1", c.n_embd, c.layer_norm_epsilon),
        attn_(scope / "attn", c, layer),
        ln_2_(scope / "ln_2", c.n_embd, c.layer_norm_epsilon),
        mlp_(scope / "mlp", c) {}
  Tensor operator()(const Tensor& x, const DecoderInputs& in, ForwardContext& context) const {
    const ModuleScope module(path_);
    const Tensor h = attn_(ln_1_(x, context), in, context) + x;
    return mlp_(ln_2_(h, context), context) + h;
  }

 private:
  std::string path_;
  LayerNorm ln_1_;
  Gpt2Attention attn_;
  LayerNorm ln_2_;
  Gpt2Mlp mlp_;
};

class Gpt2 : public Decoder {
 public:
  Gpt2(const Config& config, const Scope& scope)
      : c_(config),
        wte_(scope / "wte", c_.vocab_size, c_.n_embd, c_.initializer_range),
        wpe_(scope / "wpe", c_.n_positions, c_.n_embd, c_.initializer_range),
        drop_(c_.embd_pdrop),
        h_(blocks(scope / "h", c_)),
        ln_f_(scope / "ln_f", c_.n_embd, c_.layer_norm_epsilon) {}

  DecoderOutput operator()(const NamedTensors& inputs, ForwardContext& context) const override {
    const DecoderInputs in = decoder_inputs(inputs, context, Positions::kInOrder, c_.n_positions);
    Tensor x =
        (in.input_ids.defined() ? wte_(in.input_ids, context) : in.inputs_embeds) + wpe_(in.position_ids, context);
    if (const Tensor types = inputs.find("token_type_ids"); types.defined()) x = x + wte_(types, context);
    return through_decoder(h_, drop_(x, context), context, ln_f_,
                           [&](const Gpt2Block& block, const Tensor& y) { return block(y, in, context); });
  }

  DecoderTraits traits() const override {
    return {.vocab_size = c_.vocab_size,
            .width = c_.n_embd,
            .tie_word_embeddings = c_.tie_word_embeddings,
            .initializer_range = c_.initializer_range,
            .token_head = "classifier",
            .pad_token_id = c_.pad_token_id,
            .max_positions = c_.n_positions};
  }
  const Embedding& word_embeddings() const override { return wte_; }
  std::vector<std::string> input_names() const override {
    return {"input_ids", "attention_mask", "token_type_ids", "position_ids", "inputs_embeds"};
  }

 private:
  static std::vector<Gpt2Block> blocks(const Scope& scope, const Gpt2Config& c) {
    std::vector<Gpt2Block> result;
    for (int64_t i = 0; i < c.n_layer; ++i) result.emplace_back(scope / i, c, i);
    return result;
  }

  Gpt2Config c_;
  Embedding wte_, wpe_;
  Dropout drop_;
  std::vector<Gpt2Block> h_;
  LayerNorm ln_f_;
};

constexpr char kGpt2Prefix[] = "transformer";
std::unique_ptr<Decoder> make_gpt2(const Config& config, const Scope& scope) {
  refuse_unless(config, "add_cross_attention", "false");
  return std::make_unique<Gpt2>(config, scope);
}

GgufFamily gpt2_gguf() {
  constexpr auto kNumber = GgufUsual::Is::kNumber, kKey = GgufUsual::Is::kKey, kNotRead = GgufUsual::Is::kNotRead;
  return {.architecture = "gpt2",
          .model_class = "GPT2LMHeadModel",
          .activations = {"gelu_new", "gelu_pytorch_tanh"},
          .names = {.whole = {{"token_embd", "transformer.wte"},
                              {"position_embd", "transformer.wpe"},
                              {"output_norm", "transformer.ln_f"},
                              {"output", "lm_head"}},
                    .stacks = {{"blk.",
                                "transformer.h.",
                                {{"attn_norm", "ln_1"},
                                 {"attn_qkv", "attn.c_attn", GgufChange::kTransposed},
                                 {"attn_output", "attn.c_proj", GgufChange::kTransposed},
                                 {"ffn_norm", "ln_2"},
                                 {"ffn_up", "mlp.c_fc", GgufChange::kTransposed},
                                 {"ffn_down", "mlp.c_proj", GgufChange::kTransposed}}}}},
          .keys = {{.key = "block_count", .field = "n_layer", .older = {"num_hidden_layers"}},
                   {.key = "context_length", .field = "n_positions", .written = {kNumber, 2048}},
                   {.key = "embedding_length", .field = "n_embd", .older = {"n_embed", "hidden_size"}},
                   {.key = "feed_forward_length", .field = "n_inner", .written = {kKey, 4, "embedding_length"}},
                   {.key = "attention.head_count", .field = "n_head", .older = {"num_attention_heads"}},
                   {.key = "vocab_size", .field = "vocab_size", .read = {kNotRead}},
                   {.key = "attention.layer_norm_epsilon",
                    .field = "layer_norm_epsilon",
                    .kind = GgufKey::Kind::kNumber,
                    .written = {kNumber, 1e-5}}},
          .stands_for = R"({"activation_function": "gelu_new"})"};
}

}  // namespace

static Family gpt2_family() {
  return {.model_type = "gpt2",
          .base_prefix = kGpt2Prefix,
          .architectures = {decoder_architecture<make_gpt2, kGpt2Prefix, DecoderHead::kNone>("GPT2Model"),
                            decoder_architecture<make_gpt2, kGpt2Prefix, DecoderHead::kCausalLM>(
                                "GPT2LMHeadModel", {.divisor = LossDivisor::kAllLabels}),
                            decoder_architecture<make_gpt2, kGpt2Prefix, DecoderHead::kSequenceClassification>(
                                "GPT2ForSequenceClassification"),
                            decoder_architecture<make_gpt2, kGpt2Prefix, DecoderHead::kTokenClassification>(
                                "GPT2ForTokenClassification", {.tokens = "classifier"}),
                            decoder_architecture<make_gpt2, kGpt2Prefix, DecoderHead::kQuestionAnswering>(
                                "GPT2ForQuestionAnswering")},
          .inputs = decoder_inputs_with_types(),
          .processors = {.tokenizer = "GPT2",
                         .image_processor = none,
                         .positions = PositionLimit{{"n_positions", "max_position_embeddings"}},
                         .spaced_words = true,
                         .spans = false},
          .weights = {.lora_targets = {"c_attn"},
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none,
                      .adapter_targets = {.ia3 = {"c_attn", "mlp.c_proj"},
                                          .ia3_feedforward = {"mlp.c_proj"},
                                          .norms = {"ln_1", "ln_2", "ln_f"}}},
          .foreign = {.gguf = gpt2_gguf(),
                      .keras = KerasNames{.body = "transformer",
                                          .without = {"GPT2ForQuestionAnswering", "GPT2ForTokenClassification"},
                                          .conv1d = {"c_attn", "c_proj", "c_fc", "q_attn"}},
                      .flax = FlaxNames{.without = {"GPT2ForSequenceClassification", "GPT2ForTokenClassification",
                                                    "GPT2ForQuestionAnswering"}}},
          .planning = {.fused_attention = false}};
}

const RegisterFamilies kGpt2Family{gpt2_family};

}  // namespace transom
