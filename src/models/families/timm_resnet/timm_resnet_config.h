// SPDX-License-Identifier: Apache-2.0
// The shape of a ResNet or ResNeXt (Xie et al., 2016) of timm. The name of the architecture says it (resnext50d_32x4d),
// model_args change it. Other architectures of timm are refused by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "models/families/timm_wrapper/timm_arguments.h"
#include "models/family.h"
#include "models/shared/vision_inputs.h"

namespace transom {

struct TimmResNetConfig {
  explicit TimmResNetConfig(const Config& config) : TimmResNetConfig(TimmArguments(config)) {}
  explicit TimmResNetConfig(const TimmArguments& timm)
      : num_classes(timm.num_classes),
        in_chans(timm.in_chans),
        drop_rate(timm.drop_rate),
        drop_path_rate(timm.drop_path_rate) {
    if (!read_name(timm.name))
      fail(
          "{}: architecture: of timm's ResNets, resnet50d, resnext50_32x4d, seresnext101_32x8d, wide_resnet50_2 and "
          "their like are known, not {}",
          timm.where, quoted(timm.name));
    read_arguments(timm);
    if (layers.size() != 4 || channels.size() != 4)
      fail("{}: model_args: layers and channels: expected four numbers each", timm.where);
    if (basic && (cardinality != 1 || base_width != 64))
      fail("{}: model_args: blocks of two convolutions have no cardinality or base_width", timm.where);
  }
  static bool is_name(const std::string& name) { return TimmResNetConfig().read_name(name); }

  bool basic = false, avg_down = false, squeeze_excite = false, replace_stem_pool = false;
  std::vector<int64_t> layers, channels{64, 128, 256, 512};
  int64_t num_classes = 0, in_chans = 3, cardinality = 1, base_width = 64, stem_width = 64, reduce_first = 1,
          down_kernel_size = 1, output_stride = 32;
  std::string stem_type, act_layer = "relu", global_pool;
  double drop_rate = 0, drop_path_rate = 0;

  int64_t expansion() const { return basic ? 1 : 4; }
  bool deep_stem() const { return stem_type.find("deep") != stem_type.npos; }
  int64_t stem_channels() const { return deep_stem() ? 2 * stem_width : 64; }

 private:
  TimmResNetConfig() = default;
  // [se]resnet<depth><stem>, [se]resnext<depth><stem>_<cardinality>x<width>d, wide_resnet<depth>_2
  bool read_name(std::string_view name) {
    const auto take = [&](std::string_view prefix) {
      const bool found = name.starts_with(prefix);
      if (found) name.remove_prefix(prefix.size());
      return found;
    };
    const auto number = [&](int64_t& value) {
      size_t digits = 0;
      value = 0;
      for (; digits < name.size() && digits < 6 && name[digits] >= '0' && name[digits] <= '9'; ++digits)
        value = value * 10 + (name[digits] - '0');
      name.remove_prefix(digits);
      return digits > 0;
    };
    const bool wide = take("wide_");
    squeeze_excite = !wide && take("se");
    const bool grouped = !wide && take("resnext");
    int64_t depth = 0, width = 0;
    if ((!grouped && !take("resnet")) || !number(depth) || !read_depth(depth)) return false;
    if (take("c")) stem(32, "deep", false);
    else if (take("d")) stem(32, "deep", true);
    else if (take("s")) stem(64, "deep", false);
    else if (take("t")) stem(32, "deep_tiered", true);
    if (grouped) {
      if (basic || !take("_") || !number(cardinality) || !take("x") || !number(width) || !take("d")) return false;
      base_width = width;
    }
    if (wide) {
      if (basic || !take("_2")) return false;
      base_width = 128;
    }
    return name.empty();
  }

  bool read_depth(int64_t depth) {
    struct Depth {
      int64_t depth;
      bool basic;
      std::vector<int64_t> layers;
    };
    static const Depth known[] = {{10, true, {1, 1, 1, 1}},     {14, false, {1, 1, 1, 1}},
                                  {18, true, {2, 2, 2, 2}},     {26, false, {2, 2, 2, 2}},
                                  {34, true, {3, 4, 6, 3}},     {50, false, {3, 4, 6, 3}},
                                  {101, false, {3, 4, 23, 3}},  {152, false, {3, 8, 36, 3}},
                                  {200, false, {3, 24, 36, 3}}, {269, false, {3, 30, 48, 8}}};
    for (const Depth& entry : known)
      if (entry.depth == depth) {
        basic = entry.basic;
        layers = entry.layers;
        return true;
      }
    return false;
  }

  void stem(int64_t width, const char* type, bool average) {
    stem_width = width;
    stem_type = type;
    avg_down = average;
  }

  void read_arguments(const TimmArguments& timm) {
    const Config& arguments = timm.given;
    layers = arguments.get_ints("layers", layers);
    channels = arguments.get_ints("channels", channels);
    cardinality = arguments.get_int("cardinality", cardinality);
    base_width = arguments.get_int("base_width", base_width);
    stem_width = arguments.get_int("stem_width", stem_width);
    reduce_first = positive(arguments, "block_reduce_first", reduce_first);
    down_kernel_size = positive(arguments, "down_kernel_size", down_kernel_size);
    output_stride = arguments.get_int("output_stride", output_stride);
    stem_type = arguments.get_string("stem_type", stem_type);
    act_layer = timm.activation(act_layer);
    global_pool = timm.pooling("avg");
    avg_down = arguments.get_bool("avg_down", avg_down);
    replace_stem_pool = arguments.get_bool("replace_stem_pool", replace_stem_pool);
    if (arguments.has("block_args")) {
      const Config block = arguments.get_object("block_args");
      squeeze_excite = block.get_string("attn_layer", "") == "se";
      if (!squeeze_excite || block.keys().size() != 1)
        fail("{}: only {{\"attn_layer\": \"se\"}} is carried out", block.where());
    }
    if (output_stride != 8 && output_stride != 16 && output_stride != 32)
      fail("{}: output_stride: expected 8, 16 or 32, found {}", arguments.where(), output_stride);
    if (output_stride != 32 && avg_down)
      fail("{}: avg_down with an output_stride below 32 is not carried out", arguments.where());
    timm.expect_all_read();
  }
};

}  // namespace transom
