// SPDX-License-Identifier: Apache-2.0
#include "models/diffusion/flow_pipelines.h"

#include "base/error.h"
#include "files/config/config.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr int64_t kMostChannelsOfFlows = 4096;

constexpr FlowPipeline kFlowPipelines[] = {{.class_name = "FluxPipeline",
                                            .network = "FluxTransformer2DModel",
                                            .texts = PromptEncoders::Kind::kFlux,
                                            .packs = true,
                                            .most_tokens = 512},
                                           {.class_name = "StableDiffusion3Pipeline",
                                            .network = "SD3Transformer2DModel",
                                            .texts = PromptEncoders::Kind::kThree}};

}  // namespace

const FlowPipeline* find_flow_pipeline(std::string_view class_name) {
  for (const FlowPipeline& each : kFlowPipelines)
    if (each.class_name == class_name) return &each;
  return nullptr;
}

std::vector<std::string> flow_pipeline_names() {
  std::vector<std::string> names;
  for (const FlowPipeline& each : kFlowPipelines) names.emplace_back(each.class_name);
  return names;
}

int64_t flow_channels(const FlowPipeline& pipeline, const Config& transformer, const Config& autoencoder,
                      const std::string& where) {
  const int64_t channels = autoencoder.get_int("latent_channels", 4), rows = pipeline.packs ? 4 : 1;
  const int64_t read = transformer.get_int("in_channels", pipeline.packs ? 64 : 16);
  const int64_t given = transformer.get_int("out_channels", pipeline.packs ? read : 16);
  if (channels < 1 || channels > kMostChannelsOfFlows || read != rows * channels || given != read)
    fail("{}: the transformer reads {} channels and gives {}, and latents have {}", where, read, given, channels);
  if (pipeline.packs && transformer.get_int("patch_size", 1) != 1)
    fail(ErrorKind::kUnsupported, "{}: transformer: patch_size: expected 1, found {}", where,
         transformer.get_int("patch_size", 1));
  return channels;
}

Tensor patch_places(int64_t height, int64_t width) {
  std::vector<float> places;
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x) places.insert(places.end(), {0, static_cast<float>(y), static_cast<float>(x)});
  return Tensor::from(places, {height * width, 3});
}

Tensor token_places(int64_t tokens) { return full({tokens, 3}, 0, DType::kFloat32); }

Tensor packed_patches(const Tensor& map) {
  const int64_t B = map.dim(0), C = map.dim(1), h = map.dim(2) / 2, w = map.dim(3) / 2;
  return reshape(permute(reshape(map, {B, C, h, 2, w, 2}), {0, 2, 4, 1, 3, 5}), {B, h * w, 4 * C});
}

Tensor unpacked_patches(const Tensor& rows, const Shape& map) {
  const int64_t B = map[0], C = map[1], h = map[2] / 2, w = map[3] / 2;
  return reshape(permute(reshape(rows, {B, h, w, C, 2, 2}), {0, 3, 1, 4, 2, 5}), map);
}

}  // namespace transom
