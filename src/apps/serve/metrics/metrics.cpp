// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/metrics/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace transom::serve {
namespace {

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\' || c == '"') result += '\\', result += c;
    else if (c == '\n') result += "\\n";
    else result += c;
  }
  return result;
}

// {a="b",le="1"}; nothing without labels.
std::string braces(const Labels& labels, const std::string& bound = "") {
  std::string text;
  for (const auto& [name, value] : labels)
    text += fmt::format("{}{}=\"{}\"", text.empty() ? "" : ",", name, escaped(value));
  if (!bound.empty()) text += fmt::format("{}le=\"{}\"", text.empty() ? "" : ",", bound);
  return text.empty() ? text : "{" + text + "}";
}

std::string number(double value) {
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  if (std::isnan(value)) return "NaN";
  if (value == std::floor(value) && std::abs(value) < 1e15) return fmt::format("{}", static_cast<int64_t>(value));
  return fmt::format("{}", value);
}

}  // namespace

void Counter::add(double amount) {
  double before = value_.load(std::memory_order_relaxed);
  while (!value_.compare_exchange_weak(before, before + amount, std::memory_order_relaxed)) {
  }
}

Histogram::Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}

void Histogram::observe(double value, uint64_t times) {
  const auto bucket = static_cast<size_t>(std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin());
  const std::lock_guard lock(mutex_);
  counts_[bucket] += times;
  sum_ += value * static_cast<double>(times);
}

Metrics::Series& Metrics::series(const std::string& name, const std::string& help, const char* type,
                                 const Labels& labels) {
  Family& family = families_[name];
  if (family.type.empty()) family.help = help, family.type = type;
  for (Series& each : family.series)
    if (each.labels == labels) return each;
  Series& added = family.series.emplace_back();
  added.labels = labels;
  return added;
}

Counter& Metrics::counter(const std::string& name, const std::string& help, const Labels& labels) {
  const std::lock_guard lock(mutex_);
  Series& found = series(name, help, "counter", labels);
  if (!found.counter) found.counter = std::make_unique<Counter>();
  return *found.counter;
}

Histogram& Metrics::histogram(const std::string& name, const std::string& help, const std::vector<double>& bounds,
                              const Labels& labels) {
  const std::lock_guard lock(mutex_);
  Series& found = series(name, help, "histogram", labels);
  if (!found.histogram) found.histogram = std::make_unique<Histogram>(bounds);
  return *found.histogram;
}

void Metrics::gauge(const std::string& name, const std::string& help, const Labels& labels,
                    std::function<double()> value) {
  const std::lock_guard lock(mutex_);
  series(name, help, name.ends_with("_total") ? "counter" : "gauge", labels).gauge = std::move(value);
}

void Metrics::drop_gauges() {
  const std::lock_guard lock(mutex_);
  for (auto& [name, family] : families_)
    for (Series& each : family.series) each.gauge = nullptr;
}

std::string Metrics::text() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const auto& [name, family] : families_) {
    text += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, family.help, name, family.type);
    for (const Series& each : family.series) {
      if (each.counter) text += fmt::format("{}{} {}\n", name, braces(each.labels), number(each.counter->value()));
      if (each.gauge) text += fmt::format("{}{} {}\n", name, braces(each.labels), number(each.gauge()));
      if (!each.histogram) continue;
      const Histogram& histogram = *each.histogram;
      const std::lock_guard histogram_lock(histogram.mutex_);
      uint64_t total = 0;
      for (size_t i = 0; i < histogram.counts_.size(); ++i) {
        total += histogram.counts_[i];
        const std::string bound = i < histogram.bounds_.size() ? number(histogram.bounds_[i]) : "+Inf";
        text += fmt::format("{}_bucket{} {}\n", name, braces(each.labels, bound), total);
      }
      text += fmt::format("{}_sum{} {}\n", name, braces(each.labels), number(histogram.sum_));
      text += fmt::format("{}_count{} {}\n", name, braces(each.labels), total);
    }
  }
  return text;
}

}  // namespace transom::serve
