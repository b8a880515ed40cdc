// SPDX-License-Identifier: Apache-2.0
// The shape of a ResNet or ResNeXt (Xie et al., 2016) of timm. The name of the architecture says it (resnext50d_32x4d),
// model_args change it. Other architectures of timm are refused by name.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "models/family.h"
#include "models/shared/vision_inputs.h"

namespace transom {

struct TimmResNetConfig {
  // timm writes the number of classes and the pooling twice; what stands outside of model_args is what others change.
  explicit TimmResNetConfig(const Config& config)
      : num_classes(config.get_int("num_classes", 1000)), global_pool(config.get_string("global_pool", "avg")) {
    if (config.has("label_names") && !config.has("num_classes"))
      num_classes = static_cast<int64_t>(config.get_strings("label_names").size());
    const std::string name = config.get_string("architecture", "resnet50");
    if (!read_name(name.substr(0, name.find('.'))))
      fail(
          "{}: architecture: of timm, the ResNets and ResNeXts are known (resnet50d, resnext50_32x4d, "
          "seresnext101_32x8d, wide_resnet50_2 ...), not {}",
          config.where(), quoted(name));
    const Config arguments = config.get_object("model_args");
    if (!config.has("num_classes")) num_classes = arguments.get_int("num_classes", num_classes);
    read_arguments(arguments);
    if (layers.size() != 4 || channels.size() != 4)
      fail("{}: model_args: layers and channels: expected four numbers each", config.where());
    if (basic && (cardinality != 1 || base_width != 64))
      fail("{}: model_args: blocks of two convolutions have no cardinality or base_width", config.where());
  }

  bool basic = false, avg_down = false, squeeze_excite = false, replace_stem_pool = false;
  std::vector<int64_t> layers, channels{64, 128, 256, 512};
  int64_t num_classes, in_chans = 3, cardinality = 1, base_width = 64, stem_width = 64, reduce_first = 1,
                       down_kernel_size = 1, output_stride = 32;
  std::string stem_type, act_layer = "relu", global_pool;  // avg, max, avgmax (their mean), catavgmax (both)
  double drop_rate = 0, drop_path_rate = 0;

  int64_t expansion() const { return basic ? 1 : 4; }
  bool deep_stem() const { return stem_type.find("deep") != stem_type.npos; }
  int64_t stem_channels() const { return deep_stem() ? 2 * stem_width : 64; }

 private:
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

  void read_arguments(const Config& arguments) {
    layers = arguments.get_ints("layers", layers);
    channels = arguments.get_ints("channels", channels);
    in_chans = arguments.get_int("in_chans", in_chans);
    cardinality = arguments.get_int("cardinality", cardinality);
    base_width = arguments.get_int("base_width", base_width);
    stem_width = arguments.get_int("stem_width", stem_width);
    reduce_first = positive(arguments, "block_reduce_first", reduce_first);
    down_kernel_size = positive(arguments, "down_kernel_size", down_kernel_size);
    output_stride = arguments.get_int("output_stride", output_stride);
    stem_type = arguments.get_string("stem_type", stem_type);
    act_layer = arguments.get_string("act_layer", act_layer);
    // Two that timm calls otherwise than Transformers.
    if (act_layer == "hard_swish") act_layer = "hardswish";
    if (act_layer == "gelu_tanh") act_layer = "gelu_pytorch_tanh";
    global_pool = arguments.get_string("global_pool", global_pool);
    avg_down = arguments.get_bool("avg_down", avg_down);
    replace_stem_pool = arguments.get_bool("replace_stem_pool", replace_stem_pool);
    drop_rate = arguments.get_float("drop_rate", 0);
    drop_path_rate = arguments.get_float("drop_path_rate", 0);
    if (arguments.has("block_args")) {
      const Config block = arguments.get_object("block_args");
      squeeze_excite = block.get_string("attn_layer", "") == "se";
      if (!squeeze_excite || block.keys().size() != 1)
        fail("{}: only {{\"attn_layer\": \"se\"}} is carried out", block.where());
    }
    if (global_pool.starts_with("fast")) global_pool = global_pool == "fast" ? "avg" : global_pool.substr(4);
    static const std::vector<std::string> pools = {"avg", "max", "avgmax", "catavgmax"};
    if (std::find(pools.begin(), pools.end(), global_pool) == pools.end())
      fail(ErrorKind::kUnsupported, "{}: global_pool = {} is not carried out; {} are", arguments.where(),
           quoted(global_pool), fmt::join(pools, ", "));
    if (output_stride != 8 && output_stride != 16 && output_stride != 32)
      fail("{}: output_stride: expected 8, 16 or 32, found {}", arguments.where(), output_stride);
    if (output_stride != 32 && avg_down)
      fail("{}: avg_down with an output_stride below 32 is not carried out", arguments.where());
    static const std::vector<std::string> known = {
        "layers",           "channels",           "in_chans",    "cardinality",    "base_width",
        "stem_width",       "block_reduce_first", "act_layer",   "stem_type",      "global_pool",
        "avg_down",         "replace_stem_pool",  "drop_rate",   "drop_path_rate", "block_args",
        "down_kernel_size", "output_stride",      "num_classes", "zero_init_last", "pretrained",
        "scriptable",       "exportable"};  // the last four have no effect on what is read
    for (const std::string& key : arguments.keys())
      if (std::find(known.begin(), known.end(), key) == known.end() && arguments.has(key))
        fail("{}: {} is not carried out{}", arguments.where(), quoted(key), did_you_mean(key, known));
  }
};

}  // namespace transom
