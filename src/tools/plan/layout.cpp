// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/layout.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text/numbers.h"

namespace transom {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '-')) text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

double count_of(std::string_view value, std::string_view word) {
  // "4 layers 0-4-4-4": what stands behind the number says how layers are spread.
  const std::string_view digits = value.substr(0, value.find_first_of(" ,"));
  const auto number = parse_double(digits);
  if (!number || !(*number >= 1) || *number > 1e9 || *number != std::floor(*number))
    fail(ErrorKind::kUsage, "optimisations: {}: expected a whole number above 0, found {}", word, quoted(value));
  return *number;
}

std::vector<double> divisors_up_to(double number, double limit) {
  std::vector<double> result;
  for (double d = 1; d <= std::min(number, limit); ++d)
    if (std::fmod(number, d) == 0) result.push_back(d);
  return result;
}

// Transformers of more parameters are spread over four IPUs, as published configurations are.
constexpr double kPipelinedParameters = 3e7;

}  // namespace

std::string text_of(const Layout& layout) {
  std::string text = fmt::format("dp={}", layout.data);
  const auto add = [&](const char* name, double value) {
    if (value > 1) text += fmt::format(", {}={}", name, value);
  };
  add("tp", layout.tensor), add("pp", layout.pipeline), add("cp", layout.context), add("ep", layout.expert);
  if (layout.zero > 0) text += fmt::format(", zero={}", layout.zero);
  if (layout.recompute != Recompute::kNone)
    text += layout.recompute == Recompute::kFull ? ", recompute" : ", recompute=attention";
  if (layout.lora_rank > 0) text += fmt::format(", lora=r{}", layout.lora_rank);
  text += fmt::format(", micro={:.6g}", layout.micro_batch);
  add("accumulation", layout.accumulation);
  return text;
}

StatedLayout stated_layout(const Job& job) {
  StatedLayout result;
  std::string_view rest = job.optimisations;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(';'), rest.size());
    // "tp=8, pp=2" may be set apart by commas, too.
    std::string_view part = trimmed(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (part.find("not stated") != part.npos) {
      result.open = true;
      continue;
    }
    while (!part.empty()) {
      const size_t comma = std::min(part.find(','), part.size());
      const std::string_view item = trimmed(part.substr(0, comma));
      part.remove_prefix(std::min(comma + 1, part.size()));
      const size_t equals = item.find('=');
      const std::string_view name = trimmed(item.substr(0, equals));
      const std::string_view value = equals == item.npos ? "" : trimmed(item.substr(equals + 1));
      const auto take = [&](double& field) {
        if (!value.empty()) field = count_of(value, name);
      };
      if (name == "dp" || name == "replicas") take(result.data);
      else if (name == "tp") take(result.tensor);
      else if (name == "pp") take(result.pipeline);
      else if (name == "cp") take(result.context);
      else if (name == "ep") take(result.expert);
      else if (name == "micro") take(result.micro_batch);
      else if (name == "accumulation") take(result.accumulation);
      else if (name == "prompts") take(result.prompts);
      else if (name == "chunks") take(result.chunks);
      else if (name == "max_predictions_per_seq") take(result.predictions);
      else if (name == "fsdp") result.zero = 3;
      else if (name == "zero") {
        double stage = 0;
        if (value != "0") take(stage);
        if (stage > 3) fail(ErrorKind::kUsage, "optimisations: zero: expected 0 to 3, found {}", quoted(value));
        result.zero = static_cast<int>(stage);
      } else if (name == "recompute") {
        result.recompute = static_cast<int>(value == "none"        ? Recompute::kNone
                                            : value == "attention" ? Recompute::kAttention
                                                                   : Recompute::kFull);
      } else if (name == "lora") {
        result.lora_rank = 8;
        if (value.size() > 1 && value.front() == 'r') result.lora_rank = count_of(value.substr(1), name);
        else if (!value.empty()) result.lora_rank = count_of(value, name);
      }
    }
  }
  return result;
}

std::vector<Layout> candidate_layouts(const Job& job, const ModelShape& a, const DeviceModel& device,
                                      const StatedLayout& stated) {
  const double layers = a.layers(), heads = a.stacks.empty() ? 1 : a.decoder().heads;
  double pipeline = stated.pipeline;
  if (pipeline == 0 && device.memory_on_chip && !a.is_convolutional())
    pipeline = a.parameters > kPipelinedParameters ? std::min(4.0, job.devices) : 1;
  const bool plain = !stated.open && stated.tensor == 0 && pipeline == 0 && stated.context == 0;
  std::vector<Layout> result;
  const bool training = is_training(job.task);
  const double host = device.devices_per_host;
  std::vector<double> tensors = {stated.tensor}, pipelines = {pipeline};
  if (stated.tensor == 0) {
    if (stated.open || plain) tensors = divisors_up_to(job.devices, std::max(1.0, std::min(host, 16.0)));
    else tensors = {stated.data > 0 || pipeline > 0 || stated.context > 0 ? 1 : std::min(job.devices, host)};
    if (device.memory_on_chip && training) tensors = {1};
  }
  if (pipeline == 0)
    pipelines = training && (stated.open || plain) ? divisors_up_to(std::max(1.0, layers), 64) : std::vector<double>{1};
  const double context = std::max(1.0, stated.context);
  for (const double tensor : tensors)
    for (const double pipe : pipelines) {
      const double group = tensor * pipe * context;
      if (group > job.devices || std::fmod(job.devices, group) != 0) continue;
      if (stated.tensor == 0 && tensor > 1 && std::fmod(heads, tensor) != 0) continue;
      Layout layout;
      layout.tensor = tensor, layout.pipeline = pipe, layout.context = context;
      layout.data = job.devices / group;
      if (stated.data > 0 && stated.data != layout.data &&
          (stated.tensor > 0 || pipe > 1 || stated.context > 0 || tensor > 1))
        continue;
      if (stated.data > job.devices) continue;
      layout.expert = std::max(1.0, stated.expert);
      layout.chunks = std::max(1.0, stated.chunks);
      layout.lora_rank = stated.lora_rank;
      layout.micro_batch = stated.micro_batch, layout.accumulation = stated.accumulation;  // 0: to be derived
      std::vector<int> zeros = {stated.zero};
      if (stated.zero < 0) zeros = training && layout.data > 1 ? std::vector<int>{0, 1, 2, 3} : std::vector<int>{0};
      std::vector<Recompute> recomputes = {static_cast<Recompute>(std::max(0, stated.recompute))};
      if (stated.recompute < 0 && training)
        recomputes = device.memory_on_chip
                         ? std::vector<Recompute>{Recompute::kFull}
                         : std::vector<Recompute>{Recompute::kNone, Recompute::kAttention, Recompute::kFull};
      for (const int zero : zeros)
        for (const Recompute recompute : recomputes) {
          layout.zero = zero, layout.recompute = recompute;
          result.push_back(layout);
        }
    }
  if (result.empty())
    fail(ErrorKind::kUsage, "optimisations: {} does not lie over devices = {}: dp, tp, pp and cp must multiply to it",
         quoted(job.optimisations), job.devices);
  return result;
}

}  // namespace transom
