// SPDX-License-Identifier: Apache-2.0
// What the records of families (family/gguf.h) say of one model or file.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json/json_fwd.h"
#include "files/family/gguf.h"
#include "files/gguf/gguf_file.h"

namespace transom {

struct Family;

// Of a model's config.json; a model type that has none is an error that names those that have.
const GgufFamily& gguf_family(const Json& config);

// What the model of a file is.
struct GgufClass {
  const GgufFamily* gguf = nullptr;
  std::string model_type, model_class;  // "llama", "LlamaForCausalLM"
};
// Errors: an unknown architecture.
GgufClass gguf_class(const GgufFile& file);
// The keys below the file's architecture as objects: {"ssm": {"state_size": 16}}. And "tensors": by name the layers
// that have it.
Json gguf_metadata_of(const GgufFile& file);

// A name on one side ("blk.3.attn_q.weight" in GGUF), the rule that gives it, and the layer of its stack (-1: of none).
struct GgufPlace {
  std::string name;
  const GgufName* rule = nullptr;
  int64_t layer = -1;
};
// Where a parameter of a checkpoint ("model.layers.3.self_attn.q_proj.weight") stands in GGUF: in one place, in several
// of which each has a part of its rows, or in none. Without `config` the layers of rules are not asked for.
std::vector<GgufPlace> gguf_places(const std::string& parameter, const GgufNames& names, const Json* config);
// The other way round: the parameter of "blk.3.attn_q.weight"; `has` says whether the file has a tensor's weight beside
// it. That of experts has a star in the place of their number.
std::optional<GgufPlace> checkpoint_place(const std::string& gguf, const GgufNames& names, const Json& config,
                                          const std::function<bool(const std::string& gguf)>& has);

// The place in GGUF of each row of the checkpoint's tensor; empty: as it is. Rows that are no whole heads are an error
// that begins with `where`.
std::vector<int64_t> gguf_places_of_rows(GgufChange change, int64_t rows, int64_t heads, int64_t key_heads,
                                         const std::string& where);

}  // namespace transom
