// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/diffusion/lora/lora_names.h"

#include <charconv>
#include <span>

#include "base/error.h"

namespace transom {
namespace {

// "down_blocks_1_resnets_0_conv1": a word or a number, taken off at the front.
bool take(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}
bool take_number(std::string_view& text, int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || number > 1000) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return take(text, "_");
}

struct Renamed {
  std::string_view name, original;
  size_t place = 0;
  bool is_last = true, swaps = false;
};
using Renaming = std::span<const Renamed>;

// The original name behind a beginning; none: the module has none.
void add_renamed(std::vector<OriginalName>& found, Renaming table, std::string_view flat, const std::string& before) {
  for (const Renamed& each : table)
    if (flat == each.name) found.push_back({before + std::string(each.original), each.place, each.is_last, each.swaps});
}

constexpr Renamed kOfFluxBlock[] = {{"attn_to_q", "img_attn_qkv", 0, false},
                                    {"attn_to_k", "img_attn_qkv", 1, false},
                                    {"attn_to_v", "img_attn_qkv", 2, true},
                                    {"attn_add_q_proj", "txt_attn_qkv", 0, false},
                                    {"attn_add_k_proj", "txt_attn_qkv", 1, false},
                                    {"attn_add_v_proj", "txt_attn_qkv", 2, true},
                                    {"attn_to_out_0", "img_attn_proj"},
                                    {"attn_to_add_out", "txt_attn_proj"},
                                    {"ff_net_0_proj", "img_mlp_0"},
                                    {"ff_net_2", "img_mlp_2"},
                                    {"ff_context_net_0_proj", "txt_mlp_0"},
                                    {"ff_context_net_2", "txt_mlp_2"},
                                    {"norm1_linear", "img_mod_lin"},
                                    {"norm1_context_linear", "txt_mod_lin"}};
constexpr Renamed kOfFluxSingleBlock[] = {{"attn_to_q", "linear1", 0, false},
                                          {"attn_to_k", "linear1", 1, false},
                                          {"attn_to_v", "linear1", 2, false},
                                          {"proj_mlp", "linear1", 3, true},
                                          {"proj_out", "linear2"},
                                          {"norm_linear", "modulation_lin"}};
constexpr Renamed kOfThirdBlock[] = {{"attn_to_q", "x_block_attn_qkv", 0, false},
                                     {"attn_to_k", "x_block_attn_qkv", 1, false},
                                     {"attn_to_v", "x_block_attn_qkv", 2, true},
                                     {"attn2_to_q", "x_block_attn2_qkv", 0, false},
                                     {"attn2_to_k", "x_block_attn2_qkv", 1, false},
                                     {"attn2_to_v", "x_block_attn2_qkv", 2, true},
                                     {"attn_add_q_proj", "context_block_attn_qkv", 0, false},
                                     {"attn_add_k_proj", "context_block_attn_qkv", 1, false},
                                     {"attn_add_v_proj", "context_block_attn_qkv", 2, true},
                                     {"attn_to_out_0", "x_block_attn_proj"},
                                     {"attn2_to_out_0", "x_block_attn2_proj"},
                                     {"attn_to_add_out", "context_block_attn_proj"},
                                     {"ff_net_0_proj", "x_block_mlp_fc1"},
                                     {"ff_net_2", "x_block_mlp_fc2"},
                                     {"ff_context_net_0_proj", "context_block_mlp_fc1"},
                                     {"ff_context_net_2", "context_block_mlp_fc2"},
                                     {"norm1_linear", "x_block_adaLN_modulation_1"}};
constexpr Renamed kAroundBlocks[] = {{"x_embedder", "img_in"},
                                     {"context_embedder", "txt_in"},
                                     {"time_text_embed_timestep_embedder_linear_1", "time_in_in_layer"},
                                     {"time_text_embed_timestep_embedder_linear_2", "time_in_out_layer"},
                                     {"time_text_embed_text_embedder_linear_1", "vector_in_in_layer"},
                                     {"time_text_embed_text_embedder_linear_2", "vector_in_out_layer"},
                                     {"time_text_embed_guidance_embedder_linear_1", "guidance_in_in_layer"},
                                     {"time_text_embed_guidance_embedder_linear_2", "guidance_in_out_layer"},
                                     {"pos_embed_proj", "x_embedder_proj"},
                                     {"time_text_embed_timestep_embedder_linear_1", "t_embedder_mlp_0"},
                                     {"time_text_embed_timestep_embedder_linear_2", "t_embedder_mlp_2"},
                                     {"time_text_embed_text_embedder_linear_1", "y_embedder_mlp_0"},
                                     {"time_text_embed_text_embedder_linear_2", "y_embedder_mlp_2"},
                                     {"norm_out_linear", "final_layer_adaLN_modulation_1", 0, true, true},
                                     {"proj_out", "final_layer_linear"}};

std::string_view resnet_original(std::string_view rest) {
  static constexpr std::pair<std::string_view, std::string_view> kOfResnets[] = {
      {"norm1", "in_layers_0"},  {"conv1", "in_layers_2"},  {"time_emb_proj", "emb_layers_1"},
      {"norm2", "out_layers_0"}, {"conv2", "out_layers_3"}, {"conv_shortcut", "skip_connection"}};
  for (const auto& [name, other] : kOfResnets)
    if (rest == name) return other;
  return rest;
}

std::string unet_name(std::string_view flat, int64_t layers) {
  static constexpr std::pair<std::string_view, std::string_view> kAround[] = {
      {"conv_in", "input_blocks_0_0"},
      {"conv_out", "out_2"},
      {"time_embedding_linear_1", "time_embed_0"},
      {"time_embedding_linear_2", "time_embed_2"},
      {"add_embedding_linear_1", "label_emb_0_0"},
      {"add_embedding_linear_2", "label_emb_0_2"}};
  for (const auto& [name, other] : kAround)
    if (flat == name) return std::string(other);
  int64_t block = 0, layer = 0;
  if (take(flat, "mid_block_")) {
    if (take(flat, "attentions_0_")) return "middle_block_1_" + std::string(flat);
    if (take(flat, "resnets_") && take_number(flat, layer))
      return fmt::format("middle_block_{}_{}", 2 * layer, resnet_original(flat));
    return {};
  }
  const bool down = take(flat, "down_blocks_");
  if ((!down && !take(flat, "up_blocks_")) || !take_number(flat, block)) return {};
  const char* const blocks = down ? "input_blocks" : "output_blocks";
  const int64_t first = block * (layers + 1) + (down ? 1 : 0);
  if (take(flat, "resnets_") && take_number(flat, layer))
    return fmt::format("{}_{}_0_{}", blocks, first + layer, resnet_original(flat));
  if (take(flat, "attentions_") && take_number(flat, layer))
    return fmt::format("{}_{}_1_{}", blocks, first + layer, flat);
  if (take(flat, "downsamplers_0_")) return fmt::format("{}_{}_0_op", blocks, first + layers);
  return {};  // an upsampler's place hangs on its block; kohya's scripts leave it out
}

}  // namespace

std::string flat_module(const std::string& module) {
  std::string name = module;
  for (const std::string_view word : {"base_model.model.", "text_model.", "processor."})
    for (size_t place; (place = name.find(word)) != name.npos;) name.erase(place, word.size());
  for (char& c : name)
    if (c == '.') c = '_';
  if (name.starts_with("text_model_")) name.erase(0, std::string_view("text_model_").size());
  if (name.ends_with("attn1_to_out") || name.ends_with("attn2_to_out")) name += "_0";  // of the first files
  return name;
}

OriginalName unet_original(std::string_view flat, int64_t layers) {
  return {.name = unet_name(flat, layers), .is_last = true};
}

std::vector<OriginalName> flow_originals(std::string_view flat, int64_t parts) {
  std::vector<OriginalName> found;
  int64_t block = 0;
  std::string_view rest = flat;
  if (take(rest, "transformer_blocks_") && take_number(rest, block)) {
    add_renamed(found, kOfFluxBlock, rest, fmt::format("double_blocks_{}_", block));
    const std::string third = fmt::format("joint_blocks_{}_", block);
    add_renamed(found, kOfThirdBlock, rest, third);
    // The last block reads the text alone: two parts of numbers, scale and shift, and not six.
    if (rest == "norm1_context_linear")
      found.push_back({third + "context_block_adaLN_modulation_1", 0, true, parts == 2});
    return found;
  }
  rest = flat;
  if (take(rest, "single_transformer_blocks_") && take_number(rest, block))
    add_renamed(found, kOfFluxSingleBlock, rest, fmt::format("single_blocks_{}_", block));
  else add_renamed(found, kAroundBlocks, flat, "");
  return found;
}

}  // namespace transom
