// SPDX-License-Identifier: Apache-2.0
// What the families on rope_decoder.h share in GGUF.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "files/family/gguf.h"

namespace transom {

// Names within a layer.
std::vector<GgufName> gguf_attention_names();
std::vector<GgufName> gguf_gated_names();  // a gated feed-forward layer
std::vector<GgufName> gguf_norm_names();   // before attention, and before the feed-forward layer
// A router, and experts; `expert` is "mlp.experts.*.", with which the names of their modules begin.
std::vector<GgufName> gguf_expert_names(const std::string& router, const std::string& expert,
                                        std::initializer_list<std::string> gate_down_up);
GgufNames gguf_llama_names();  // all of them, with queries and keys in the order of LLaMA's files
GgufNames gguf_decoder_names(std::initializer_list<std::vector<GgufName>> layer);

// The sizes and the norm of a decoder with grouped heads.
std::vector<GgufKey> gguf_decoder_keys();
std::vector<GgufKey> gguf_expert_keys(const std::string& count_field, double count, double used);
// A key of a table, to state what is different in a family.
GgufKey& gguf_key(std::vector<GgufKey>& keys, std::string_view key);

// LLaMA's record under another name: keys as above, gated layers, rotary positions, silu.
GgufFamily gguf_decoder(std::string architecture, std::string model_class);

}  // namespace transom
