// SPDX-License-Identifier: Apache-2.0
// An explanation as tables for a terminal.
#include <algorithm>

#include "base/error.h"
#include "base/terminal/display.h"
#include "tools/explain/explanation.h"

namespace transom {
namespace {

double megabytes(int64_t bytes) { return static_cast<double>(bytes) / 1e6; }

double share(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

// Which operations a pass added and removed, the largest changes first: "-24 gelu, +24 fusion".
std::string changes(const Explanation::Pass& before, const Explanation::Pass& after) {
  std::vector<std::pair<std::string, int64_t>> differences;
  for (const auto& [name, count] : before.operations) differences.emplace_back(name, -static_cast<int64_t>(count));
  for (const auto& [name, count] : after.operations) {
    const auto known =
        std::find_if(differences.begin(), differences.end(), [&, &of = name](const auto& x) { return x.first == of; });
    if (known == differences.end()) differences.emplace_back(name, static_cast<int64_t>(count));
    else known->second += static_cast<int64_t>(count);
  }
  std::erase_if(differences, [](const auto& x) { return x.second == 0; });
  std::stable_sort(differences.begin(), differences.end(),
                   [](const auto& a, const auto& b) { return std::abs(a.second) > std::abs(b.second); });
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(differences.size(), 6); ++i)
    text += fmt::format("{}{:+} {}", i ? ", " : "", differences[i].second, differences[i].first);
  if (differences.size() > 6) text += ", ...";
  return text.empty() ? "nothing" : text;
}

std::string pass_table(const Explanation& e) {
  std::string text = fmt::format("{:<20} {:>7} {:>9}  {}\n", "PASS", "NODES", "ms", "CHANGED");
  for (size_t i = 0; i < e.passes.size(); ++i)
    text += fmt::format("{:<20} {:>7} {:>9.2f}  {}\n", e.passes[i].name, e.passes[i].nodes, e.passes[i].seconds * 1e3,
                        i ? changes(e.passes[i - 1], e.passes[i]) : "the graph as it was traced");
  return text;
}

std::string kind_table(const Explanation& e) {
  struct Sum {
    size_t kernels = 0;
    double seconds = 0, least = 0, operations = 0, bytes = 0;
  };
  std::map<std::string, Sum> sums;
  for (const Explanation::Kernel& k : e.kernels) {
    Sum& sum = sums[k.kind];
    ++sum.kernels, sum.seconds += k.seconds, sum.least += k.least, sum.operations += k.operations, sum.bytes += k.bytes;
  }
  std::vector<std::pair<std::string, Sum>> sorted(sums.begin(), sums.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  std::string text = fmt::format("{:<12} {:>8} {:>10} {:>8} {:>10} {:>10} {:>14}\n", "KIND", "KERNELS", "ms", "SHARE",
                                 "GFLOP", "GB", "LIMIT/TIME");
  for (const auto& [kind, sum] : sorted)
    text += fmt::format("{:<12} {:>8} {:>10.3f} {:>6.1f} % {:>10.3f} {:>10.3f} {:>12.1f} %\n", kind, sum.kernels,
                        sum.seconds * 1e3, share(sum.seconds, e.kernel_seconds), sum.operations * 1e-9,
                        sum.bytes * 1e-9, share(sum.least, sum.seconds));
  return text;
}

// Kernels of one operation on the same types, the longest first.
std::string kernel_table(const Explanation& e, size_t rows) {
  struct Row {
    const Explanation::Kernel* first;
    size_t count = 0;
    double seconds = 0, least = 0;
  };
  std::map<std::string, Row> merged;
  for (const Explanation::Kernel& k : e.kernels) {
    Row& row = merged.try_emplace(k.operation + k.kernel + k.types, Row{&k}).first->second;
    ++row.count, row.seconds += k.seconds, row.least += k.least;
  }
  std::vector<Row> sorted;
  for (const auto& [key, row] : merged) sorted.push_back(row);
  std::stable_sort(sorted.begin(), sorted.end(), [](const Row& a, const Row& b) { return a.seconds > b.seconds; });
  std::string text = fmt::format("{:<40} {:<28} {:>5} {:>9} {:>7} {:>9} {:>8} {:>11} {:>6}  {}\n", "OPERATION",
                                 "KERNEL", "COUNT", "ms", "SHARE", "GFLOP/s", "GB/s", "LIMIT/TIME", "BY", "TYPES");
  for (size_t i = 0; i < std::min(rows, sorted.size()); ++i) {
    const Row& row = sorted[i];
    const double count = static_cast<double>(row.count), seconds = std::max(row.seconds, 1e-12);
    text +=
        fmt::format("{:<40} {:<28} {:>5} {:>9.3f} {:>5.1f} % {:>9.1f} {:>8.1f} {:>9.1f} % {:>6}  {}\n",
                    shortened(row.first->operation, 40), shortened(row.first->kernel, 28), row.count, row.seconds * 1e3,
                    share(row.seconds, e.kernel_seconds), row.first->operations * count / seconds * 1e-9,
                    row.first->bytes * count / seconds * 1e-9, share(row.least, row.seconds),
                    row.first->by_memory ? "memory" : "units", shortened(row.first->types, 80));
  }
  if (sorted.size() > rows) text += fmt::format("and {} more\n", sorted.size() - rows);
  return text;
}

std::string memory_table(const Explanation& e) {
  std::string text = fmt::format(
      "arena {:.1f} MB, peak live memory {:.1f} MB ({:.3f} of it); inputs {:.1f} MB ({} donated), outputs "
      "{:.1f} MB\n",
      megabytes(e.arena_bytes), megabytes(e.live_maximum),
      e.live_maximum ? static_cast<double>(e.arena_bytes) / static_cast<double>(e.live_maximum) : 1.0,
      megabytes(e.input_bytes), e.donated_inputs, megabytes(e.output_bytes));
  if (e.live.empty()) return text;
  const int fullest = static_cast<int>(std::max_element(e.live.begin(), e.live.end()) - e.live.begin());
  std::vector<const Explanation::Value*> there;
  for (const Explanation::Value& value : e.values)
    if (value.first <= fullest && fullest <= value.last) there.push_back(&value);
  std::stable_sort(there.begin(), there.end(), [](const auto* a, const auto* b) { return a->bytes > b->bytes; });
  const Explanation::Kernel& kernel = e.kernels[static_cast<size_t>(fullest)];
  text += fmt::format("fullest at node {} ({}{}{}), the largest values then:\n{:<8} {:>10} {:>12} {:>6} {:>6}  {}\n",
                      fullest, shortened(kernel.operation, 50), kernel.scope.empty() ? "" : " of ", kernel.scope,
                      "VALUE", "MB", "OFFSET", "FIRST", "LAST", "MADE BY");
  for (size_t i = 0; i < std::min<size_t>(there.size(), 12); ++i) {
    const Explanation::Kernel& maker = e.kernels[there[i]->node];
    text += fmt::format("{:<8} {:>10.3f} {:>12} {:>6} {:>6}  {}{}{}\n", there[i]->name, megabytes(there[i]->bytes),
                        there[i]->offset, there[i]->first, there[i]->last, shortened(maker.operation, 50),
                        maker.scope.empty() ? "" : " of ", maker.scope);
  }
  return text;
}

}  // namespace

std::string host_text(const Explanation& e) {
  if (e.host_nodes == 0) return "";
  std::map<std::string, size_t> counts;
  for (const Explanation::Kernel& kernel : e.kernels)
    if (kernel.on_host) ++counts[kernel.operation];
  std::vector<std::string> names;
  for (const auto& [name, count] : counts) names.push_back(fmt::format("{} {}", count, name));
  return fmt::format(
      "the device does not run {} of {} nodes ({}): the host does, and the program is cut into {} pieces\n\n",
      e.host_nodes, e.kernels.size(), fmt::join(names, ", "), e.pieces);
}

std::string explanation_table(const Explanation& e, size_t rows) {
  std::string text = fmt::format("{} ({}): {} on {}, {} threads, {}, mode {}\n", e.model, e.model_type, e.task,
                                 e.device, e.threads, e.dtype, e.mode);
  text += fmt::format("device: {}\nlimits measured here: {}\n", e.device_notes, text_of(e.limits));
  text += fmt::format(
      "a run takes {:.3f} ms, its kernels {:.3f} ms; the limits allow {:.3f} ms ({:.1f} %); {} programs, this one "
      "compiled in {:.1f} ms\n\n",
      e.run_seconds * 1e3, e.kernel_seconds * 1e3, e.least_seconds * 1e3, share(e.least_seconds, e.run_seconds),
      e.programs, e.compile_seconds * 1e3);
  text += machine_text(e);
  text += host_text(e);
  return text + pass_table(e) + "\n" + kind_table(e) + "\n" + kernel_table(e, rows) + "\n" + memory_table(e);
}

}  // namespace transom
