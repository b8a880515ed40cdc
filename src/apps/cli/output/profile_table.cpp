// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/output/profile_table.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/terminal/display.h"

namespace transom {
namespace {

std::string rate_of(const Profile::Kernel& kernel) {
  const double seconds = std::max(kernel.seconds, 1e-9);
  if (kernel.bytes == 0) return "-";
  return kernel.arithmetic > 0 ? fmt::format("{:.1f} GFLOP/s", kernel.arithmetic / seconds * 1e-9)
                               : fmt::format("{:.1f} GB/s", kernel.bytes / seconds * 1e-9);
}

}  // namespace

void expect_writable(const std::string& file) {
  const fs::path folder = fs::path(file).parent_path();
  if (!folder.empty() && !directory_exists(folder)) fail("{}: there is no directory {}", file, folder.string());
  if (directory_exists(file)) fail("{}: cannot be written: it is a directory", file);
}

std::string profile_table(Profile& profile, size_t rows) {
  const Profile::Summary summary = profile.summary();
  const std::vector<Profile::Kernel> kernels = profile.kernels();
  const double whole = std::max(summary.seconds, 1e-9), busy = std::max(summary.kernel_seconds, 1e-9);
  const double host = summary.seconds - summary.run_seconds - summary.compile_seconds;
  std::string text;
  const auto line = [&](const char* what, double seconds, const std::string& note) {
    text += fmt::format("{:<28} {:>11.3f} s {:>6.1f} %  {}\n", what, seconds, 100 * seconds / whole, note);
  };
  line("profiled", summary.seconds, "");
  line("kernels", summary.kernel_seconds, "");
  line("programs beside kernels", summary.run_seconds - summary.kernel_seconds, fmt::format("{} runs", summary.runs));
  line("compilation", summary.compile_seconds, fmt::format("{} programs", summary.compilations));
  line("host beside programs", host, "tracing, data, waiting for the caller");
  text += fmt::format("\n{:<44} {:<32} {:>7} {:>10} {:>7} {:>10} {:>15}  {}\n", "OPERATION", "KERNEL", "CALLS",
                      "TOTAL ms", "SHARE", "MEAN us", "RATE", "TYPES");
  for (size_t i = 0; i < std::min(rows, kernels.size()); ++i) {
    const Profile::Kernel& k = kernels[i];
    text += fmt::format("{:<44} {:<32} {:>7} {:>10.2f} {:>5.1f} % {:>10.1f} {:>15}  {}\n", shortened(k.operation, 44),
                        shortened(k.kernel, 32), k.calls, k.seconds * 1e3, 100 * k.seconds / busy,
                        k.seconds * 1e6 / static_cast<double>(k.calls), rate_of(k), shortened(k.types, 96));
  }
  if (kernels.size() > rows) {
    double rest = 0;
    for (size_t i = rows; i < kernels.size(); ++i) rest += kernels[i].seconds;
    text += fmt::format("{:<85} {:>10.2f} {:>5.1f} %\n", fmt::format("{} more", kernels.size() - rows), rest * 1e3,
                        100 * rest / busy);
  }
  return text;
}

}  // namespace transom
