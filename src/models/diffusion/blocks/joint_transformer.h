// SPDX-License-Identifier: Apache-2.0
// Transformers over the patches of a map and the tokens of a text at once (Esser et al., 2024), as Stable Diffusion 3
// and FLUX have them: both have weights of their own, and see each other. B batch, S patches, T tokens, D hidden, H
// heads, d head size.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/diffusion/blocks/timestep_embedding.h"
#include "models/family.h"

namespace transom {

// What the time and the text as a whole say: [B, D].
class JointCondition {
 public:
  JointCondition(const Scope& scope, int64_t pooled_width, int64_t width, bool has_guidance);
  // time and guidance [B] or [1], pooled [B, E]; guidance is empty where there is none.
  Tensor operator()(const Tensor& time, const Tensor& guidance, const Tensor& pooled, ForwardContext& context) const;

 private:
  Tensor sines(const Tensor& numbers, const Tensor& pooled) const;
  TimeEmbedding timestep_embedder_, text_embedder_;
  std::optional<TimeEmbedding> guidance_embedder_;
};

// Numbers of each channel that the condition [B, D] says.
class Modulation {
 public:
  Modulation(const Scope& scope, int64_t width, int64_t parts)
      : width_(width), linear_(torch_linear(scope / "linear", width, parts * width)) {}
  std::vector<Tensor> operator()(const Tensor& condition, ForwardContext& context) const;  // parts of [B, 1, D]

 private:
  int64_t width_;
  Linear linear_;
};

// A layer norm without weights, in their place numbers of the condition.
Tensor modulated(const Tensor& x, const Tensor& shift, const Tensor& scale, const ForwardContext& context);

// The norm at the end: the condition says its scale and its shift.
class LastModulation {
 public:
  LastModulation(const Scope& scope, int64_t width) : modulation_(scope, width, 2) {}
  Tensor operator()(const Tensor& x, const Tensor& condition, ForwardContext& context) const;

 private:
  Modulation modulation_;
};

// Cosines and sines of the angles of places [1, T + S, 1, d / 2, 1]; empty: places are not turned.
struct PlaceAngles {
  Tensor cosines, sines;
};

struct JointOptions {
  int64_t heads = 1, head_width = 64;
  bool norms = true;           // of queries and keys
  bool leaves_text = false;    // the last block of SD 3, which only reads it
  bool attends_twice = false;  // of SD 3.5: the patches see each other once more
};

class JointAttention {
 public:
  enum class Kind { kWithText, kReadsText, kAlone, kBare };  // kBare: without a projection at the end
  JointAttention(const Scope& scope, int64_t width, const JointOptions& options, Kind kind);
  struct Result {
    Tensor x, text;
  };
  // The text comes first. Empty: none.
  Result operator()(const Tensor& x, const Tensor& text, const PlaceAngles& angles, ForwardContext& context) const;

 private:
  struct Projections {
    Projections(const Scope& scope, const char* q, const char* k, const char* v, const char* norm_q, const char* norm_k,
                int64_t width, const JointOptions& options);
    std::vector<Tensor> operator()(const Tensor& x, ForwardContext& context) const;  // [B, S, H, d] each
    int64_t heads, head_width;
    Linear q, k, v;
    std::optional<RmsNorm> norm_q, norm_k;
  };
  std::string path_;
  JointOptions options_;
  Projections own_;
  std::optional<Projections> of_text_;
  std::optional<Linear> to_out_, to_add_out_;
};

class JointFeedForward {
 public:
  JointFeedForward(const Scope& scope, int64_t width)
      : in_(torch_linear(scope / "net" / 0 / "proj", width, 4 * width)),
        out_(torch_linear(scope / "net" / 2, 4 * width, width)) {}
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    return out_(gelu_tanh(in_(x, context)), context);
  }

 private:
  Linear in_, out_;
};

class JointBlock {
 public:
  JointBlock(const Scope& scope, int64_t width, const JointOptions& options);
  // Changes both. The text is empty behind a block that only reads it.
  void operator()(Tensor& x, Tensor& text, const Tensor& condition, const PlaceAngles& angles,
                  ForwardContext& context) const;

 private:
  Modulation norm1_;
  std::optional<Modulation> norm1_context_;
  std::optional<LastModulation> last_norm1_context_;
  JointAttention attn_;
  std::optional<JointAttention> attn2_;
  JointFeedForward ff_;
  std::optional<JointFeedForward> ff_context_;
};

// A block of FLUX whose attention and feed-forward run side by side over text and patches.
class SingleStreamBlock {
 public:
  SingleStreamBlock(const Scope& scope, int64_t width, const JointOptions& options);
  Tensor operator()(const Tensor& both, const Tensor& condition, const PlaceAngles& angles,
                    ForwardContext& context) const;

 private:
  Modulation norm_;
  Linear proj_mlp_, proj_out_;
  JointAttention attn_;
};

// encoder_hidden_states; refuses what are no tokens [batch, T, width].
const Tensor& joint_text_input(const NamedTensors& inputs, int64_t batch, int64_t width);

// What the records of these networks state: `map`, the text, what that says as a whole, and the time. The widths are
// those of a configuration that is silent.
FamilyInputs joint_record_inputs(FamilyInput map, int64_t text_width, int64_t pooled_width);

}  // namespace transom
