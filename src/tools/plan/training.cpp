// SPDX-License-Identifier: Apache-2.0
// A training step: T = (m + p - 1) x the slowest stage's pass + what of the collectives is not hidden + the optimizer's
// update + the host's time.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "tools/plan/machines/rates.h"

namespace transom {
namespace {

constexpr double kMaskedShare = 0.15;     // of positions that BERT's head sees in tuned pre-training
constexpr double kOptimizerBytes = 28;    // read and written a parameter: master, two moments, gradient, weight
constexpr double kTokensADevice = 16384;  // of a step where no batch is stated
constexpr double kImagesADevice = 256;
constexpr double kJitter = 0.01;     // deviation of a rank's step time
constexpr double kHostNorm = 2.5;    // by which the times of host and device join
constexpr double kWorkspace = 1.06;  // activations with workspace and fragmentation

struct Trainer {
  const Job& job;
  const ModelShape& a;
  const DeviceModel& device;
  JobPrecision precision;
  StatedLayout stated;

  double sequence() const {
    if (job.sequence_length > 0) return job.sequence_length;
    return a.default_tokens > 0 ? a.default_tokens : a.is_convolutional() ? 1 : 128;
  }
  double tokens_a_sample() const {
    double most = 1;
    for (const LayerStack& stack : a.stacks) most = std::max(most, tokens_of(stack, sequence()));
    return most;
  }
  Head head() const {
    if (a.head == Head::kClassifier && (job.task == JobTask::kPretrain || job.says("MLM")) && !a.images && !a.audio)
      return Head::kMaskedLanguage;
    if (a.head == Head::kCausalLanguage && job.says("MRPC")) return Head::kClassifier;
    return a.head;
  }
  double trained_parameters(const Layout& layout) const {
    if (layout.lora_rank <= 0) return a.parameters;
    double total = 0;
    for (const LayerStack& s : a.stacks) total += 4 * s.layers * layout.lora_rank * 2 * s.hidden;
    return total;
  }

  // A pass of one micro-batch through one stage, forward.
  Work layer_work(const Layout& layout) const {
    Work work =
        layers_forward(a, layout.micro_batch, sequence(), 0, a.stacks.empty() ? false : a.decoder().fused_attention);
    const double part = layout.pipeline * layout.context;
    work.weight_flops /= part, work.attention_flops /= part, work.elements /= part;
    work.layers /= layout.pipeline, work.rows /= layout.context;
    return work;
  }
  // Of so many positions those that the head of a masked model sees.
  double masked_positions(const Layout& layout, double positions) const {
    if (stated.predictions > 0)
      return std::min(positions, layout.micro_batch / layout.context * job.samples_a_slot() * stated.predictions);
    const bool tuned = job.maturity() == Maturity::kTuned || device.memory_on_chip;
    return tuned ? positions * kMaskedShare : positions;
  }
  Work head_work(const Layout& layout) const {
    const Head kind = head();
    ModelShape with_head = a;
    with_head.head = kind;
    double positions = layout.micro_batch * tokens_a_sample() / layout.context;
    if (a.stacks.size() > 1) positions = layout.micro_batch * tokens_of(a.decoder(), sequence());
    if (kind == Head::kMaskedLanguage) positions = masked_positions(layout, positions);
    return head_forward(with_head, positions);
  }

  void derive_batch(Layout& layout, std::vector<std::string>* assumptions) const;
  DeviceMemory memory(const Layout& layout) const;
  double exchanged_in_pass(const Layout& layout, double recomputed, double matrix_seconds) const;
  double exchanged_gradients(const Layout& layout, double pass) const;
  void time(const Layout& layout, Plan& plan) const;
};

void Trainer::derive_batch(Layout& layout, std::vector<std::string>* assumptions) const {
  const double ranks = layout.data;
  double a_rank = 0;  // samples a step
  if (job.batch_per_device > 0) a_rank = job.batch_per_device * std::max(1.0, layout.accumulation);
  if (job.global_batch > 0) a_rank = job.global_batch / ranks;
  if (a_rank == 0) {
    const double tokens = tokens_a_sample() * std::max(1.0, layout.accumulation);
    a_rank = a.images && a.is_convolutional() ? kImagesADevice : std::max(1.0, std::floor(kTokensADevice / tokens));
    if (device.memory_on_chip) a_rank *= 64;
    if (layout.pipeline > 1) a_rank = std::max(a_rank, layout.pipeline * 16);
    if (assumptions) assumptions->push_back(fmt::format("no batch is stated: {:.6g} samples a replica", a_rank));
  }
  if (layout.micro_batch > 0 && layout.accumulation > 0) return;
  if (layout.accumulation > 0) {
    layout.micro_batch = std::max(1.0, a_rank / layout.accumulation);
    return;
  }
  if (layout.micro_batch > 0) {
    layout.accumulation = std::max(1.0, std::round(a_rank / layout.micro_batch));
    return;
  }
  if (job.batch_per_device > 0 && job.global_batch > 0 && layout.pipeline == 1 && layout.tensor == 1) {
    layout.micro_batch = job.batch_per_device;
    layout.accumulation = std::max(1.0, std::round(a_rank / layout.micro_batch));
    return;
  }
  if (job.batch_per_device > 0) {
    layout.micro_batch = std::max(1.0, job.batch_per_device), layout.accumulation = 1;
    return;
  }
  // The largest power of two that fits and leaves a pipeline enough passes.
  const double most = layout.pipeline > 1 ? std::max(1.0, a_rank / (4 * layout.pipeline)) : a_rank;
  double micro = std::max(1.0, std::min(most, std::max(1.0, std::floor(65536 / tokens_a_sample()))));
  if (micro > 1) micro = std::exp2(std::floor(std::log2(micro)));
  if (most <= 512 && layout.pipeline == 1 && a_rank == std::floor(a_rank)) micro = std::min(a_rank, micro * 2);
  for (;; micro = std::max(1.0, std::floor(micro / 2))) {
    layout.micro_batch = micro;
    layout.accumulation = std::max(1.0, std::round(a_rank / micro));
    if (micro <= 1 || memory(layout).total() <= device.memory_bytes) return;
  }
}

DeviceMemory Trainer::memory(const Layout& layout) const {
  DeviceMemory m;
  const double model_ranks = layout.tensor * layout.pipeline * (a.decoder().experts > 1 ? layout.expert : 1);
  const double parameters = a.parameters / model_ranks, trained = trained_parameters(layout) / model_ranks;
  const double ranks = layout.data * layout.context;
  const bool full32 = precision.activation_bytes == 4;
  m.weights = parameters *
              (full32                                               ? 4
               : layout.lora_rank > 0 && precision.weight_bytes < 2 ? precision.weight_bytes
                                                                    : 2) /
              (layout.zero == 3 ? ranks : 1);
  m.gradients = trained * (full32 ? 4 : 2) / (layout.zero >= 2 ? ranks : 1);
  m.optimizer = trained * (full32 ? 8 : 12) / (layout.zero >= 1 ? ranks : 1);
  if (device.memory_on_chip) m.optimizer = 0;  // in streaming memory
  const bool recomputed = layout.recompute == Recompute::kFull;
  double stored = 0;
  for (const LayerStack& s : a.stacks) {
    const double tokens = layout.micro_batch * tokens_of(s, sequence()) / layout.context;
    const double seen = s.fused_attention || layout.recompute == Recompute::kAttention ? 0 : tokens_of(s, sequence());
    const double active =
        s.experts > 1 ? s.experts_per_token * s.expert_intermediate + s.shared_intermediate : s.intermediate;
    // Korthikanti et al., 2022 (arXiv 2205.05198): 34 s b h + 5 a s^2 b at four times the width, in 16 bits.
    const double a_layer = tokens * (18 * s.hidden + (s.gated ? 6 : 4) * active + 5 * s.heads * seen) / layout.tensor;
    const double kept = recomputed ? tokens * 2 * s.hidden : a_layer;
    stored = std::max(stored, kept * s.layers / layout.pipeline + (recomputed ? a_layer : 0));
  }
  stored += layout.micro_batch * a.convolution_activations * 2 * 1.5;
  if (full32) stored *= 2;
  const double in_flight = layout.pipeline > 1 ? std::min(layout.pipeline, layout.accumulation) : 1;
  double logits = 0;
  if (head() == Head::kCausalLanguage)
    logits = layout.micro_batch * tokens_a_sample() / layout.context * a.vocabulary * 8 / layout.tensor;
  else if (head() == Head::kMaskedLanguage && !device.memory_on_chip)  // where they are on chip, they are serialised
    logits = masked_positions(layout, layout.micro_batch * tokens_a_sample() / layout.context) * a.vocabulary * 8 /
             layout.tensor;
  m.activations = (stored * in_flight + logits) * kWorkspace;
  if (device.memory_on_chip) m.activations /= 4;  // stashed inputs alone, the rest by serialised operations
  if (layout.zero == 3)
    m.activations += 2 * a.parameters / std::max(1.0, a.layers()) * 2;  // a gathered layer and the next
  m.reserve = device.memory_reserve;
  return m;
}

// What the ranks that hold one model exchange in a pass, as far as the engines do not hide it.
double Trainer::exchanged_in_pass(const Layout& layout, double recomputed, double matrix_seconds) const {
  if (a.stacks.empty()) return 0;
  const double pipe = layout.pipeline;
  // Tensor parallel: two all-reduces forward and two backward a layer, none of them hidden.
  double inner = 0;
  double tokens = layout.micro_batch * tokens_a_sample() / layout.context;
  if (layout.tensor > 1) {
    const double bytes = tokens * a.decoder().hidden * precision.activation_bytes;
    const RankGroup group = group_of(device, layout.tensor, 1);
    inner += (4 + 2 * recomputed) * a.layers() / pipe * all_reduce_seconds(device, group, bytes);
  }
  if (layout.expert > 1 && a.decoder().experts > 1) {
    const double bytes = tokens * a.decoder().hidden * a.decoder().experts_per_token * precision.activation_bytes;
    inner +=
        4 * 1.2 * a.layers() / pipe * all_to_all_seconds(device, group_of(device, layout.expert, layout.tensor), bytes);
  }
  if (layout.context > 1) {
    const double bytes = 2 * tokens * a.decoder().key_value_heads * a.decoder().head_dim * precision.activation_bytes;
    const double ring =
        (layout.context - 1) * send_seconds(device, layout.context * layout.tensor > device.devices_per_host, bytes);
    inner += std::max(0.0, 3 * a.layers() / pipe * ring - 0.5 * matrix_seconds);
  }
  if (pipe > 1) {
    const double bytes = tokens * a.decoder().hidden * precision.activation_bytes / layout.tensor;
    inner += 2 * layout.chunks * send_seconds(device, layout.tensor * pipe > device.devices_per_host, bytes);
  }
  return inner;
}

// Seconds of the exchange of gradients, between the ranks that hold the same weights, that show in a step.
double Trainer::exchanged_gradients(const Layout& layout, double pass) const {
  const FittedRates& rates = device.fitted;
  const bool tuned = job.maturity() == Maturity::kTuned;
  const double model_ranks = layout.tensor * layout.pipeline, passes = layout.accumulation;
  const double trained = trained_parameters(layout) / model_ranks, held = a.parameters / model_ranks;
  const double ranks = layout.data * layout.context;
  if (ranks <= 1) return 0;
  // Frameworks with 32-bit weights exchange 32-bit gradients; tuned ones 16.
  const double gradient_bytes =
      trained * (tuned || layout.zero > 0 || layout.lora_rank > 0 || device.memory_on_chip ? 2 : 4);
  const RankGroup group = group_of(device, ranks, layout.tensor);
  double exchange = all_reduce_seconds(device, group, gradient_bytes);
  if (layout.zero == 3) exchange += (2 * passes - 1) * all_gather_seconds(device, group, held * 2);
  else if (layout.zero == 2) exchange += (passes - 1) * all_gather_seconds(device, group, gradient_bytes);
  const double hidden =
      device.memory_on_chip ? 0 : (layout.zero == 3 ? passes : 1) * pass * (layout.zero == 3 ? 0.8 : 0.6);
  double exposed = std::max(0.0, exchange - hidden) + 0.1 * std::min(exchange, hidden);
  // Sharding frameworks copy what they gather and scatter through buffers of their own.
  if (!tuned && layout.zero >= 2)
    exposed += (layout.zero == 3 ? 2 * passes * held * 2 + gradient_bytes : 2 * trained * 2) / rates.sharding;
  return exposed;
}

void Trainer::time(const Layout& layout, Plan& plan) const {
  const FittedRates& rates = device.fitted;
  const Maturity maturity = job.maturity();
  const bool tuned = maturity == Maturity::kTuned;
  const Work layers = layer_work(layout), head_part = head_work(layout);
  const Work convolutions = convolutions_forward(a, layout.micro_batch / layout.pipeline);
  const bool lora = layout.lora_rank > 0;
  // Backward: gradients of inputs and of weights, each as much as the forward pass; of frozen weights the first alone.
  const double recomputed = layout.recompute == Recompute::kFull ? 1 : 0;
  const auto add = [&](WorkSeconds& sum, const Work& work, double weight_passes, double factor, double vector_passes) {
    Work scaled = work;
    scaled.weight_flops *= weight_passes / factor, scaled.attention_flops *= (3 + recomputed) / factor;
    scaled.elements *= vector_passes;
    const WorkSeconds one = seconds_of(scaled, device, precision, maturity, true, layout.tensor);
    sum.matrix += one.matrix, sum.vector += one.vector;
  };
  WorkSeconds sum;
  add(sum, layers, (lora ? 2 : 3) + recomputed, 1, 3 + recomputed);
  add(sum, head_part, lora ? 2 : 3, 1, 3);
  if (convolutions.weight_flops > 0)
    add(sum, convolutions, 3,
        a.is_convolutional() ? (a.separable ? rates.separable : rates.convolution) * a.convolution_share : 1, 3);
  if (tuned) sum.vector *= std::sqrt(rates.tuned);
  // Engines overlap within convolutions, whose kernels are long and regular.
  join(sum.matrix, sum.vector, a.is_convolutional() ? std::max(2.0, rates.overlap) : rates.overlap);
  const double slack = maturity == Maturity::kEager ? 3 : tuned ? rates.tuned : 1;
  // The host runs ahead of the device: what it needs shows as far as the device does not need longer.
  const double crowd = job.devices > 1 && device.devices_per_host > 1 ? rates.crowding : 1;
  double host = (layers.layers * (lora ? 1.3 : 1) + convolutions.layers) * rates.layer_training * slack * crowd *
                (1 + recomputed / 3);
  if ((a.images || a.audio) && !tuned && !device.memory_on_chip) host += rates.sample * layout.micro_batch;
  const double busy = sum.matrix + sum.vector;
  const double fixed_pass = joined(busy, host, kHostNorm) - busy;
  const double passes = layout.accumulation, pipe = layout.pipeline;
  const double inner = exchanged_in_pass(layout, recomputed, sum.matrix);
  // A pass of the slowest stage; the head stands on the last one.
  const double pass = sum.matrix + sum.vector + fixed_pass + inner;
  plan.time.matrix = passes * sum.matrix, plan.time.vector = passes * sum.vector;
  plan.time.fixed = passes * fixed_pass;
  plan.time.exposed_communication = passes * inner;
  plan.time.bubble = (pipe - 1) / layout.chunks * pass * (device.memory_on_chip ? 2 : 1);

  plan.time.exposed_communication += exchanged_gradients(layout, pass);
  const double trained = trained_parameters(layout) / (layout.tensor * pipe);
  const double ranks = layout.data * layout.context;
  const double updated = trained / (layout.zero >= 1 ? ranks : 1);
  const double optimizer_rate = device.memory_on_chip ? device.streaming_bandwidth : device.bandwidth * rates.memory;
  if (optimizer_rate > 0) plan.time.memory += updated * kOptimizerBytes / optimizer_rate;
  plan.time.fixed += rates.step * slack;
  const double stragglers = job.devices > device.devices_per_host ? kJitter * std::sqrt(2 * std::log(job.devices)) : 0;
  plan.time.exposed_communication += stragglers * plan.time.total();
  plan.step_seconds = plan.time.total();
  plan.batch = layout.samples_a_step();
  plan.samples_per_second = plan.batch / plan.step_seconds * job.samples_a_slot();
  plan.tokens_per_second = plan.batch * (a.is_convolutional() ? 1 : tokens_a_sample()) / plan.step_seconds;
}

bool same_kind(const Layout& a, const Layout& b) {
  return a.tensor == b.tensor && a.pipeline == b.pipeline && a.context == b.context;
}

}  // namespace

Plan plan_training(const Job& job, const ModelShape& shape, const DeviceModel& device) {
  // Tuned software for GPUs never writes attention's probabilities.
  ModelShape fused = shape;
  if (job.maturity() == Maturity::kTuned && (device.family == "nvidia" || device.family == "cdna"))
    for (LayerStack& stack : fused.stacks) stack.fused_attention = true;
  Trainer trainer{job, fused, device, precision_of(job), stated_layout(job)};
  const bool convolutional = shape.is_convolutional();
  Plan best;
  bool found = false;
  double best_excess = 0;
  for (Layout layout : candidate_layouts(job, shape, device, trainer.stated)) {
    Plan plan;
    plan.job = job;
    trainer.derive_batch(layout, &plan.assumptions);
    plan.layout = layout;
    plan.memory = trainer.memory(layout);
    plan.fits = plan.memory.total() <= device.memory_bytes + device.streaming_bytes;
    trainer.time(layout, plan);
    const double excess = plan.fits ? 0 : plan.memory.total();
    const double rate = plan.samples_per_second;
    const bool better = !found || (plan.fits != best.fits ? plan.fits
                                   : plan.fits            ? rate > best.samples_per_second
                                                          : excess < best_excess);
    const bool other = found && !same_kind(layout, best.layout);
    if (better) {
      if (other && best.fits) plan.second_layout = best.layout, plan.second_step_seconds = best.step_seconds;
      else if (found) plan.second_layout = best.second_layout, plan.second_step_seconds = best.second_step_seconds;
      best = std::move(plan), best_excess = excess, found = true;
    } else if (other && plan.fits && (best.second_step_seconds == 0 || plan.step_seconds < best.second_step_seconds)) {
      best.second_layout = layout, best.second_step_seconds = plan.step_seconds;
    }
  }
  if (trainer.sequence() != job.sequence_length && !convolutional && job.sequence_length == 0)
    best.assumptions.push_back(
        fmt::format("no sequence_length is stated: {:.6g} tokens a sample", trainer.tokens_a_sample()));
  return best;
}

}  // namespace transom
