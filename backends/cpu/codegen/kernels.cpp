// SPDX-License-Identifier: Apache-2.0
#include "cpu/codegen/kernels.h"

#include <fmt/format.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "cpu/codegen/cache.h"
#include "cpu/codegen/library.h"
#include "cpu/device/lru_cache.h"
#include "cpu/device/threads.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace transom::cpu::codegen {
namespace {

// Interpreted element-instructions, of which a core does about two in a nanosecond, after which a kernel is looked for
// on the disk, and after which it is worth compiling: the first one opens LLVM, which takes longer than many a program
// runs.
constexpr int64_t kWorthReading = 4 << 20, kWorthCompiling = 128 << 20;

constexpr size_t kMostKept = 1024;

}  // namespace

// The threads that make code, and the list of what they have to make.
class Compiler {
 public:
  static Compiler& instance() {
    static Compiler compiler;
    return compiler;
  }

  ~Compiler() { stop(); }

  std::shared_ptr<GeneratedKernel> find(Recipe recipe) {
    const std::string key = recipe.key();
    const auto kernel = kernels_.find(key, [&] { return std::make_shared<GeneratedKernel>(std::move(recipe)); });
    if (mode() == Mode::kWait) kernel->waits_ = true;
    return kernel;
  }

  // Ends the threads; what is being compiled is compiled to its end.
  void stop() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  void want(GeneratedKernel& kernel) {
    {
      std::lock_guard lock(mutex_);
      enqueue(kernel);
    }
    wake_.notify_one();
  }

  // A kernel that was looked for on the disk alone, before its callers waited, is wanted once more.
  void wait_for(GeneratedKernel& kernel) {
    std::unique_lock lock(mutex_);
    while (!stopping_ && kernel.state_ <= GeneratedKernel::kWanted) {
      enqueue(kernel);
      wake_.notify_one();
      made_.wait(lock, [&] { return stopping_ || kernel.state_ != GeneratedKernel::kWanted; });
    }
  }

 private:
  void enqueue(GeneratedKernel& kernel) {
    int idle = GeneratedKernel::kIdle;
    if (stopping_ || !kernel.state_.compare_exchange_strong(idle, GeneratedKernel::kWanted)) return;
    wanted_.push_back(kernel.shared_from_this());
    const size_t most = kernel.waits_ ? thread_count() : 1;  // in the background, one core works on
    if (idle_ < wanted_.size() && threads_.size() < most) start_thread();
  }

  void start_thread() {
    try {
      threads_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      // Without a thread the interpreter goes on; a waiting caller would never be woken.
      if (threads_.empty()) {
        for (const auto& kernel : wanted_) kernel->state_ = GeneratedKernel::kImpossible;
        wanted_.clear();
        made_.notify_all();
      }
    }
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      ++idle_;
      wake_.wait(lock, [&] { return stopping_ || !wanted_.empty(); });
      --idle_;
      if (stopping_) return;
      std::shared_ptr<GeneratedKernel> owner = std::move(wanted_.front());
      GeneratedKernel& kernel = *owner;
      wanted_.pop_front();
      lock.unlock();
      const bool compiles = kernel.waits_ || kernel.work_ >= kWorthCompiling;
      kernel.memory_ = make(kernel, compiles);
      const auto entry = reinterpret_cast<GeneratedKernel::Entry>(kernel.memory_.entry());
      lock.lock();
      kernel.entry_.store(entry, std::memory_order_release);
      kernel.threshold_ = kWorthCompiling;
      kernel.state_ = entry      ? GeneratedKernel::kReady
                      : compiles ? GeneratedKernel::kImpossible
                                 : GeneratedKernel::kIdle;
      made_.notify_all();
      lock.unlock();  // the kernel may end here
      owner.reset();
      lock.lock();
    }
  }

  static ExecutableMemory make(const GeneratedKernel& kernel, bool compiles) {
    try {
      const DiskCache cache = DiskCache::from_environment();
      const std::string text = generate(kernel.recipe_);
      std::optional<Code> code = cache.read(target(), text);
      if (!code) {
        if (!compiles) return {};
        std::string error;
        code = compile_text(text, error);
        if (!code) {
          the_host.log(TRANSOM_LOG_DEBUG, fmt::format("kernel {:016x} is interpreted: {}", kernel.id(), error).c_str());
          return {};
        }
        cache.write(target(), text, *code);
      }
      return ExecutableMemory(*code);
    } catch (const std::exception& exception) {
      the_host.log(TRANSOM_LOG_DEBUG,
                   fmt::format("kernel {:016x} is interpreted: {}", kernel.id(), exception.what()).c_str());
      return {};
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, made_;
  LruCache<std::string, GeneratedKernel> kernels_{kMostKept};
  std::deque<std::shared_ptr<GeneratedKernel>> wanted_;
  std::vector<std::thread> threads_;
  size_t idle_ = 0;
  bool stopping_ = false;
};

GeneratedKernel::GeneratedKernel(Recipe recipe)
    : recipe_(std::move(recipe)), key_(recipe_.key()), id_(hash_bytes(key_, 0)), threshold_(kWorthReading) {
  for (const Opcode opcode : called_functions(recipe_)) functions_.push_back(tile_function(opcode));
}

GeneratedKernel::Entry GeneratedKernel::entry(int64_t work) {
  if (const Entry ready = entry_.load(std::memory_order_acquire)) return ready;
  const int state = state_.load(std::memory_order_relaxed);
  if (state == kImpossible) return nullptr;
  if (state == kIdle) {
    const int64_t done = work_.fetch_add(work, std::memory_order_relaxed) + work;
    if (waits_ || done >= threshold_) Compiler::instance().want(*this);
  }
  if (!waits_) return nullptr;
  Compiler::instance().wait_for(*this);
  return entry_.load(std::memory_order_acquire);
}

Mode mode() {
  const char* value = std::getenv("TRANSOM_CODEGEN");
  const std::string_view word = value ? value : "";
  if (word == "off" || word == "0") return Mode::kOff;
  return word == "wait" ? Mode::kWait : Mode::kBackground;
}

std::shared_ptr<GeneratedKernel> find_kernel(Recipe recipe) {
  if (mode() == Mode::kOff || !generates_code()) return nullptr;
  stop_compiling_at_exit();
  std::shared_ptr<GeneratedKernel> kernel = Compiler::instance().find(std::move(recipe));
  if (mode() == Mode::kWait) Compiler::instance().want(*kernel);
  return kernel;
}

void stop_compiling() { Compiler::instance().stop(); }

void stop_compiling_at_exit() {
  struct AtExit {
    ~AtExit() {
      if (::gettid() == ::getpid()) stop_compiling();  // else a thread ends, not the process
    }
  };
  // exit() ends the variables of its thread before it calls any handler. LLVM registers handlers as it is opened, by a
  // thread that compiles; of handlers the last one is called first, so that none of ours could go before them.
  thread_local const AtExit at_exit;
}

const std::string& target() {
  static const std::string made = [] {
    std::string text = fmt::format("transom {} llvm {}", TRANSOM_VERSION, TRANSOM_LLVM_VERSION);
#if defined(__x86_64__)
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid(1, &a, &b, &c, &d)) text += fmt::format(" x86-64 {:x} {:x} {:x}", a, c, d);
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) text += fmt::format(" {:x} {:x} {:x}", b, c, d);
    if (__get_cpuid_count(7, 1, &a, &b, &c, &d)) text += fmt::format(" {:x}", a);
#endif
    return text;
  }();
  return made;
}

}  // namespace transom::cpu::codegen
