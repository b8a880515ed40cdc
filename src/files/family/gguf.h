// SPDX-License-Identifier: Apache-2.0
// A family in GGUF, both ways: the names of its tensors beside those in checkpoints, and its metadata beside the fields
// of config.json. Names and keys are those of https://github.com/ggml-org/llama.cpp: gguf-py/gguf/tensor_mapping.py and
// gguf-py/gguf/constants.py
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json/json_fwd.h"

namespace transom {

// ---- tensors

// What a tensor of GGUF is, beside that of the checkpoint.
enum class GgufChange {
  kNone,
  kRotaryPairs,  // rows of a head: the two numbers that turn together stand side by side (llama)
  kRotaryPairsOfKeys,
  kHeadsTogether,  // rows (head, 3, d) became (3, head, d) (bloom, gptneox)
  kOneMore,        // a norm's scale is 1 + weight (gemma)
  kTransposed,     // Conv1D's [in, out] became [out, in] (gpt2)
  kExperts,        // the matrices of all experts stand together; in `name` a star stands for the expert
  kRow,            // a matrix of one row became a vector (qwen2moe)
  kBare,           // a parameter by itself, which is no module's .weight (the sinks of gpt-oss)
  kSqueezed,       // a convolution's [channels, 1, taps] became [channels, taps] (mamba)
  kRates,          // -exp(weight): the rates of a state (mamba)
  kRateColumn,     // likewise, a vector as [n, 1] (mamba2)
  kColumn,         // a vector became [n, 1] (mamba2)
  kGroups,         // a vector became [parts, n / parts] (mamba2)
  kHeads,          // the rows of each of `parts` heads became a matrix of their own (deepseek2)
  kHeadsTurned     // likewise, each of them transposed
};

// What follows from a configuration.
using GgufCount = std::function<int64_t(const Json& config)>;
using GgufPlaces = std::function<std::vector<int64_t>(const Json& config)>;
using GgufLayers = std::function<bool(const Json& config, int64_t layer)>;  // -1: of no layer

struct GgufName {
  std::string gguf, name;  // without .weight and .bias
  GgufChange change = GgufChange::kNone;
  std::string beside = {};  // where a file is read: only if its layer has this one too
  // Of a parameter by itself, which is no module's: what its name in GGUF ends with (".weight", ".bias", nothing).
  std::optional<std::string> ending = {};
  GgufLayers when = {};  // of which models and layers; empty: of all
  // Of each row of GGUF's tensor the row of the checkpoint's, of which several rules may have a part each; and columns,
  // all of them.
  GgufPlaces rows = {}, columns = {};
  GgufCount parts = {};  // of kGroups, kHeads and kHeadsTurned
};
// Layers one behind the other: blk.0, blk.1 ...; T5 has two such stacks.
struct GgufStack {
  std::string gguf, name;  // "blk.", "model.layers."
  std::vector<GgufName> rules;
};
struct GgufNames {
  std::vector<GgufName> whole;
  std::vector<GgufStack> stacks;
  std::vector<std::string> dropped = {};  // modules that llama.cpp does without
};

// ---- metadata

// What a number is where one side is silent: an error, a number, another key of the same table times a number and over
// a third key, null, or nothing. kNotRead: what files say of it is never taken.
struct GgufUsual {
  enum class Is { kMissing, kNumber, kKey, kNull, kNothing, kNotRead } is = Is::kMissing;
  double number = 1;
  std::string key = {}, divisor = {};
};

struct GgufKey {
  enum class Kind {
    kCount,
    kNumber,
    kTruth,
    kCountIfAny,   // written where it is above 0
    kNumberIfAny,  // likewise
    kNumberAbove0  // refused where it is not
  };
  std::string key;    // below the architecture, "block_count", or below tokenizer
  std::string field;  // of config.json; empty: always what `written` says
  Kind kind = Kind::kCount;
  GgufUsual written = {}, read = {};         // where config.json is silent, and where the file is
  std::vector<std::string> older = {};       // other names of the field, which come first
  std::optional<GgufUsual> where_null = {};  // where config.json holds null, if that is not as good as silence
};

struct GgufRotary {
  double theta = 10000;                           // where config.json is silent
  bool turns_part = false;                        // of each head
  double part = 1;                                // where config.json is silent
  std::string theta_field = {}, part_field = {};  // older fields of config.json, which files are read into as well
  bool two_factor_sets = false;                   // for short and for long texts: Phi-3
  bool set_by_layers = false;                     // one for layers with a window, one for others: Gemma 3
};

// One layer of so many sees all tokens, the others a window.
struct GgufWindows {
  int64_t pattern = 0;      // where nobody says
  bool is_written = false;  // false: other patterns cannot be
};

// A field of config.json that has this value in every file; another is refused where a model is written.
struct GgufFixed {
  std::string field, value, usual = {};  // JSON; `usual`: where config.json is silent, by default the value
};

struct GgufFamily {
  std::string architecture;  // general.architecture
  std::string model_class;   // of a model that is read: "LlamaForCausalLM"
  // Of an architecture that stands for several families: the key above 0 that tells this one, and one that excludes it.
  std::string told_by = {}, unless = {};
  // The activations that a file stands for, since it names none; empty: the configuration has none either.
  std::vector<std::string> activations = {};
  GgufNames names;
  std::vector<GgufKey> keys = {};
  std::optional<GgufRotary> rotary = {};
  std::vector<GgufFixed> fixed = {};
  std::string stands_for = "{}";  // JSON: fields that a file is read into besides
  // Fields that say whether layers have biases, and the tensor that shows it: {"attention_bias", "attn_q"}.
  std::vector<std::pair<std::string, std::string>> biases = {};
  std::optional<GgufWindows> windows = {};
  // query_pre_attn_scalar is not stored: it is the width of a head, but hidden_size / num_attention_heads in the model
  // of so many layers.
  std::optional<int64_t> layers_of_largest = {};
  bool is_encoder = false;  // files say how its vectors become one, and not how it writes
  std::string encoder_architecture = {}, encoder_class = {};  // of the first half by itself: "t5encoder"
  // Other architectures, and which of all a configuration has: "nemotron_h_moe".
  std::vector<std::string> more_architectures = {};
  std::function<std::string(const Json& config)> architecture_of = {};
  // In place of told_by and unless. Of a file's metadata, keys below the architecture are objects:
  // {"ssm": {"state_size": 16}}.
  std::function<bool(const Json& metadata)> is_told = {};
  // What no table says: keys below the architecture ("ssm.state_size") with numbers, truths, texts and lists; and the
  // fields that a file is read into. A file that holds another value than would be written of these is refused.
  std::function<Json(const Json& config)> more_keys = {};
  std::function<Json(const Json& metadata)> more_fields = {};
};

}  // namespace transom
