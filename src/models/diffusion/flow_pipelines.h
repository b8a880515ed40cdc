// SPDX-License-Identifier: Apache-2.0
// The pipelines whose transformers say a flow (FLUX.1, Stable Diffusion 3), and what those are told beside the map.
#pragma once

#include <string_view>
#include <vector>

#include "models/diffusion/prompt_encoders.h"

namespace transom {

struct FlowPipeline {
  std::string_view class_name, network;  // the class of the transformer
  PromptEncoders::Kind texts;
  // FLUX: a map is rows of patches that are told with their places, and the time a thousandth.
  bool packs = false;
  int64_t most_tokens = 256;  // that T5 reads
  int64_t sample_size = 128;  // of a configuration without one, in places of the latents

  // Patches of this many places a side.
  int64_t patch(const Config& transformer) const { return packs ? 2 : transformer.get_int("patch_size", 2); }
};
// Null: another pipeline.
const FlowPipeline* find_flow_pipeline(std::string_view class_name);
std::vector<std::string> flow_pipeline_names();

// How many channels the latents have, by what the transformer reads and gives, which must be as much.
int64_t flow_channels(const FlowPipeline& pipeline, const Config& transformer, const Config& autoencoder,
                      const std::string& where);

// Of FLUX: places of patches [h w, 3], and of tokens [tokens, 3], which have none.
Tensor patch_places(int64_t height, int64_t width);
Tensor token_places(int64_t tokens);
// A map [B, C, h, w] as rows of patches of 2 x 2 places [B, h w / 4, 4 C], and back to a map.
Tensor packed_patches(const Tensor& map);
Tensor unpacked_patches(const Tensor& rows, const Shape& map);

}  // namespace transom
