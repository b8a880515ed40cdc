// SPDX-License-Identifier: Apache-2.0
// What ran, kernel by kernel, while a Profile lives: totals by kernel, and a trace that Perfetto and chrome://tracing
// open. A device that works in the background is waited for after each program, so that its kernels find their program.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/files.h"
#include "graph/ir/graph.h"
#include "runtime/device/device.h"

namespace transom {

// The nodes of a compiled program, by the index that the device reports.
using ProgramNodes = std::shared_ptr<const std::vector<std::shared_ptr<Node>>>;

class Profile {
 public:
  // Starts. Refuses a device without a profiler, and a second profile at the same time.
  explicit Profile(std::shared_ptr<Device> device = default_device());
  ~Profile();
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;
  void stop();  // what comes after is not counted; reading stops it too

  // Nodes of one operation on the same types that the same kernel computed.
  struct Kernel {
    std::string operation;  // "linear"; a fusion with what it consists of, "fusion(mul add tanh)"
    std::string kernel;     // what the device says ran, "onednn brgemm avx512"
    std::string types;      // "f32[8, 768], f32[3072, 768] -> f32[8, 3072]"
    uint64_t calls = 0;
    double seconds = 0;     // of all calls
    double bytes = 0;       // of all calls, that must be read and written at least
    double arithmetic = 0;  // of all calls: multiplications and additions of matrix products; 0 for the rest
  };
  std::vector<Kernel> kernels();  // the longest first

  struct Summary {
    double seconds = 0;         // from start to stop
    uint64_t runs = 0;          // of programs
    double run_seconds = 0;     // inside programs
    double kernel_seconds = 0;  // inside kernels
    uint64_t compilations = 0;
    double compile_seconds = 0;
    uint64_t left_out = 0;  // kernels that are counted above, but are not in the trace, which would be too large
  };
  Summary summary();

  // Of the nodes of one program, by their place in it; empty if it did not run.
  struct NodeTime {
    std::string kernel;
    uint64_t calls = 0;
    double seconds = 0;  // of all calls
  };
  std::vector<NodeTime> node_times(const ProgramNodes& program);

  // When the kernels of the program's last run began and ended, in seconds from the first one's beginning.
  struct Moment {
    size_t node;
    double begin, end;
  };
  std::vector<Moment> last_run(const ProgramNodes& program);

  // Chrome's trace events: one row of programs and compilations, one of kernels; times in microseconds since the start.
  void write_trace(const fs::path& path);

 private:
  friend class ProfiledRun;
  friend class ProfiledCompilation;
  using Nanoseconds = uint64_t;
  struct Span {
    std::string name;
    Nanoseconds begin, end;
  };
  struct Event {
    const Node* node;
    const std::string* kernel;
    Nanoseconds begin, end;
  };
  struct Total {
    const std::string* kernel = nullptr;
    uint64_t calls = 0;
    Nanoseconds time = 0;
  };
  static void on_kernel(void* self, size_t node, const char* kernel, uint64_t begin, uint64_t end);
  void add(size_t node, const char* kernel, Nanoseconds begin, Nanoseconds end);

  std::shared_ptr<Device> device_;
  std::mutex mutex_;
  bool stopped_ = false;
  Nanoseconds start_, stop_ = 0;
  std::map<std::string, int, std::less<>> names_;  // of kernels; the keys stay where they are
  std::map<ProgramNodes, std::vector<Total>> totals_;
  std::vector<Total>* running_totals_ = nullptr;
  const std::vector<std::shared_ptr<Node>>* running_ = nullptr;
  std::vector<Event> events_;
  std::vector<Span> spans_;
  Summary summary_;
};

// The run of a program, from which the kernels that the device reports come; nothing where no profile is on.
class ProfiledRun {
 public:
  ProfiledRun(const ProgramNodes& nodes, Device& device);
  ~ProfiledRun();
  ProfiledRun(const ProfiledRun&) = delete;
  ProfiledRun& operator=(const ProfiledRun&) = delete;

 private:
  Profile* profile_;
  Device& device_;
  size_t first_event_ = 0;
  uint64_t begin_ = 0;
};

class ProfiledCompilation {
 public:
  ProfiledCompilation();
  ~ProfiledCompilation();
  ProfiledCompilation(const ProfiledCompilation&) = delete;
  ProfiledCompilation& operator=(const ProfiledCompilation&) = delete;

 private:
  Profile* profile_;
  uint64_t begin_ = 0;
};

}  // namespace transom
