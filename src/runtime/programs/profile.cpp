// SPDX-License-Identifier: Apache-2.0
#include "runtime/programs/profile.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "base/error.h"
#include "base/json/json.h"
#include "runtime/programs/node_costs.h"

namespace transom {
namespace {

std::atomic<Profile*> active = nullptr;
std::mutex active_mutex;  // held where a run or a compilation begins or ends, and where a profile does

constexpr size_t kMaximumEvents = 500'000;  // about 100 MB of JSON

uint64_t now() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

double seconds_of(uint64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

}  // namespace

Profile::Profile(std::shared_ptr<Device> device) : device_(std::move(device)), start_(now()) {
  if (!device_->table().profile)
    fail(ErrorKind::kDevice, "device {} cannot say what it runs; profile on another one", device_->name());
  Profile* none = nullptr;
  if (!active.compare_exchange_strong(none, this)) fail("a profile is on already");
  transom_error error{};
  const transom_status status = device_->table().profile(device_->handle(), &Profile::on_kernel, this, &error);
  if (status != TRANSOM_OK) active = nullptr;
  device_->expect_ok(status, error);
}

Profile::~Profile() { stop(); }

void Profile::stop() {
  if (std::exchange(stopped_, true)) return;
  transom_error error{};
  // A program that another thread runs reports to this profile until it ends.
  const auto turn = device_->take_turn();
  device_->table().profile(device_->handle(), nullptr, nullptr, &error);
  const std::lock_guard ending(active_mutex);
  active = nullptr;
  stop_ = now();
  summary_.seconds = seconds_of(stop_ - start_);
}

void Profile::on_kernel(void* self, size_t node, const char* kernel, uint64_t begin, uint64_t end) {
  static_cast<Profile*>(self)->add(node, kernel, begin, end);
}

void Profile::add(size_t node, const char* kernel, Nanoseconds begin, Nanoseconds end) {
  const std::lock_guard lock(mutex_);
  if (!running_ || node >= running_->size() || end < begin) return;
  Total& total = (*running_totals_)[node];
  if (!total.kernel) total.kernel = &names_.try_emplace(kernel ? kernel : "").first->first;
  ++total.calls;
  total.time += end - begin;
  summary_.kernel_seconds += seconds_of(end - begin);
  if (events_.size() < kMaximumEvents) events_.push_back({(*running_)[node].get(), total.kernel, begin, end});
  else ++summary_.left_out;
}

Profile::Summary Profile::summary() {
  stop();
  return summary_;
}

std::vector<Profile::Kernel> Profile::kernels() {
  stop();
  std::map<std::tuple<std::string, std::string, std::string>, Kernel> merged;
  for (const auto& [nodes, totals] : totals_)
    for (size_t i = 0; i < totals.size(); ++i) {
      const Total& total = totals[i];
      if (!total.calls) continue;
      const Node& node = *(*nodes)[i];
      Kernel& kernel = merged[{operation_of(node), *total.kernel, types_of(node)}];
      kernel.calls += total.calls;
      kernel.seconds += seconds_of(total.time);
      kernel.bytes += bytes_of(node) * static_cast<double>(total.calls);
      kernel.arithmetic += arithmetic_of(node) * static_cast<double>(total.calls);
    }
  std::vector<Kernel> result;
  for (auto& [key, kernel] : merged) {
    std::tie(kernel.operation, kernel.kernel, kernel.types) = key;
    result.push_back(std::move(kernel));
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const Kernel& a, const Kernel& b) { return a.seconds > b.seconds; });
  return result;
}

std::vector<Profile::NodeTime> Profile::node_times(const ProgramNodes& program) {
  stop();
  std::vector<NodeTime> times;
  const auto found = totals_.find(program);
  if (found == totals_.end()) return times;
  for (const Total& total : found->second)
    times.push_back({total.kernel ? *total.kernel : "", total.calls, seconds_of(total.time)});
  return times;
}

std::vector<Profile::Moment> Profile::last_run(const ProgramNodes& program) {
  stop();
  std::map<const Node*, size_t> index;
  for (size_t i = 0; i < program->size(); ++i) index.emplace((*program)[i].get(), i);
  std::vector<Moment> moments;
  std::vector<bool> seen(program->size());
  for (auto event = events_.rbegin(); event != events_.rend(); ++event) {
    const auto node = index.find(event->node);
    if (node == index.end()) continue;
    if (seen[node->second]) break;
    seen[node->second] = true;
    moments.push_back({node->second, seconds_of(event->begin), seconds_of(event->end)});
  }
  std::reverse(moments.begin(), moments.end());
  if (!moments.empty())
    for (const double start = moments[0].begin; Moment & moment : moments) moment.begin -= start, moment.end -= start;
  return moments;
}

void Profile::write_trace(const fs::path& path) {
  stop();
  AtomicFile file(path);
  const auto micro = [&](Nanoseconds time) { return static_cast<double>(static_cast<int64_t>(time - start_)) * 1e-3; };
  const auto text = [](std::string_view value) { return dump_json(Json(value)); };
  const auto begin_event = [&](std::string_view name, const char* category, int row, Nanoseconds begin,
                               Nanoseconds end) {
    file.write(
        fmt::format(R"(,{}{{"name": {}, "cat": "{}", "ph": "X", "pid": 1, "tid": {}, "ts": {:.3f}, "dur": {:.3f})",
                    "\n", text(name), category, row, micro(begin), micro(end) - micro(begin)));
  };
  constexpr int kHost = 1, kDevice = 2;
  file.write(fmt::format(R"({{"displayTimeUnit": "ms", "traceEvents": [
{{"name": "process_name", "ph": "M", "pid": 1, "args": {{"name": "transom"}}}},
{{"name": "thread_name", "ph": "M", "pid": 1, "tid": 1, "args": {{"name": "programs"}}}},
{{"name": "thread_name", "ph": "M", "pid": 1, "tid": 2, "args": {{"name": {}}}}})",
                         text("kernels on " + device_->name())));
  for (const Span& span : spans_) {
    begin_event(span.name, "program", kHost, span.begin, span.end);
    file.write("}");
  }
  for (const Event& event : events_) {
    begin_event(event.node->operation->name, "kernel", kDevice, event.begin, event.end);
    file.write(fmt::format(R"(, "args": {{"kernel": {}, "scope": {}, "types": {}}}}})", text(*event.kernel),
                           text(event.node->scope ? *event.node->scope : ""), text(types_of(*event.node))));
  }
  file.write("\n]}\n");
  file.commit();
}

ProfiledRun::ProfiledRun(const ProgramNodes& nodes, Device& device) : profile_(active.load()), device_(device) {
  if (!profile_) return;
  const std::lock_guard beginning(active_mutex);
  if (active != profile_) {  // it has just ended
    profile_ = nullptr;
    return;
  }
  const std::lock_guard lock(profile_->mutex_);
  std::vector<Profile::Total>& totals = profile_->totals_[nodes];
  totals.resize(nodes->size());
  profile_->running_totals_ = &totals;
  profile_->running_ = nodes.get();
  first_event_ = profile_->events_.size();
  begin_ = now();
}

ProfiledRun::~ProfiledRun() {
  if (!profile_) return;
  transom_error error{};
  device_.table().stream_synchronize(device_.stream(), &error);  // what fails here fails at the next read again
  const uint64_t end = now();
  const std::lock_guard ending(active_mutex);
  if (active != profile_) return;
  const std::lock_guard lock(profile_->mutex_);
  auto& events = profile_->events_;
  // A device with a clock of its own: its first kernel begins with the program.
  if (first_event_ < events.size() && (events[first_event_].begin < begin_ || events[first_event_].begin > end)) {
    const uint64_t shift = begin_ - events[first_event_].begin;  // modulo 2^64
    for (size_t i = first_event_; i < events.size(); ++i) events[i].begin += shift, events[i].end += shift;
  }
  profile_->spans_.push_back({fmt::format("program of {} nodes", profile_->running_->size()), begin_, end});
  profile_->running_ = nullptr;
  profile_->running_totals_ = nullptr;
  ++profile_->summary_.runs;
  profile_->summary_.run_seconds += seconds_of(end - begin_);
}

ProfiledCompilation::ProfiledCompilation() : profile_(active.load()), begin_(profile_ ? now() : 0) {}

ProfiledCompilation::~ProfiledCompilation() {
  if (!profile_) return;
  const uint64_t end = now();
  const std::lock_guard ending(active_mutex);
  if (active != profile_) return;  // it has ended meanwhile
  const std::lock_guard lock(profile_->mutex_);
  profile_->spans_.push_back({"compile", begin_, end});
  ++profile_->summary_.compilations;
  profile_->summary_.compile_seconds += seconds_of(end - begin_);
}

}  // namespace transom
