// SPDX-License-Identifier: Apache-2.0
#include "base/threads/threads.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace transom {
namespace {

constexpr int kSpins = 200'000;  // about 2 ms

void pause_briefly() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

// Up to two whole numbers at the beginning of a file; -1 where there are none.
std::pair<long long, long long> numbers_of(const char* path) {
  std::pair<long long, long long> found{-1, -1};
  if (std::FILE* file = std::fopen(path, "r")) {
    if (std::fscanf(file, "%lld %lld", &found.first, &found.second) < 1) found = {-1, -1};
    std::fclose(file);
  }
  return found;
}

size_t cgroup_limit() {
  auto [quota, period] = numbers_of("/sys/fs/cgroup/cpu.max");
  if (quota < 0) {  // the first version of control groups
    quota = numbers_of("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").first;
    period = numbers_of("/sys/fs/cgroup/cpu/cpu.cfs_period_us").first;
  }
  return quota > 0 && period > 0 ? static_cast<size_t>((quota + period - 1) / period) : SIZE_MAX;
}

// The cores that the process may use, in their order.
std::vector<int> usable_cores() {
  std::vector<int> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

// A worker stays on a core of its own if it is told to and there is one for every thread. The caller moves freely.
void pin_worker(size_t index, size_t threads) {
  static const std::vector<int> cores = usable_cores();
  const char* text = std::getenv("TRANSOM_PIN_THREADS");
  if (!text || std::string_view(text) != "1" || cores.size() != threads) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cores[index], &set);
  sched_setaffinity(0, sizeof set, &set);
}

// Our own variable must be a number; OpenMP's, which is a list in some programs, counts where it begins with one.
size_t decide_thread_count() {
  constexpr size_t kMost = 1024;
  if (const char* text = std::getenv("TRANSOM_NUM_THREADS"); text && *text) {
    const std::string_view word = text;
    size_t count = 0;
    const auto [end, error] = std::from_chars(word.begin(), word.end(), count);
    if (error != std::errc() || end != word.end() || count == 0)
      fail("TRANSOM_NUM_THREADS: expected a number of threads above 0, found {}; without it, all cores compute",
           quoted(word));
    return std::min(count, kMost);
  }
  if (const char* text = std::getenv("OMP_NUM_THREADS")) {
    const long count = std::strtol(text, nullptr, 10);
    if (count > 0) return std::min(static_cast<size_t>(count), kMost);
  }
  size_t cores = usable_cores().size();
  if (cores == 0) cores = std::max(1u, std::thread::hardware_concurrency());
  cores = std::min(cores, cgroup_limit());
  // Processes that were launched together share the cores, where their launcher has not dealt them out.
  for (const char* name : {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE",
                           "MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"}) {
    const char* text = std::getenv(name);
    const long processes = text ? std::strtol(text, nullptr, 10) : 0;
    if (processes <= 1) continue;
    const bool dealt = cores < std::min<size_t>(std::max(1u, std::thread::hardware_concurrency()), cgroup_limit());
    return dealt ? cores : std::max<size_t>(1, cores / static_cast<size_t>(processes));
  }
  return cores;
}

thread_local bool inside_body = false;

// One call of parallel(). Lives on the caller's stack; `users` counts the workers that may still touch it.
struct Job {
  size_t count;
  void* context;
  void (*body)(void*, size_t);
  std::atomic<size_t> next{0};
  std::atomic<size_t> done{0};
  std::atomic<int> users{0};
  std::mutex error_mutex;
  std::exception_ptr error;

  void take_chunks() {
    inside_body = true;
    for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) {
      try {
        body(context, i);
      } catch (...) {
        std::lock_guard lock(error_mutex);
        if (!error) error = std::current_exception();
      }
      done.fetch_add(1, std::memory_order_release);
    }
    inside_body = false;
  }
};

class Pool {
 public:
  explicit Pool(size_t threads) {
    for (size_t i = 1; i < threads; ++i)
      workers_.emplace_back([this, i, threads] {
        pin_worker(i, threads);
        work();
      });
  }

  ~Pool() {
    {
      std::lock_guard lock(mutex_);
      stopping_.store(true);
      ++epoch_;
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  void run(Job& job) {
    std::unique_lock only_one(callers_, std::try_to_lock);
    if (!only_one.owns_lock() || workers_.empty())
      return job.take_chunks();  // another thread has the pool: do it alone
    publish(&job);
    job.take_chunks();
    publish(nullptr);
    while (job.done.load(std::memory_order_acquire) < job.count || job.users.load(std::memory_order_acquire) > 0)
      pause_briefly();
  }

 private:
  void publish(Job* job) {
    {
      std::lock_guard lock(slot_);
      job_ = job;
    }
    if (!job) return;
    epoch_.fetch_add(1, std::memory_order_release);
    if (sleepers_.load() > 0) {
      std::lock_guard lock(mutex_);
      wake_.notify_all();
    }
  }

  Job* enter() {
    std::lock_guard lock(slot_);
    if (job_) job_->users.fetch_add(1, std::memory_order_relaxed);
    return job_;
  }

  void work() {
    uint64_t seen = 0;
    while (true) {
      for (int spin = 0; epoch_.load(std::memory_order_acquire) == seen && spin < kSpins; ++spin) pause_briefly();
      if (epoch_.load(std::memory_order_acquire) == seen) {
        std::unique_lock lock(mutex_);
        ++sleepers_;
        wake_.wait(lock, [&] { return epoch_.load() != seen; });
        --sleepers_;
      }
      seen = epoch_.load(std::memory_order_acquire);
      if (stopping_.load()) return;
      if (Job* job = enter()) {
        job->take_chunks();
        job->users.fetch_sub(1, std::memory_order_release);
      }
    }
  }

  std::mutex callers_;  // held by the thread whose job runs
  std::mutex slot_;     // guards job_
  Job* job_ = nullptr;
  std::atomic<uint64_t> epoch_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::thread> workers_;
};

}  // namespace

size_t thread_count() {
  static const size_t count = decide_thread_count();
  return count;
}

void parallel(size_t count, void* context, void (*body)(void* context, size_t i)) {
  if (inside_body || count <= 1 || thread_count() == 1) {
    for (size_t i = 0; i < count; ++i) body(context, i);
    return;
  }
  static Pool pool(thread_count());
  Job job{.count = count, .context = context, .body = body};
  pool.run(job);
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace transom
