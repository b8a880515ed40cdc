// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/machines/published_figures.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "base/error.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "tools/plan/plan_data.h"

namespace transom {
namespace {

// Standard deviations of log(predicted / published) by what two figures share. They are rounded to a digit and were
// chosen by the errors of figures that were left out with their group (bench/plan_accuracy).
constexpr double kDevice = 0.08;          // all jobs of a task on the device
constexpr double kSoftware = 0.05;        // the same software on the family
constexpr double kOptions = 0.1;          // the same layout and optimisations on the family
constexpr double kOptionsOnDevice = 0.2;  // and on the device
constexpr double kModel = 0.15;           // the model has what its shape does not tell: fusions, data, padding
constexpr double kModelOnDevice = 0.2;    // kernels for these very shapes
constexpr double kNoise = 0.07;           // one configuration moves by 12 % between releases of software
// Factors (as logarithms) after which two jobs of one model are strangers, by e.
constexpr double kBatchFactors = 2, kDeviceFactors = 3, kLengthFactors = 2;
constexpr double kOtherPrecision = 0.5, kDistanceOfTask = 0.5, kOtherMaturity = 1;  // the same for what has no size
constexpr double kMostLogRatio = 0.5;  // one figure says no more: beyond, its conditions are not what they seem
constexpr size_t kMostFigures = 1024;  // of a file; the covariances of a family take their square
constexpr size_t kNamedFigures = 3;

std::string kind_of(const PublishedFigure& figure) {
  return figure.task == "pretrain" || figure.task == "finetune" ? "train" : figure.task;
}

double square(double value) { return value * value; }
double factors(double a, double b) {
  const double result = std::abs(std::log(a / b));
  return std::isfinite(result) ? result : 1;
}

double covariance(const PublishedFigure& a, const PublishedFigure& b) {
  if (a.family != b.family || kind_of(a) != kind_of(b)) return 0;
  const bool device = a.hardware == b.hardware;
  double result = (device ? square(kDevice) : 0) + (a.software == b.software ? square(kSoftware) : 0);
  if (a.options == b.options) result += square(kOptions) + (device ? square(kOptionsOnDevice) : 0);
  if (a.model == b.model) {
    const double far = factors(a.batch / a.devices, b.batch / b.devices) / kBatchFactors +
                       factors(a.devices, b.devices) / kDeviceFactors +
                       (factors(a.sequence, b.sequence) + factors(a.output, b.output)) / kLengthFactors +
                       (a.dtype == b.dtype ? 0 : kOtherPrecision) + (a.task == b.task ? 0 : kDistanceOfTask) +
                       (a.maturity == b.maturity ? 0 : kOtherMaturity);
    result += (square(kModel) + (device ? square(kModelOnDevice) : 0)) * std::exp(-far);
  }
  return result;
}

double clipped(double ratio) { return std::clamp(std::log(ratio), -kMostLogRatio, kMostLogRatio); }

// Solves L x = b in place; L by rows.
void forward_substitute(const std::vector<double>& factor, std::vector<double>& b) {
  for (size_t i = 0, row = 0; i < b.size(); row += ++i) {
    for (size_t j = 0; j < i; ++j) b[i] -= factor[row + j] * b[j];
    b[i] /= factor[row + i];
  }
}

double number(const Json& row, const char* name, double fallback) {
  const auto found = row.find(name);
  return found != row.end() && found->is_number() ? found->get<double>() : fallback;
}
std::string word(const Json& row, const char* name) {
  const auto found = row.find(name);
  return found != row.end() && found->is_string() ? found->get<std::string>() : "";
}
double rounded_figure(double value) { return std::round(value * 1e4) / 1e4; }

}  // namespace

PublishedFigure figure_of(const Plan& plan, const DeviceModel& device) {
  PublishedFigure figure;
  const Job& job = plan.job;
  figure.id = job.id, figure.task = name_of(job.task), figure.family = device.family, figure.hardware = device.name;
  figure.model = job.model, figure.dtype = job.dtype, figure.options = job.optimisations;
  figure.software = job.software.substr(0, job.software.find_first_of(";, "));
  figure.parameters = job.parameters, figure.devices = job.devices, figure.batch = plan.batch;
  if (job.sequence_length > 0) figure.sequence = job.sequence_length;
  if (job.output_length > 0) figure.output = job.output_length;
  figure.maturity = static_cast<int>(job.maturity());
  return figure;
}

PublishedFigures::PublishedFigures(std::vector<PublishedFigure> figures) : figures_(std::move(figures)) {
  for (size_t i = 0; i < figures_.size(); ++i) {
    const PublishedFigure& figure = figures_[i];
    if (!figure.counted || !(figure.ratio > 0)) continue;
    auto found = std::find_if(families_.begin(), families_.end(),
                              [&](const Family& family) { return family.name == figure.family; });
    if (found == families_.end()) found = families_.insert(found, {figure.family, {}, {}, {}});
    found->members.push_back(i);
  }
  for (Family& family : families_) {
    const size_t count = family.members.size();
    family.factor.resize(count * (count + 1) / 2);
    for (size_t i = 0, row = 0; i < count; row += ++i)
      for (size_t j = 0, other = 0; j <= i; other += ++j) {
        double value = covariance(figures_[family.members[i]], figures_[family.members[j]]);
        if (i == j) value += square(kNoise);
        for (size_t k = 0; k < j; ++k) value -= family.factor[row + k] * family.factor[other + k];
        family.factor[row + j] = i == j ? std::sqrt(std::max(value, 1e-12)) : value / family.factor[other + j];
      }
    for (const size_t member : family.members) family.solution.push_back(clipped(figures_[member].ratio));
    forward_substitute(family.factor, family.solution);
    for (size_t i = count; i-- > 0;) {  // the transpose
      for (size_t j = i + 1; j < count; ++j)
        family.solution[i] -= family.factor[j * (j + 1) / 2 + i] * family.solution[j];
      family.solution[i] /= family.factor[i * (i + 1) / 2 + i];
    }
  }
}

FigureCorrection PublishedFigures::correction_of(const PublishedFigure& asked) const {
  FigureCorrection result;
  double variance = covariance(asked, asked);
  for (const Family& family : families_) {
    if (family.name != asked.family) continue;
    std::vector<double> near;
    std::vector<std::pair<double, size_t>> order;
    for (size_t i = 0; i < family.members.size(); ++i) {
      const size_t member = family.members[i];
      near.push_back(covariance(asked, figures_[member]));
      result.log_ratio += near.back() * family.solution[i];
      order.emplace_back(-near.back(), member);
    }
    std::sort(order.begin(), order.end());
    order.resize(std::min(order.size(), kNamedFigures));
    for (const auto& [negative, member] : order) result.from.emplace_back(figures_[member].id, figures_[member].ratio);
    forward_substitute(family.factor, near);
    for (const double value : near) variance -= value * value;
  }
  result.deviation = std::sqrt(std::max(0.0, variance) + square(kNoise));
  return result;
}

PublishedFigures read_published_figures(std::string_view text, std::string_view where) {
  const Json json = parse_json(text, where);
  const auto list = json.is_object() ? json.find("rows") : json.end();
  if (list == json.end() || !list->is_array()) fail("{}: rows: expected a list of figures", where);
  if (list->size() > kMostFigures) fail("{}: rows: expected at most {}, found {}", where, kMostFigures, list->size());
  std::vector<PublishedFigure> figures;
  for (const Json& row : *list) {
    if (!row.is_object()) fail("{}: rows: expected objects, found {}", where, row.type_name());
    PublishedFigure figure;
    figure.id = word(row, "id"), figure.task = word(row, "task"), figure.family = word(row, "family");
    figure.hardware = word(row, "hardware"), figure.model = word(row, "model");
    figure.software = word(row, "software"), figure.dtype = word(row, "dtype"), figure.options = word(row, "options");
    figure.parameters = number(row, "parameters", 0), figure.devices = number(row, "devices", 1);
    figure.batch = number(row, "batch", 0);
    figure.sequence = number(row, "sequence", 128), figure.output = number(row, "output", 100);
    figure.maturity = static_cast<int>(std::clamp(number(row, "maturity", 0), 0.0, 3.0));
    figure.ratio = number(row, "ratio", 0), figure.left_out_ratio = number(row, "left_out_ratio", 0);
    figure.promised = number(row, "promised", 0);
    for (const double value : {figure.ratio, figure.left_out_ratio})
      if (!(value > 0) || !std::isfinite(value))
        fail("{}: {}: expected ratios above 0, found {}", where, figure.id, value);
    figures.push_back(std::move(figure));
  }
  return PublishedFigures(std::move(figures));
}

std::string published_figures_json(std::span<const PublishedFigure> figures) {
  std::string text =
      "{\"comment\": \"predicted / published: ratio by the rates of the device files; left_out_ratio by rates and "
      "figures that had not seen its group; written by bench/plan_accuracy\",\n \"rows\": [\n";
  for (size_t i = 0; i < figures.size(); ++i) {
    const PublishedFigure& f = figures[i];
    text += "  " + dump_json({{"id", f.id},
                              {"task", f.task},
                              {"family", f.family},
                              {"hardware", f.hardware},
                              {"model", f.model},
                              {"software", f.software},
                              {"dtype", f.dtype},
                              {"options", f.options},
                              {"parameters", f.parameters},
                              {"devices", f.devices},
                              {"batch", f.batch},
                              {"sequence", f.sequence},
                              {"output", f.output},
                              {"maturity", f.maturity},
                              {"ratio", rounded_figure(f.ratio)},
                              {"left_out_ratio", rounded_figure(f.left_out_ratio)},
                              {"promised", rounded_figure(f.promised)}});
    text += i + 1 < figures.size() ? ",\n" : "\n";
  }
  return text + " ]}\n";
}

const PublishedFigures& shipped_figures() {
  static std::once_flag once;
  static PublishedFigures figures;
  std::call_once(once, [] {
    const fs::path file = plan_data("plan/past_errors.json");
    figures = read_published_figures(read_file(file), file.string());
  });
  return figures;
}

void correct(Plan& plan, const DeviceModel& device, const PublishedFigures& figures) {
  const FigureCorrection correction = figures.correction_of(figure_of(plan, device));
  plan.past_error.deviation = correction.deviation;
  if (correction.from.empty() || correction.log_ratio == 0) return;
  // A rate that was predicted too high by so much is a time that was too short.
  const double factor = std::exp(correction.log_ratio);
  for (double* seconds : {&plan.time.matrix, &plan.time.vector, &plan.time.memory, &plan.time.exposed_communication,
                          &plan.time.bubble, &plan.time.fixed, &plan.step_seconds, &plan.second_step_seconds,
                          &plan.first_token_seconds, &plan.token_seconds, &plan.request_seconds})
    *seconds *= factor;
  plan.samples_per_second /= factor, plan.tokens_per_second /= factor;
  std::string names;
  for (const auto& [id, ratio] : correction.from) names += fmt::format("{}{}", names.empty() ? "" : ", ", id);
  plan.assumptions.push_back(fmt::format(
      "times are {:.3g} of what the device file gives, as published figures say (nearest: {})", factor, names));
}

}  // namespace transom
