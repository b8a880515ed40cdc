// SPDX-License-Identifier: Apache-2.0
#include "models/families/timm_fastvit/fastvit_design.h"

#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "files/config/config.h"
#include "models/shared/vision_inputs.h"

namespace transom {
namespace {

constexpr int64_t kMostFastVitWidth = 1 << 16, kMostFastVitDepth = 1024, kMostFastVitStages = 16, kHeadWidth = 32;

struct NamedFastVit {
  std::string_view name;
  std::vector<int64_t> layers, widths;
  int64_t mlp_ratio;
  int64_t attending;      // how many of the last stages attend; they tell places apart
  bool squeezes = false;  // the last two stages while they shrink
  bool later = false;     // MobileCLIP2's: another stem and other norms
};

const std::vector<NamedFastVit>& named_fastvits() {
  static const std::vector<NamedFastVit> all = {
      {"fastvit_t8", {2, 2, 4, 2}, {48, 96, 192, 384}, 3, 0},
      {"fastvit_t12", {2, 2, 6, 2}, {64, 128, 256, 512}, 3, 0},
      {"fastvit_s12", {2, 2, 6, 2}, {64, 128, 256, 512}, 4, 0},
      {"fastvit_sa12", {2, 2, 6, 2}, {64, 128, 256, 512}, 4, 1},
      {"fastvit_sa24", {4, 4, 12, 4}, {64, 128, 256, 512}, 4, 1},
      {"fastvit_sa36", {6, 6, 18, 6}, {64, 128, 256, 512}, 4, 1},
      {"fastvit_ma36", {6, 6, 18, 6}, {76, 152, 304, 608}, 4, 1},
      {"fastvit_mci0", {2, 6, 10, 2}, {64, 128, 256, 512}, 3, 1, true},
      {"fastvit_mci1", {4, 12, 20, 4}, {64, 128, 256, 512}, 3, 1, true},
      {"fastvit_mci2", {4, 12, 24, 4}, {80, 160, 320, 640}, 3, 1, true},
      {"fastvit_mci3", {2, 12, 24, 4, 2}, {96, 192, 384, 768, 1536}, 4, 2, false, true},
      {"fastvit_mci4", {2, 12, 24, 4, 4}, {128, 256, 512, 1024, 2048}, 4, 2, false, true}};
  return all;
}

const NamedFastVit* find_fastvit(const std::string& name) {
  const auto& all = named_fastvits();
  const auto found = std::find_if(all.begin(), all.end(), [&](const NamedFastVit& each) { return each.name == name; });
  return found == all.end() ? nullptr : &*found;
}

// One value a stage of a list in model_args, where it is there.
template <typename Value, typename Set>
void set_each(const Config& given, const char* field, std::vector<FastVitStageDesign>& stages, const Set& set) {
  if (!given.has(field)) return;
  const Json& values = json_of(given)[field];
  const auto is_value = [](const Json& value) {
    if constexpr (std::is_same_v<Value, bool>) return value.is_boolean();
    else if constexpr (std::is_same_v<Value, int64_t>) return value.is_number_integer();
    else if constexpr (std::is_same_v<Value, double>) return value.is_number();
    else return value.is_string();
  };
  if (!values.is_array() || values.size() != stages.size() || !std::all_of(values.begin(), values.end(), is_value))
    fail("{}: {}: expected a list of {}, one a stage, found {}", given.where(), field, stages.size(),
         quoted(dump_json(values)));
  for (size_t i = 0; i < stages.size(); ++i) set(stages[i], values[i].template get<Value>());
}

int64_t odd_window(const Config& given, const char* field, int64_t otherwise) {
  const int64_t window = positive(given, field, otherwise, 63);
  if (window % 2 == 0) fail("{}: {}: expected an odd number, found {}", given.where(), field, window);
  return window;
}

}  // namespace

bool FastVitDesign::is_name(const std::string& name) { return find_fastvit(name) != nullptr; }

FastVitDesign::FastVitDesign(const TimmArguments& timm) {
  const NamedFastVit& named = *find_fastvit(timm.name);
  const Config& given = timm.given;
  const std::vector<int64_t> layers = given.get_ints("layers", named.layers);
  if (layers.empty() || static_cast<int64_t>(layers.size()) > kMostFastVitStages)
    fail("{}: layers: expected 1 to {} stages, found {}", given.where(), kMostFastVitStages, layers.size());
  const size_t count = named.layers.size();
  if (layers.size() != count)
    fail(ErrorKind::kUnsupported, "{}: layers: expected {} stages, which {} has, found {}", given.where(), count,
         timm.name, layers.size());
  for (size_t i = 0; i < count; ++i) {
    const bool attends = i + static_cast<size_t>(named.attending) >= count;
    if (layers[i] < 1 || layers[i] > kMostFastVitDepth)
      fail("{}: layers: expected numbers from 1 to {}, found {}", given.where(), kMostFastVitDepth, layers[i]);
    stages.push_back({.depth = layers[i],
                      .width = named.widths[i],
                      .mlp_ratio = static_cast<double>(named.mlp_ratio),
                      .attends = attends,
                      .shrinks = i > 0,
                      .squeezes = named.squeezes && i + 2 >= count,
                      .has_places = attends});
  }
  using Stage = FastVitStageDesign;
  set_each<int64_t>(given, "embed_dims", stages, [](Stage& stage, int64_t value) { stage.width = value; });
  set_each<double>(given, "mlp_ratios", stages, [](Stage& stage, double value) { stage.mlp_ratio = value; });
  set_each<bool>(given, "downsamples", stages, [](Stage& stage, bool value) { stage.shrinks = value; });
  set_each<bool>(given, "se_downsamples", stages, [](Stage& stage, bool value) { stage.squeezes = value; });
  set_each<std::string>(given, "token_mixers", stages, [&](Stage& stage, const std::string& value) {
    if (value != "repmixer" && value != "attention")
      fail("{}: token_mixers: expected repmixer or attention, found {}", given.where(), quoted(value));
    stage.attends = value == "attention";
  });
  for (size_t i = 0; i < count; ++i) {
    Stage& stage = stages[i];
    if (stage.width < 1 || stage.width > kMostFastVitWidth)
      fail("{}: embed_dims: expected numbers from 1 to {}, found {}", given.where(), kMostFastVitWidth, stage.width);
    if (i > 0 && stage.width != stages[i - 1].width) stage.shrinks = true;
    if (i > 0 && stage.shrinks && stage.width % stages[i - 1].width != 0)
      fail("{}: embed_dims: expected multiples of those before, found {} behind {}", given.where(), stage.width,
           stages[i - 1].width);
    if (stage.attends && stage.width % kHeadWidth != 0)
      fail("{}: embed_dims: expected multiples of {} where tokens attend, found {}", given.where(), kHeadWidth,
           stage.width);
    const double inner = static_cast<double>(stage.width) * stage.mlp_ratio;
    if (!(inner >= 1) || inner > static_cast<double>(kMostFastVitWidth * 16))
      fail("{}: mlp_ratios: {} of {} channels is out of bounds", given.where(), stage.mlp_ratio, stage.width);
  }
  mixer_window = odd_window(given, "repmixer_kernel_size", 3);
  shrinking_window = odd_window(given, "down_patch_size", 7);
  if (shrinking_window < 3) fail("{}: down_patch_size: expected 3 or more, found {}", given.where(), shrinking_window);
  shrinking_stride = positive(given, "down_stride", 2, 64);
  head_ratio = given.get_float("cls_ratio", 2);
  const double width = static_cast<double>(stages.back().width) * head_ratio;
  if (!(width >= 1) || width > kMostFastVitWidth || features() % stages.back().width != 0)
    fail("{}: cls_ratio: expected one that makes a multiple of {} channels, found {}", given.where(),
         stages.back().width, head_ratio);
  layer_scale = given.get_float("layer_scale_init_value", 1e-5);
  proj_drop_rate = given.get_float("proj_drop_rate", 0);
  shrinking_acts = given.get_bool("lkc_use_act", named.squeezes || named.later);
  stem_scales = given.get_bool("stem_use_scale_branch", !named.later);
  norms_channels = named.later;
  fused = given.get_bool("inference_mode", false);
  global_pool = timm.pooling("avg");
  if (given.get_bool("fork_feat", false))
    fail(ErrorKind::kUnsupported, "{}: fork_feat is not carried out", given.where());
  timm.expect_all_read();
}

int64_t FastVitDesign::features() const {
  return static_cast<int64_t>(static_cast<double>(stages.back().width) * head_ratio);
}

}  // namespace transom
