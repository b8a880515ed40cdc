// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/policies/policy_losses.h"

#include <cmath>
#include <optional>

#include "base/error.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom {
namespace {

Tensor rows_of(const Tensor& x) { return reduce_sum(x, {1}); }
Tensor as_column(const Tensor& x) { return reshape(x, {-1, 1}); }
Tensor spread(const Tensor& x, const Shape& shape) { return broadcast_to(x, shape); }
Tensor truth(const Tensor& condition) { return cast(condition, DType::kFloat32); }
Tensor same(const Tensor& x, double value) { return full(x.shape(), value); }

// Between bounds, with the gradient of x within them.
Tensor clamped(const Tensor& x, std::optional<double> low, std::optional<double> high) {
  Tensor result = x;
  if (low) result = select(less(result, same(x, *low)), same(x, *low), result);
  if (high) result = select(greater(result, same(x, *high)), same(x, *high), result);
  return result;
}

Tensor at_least_one(const Tensor& count) { return maximum(count, same(count, 1)); }

// Numbers of a batch that are ratios over all processes, and those that are the least or the largest of a completion.
struct Measured {
  std::vector<Tensor> totals, counts;
  std::optional<std::pair<Tensor, Tensor>> low, high;  // f32 [R] each: values, and 1 where there is one

  // Of places [R, T - 1], or of rows [R, 1].
  void add_mean(const Tensor& x, const Tensor& counted) {
    if (x.dim(1) == 1 && counted.dim(1) != 1) {
      totals.push_back(sum(x));
      counts.push_back(constant(static_cast<double>(x.dim(0)), DType::kFloat32));
    } else {
      totals.push_back(sum(x * counted));
      counts.push_back(sum(counted));
    }
  }
  static std::pair<Tensor, Tensor> of_rows(const Tensor& x, const Tensor& counted) {
    if (x.dim(1) == 1) return {reshape(x, {-1}), full({x.dim(0)}, 1)};
    const Tensor lengths = rows_of(counted);
    return {rows_of(x * counted) / at_least_one(lengths), truth(greater(lengths, same(lengths, 0)))};
  }

  // A slot for each process, which add up to those of all.
  static void add_slots(std::vector<Tensor>& all, const Tensor& value, int64_t rank, int64_t ranks) {
    for (int64_t r = 0; r < ranks; ++r) all.push_back(r == rank ? reshape(value, {1}) : zeros({1}, DType::kFloat32));
  }
  Tensor sums(int64_t rank, int64_t ranks) const {
    std::vector<Tensor> all{joined_sums(totals, counts)};
    if (low) {
      const auto& [lows, has_low] = *low;
      const auto& [highs, has_high] = *high;
      add_slots(all, reduce_min(select(greater(has_low, same(has_low, 0)), lows, same(lows, 2)), {0}), rank, ranks);
      add_slots(all, reduce_max(select(greater(has_high, same(has_high, 0)), highs, same(highs, -1)), {0}), rank,
                ranks);
    }
    return concatenate(all, 0);
  }
};

// min(c A, clip(c) A), where the gradient of both is one.
Tensor clipped_gain(const Tensor& ratio, const Tensor& clipped, const Tensor& advantages) {
  const Tensor free = ratio * advantages, held = clipped * advantages;
  return select(less_equal(free, held), free, held);
}

void measure_clips(Measured& measured, const Tensor& ratio, const Tensor& advantages, const Tensor& counted,
                   const PolicyLossOptions& options) {
  const Tensor none = same(ratio, 0);
  const Tensor low = truth(less(ratio, same(ratio, 1 - options.epsilon_low))) * truth(less(advantages, none));
  const Tensor high = truth(greater(ratio, same(ratio, 1 + options.epsilon_high))) * truth(greater(advantages, none));
  measured.add_mean(low, counted);
  measured.add_mean(high, counted);
  measured.add_mean(low + high, counted);
  measured.low = Measured::of_rows(low, counted);
  measured.high = Measured::of_rows(high, counted);
}

// The weights of VESPO, f32 [R, 1]: e^l w^k e^(-l w) of the ratio w of a whole completion; no gradient goes through.
Tensor gamma_weights(const PolicyScores& s, const Tensor& log_ratio, const PolicyLossOptions& options) {
  const NoGradient fixed;
  const Tensor counted = s.counted, advantages = as_column(s.advantages);
  Tensor whole = as_column(rows_of(clamped(log_ratio.detach(), -20, 20) * counted));
  if (s.weights.defined()) {
    // Weights of 0 count as 1e-8; those of tokens that are not learnt as 1.
    const Tensor known = select(greater(counted, same(counted, 0)), s.weights, same(counted, 1));
    whole = whole + as_column(rows_of(clamped(log(maximum(known, same(known, 1e-8))), std::nullopt, 20)));
  }
  const Tensor log_weight = clamped(whole, std::log(1e-8), 20);
  const Tensor good = greater_equal(advantages, same(advantages, 0));
  const auto chosen = [&](double if_good, double if_bad) {
    return select(good, same(advantages, if_good), same(advantages, if_bad));
  };
  const Tensor k = chosen(options.k_positive, options.k_negative);
  const Tensor rate = clamped(chosen(options.lambda_positive, options.lambda_negative), 1e-4, std::nullopt);
  return exp(rate + k * log_weight - rate * exp(log_weight));
}

// One weight for each completion, that of its tokens, which are equal; 1 where nothing is learnt: f32 [R, 1].
Tensor weight_of_rows(const PolicyScores& s) {
  const Tensor learns = greater(rows_of(s.counted), full({s.counted.dim(0)}, 0));
  return as_column(select(learns, reduce_max(s.weights, {1}), full({s.counted.dim(0)}, 1)));
}

PolicyLoss leave_one_out_loss(const PolicyScores& s, const PolicyLossOptions& options, int64_t rank, int64_t ranks) {
  const Tensor logps = as_column(rows_of(s.logps * s.counted)), old = as_column(rows_of(s.old * s.counted));
  const Tensor advantages = as_column(s.advantages);
  const Tensor ratio = exp(logps - old);
  const Tensor clipped = clamped(ratio, 1 - options.epsilon_low, 1 + options.epsilon_high);
  PolicyLoss result;
  Tensor gain = clipped_gain(ratio, clipped, advantages);
  if (s.weights.defined()) gain = gain * weight_of_rows(s);
  result.loss = -mean(reshape(gain, {-1}), {0});
  const NoGradient only_numbers;
  Measured measured;
  measured.add_mean(s.entropies.detach(), s.counted);
  measure_clips(measured, ratio.detach(), advantages, s.counted, options);
  result.sums = measured.sums(rank, ranks);
  return result;
}

// The loss of each place or row, before the divergence.
Tensor unweighted_loss(const PolicyScores& s, const PolicyLossOptions& o, const Tensor& ratio, const Tensor& advantages,
                       const Tensor& phi) {
  if (o.type == "cispo")
    return -(spread(clamped(ratio, std::nullopt, o.epsilon_high).detach() * advantages, s.logps.shape()) * s.logps);
  if (o.type == "vespo") return -(spread(phi * as_column(s.advantages), s.logps.shape()) * s.logps);
  if (o.type == "sapo") {
    const Tensor good = greater(advantages, same(advantages, 0));
    const Tensor heat = select(good, same(advantages, o.sapo_positive), same(advantages, o.sapo_negative));
    return -(sigmoid(heat * (ratio - 1.0)) * 4.0 / heat * advantages);
  }
  const Tensor clipped = clamped(ratio, 1 - o.epsilon_low, 1 + o.epsilon_high);
  return -clipped_gain(o.delta ? clamped(ratio, std::nullopt, *o.delta) : ratio, clipped, advantages);
}

// 1 for completions that are good, or near to what wrote them: [R, 1].
Tensor kept_completions(const PolicyScores& s, const Tensor& old, double threshold) {
  const NoGradient fixed;
  const Tensor distance = rows_of((old - s.logps.detach()) * s.counted) / at_least_one(rows_of(s.counted));
  return as_column(maximum(truth(greater_equal(s.advantages, same(s.advantages, 0))),
                           truth(less_equal(distance, same(distance, threshold)))));
}

// From losses of places to that of the batch, f32 [].
Tensor reduced(const Tensor& losses, const PolicyScores& s, const PolicyLossOptions& o) {
  const Tensor counted = losses * s.counted;
  const double rows = static_cast<double>(s.counted.dim(0));
  if (o.type == "grpo" || o.type == "sapo") return mean(rows_of(counted) / at_least_one(rows_of(s.counted)), {0});
  if (o.type == "bnpo") return sum(counted) / at_least_one(sum(s.counted));
  if (o.type == "dr_grpo") return sum(counted) / (rows * static_cast<double>(o.most_tokens));
  if (o.type == "luspo") return mean(rows_of(counted), {0});
  return sum(counted) / reshape(s.normaliser, {});  // dapo, cispo, vespo
}

bool divides_by_all_tokens(const PolicyLossOptions& o) {
  return o.type == "dapo" || o.type == "cispo" || o.type == "vespo";
}

PolicyLoss group_loss(const PolicyScores& s, const PolicyLossOptions& o, int64_t rank, int64_t ranks) {
  const Shape places = s.logps.shape();
  const Tensor old = s.old.defined() ? s.old : s.logps.detach();
  const Tensor log_ratio = s.logps - old;
  const Tensor whole = as_column(rows_of(log_ratio * s.counted) / at_least_one(rows_of(s.counted)));
  const Tensor ratio = exp(o.of_sequences ? whole : log_ratio);
  const Tensor advantages = spread(as_column(s.advantages), ratio.shape());
  const Tensor phi = o.type == "vespo" ? gamma_weights(s, log_ratio, o) : Tensor();
  Tensor losses = unweighted_loss(s, o, ratio, advantages, phi);
  if (o.off_policy_threshold)
    losses = losses * spread(kept_completions(s, s.sampled.defined() ? s.sampled : old, *o.off_policy_threshold),
                             losses.shape());
  Tensor divergence;
  losses = spread(losses, places);
  if (s.weights.defined() && o.type != "vespo") losses = losses * s.weights;
  if (o.beta != 0) {
    const Tensor away = s.reference - s.logps;
    divergence = exp(away) - away - 1.0;
    if (o.corrects_divergence) divergence = divergence * spread(ratio, places);
    losses = losses + divergence * o.beta;
  }
  PolicyLoss result;
  result.loss = reduced(losses, s, o);
  const Tensor of_policy = result.loss.detach();
  if (o.entropy_coefficient != 0)
    result.loss = result.loss - sum(s.entropies * s.counted) / at_least_one(sum(s.counted)) * o.entropy_coefficient;

  const NoGradient only_numbers;
  Measured measured;
  measured.add_mean(s.entropies.detach(), s.counted);
  if (o.beta != 0) measured.add_mean(divergence.detach(), s.counted);
  if (o.entropy_coefficient != 0) {
    measured.totals.push_back(divides_by_all_tokens(o) ? of_policy / reshape(s.parts, {}) : of_policy);
    measured.counts.push_back(constant(1, DType::kFloat32));
  }
  // TRL measures ratios behind delta's bound.
  const bool clips = o.type != "cispo" && o.type != "vespo" && o.type != "sapo";
  const Tensor seen = clips && o.delta ? clamped(ratio.detach(), std::nullopt, *o.delta) : ratio.detach();
  if (o.type == "cispo")
    measured.add_mean(
        truth(greater(seen, same(seen, o.epsilon_high))) * truth(greater(advantages, same(advantages, 0))), s.counted);
  else if (o.type == "vespo") measured.add_mean(phi, s.counted);
  else if (clips) measure_clips(measured, seen, advantages, s.counted, o);
  result.sums = measured.sums(rank, ranks);
  return result;
}

}  // namespace

PolicyLoss policy_loss(const PolicyScores& scores, const PolicyLossOptions& options, int64_t rank, int64_t ranks) {
  return options.leave_one_out ? leave_one_out_loss(scores, options, rank, ranks)
                               : group_loss(scores, options, rank, ranks);
}

BatchMeasures policy_measures(const PolicyLossOptions& o) {
  BatchMeasures measures;
  measures.tokens = false;  // those of completions are counted as they are written
  measures.names = {"entropy"};
  if (o.beta != 0 && !o.leave_one_out) measures.names.emplace_back("kl");
  if (o.entropy_coefficient != 0 && !o.leave_one_out) measures.names.emplace_back("policy_loss");
  bool has_ends = false;
  if (o.type == "cispo") measures.names.emplace_back("cispo_clip_ratio");
  else if (o.type == "vespo") measures.names.emplace_back("vespo/phi_seq_mean");
  else if (o.type != "sapo") {
    for (const char* name : {"clip_ratio/low_mean", "clip_ratio/high_mean", "clip_ratio/region_mean"})
      measures.names.emplace_back(name);
    has_ends = true;
  }
  const auto ratios = static_cast<int64_t>(measures.names.size());
  if (has_ends) measures.names.insert(measures.names.end(), {"clip_ratio/low_min", "clip_ratio/high_max"});
  measures.sums = [](const NamedTensors&, const NamedTensors& outputs) { return outputs.at("policy_sums"); };
  measures.values = [ratios, has_ends](const Tensor& sums) {
    const Tensor values = ratios_of(slice(sums, 0, 0, 2 * ratios));
    if (!has_ends) return values;
    const int64_t ranks = (sums.dim(0) - 2 * ratios) / 2;
    const Tensor low = reduce_min(slice(sums, 0, 2 * ratios, 2 * ratios + ranks), {0}, true);
    const Tensor high = reduce_max(slice(sums, 0, 2 * ratios + ranks, 2 * (ratios + ranks)), {0}, true);
    // A batch of which nothing is learnt has none.
    const Tensor has_low = truth(less(low, same(low, 1.5))), has_high = truth(greater(high, same(high, -0.5)));
    const auto column = [](const Tensor& value, const Tensor& has) {
      return concatenate({reshape(value, {1, 1}), reshape(has, {1, 1})}, 0);
    };
    return concatenate({values, column(low, has_low), column(high, has_high)}, 1);
  };
  return measures;
}

}  // namespace transom
