// SPDX-License-Identifier: Apache-2.0
// Counters, gauges and histograms in Prometheus' text format 0.0.4. Any thread may change and write them.
// https://prometheus.io/docs/instrumenting/exposition_formats/
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace transom::serve {

// Label values come from the server's configuration or from its code, never from a request: each makes a series.
using Labels = std::vector<std::pair<std::string, std::string>>;

class Counter {
 public:
  void add(double amount = 1);
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds);
  void observe(double value, uint64_t times = 1);

 private:
  friend class Metrics;
  std::vector<double> bounds_;  // upper ones, rising; that of the last bucket is infinity
  mutable std::mutex mutex_;
  std::vector<uint64_t> counts_;
  double sum_ = 0;
};

class Metrics {
 public:
  // The series of that name and these labels, made where it is new. It lives as long as this object. `help` and
  // `bounds` count where the name is new.
  Counter& counter(const std::string& name, const std::string& help, const Labels& labels = {});
  Histogram& histogram(const std::string& name, const std::string& help, const std::vector<double>& bounds,
                       const Labels& labels = {});
  // Asked for each time the metrics are written. What is called ..._total is declared as a counter: it never falls.
  void gauge(const std::string& name, const std::string& help, const Labels& labels, std::function<double()> value);
  // No gauge is asked from now on: what they look at goes.
  void drop_gauges();
  std::string text() const;

 private:
  struct Series {
    Labels labels;
    std::unique_ptr<Counter> counter;
    std::unique_ptr<Histogram> histogram;
    std::function<double()> gauge;
  };
  struct Family {
    std::string help, type;
    std::list<Series> series;
  };
  Series& series(const std::string& name, const std::string& help, const char* type, const Labels& labels);
  mutable std::mutex mutex_;
  std::map<std::string, Family> families_;
};

// process_resident_memory_bytes, process_cpu_seconds_total, process_open_fds, process_start_time_seconds.
void add_process_metrics(Metrics& metrics);

}  // namespace transom::serve
