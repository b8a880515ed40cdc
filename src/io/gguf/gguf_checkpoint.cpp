// SPDX-License-Identifier: Apache-2.0
// Tensors of GGUF under their names in Transformers: gguf-py/gguf/tensor_mapping.py, read backwards.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "io/blocks/ggml_blocks.h"
#include "io/gguf/gguf_model.h"

namespace transom {
namespace {

// What the writers of GGUF did to a tensor, to be undone.
enum class Change {
  kNone,
  kRotaryPairs,  // rows of a head: the two numbers that turn together stand side by side (llama)
  kRotaryPairsOfKeys,
  kHeadsTogether,  // rows (head, 3, d) became (3, head, d) (bloom, gptneox)
  kOneMore,        // a norm's scale is 1 + weight (gemma)
  kTransposed,     // Conv1D's [in, out] became [out, in] (gpt2)
};

struct Rule {
  const char *gguf, *name;  // without .weight and .bias
  Change change = Change::kNone;
};
struct Names {
  const char* layers;  // "model.layers."
  std::vector<Rule> whole, of_layer;
};

const Names& names_of(const std::string& architecture, bool experts) {
  static const std::vector<Rule> kAttention = {{"attn_q", "self_attn.q_proj"},      {"attn_k", "self_attn.k_proj"},
                                               {"attn_v", "self_attn.v_proj"},      {"attn_q_norm", "self_attn.q_norm"},
                                               {"attn_k_norm", "self_attn.k_norm"}, {"attn_output", "self_attn.o_proj"},
                                               {"attn_qkv", "self_attn.qkv_proj"}};
  static const std::vector<Rule> kGated = {
      {"ffn_gate", "mlp.gate_proj"}, {"ffn_up", "mlp.up_proj"}, {"ffn_down", "mlp.down_proj"}};
  static const std::vector<Rule> kWhole = {
      {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};
  static const std::vector<Rule> kNorms = {{"attn_norm", "input_layernorm"}, {"ffn_norm", "post_attention_layernorm"}};
  const auto joined = [](std::initializer_list<std::vector<Rule>> lists) {
    std::vector<Rule> all;
    for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
    return all;
  };
  const auto changed = [](std::vector<Rule> rules, std::initializer_list<std::pair<std::string_view, Change>> changes) {
    for (Rule& rule : rules)
      for (const auto& [name, change] : changes)
        if (rule.gguf == name) rule.change = change;
    return rules;
  };
  const auto norms_from_one = [](std::vector<Rule> rules) {
    for (Rule& rule : rules)
      if (std::string_view(rule.gguf).ends_with("norm")) rule.change = Change::kOneMore;
    return rules;
  };
  static const Names kPlain{"model.layers.", kWhole, joined({kAttention, kGated, kNorms})};
  static const Names kLlama{
      "model.layers.", kWhole,
      changed(kPlain.of_layer, {{"attn_q", Change::kRotaryPairs}, {"attn_k", Change::kRotaryPairsOfKeys}})};
  static const Names kMixtral{"model.layers.", kWhole,
                              joined({kLlama.of_layer, {{"ffn_gate_inp", "block_sparse_moe.gate"}}})};
  static const Names kGemma{"model.layers.", norms_from_one(kWhole), norms_from_one(kPlain.of_layer)};
  static const Names kGemma2{"model.layers.", norms_from_one(kWhole),
                             norms_from_one(joined({kAttention,
                                                    kGated,
                                                    {{"attn_norm", "input_layernorm"},
                                                     {"post_attention_norm", "post_attention_layernorm"},
                                                     {"ffn_norm", "pre_feedforward_layernorm"},
                                                     {"post_ffw_norm", "post_feedforward_layernorm"}}}))};
  static const Names kPhi3{
      "model.layers.", kWhole,
      joined({kAttention, kNorms, {{"ffn_up", "mlp.gate_up_proj"}, {"ffn_down", "mlp.down_proj"}}})};
  static const Names kStarcoder{"model.layers.", kWhole,
                                joined({kAttention, kNorms, {{"ffn_up", "mlp.c_fc"}, {"ffn_down", "mlp.c_proj"}}})};
  static const Names kGpt2{"transformer.h.",
                           {{"token_embd", "transformer.wte"},
                            {"position_embd", "transformer.wpe"},
                            {"output_norm", "transformer.ln_f"},
                            {"output", "lm_head"}},
                           {{"attn_norm", "ln_1"},
                            {"attn_qkv", "attn.c_attn", Change::kTransposed},
                            {"attn_output", "attn.c_proj", Change::kTransposed},
                            {"ffn_norm", "ln_2"},
                            {"ffn_up", "mlp.c_fc", Change::kTransposed},
                            {"ffn_down", "mlp.c_proj", Change::kTransposed}}};
  static const Names kBloom{"transformer.h.",
                            {{"token_embd", "transformer.word_embeddings"},
                             {"token_embd_norm", "transformer.word_embeddings_layernorm"},
                             {"output_norm", "transformer.ln_f"},
                             {"output", "lm_head"}},
                            {{"attn_norm", "input_layernorm"},
                             {"attn_qkv", "self_attention.query_key_value", Change::kHeadsTogether},
                             {"attn_output", "self_attention.dense"},
                             {"ffn_norm", "post_attention_layernorm"},
                             {"ffn_up", "mlp.dense_h_to_4h"},
                             {"ffn_down", "mlp.dense_4h_to_h"}}};
  static const Names kNeox{
      "gpt_neox.layers.",
      {{"token_embd", "gpt_neox.embed_in"}, {"output_norm", "gpt_neox.final_layer_norm"}, {"output", "embed_out"}},
      {{"attn_norm", "input_layernorm"},
       {"attn_qkv", "attention.query_key_value", Change::kHeadsTogether},
       {"attn_output", "attention.dense"},
       {"ffn_norm", "post_attention_layernorm"},
       {"ffn_up", "mlp.dense_h_to_4h"},
       {"ffn_down", "mlp.dense_4h_to_h"}}};
  static const Names kBert{"encoder.layer.",
                           {{"token_embd", "embeddings.word_embeddings"},
                            {"position_embd", "embeddings.position_embeddings"},
                            {"token_types", "embeddings.token_type_embeddings"},
                            {"token_embd_norm", "embeddings.LayerNorm"}},
                           {{"attn_q", "attention.self.query"},
                            {"attn_k", "attention.self.key"},
                            {"attn_v", "attention.self.value"},
                            {"attn_output", "attention.output.dense"},
                            {"attn_output_norm", "attention.output.LayerNorm"},
                            {"ffn_up", "intermediate.dense"},
                            {"ffn_down", "output.dense"},
                            {"layer_output_norm", "output.LayerNorm"}}};
  if (architecture == "llama") return experts ? kMixtral : kLlama;
  if (architecture == "gemma") return kGemma;
  if (architecture == "gemma2" || architecture == "gemma3") return kGemma2;
  if (architecture == "phi3") return kPhi3;
  if (architecture == "starcoder2") return kStarcoder;
  if (architecture == "gpt2") return kGpt2;
  if (architecture == "bloom") return kBloom;
  if (architecture == "gptneox") return kNeox;
  if (architecture == "bert") return kBert;
  return kPlain;
}

// The place in the file of each row of the checkpoint; empty: as it is.
std::vector<int64_t> places_of_rows(Change change, int64_t rows, int64_t heads, int64_t key_heads,
                                    const std::string& where) {
  if (change == Change::kHeadsTogether) {
    if (heads <= 0 || rows % (3 * heads) != 0) fail("{}: {} rows are no 3 times {} heads", where, rows, heads);
    const int64_t d = rows / (3 * heads);
    std::vector<int64_t> places;
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t part = 0; part < 3; ++part)
        for (int64_t i = 0; i < d; ++i) places.push_back((part * heads + h) * d + i);
    return places;
  }
  if (change != Change::kRotaryPairs && change != Change::kRotaryPairsOfKeys) return {};
  const int64_t count = change == Change::kRotaryPairs ? heads : key_heads;
  if (count <= 0 || rows % (2 * count) != 0) fail("{}: {} rows are no {} heads of pairs", where, rows, count);
  const int64_t d = rows / count;
  std::vector<int64_t> places;
  for (int64_t h = 0; h < count; ++h)
    for (int64_t half = 0; half < 2; ++half)
      for (int64_t i = 0; i < d / 2; ++i) places.push_back(h * d + 2 * i + half);
  return places;
}

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
      : file_(file), architecture_(file.get_string("general.architecture")), checkpoint_(file.where()) {
    const auto number = [&](const char* key, int64_t otherwise) {
      const std::vector<int64_t> found = file.get_ints(architecture_ + "." + key);
      return found.empty() ? otherwise : found[0];
    };
    heads_ = number("attention.head_count", 0);
    key_heads_ = number("attention.head_count_kv", heads_);
    experts_ = number("expert_count", 0);
    names_ = &names_of(architecture_, experts_ > 0);
  }

  Checkpoint convert() && {
    for (const GgufTensor& tensor : file_.tensors())
      if (!is_computed(tensor.name) && !add_experts(tensor)) add(tensor);
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

  // "blk.3." and what follows; false where the name is another.
  static bool split_layer(std::string_view name, std::string& layer, std::string& rest) {
    if (!name.starts_with("blk.")) return false;
    const size_t dot = name.find('.', 4);
    if (dot == name.npos) return false;
    layer = name.substr(4, dot - 4), rest = name.substr(dot + 1);
    return true;
  }

  void add(const GgufTensor& tensor) {
    std::string layer, rest, name = tensor.name;
    const bool of_layer = split_layer(tensor.name, layer, rest);
    if (!of_layer) rest = tensor.name;
    Change change = Change::kNone;
    const size_t dot = rest.rfind('.');
    if (dot != rest.npos)
      for (const Rule& rule : of_layer ? names_->of_layer : names_->whole)
        if (rest.substr(0, dot) == rule.gguf) {
          name = (of_layer ? names_->layers + layer + "." : "") + rule.name + rest.substr(dot);
          change = rule.change;
        }
    add(tensor, name, change);
  }

  void add(const GgufTensor& tensor, const std::string& name, Change change) {
    const int64_t rows = tensor.shape.empty() ? 1 : tensor.shape[0];
    const std::vector<int64_t> places = places_of_rows(change, rows, heads_, key_heads_, where(tensor));
    const bool turned = change == Change::kTransposed && tensor.shape.size() == 2;
    if (const std::optional<DType> plain = ggml_plain_type(tensor.type)) {
      TensorView view{*plain, tensor.shape, tensor.bytes, tensor.owner};
      if (!places.empty()) view = with_rows(view, places);
      if (change == Change::kOneMore) view = one_less(view, where(tensor));
      return checkpoint_.add(name, turned ? transposed(view) : std::move(view));
    }
    if (tensor.shape.size() != 2)
      fail("{}: expected a matrix of blocks, found {} axes", where(tensor), tensor.shape.size());
    auto matrix = ggml_matrix(tensor.type, rows, tensor.shape[1], tensor.bytes, tensor.owner, where(tensor));
    if (!places.empty()) matrix = rows_of(std::move(matrix), places);
    checkpoint_.add_compressed(name, {std::move(matrix), turned});
  }

  // The matrices of all experts as one tensor [experts, out, in].
  bool add_experts(const GgufTensor& tensor) {
    std::string layer, rest;
    if (!split_layer(tensor.name, layer, rest) || tensor.shape.size() != 3) return false;
    static constexpr std::pair<std::string_view, const char*> kParts[] = {
        {"ffn_gate_exps.weight", "w1"}, {"ffn_down_exps.weight", "w2"}, {"ffn_up_exps.weight", "w3"}};
    for (const auto& [gguf, name] : kParts) {
      if (rest != gguf) continue;
      if (tensor.shape[0] != experts_)
        fail("{}: expected {} experts, found {}", where(tensor), experts_, tensor.shape[0]);
      const size_t size = tensor.bytes.size() / static_cast<size_t>(experts_);
      for (int64_t e = 0; e < experts_; ++e) {
        GgufTensor part = tensor;
        part.shape.erase(part.shape.begin());
        part.bytes = tensor.bytes.subspan(static_cast<size_t>(e) * size, size);
        add(part, fmt::format("{}{}.block_sparse_moe.experts.{}.{}.weight", names_->layers, layer, e, name),
            Change::kNone);
      }
      return true;
    }
    return false;
  }

  const GgufFile& file_;
  std::string architecture_;
  int64_t heads_, key_heads_, experts_;
  const Names* names_;
  Checkpoint checkpoint_;
};

}  // namespace

Checkpoint gguf_checkpoint(const GgufFile& file) { return Converter(file).convert(); }

}  // namespace transom
