// SPDX-License-Identifier: Apache-2.0
#include "files/gguf/gguf_t5.h"

#include <cmath>
#include <cstring>

#include "base/json/json.h"
#include "base/numbers/half.h"
#include "files/blocks/ggml/ggml_blocks.h"

namespace transom {
namespace {

// A row of a matrix of floats or blocks; empty where its type has no numbers here.
std::vector<float> row_of(const GgufTensor& tensor, int64_t row, const std::string& where) {
  const auto width = static_cast<size_t>(tensor.shape[1]);
  std::vector<float> numbers(width);
  const std::optional<DType> plain = ggml_plain_type(tensor.type);
  if (!plain) {
    ggml_matrix(tensor.type, tensor.shape[0], tensor.shape[1], tensor.bytes, tensor.owner, where)
        ->dequantise_row(row, numbers.data());
    return numbers;
  }
  const std::byte* at = tensor.bytes.data() + static_cast<size_t>(row) * width * size_of(*plain);
  if (*plain == DType::kFloat32) {
    std::memcpy(numbers.data(), at, 4 * width);
    return numbers;
  }
  if (*plain != DType::kFloat16 && *plain != DType::kBFloat16) return {};
  for (size_t i = 0; i < width; ++i) {
    uint16_t bits;
    std::memcpy(&bits, at + 2 * i, 2);
    if (*plain == DType::kFloat16) {
      Float16 half;
      half.bits = bits, numbers[i] = half;
    } else {
      const uint32_t wide = static_cast<uint32_t>(bits) << 16;
      std::memcpy(&numbers[i], &wide, 4);
    }
  }
  return numbers;
}

}  // namespace

// The two may be in different blocks, so that their rows are compared by their directions.
bool gguf_t5_head_is_tied(const GgufFile& file) {
  const GgufTensor *head = file.find("output.weight"), *table = file.find("token_embd.weight");
  if (!head) return true;
  if (file.find("enc.blk.0.ffn_gate.weight")) return false;
  if (!table || head->shape != table->shape || head->shape.size() != 2) return false;
  double product = 0, head_size = 0, table_size = 0;
  constexpr int64_t kRows = 64;
  const int64_t step = std::max<int64_t>(1, head->shape[0] / kRows);
  for (int64_t row = 0; row < head->shape[0]; row += step) {
    const std::vector<float> a = row_of(*head, row, file.where()), b = row_of(*table, row, file.where());
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      product += static_cast<double>(a[i]) * b[i];
      head_size += static_cast<double>(a[i]) * a[i], table_size += static_cast<double>(b[i]) * b[i];
    }
  }
  constexpr double kSame = 0.9;  // blocks of 2 bits keep 0.95; heads of their own have next to nothing
  return product > kSame * std::sqrt(head_size * table_size);
}

void add_gguf_t5(const GgufKeys& keys, Json& config) {
  const GgufFile& file = keys.file;
  const bool whole = config["architectures"][0] != "T5EncoderModel";
  for (const char* second : {"enc.blk.1.attn_rel_b.weight", "dec.blk.1.attn_rel_b.weight"})
    if (file.find(second))
      fail(ErrorKind::kUnsupported, "{}: tensor {}: a bias of distances in each layer (UMT5) is not supported",
           file.where(), quoted(second));
  const int64_t width = keys.integer("embedding_length"), heads = keys.integer("attention.head_count"),
                layers = keys.integer("block_count");
  if (heads <= 0) fail("{}: attention.head_count: expected a number above 0, found {}", file.where(), heads);
  config["d_model"] = width;
  config["num_heads"] = heads;
  config["d_kv"] = keys.integer("attention.key_length", width / heads);
  config["d_ff"] = keys.integer("feed_forward_length");
  config["num_layers"] = layers;
  config["num_decoder_layers"] = keys.integer("decoder_block_count", layers);
  config["n_positions"] = keys.integer("context_length", 512);
  config["relative_attention_num_buckets"] = keys.integer("attention.relative_buckets_count", 32);
  config["relative_attention_max_distance"] = 128;
  config["layer_norm_epsilon"] =
      keys.number(keys.has("attention.layer_norm_rms_epsilon") ? "attention.layer_norm_rms_epsilon"
                                                               : "attention.layer_norm_epsilon");
  config["feed_forward_proj"] = file.find("enc.blk.0.ffn_gate.weight") ? "gated-gelu" : "relu";
  config["tie_word_embeddings"] = gguf_t5_head_is_tied(file);
  config["is_encoder_decoder"] = whole;
  if (config["pad_token_id"].is_null()) config["pad_token_id"] = 0;
  if (config["eos_token_id"].is_null()) config["eos_token_id"] = 1;
  config["decoder_start_token_id"] = keys.integer("decoder_start_token_id", config["pad_token_id"].get<int64_t>());
}

}  // namespace transom
