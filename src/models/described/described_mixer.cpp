// SPDX-License-Identifier: Apache-2.0
#include "models/described/described_mixer.h"

#include "base/error.h"
#include "models/described/family_schema.h"
#include "models/nn/recurrence/gated_delta_mixer.h"
#include "models/nn/recurrence/mamba1_mixer.h"
#include "models/nn/recurrence/mamba2_mixer.h"
#include "models/nn/recurrence/short_convolution.h"

namespace transom {
namespace {

// Numbers of modules and states: what a checkpoint can hold.
int64_t mixer_extent(const OptionSection& mixer, const char* name) {
  constexpr int64_t kWidest = 1 << 20;
  const int64_t found = mixer.whole(name);
  if (found < 1 || found > kWidest) fail("decoder.mixer.{}: expected 1 to {}, found {}", name, kWidest, found);
  return found;
}

// `Mixer` made of `plan`, which keeps `states` states.
template <typename Mixer, typename Plan>
StateMixerPlan mixer_of(const OptionSection& mixer, const Plan& plan, size_t states) {
  return {.module = mixer.text("module"), .states = states, .make = [plan](const Scope& scope, size_t first) {
            const auto made = std::make_shared<Mixer>(scope, plan, first);
            return StateMixer([made](const Tensor& x, const Tensor& mask, ForwardContext& context) {
              return (*made)(x, mask, context);
            });
          }};
}

StateMixerPlan convolution_of(const OptionSection& mixer, const DecoderPlan& plan) {
  return mixer_of<ShortConvolution>(mixer,
                                    ShortConvolutionPlan{.width = plan.width,
                                                         .taps = mixer_extent(mixer, "taps"),
                                                         .bias = mixer.flag("bias"),
                                                         .deviation = plan.deviation},
                                    1);
}

StateMixerPlan mamba1_of(const OptionSection& mixer, const DecoderPlan& plan, const std::string& activation) {
  using Norms = Mamba1Plan::Norms;
  return mixer_of<Mamba1Mixer>(mixer,
                               Mamba1Plan{.width = plan.width,
                                          .inner = mixer_extent(mixer, "heads"),
                                          .state = mixer_extent(mixer, "state"),
                                          .rank = mixer_extent(mixer, "rank"),
                                          .taps = mixer_extent(mixer, "taps"),
                                          .bias = mixer.flag("bias"),
                                          .conv_bias = mixer.flag("convolution_bias"),
                                          .activation = activation,
                                          .norms = mixer.flag("norms") ? Norms::kModules : Norms::kNone,
                                          .epsilon = plan.norm.epsilon,
                                          .deviation = plan.deviation,
                                          .output_deviation = plan.deviation,
                                          .step_deviation = plan.deviation},
                               2);
}

StateMixerPlan mamba2_of(const OptionSection& mixer, const DecoderPlan& plan, const std::string& activation) {
  Mamba2Plan made{.width = plan.width,
                  .heads = mixer_extent(mixer, "heads"),
                  .head_size = mixer_extent(mixer, "head_size"),
                  .groups = mixer_extent(mixer, "groups"),
                  .state = mixer_extent(mixer, "state"),
                  .taps = mixer_extent(mixer, "taps"),
                  .bias = mixer.flag("bias"),
                  .conv_bias = mixer.flag("convolution_bias"),
                  .activation = activation,
                  .epsilon = plan.norm.epsilon,
                  .grouped_norm = mixer.flag("grouped_norm"),
                  .deviation = plan.deviation,
                  .output_deviation = plan.deviation};
  made.inner = made.heads * made.head_size;
  if (!mixer.is_null("least_step")) made.step_limit.first = mixer.real("least_step");
  if (!mixer.is_null("largest_step")) made.step_limit.second = mixer.real("largest_step");
  return mixer_of<Mamba2Mixer>(mixer, made, 2);
}

StateMixerPlan gated_delta_of(const OptionSection& mixer, const DecoderPlan& plan, const std::string& activation) {
  return mixer_of<GatedDeltaMixer>(mixer,
                                   GatedDeltaPlan{.width = plan.width,
                                                  .key_heads = mixer_extent(mixer, "groups"),
                                                  .key_size = mixer_extent(mixer, "state"),
                                                  .value_heads = mixer_extent(mixer, "heads"),
                                                  .value_size = mixer_extent(mixer, "head_size"),
                                                  .taps = mixer_extent(mixer, "taps"),
                                                  .joined = mixer.flag("joined"),
                                                  .activation = activation,
                                                  .epsilon = plan.norm.epsilon,
                                                  .deviation = plan.deviation},
                                   2);
}

}  // namespace

std::optional<StateMixerPlan> described_mixer(const Json& file, const OptionValues& values, int64_t layer,
                                              const DecoderPlan& plan) {
  const OptionSection mixer(file, values, "decoder.mixer", layer);
  if (!mixer.holds()) return std::nullopt;
  const std::string kind = mixer.text("kind");
  if (kind == "short_convolution") return convolution_of(mixer, plan);
  const std::string activation = mixer.is_null("activation")
                                     ? OptionSection(file, values, "decoder.feed_forward", layer).text("activation")
                                     : mixer.text("activation");
  if (kind == "mamba1") return mamba1_of(mixer, plan, activation);
  return kind == "mamba2" ? mamba2_of(mixer, plan, activation) : gated_delta_of(mixer, plan, activation);
}

}  // namespace transom
