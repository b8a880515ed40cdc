// SPDX-License-Identifier: Apache-2.0
// Generation: prefill, then a step a token. Batches of requests that begin together, and continuous batching.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "tools/plan/machines/rates.h"

namespace transom {
namespace {

constexpr double kFewTokens = 16;         // of a prompt whose length is not stated
constexpr double kRunningRequests = 256;  // vLLM's default of max_num_seqs

struct Generator {
  const Job& job;
  const ModelShape& a;
  const DeviceModel& device;
  JobPrecision precision;
  Layout layout;

  bool continuous() const { return job.says("continuous") || job.says("vLLM") || job.says("TGI"); }
  // Every expert is computed where no kernel for mixtures is named (optimum-habana's fixtures).
  bool all_experts() const { return !continuous() && job.maturity() != Maturity::kTuned && device.family == "gaudi"; }

  double weight_bytes(double tokens) const {
    return weights_touched(a, tokens, all_experts()) * precision.weight_bytes / layout.tensor / layout.pipeline;
  }
  double cache_bytes(double tokens) const {
    // Keys and values of fewer heads than devices are copied.
    const double share = std::max(1.0, layout.tensor / std::max(1.0, a.decoder().key_value_heads));
    const double cache = continuous() ? std::max(2.0, precision.cache_bytes) : precision.cache_bytes;
    return cache_elements(a, tokens) * cache * share / layout.tensor / layout.pipeline;
  }
  double exchange(double tokens) const {
    if (layout.tensor <= 1) return 0;
    return 2 * a.layers() *
           all_reduce_seconds(device, group_of(device, layout.tensor, 1), tokens * a.decoder().hidden * 2);
  }

  // A pass of `sequences` x `tokens` new tokens behind `context` others each.
  StepTime pass(double sequences, double tokens, double context, double cache_context) const {
    StepTime time;
    const FittedRates& rates = device.fitted;
    Work layers = layers_forward(a, sequences, tokens, context, a.decoder().fused_attention);
    if (all_experts() && a.decoder().experts > 1) {
      const LayerStack& s = a.decoder();
      layers.weight_flops *= (s.attention_weights() + s.feed_forward_weights()) /
                             (s.attention_weights() + s.active_feed_forward_weights());
    }
    const Work head = head_forward(a, sequences);
    const Maturity maturity = job.maturity();
    WorkSeconds sum;
    for (const Work& work : {layers, head}) {
      Work part = work;
      if (tokens == 1) part.attention_flops = 0, part.elements *= 0.25;  // reading the cache is what costs
      const WorkSeconds one = seconds_of(part, device, precision, maturity, false, layout.tensor);
      sum.matrix += one.matrix, sum.vector += one.vector;
    }
    const double bytes =
        weight_bytes(sequences * tokens) + sequences * cache_bytes(cache_context) * device.fitted.cache;
    double memory = bytes / (device.bandwidth * rates.memory);
    if (device.memory_on_chip && layout.tensor * device.memory_bytes < a.parameters * precision.weight_bytes)
      memory = weight_bytes(sequences * tokens) / device.streaming_bandwidth;
    time.matrix = sum.matrix / layout.pipeline, time.memory = memory + sum.vector / layout.pipeline;
    join(time.matrix, time.memory, rates.overlap_decoding);
    time.fixed = layers.layers * rates.layer_inference;
    time.exposed_communication = exchange(sequences * tokens);
    const double host = maturity == Maturity::kEager ? kEagerLayer * layers.layers : 0;
    time.fixed += std::max(0.0, host - time.total());
    return time;
  }
};

void accumulate(StepTime& sum, const StepTime& time, double count) {
  sum.matrix += time.matrix * count, sum.vector += time.vector * count, sum.memory += time.memory * count;
  sum.exposed_communication += time.exposed_communication * count, sum.bubble += time.bubble * count;
  sum.fixed += time.fixed * count;
}

}  // namespace

Plan plan_generation(const Job& job, const ModelShape& a, const DeviceModel& device) {
  if (a.is_convolutional()) fail(ErrorKind::kUsage, "task: {} has no decoder that could generate", quoted(job.model));
  Plan plan;
  plan.job = job;
  const StatedLayout stated = stated_layout(job);
  Layout layout;
  layout.pipeline = std::max(1.0, stated.pipeline);
  const double free = std::floor(job.devices / layout.pipeline);
  const double heads = a.decoder().heads;
  layout.tensor =
      stated.tensor > 0 ? stated.tensor : std::min({free / std::max(1.0, stated.data), device.devices_per_host, heads});
  while (stated.tensor == 0 && layout.tensor > 1 &&
         (std::fmod(heads, layout.tensor) != 0 || std::fmod(free, layout.tensor) != 0))
    --layout.tensor;
  layout.data = stated.data > 0 ? stated.data : std::floor(free / layout.tensor);
  if (layout.data * layout.tensor * layout.pipeline > job.devices || layout.data < 1)
    fail(ErrorKind::kUsage, "optimisations: {} needs {} devices, found devices = {}", quoted(job.optimisations),
         std::max(1.0, layout.data) * layout.tensor * layout.pipeline, job.devices);
  Generator generator{job, a, device, precision_of(job), layout};
  const double prompt = job.sequence_length > 0 ? job.sequence_length : kFewTokens;
  const double output = job.output_length > 0 ? job.output_length : 100;
  if (job.sequence_length == 0) plan.assumptions.push_back(fmt::format("no prompt is stated: {} tokens", kFewTokens));
  if (job.output_length == 0) plan.assumptions.push_back("no output_length is stated: 100 new tokens");

  plan.memory.weights = a.parameters * generator.precision.weight_bytes / layout.tensor / layout.pipeline;
  plan.memory.reserve = device.memory_reserve;
  plan.memory.activations = 0.03 * plan.memory.weights;
  const double room = device.memory_bytes * 0.97 + device.streaming_bytes - plan.memory.total();
  const double a_sequence = generator.cache_bytes(prompt + output);
  const double most = std::max(1.0, std::floor(room / a_sequence));
  double sequences = (job.global_batch > 0 ? job.global_batch / layout.data : job.batch_per_device);
  const bool largest = sequences == 0 && job.says("large");
  const bool continuous = generator.continuous() && (stated.prompts > 0 || job.says("continuous"));
  const double prompts = stated.prompts > 0 ? stated.prompts / layout.data : 0;
  if (sequences == 0) {
    sequences = 1;
    if (continuous) sequences = std::min({most, kRunningRequests, prompts > 0 ? prompts : kRunningRequests});
    else if (largest) sequences = std::min(most, 1024.0);
    plan.assumptions.push_back(fmt::format("no batch is stated: {:.6g} sequences in flight", sequences * layout.data));
  }
  layout.micro_batch = sequences;
  const bool decode_only = job.says("decode") && !job.says("first token");
  const bool full_cache = !generator.continuous();  // static caches are read to their end
  const StepTime prefill = generator.pass(sequences, prompt, 0, prompt);
  const double context = prompt + output / 2;
  const StepTime step = generator.pass(sequences, 1, context, full_cache && !decode_only ? prompt + output : context);
  const double request = prefill.total() + (output - 1) * step.total();
  plan.first_token_seconds =
      generator.pass(std::min(sequences, layout.data > 0 ? sequences : 1.0), prompt, 0, prompt).total();
  plan.token_seconds = step.total();
  plan.request_seconds = request;
  plan.batch = sequences * layout.data;
  plan.step_seconds = step.total();
  if (decode_only) {
    plan.tokens_per_second = plan.batch / step.total();
    plan.time = step;
  } else {
    plan.tokens_per_second = plan.batch * output / request;
    accumulate(plan.time, prefill, 1 / output), accumulate(plan.time, step, 1 - 1 / output);
    if (continuous && prompts > sequences) {
      // Requests of one length end together, wave after wave; the last wave is partly empty.
      const double waves = std::ceil(prompts / sequences);
      plan.tokens_per_second *= prompts / (waves * sequences);
    }
  }
  plan.samples_per_second = plan.tokens_per_second / output;
  plan.layout = layout;
  plan.memory.cache = sequences * a_sequence;
  plan.fits = plan.memory.total() <= device.memory_bytes + device.streaming_bytes;
  return plan;
}

}  // namespace transom
