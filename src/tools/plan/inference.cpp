// SPDX-License-Identifier: Apache-2.0
// One forward pass over a batch.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "tools/plan/machines/rates.h"

namespace transom {
namespace {

// A network counts as pruned where the stated operations are so far from those of its layers.
constexpr double kPruned = 0.25;

// Of one sample; of a network whose layers are not known from the sums in its description.
TiledWork tiled_work_of(const ModelShape& a, const LayerEngine& engine, double bytes_per_element) {
  if (!a.network) {
    TiledWork work;
    work.product_cycles =
        a.convolution_flops / (2 * engine.input_channels * engine.output_channels * engine.pixels) * 1.1;
    // Nine taps a value of depth-wise layers, which make about a third of the values.
    const double depthwise = a.separable ? 3 * a.convolution_activations : 0;
    work.lane_cycles = (a.vector_operations + depthwise) / (engine.lane_channels * engine.lane_pixels);
    work.moved = 2 * a.large_maps + 0.5 * a.convolution_activations;
    return work;
  }
  TiledWork work = tiled_work(*a.network, engine, bytes_per_element);
  const double kept = a.convolution_flops / work.flops;
  if (std::abs(kept - 1) > kPruned) {  // channels, which maps have once and products twice
    work.product_cycles *= kept;
    work.lane_cycles *= std::sqrt(kept), work.moved *= std::sqrt(kept);
  }
  return work;
}

// Engines take a sample each and share the weights; the host works on what came before.
void plan_layers(Plan& plan, const ModelShape& a, const DeviceModel& device, const JobPrecision& precision,
                 double samples) {
  const LayerEngine& engine = device.engine;
  const FittedRates& rates = device.fitted;
  const TiledWork work = tiled_work_of(a, engine, precision.activation_bytes);
  if (!a.network)
    plan.assumptions.push_back("the network's layers are not known: maps, pooling and blocks of channels are guesses");
  const double rounds = std::ceil(samples / engine.engines);
  const double cycle = rounds / engine.cycles_per_second * precision.activation_bytes;
  plan.time.matrix = work.product_cycles * cycle / rates.engine_products;
  plan.time.vector = work.lane_cycles * cycle / rates.engine_lanes;
  plan.time.memory =
      (samples * work.moved * precision.activation_bytes + rounds * a.parameters * precision.weight_bytes) /
      (device.bandwidth * rates.memory);
  const double host = samples * work.outputs * engine.host_seconds_per_output;
  plan.time.fixed += std::max(0.0, host - plan.time.total());
}

}  // namespace

Plan plan_inference(const Job& job, const ModelShape& a, const DeviceModel& device) {
  Plan plan;
  plan.job = job;
  const JobPrecision precision = precision_of(job);
  const FittedRates& rates = device.fitted;
  const Maturity maturity = job.maturity();
  const StatedLayout stated = stated_layout(job);
  Layout layout;
  layout.tensor = stated.tensor > 0 ? stated.tensor : 1;
  layout.data = std::max(1.0, job.devices / layout.tensor);
  double sequence = job.sequence_length;
  if (sequence == 0) {
    sequence = a.default_tokens > 0 ? a.default_tokens : a.is_convolutional() ? 1 : 128;
    if (!a.is_convolutional() && a.stacks[0].tokens == 0)
      plan.assumptions.push_back(fmt::format("no sequence_length is stated: {:.6g} tokens", sequence));
  }
  double samples = job.batch_per_device > 0 ? job.batch_per_device : job.global_batch / layout.data;
  if (samples == 0) {
    samples = a.is_convolutional() ? (device.family == "npu" ? 14 : 1) : job.says("prefill") ? 1 : 32;
    plan.assumptions.push_back(fmt::format("no batch is stated: {} a device", samples));
  }
  layout.micro_batch = samples;
  const bool fused = !a.stacks.empty() && a.decoder().fused_attention;
  WorkSeconds sum;
  const auto add = [&](const Work& work, double factor) {
    Work scaled = work;
    scaled.weight_flops /= factor;
    const WorkSeconds one = seconds_of(scaled, device, precision, maturity, false, layout.tensor);
    sum.matrix += one.matrix, sum.vector += one.vector;
  };
  const Work layers = layers_forward(a, samples, sequence, 0, fused), head = head_forward(a, samples);
  const Work convolutions = convolutions_forward(a, samples);
  add(layers, 1), add(head, 1);
  add(convolutions,
      a.is_convolutional() ? (a.separable ? rates.separable : rates.convolution) * a.convolution_share : 1);
  double weights = a.parameters * precision.weight_bytes / layout.tensor;
  if (device.memory_on_chip) weights = 0;
  if (!a.stacks.empty())
    weights = std::min(weights, weights_touched(a, samples * sequence, false) * precision.weight_bytes / layout.tensor);
  plan.time.memory = weights / (device.bandwidth * rates.memory);
  double matrix = sum.matrix, rest = sum.vector + plan.time.memory;
  join(matrix, rest, std::max(rates.overlap, 1.0));
  if (sum.vector + plan.time.memory > 0) {
    const double factor = rest / (sum.vector + plan.time.memory);
    plan.time.vector = sum.vector * factor, plan.time.memory *= factor;
  }
  plan.time.matrix = matrix;
  plan.time.fixed =
      (layers.layers + convolutions.layers) * rates.layer_inference + rates.image * (a.images ? samples : 0);
  if (a.is_convolutional() && device.engine.present()) plan_layers(plan, a, device, precision, samples);
  if (layout.tensor > 1)
    plan.time.exposed_communication =
        2 * a.layers() *
        all_reduce_seconds(device, group_of(device, layout.tensor, 1), samples * sequence * a.decoder().hidden * 2);
  // Without recorded graphs the host must keep up.
  const double host = maturity == Maturity::kEager ? kEagerLayer : maturity == Maturity::kLazy ? kEagerLayer * 0.8 : 0;
  const double busy = plan.time.total();
  plan.time.fixed += std::max(0.0, layers.layers * host - busy);
  plan.step_seconds = plan.time.total();
  plan.batch = samples * layout.data;
  plan.samples_per_second = plan.batch / plan.step_seconds * job.samples_a_slot();
  double tokens = 1;
  if (!a.stacks.empty()) tokens = tokens_of(a.stacks[0], sequence);
  plan.tokens_per_second = plan.batch * tokens / plan.step_seconds;
  plan.first_token_seconds = plan.request_seconds = plan.step_seconds;
  plan.layout = layout;
  plan.memory.weights = a.parameters * precision.weight_bytes / layout.tensor;
  plan.memory.activations =
      (samples * a.convolution_activations * 0.2 + layers.elements / std::max(1.0, layers.layers) * 2) *
      precision.activation_bytes;
  plan.memory.reserve = device.memory_reserve;
  plan.fits = plan.memory.total() <= device.memory_bytes + device.streaming_bytes;
  return plan;
}

}  // namespace transom
