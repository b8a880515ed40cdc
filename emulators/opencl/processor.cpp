// SPDX-License-Identifier: Apache-2.0
#include "processor.h"

#include "access_checker.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <spawn.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <sstream>
#include <stdexcept>

namespace emulator {
namespace {

// What OpenCL C 1.2 has and C has not, as far as kernels of the GPU backend need it. Group memory is static: groups run
// one after the other.
constexpr const char* kPrelude = R"(
#define __kernel
#define __attribute__(x)
#define __global
#define __local static
#define restrict
#define CLK_LOCAL_MEM_FENCE 1
#define CLK_GLOBAL_MEM_FENCE 2
#define cl_khr_fp64 1
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
#define EMULATED_OPENCL 1
struct { long item, group, groups; void (*barrier)(void); void* (*vector)(ulong, ulong); } *emulated_place;
#define emulated_vector(place, bytes) emulated_place->vector(place, bytes)
#define get_local_id(d) emulated_place->item
#define get_group_id(d) emulated_place->group
#define get_num_groups(d) emulated_place->groups
#define barrier(flags) emulated_place->barrier()
static float as_float(uint x) { union { uint u; float f; } v; v.u = x; return v.f; }
static uint as_uint(float x) { union { uint u; float f; } v; v.f = x; return v.u; }
static double as_double(ulong x) { union { ulong u; double f; } v; v.u = x; return v.f; }
static ulong as_ulong(double x) { union { ulong u; double f; } v; v.f = x; return v.u; }
)";

// What the work-item that runs knows of itself; kernels read it through their emulated_place.
struct Place {
  long item = 0, group = 0, groups = 0;
  void (*barrier)() = nullptr;
  void* (*vector)(uint64_t place, uint64_t bytes) = nullptr;
} place;
bool misaligned = false;  // some work-item of this launch was

std::mutex processor;  // the work-items have global state

// Functions of OpenCL for float and double behind one name.
#define UNARY(X) X(fabs) X(sqrt) X(floor) X(ceil) X(rint) X(exp) X(expm1) X(log) X(log1p) X(tanh) X(erf) X(sin) X(cos)
#define BINARY(X) X(pow) X(fmod) X(fmin) X(fmax)

std::string functions() {
  std::string text;
  const auto add = [&](const std::string& name, const std::string& arguments, const std::string& types,
                       const std::string& doubles) {
    text += "float " + name + "f(" + types + "); double " + name + "(" + doubles + ");\n";
    text += "#define " + name + "(" + arguments + ") _Generic(+(a), float: " + name + "f, default: " + name + ")(" +
            arguments + ")\n";
  };
#define X(name) add(#name, "a", "float", "double");
  UNARY(X)
#undef X
#define X(name) add(#name, "a, b", "float, float", "double, double");
  BINARY(X)
#undef X
  add("fma", "a, b, c", "float, float, float", "double, double, double");
  return text;
}

// ---- work-items as fibers: stacks of their own, between which the processor changes at each barrier

#if defined(__x86_64__)
// Saves what functions keep for their callers, leaves the top of this stack in *from, and goes on where the other stack
// was left: a tenth of what swapcontext takes, which asks the system for its signals.
extern "C" void emulator_change_stack(void** from, void* to);
asm(R"(.text
.type emulator_change_stack, @function
emulator_change_stack:
  pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
  ret
.size emulator_change_stack, . - emulator_change_stack
)");
using Stopped = void*;
void change(Stopped& from, Stopped& to) { emulator_change_stack(&from, to); }
// Begins with `entry` as a call from nowhere would.
void prepare(Stopped& fiber, char* stack, size_t size, void (*entry)()) {
  auto** const top = reinterpret_cast<void**>(stack + size);
  constexpr size_t kSaved = 6;
  top[-1] = nullptr;
  top[-2] = reinterpret_cast<void*>(entry);
  fiber = top - 2 - kSaved;
}
#else
using Stopped = ucontext_t;
void change(Stopped& from, Stopped& to) { swapcontext(&from, &to); }
void prepare(Stopped& fiber, char* stack, size_t size, void (*entry)()) {
  getcontext(&fiber);
  fiber.uc_stack.ss_sp = stack;
  fiber.uc_stack.ss_size = size;
  fiber.uc_link = nullptr;
  makecontext(&fiber, entry, 0);
}
#endif

constexpr size_t kStack = 64 << 10;
struct alignas(16) Stack {
  char bytes[kStack];
};
struct Fiber {
  Stopped at{};
  std::unique_ptr<Stack> stack;
  bool started = false, finished = false;
};

std::vector<std::unique_ptr<Fiber>> fibers;  // which stay where they are
Stopped scheduler;
size_t running = 0;
void (*fiber_entry)(const uint64_t*) = nullptr;
const uint64_t* fiber_arguments = nullptr;

void wait_at_barrier() { change(fibers[running]->at, scheduler); }

// An access to so many bytes at once, which devices make at multiples of them alone.
void* vector_at(uint64_t at, uint64_t bytes) {
  misaligned |= at % bytes != 0;
  return reinterpret_cast<void*>(at);
}

// One group's work-item after the other: what a stack costs to begin is paid once.
void begin_fiber() {
  for (;;) {
    fiber_entry(fiber_arguments);
    fibers[running]->finished = true;
    change(fibers[running]->at, scheduler);
  }
}

// Lets the work-item go on until its next barrier or its end.
void resume(size_t item) {
  running = item;
  place.item = static_cast<long>(item);
  Fiber& fiber = *fibers[item];
  char* const stack = fiber.stack->bytes;
  const auto begin = reinterpret_cast<uintptr_t>(stack);
  work_item_runs(item, {begin, begin + kStack});
  if (!fiber.started) prepare(fiber.at, stack, kStack, begin_fiber);
  fiber.started = true;
  change(scheduler, fiber.at);
}

// The work-item stays where it is; the next launch begins it anew.
void give_up() { change(fibers[running]->at, scheduler); }

// As fibers.
void run_together(size_t items) {
  while (fibers.size() < items) {
    fibers.push_back(std::make_unique<Fiber>());
    fibers.back()->stack = std::make_unique_for_overwrite<Stack>();
  }
  for (size_t i = 0; i < items; ++i) {
    Fiber& fiber = *fibers[i];
    if (!fiber.finished) fiber.started = false;  // never ran, or its launch broke off
    fiber.finished = false;
  }
  for (size_t left = items, turn = 0; left > 0; ++turn) {
    left = 0;
    for (size_t k = 0; k < items; ++k) {
      const size_t item = turn % 2 ? items - 1 - k : k;
      if (fibers[item]->finished) continue;
      resume(item);
      left += !fibers[item]->finished;
      if (!found_by_checks().empty()) return;
    }
    barrier_passed();
    if (left != 0 && left != items)
      throw std::runtime_error("some work-items of a group wait at a barrier, others ended");
  }
}

// The bits of -O0: no product and sum as one, no constant by another rounding than the library's functions have.
const std::vector<std::string> kQuick = {"tcc", "-w", "-shared"};
std::vector<std::string> by_cc(std::vector<std::string> words) {
  for (const char* word : {"-w", "-shared", "-fPIC", "-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing"})
    words.push_back(word);
  for (const char* name : {"exp", "expm1", "log", "log1p", "tanh", "erf", "sin", "cos", "pow", "fmod", "fmin", "fmax"})
    for (const char* type : {"", "f"}) words.push_back(std::string("-fno-builtin-") + name + type);
  return words;
}
const std::vector<std::string> kOptimising = by_cc({"cc", "-O2", "-march=native"});
// Calls on_access at each access; without the libraries of the sanitizers, whose functions are the emulator's own.
const std::vector<std::string> kChecking =
    by_cc({"cc", "-O1", "-fsanitize=thread", "-fsanitize=bounds-strict", "-nostdlib", "-Wl,--no-as-needed,-lm,-lc"});
constexpr double kPatience = 0.25;  // seconds after which a kernel is worth the compiler's time

std::string contents(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Where the library of a text is or shall be kept, without its ending: empty if nothing is kept.
std::string kept_at(const std::string& text, const std::vector<std::string>& words) {
  const char* folder = std::getenv("TRANSOM_EMULATED_OPENCL_CACHE");
  if (!folder || !*folder) return "";
  std::string all = text;
  for (const std::string& word : words) all += '\n' + word;
  return std::string(folder) + '/' + std::to_string(std::hash<std::string>{}(all));
}

// Null if none is kept. The text beside it says whose it is.
void* opened_from(const std::string& kept, const std::string& text) {
  if (kept.empty() || contents(kept + ".c") != text) return nullptr;
  return dlopen((kept + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
}

// The shared library of a text in C. Its files are gone when it is loaded, or kept for other processes.
void* compiled(const std::string& text, const std::vector<std::string>& compiler) {
  const std::string kept = kept_at(text, compiler);
  if (void* opened = opened_from(kept, text)) return opened;
  std::error_code ignored;
  if (!kept.empty()) std::filesystem::create_directories(std::filesystem::path(kept).parent_path(), ignored);
  const std::filesystem::path near =
      kept.empty() ? std::filesystem::temp_directory_path() : std::filesystem::path(kept).parent_path();
  std::string folder = (near / "emulated_opencl_XXXXXX").string();
  if (!mkdtemp(folder.data())) throw std::runtime_error("expected to make the folder " + folder + " for a kernel");
  const std::string base = folder + "/kernel", source = base + ".c", library = base + ".so", log = base + ".log";
  std::ofstream(source) << text;
  std::vector<const char*> words;
  for (const std::string& word : compiler) words.push_back(word.c_str());
  for (const char* word : {"-o", library.c_str(), source.c_str(), static_cast<const char*>(nullptr)})
    words.push_back(word);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log.c_str(), O_WRONLY | O_CREAT, 0600);
  pid_t child = 0;
  int status = 1;
  const int started =
      posix_spawnp(&child, words[0], &actions, nullptr, const_cast<char* const*>(words.data()), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (started == 0) waitpid(child, &status, 0);
  void* opened = started == 0 && status == 0 ? dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  std::string why = started != 0 ? "expected the compiler tcc, found none: apt-get install tcc" : "";
  if (!opened && started == 0) why = status == 0 ? dlerror() : contents(log);
  if (opened && !kept.empty()) {
    std::filesystem::rename(library, kept + ".so", ignored);
    std::filesystem::rename(source, kept + ".c", ignored);  // last: it says that the library is whole
  }
  std::filesystem::remove_all(folder, ignored);
  if (!opened) throw std::runtime_error(why);
  return opened;
}

// The parameters of a kernel as variables of its body, and how many they are: tcc passes less than 256.
size_t as_variables(const std::string& parameters, std::string& variables) {
  std::istringstream list(parameters);
  std::string one;
  size_t count = 0;
  while (std::getline(list, one, ',')) {
    const size_t name = one.find_last_of(" *") + 1;
    variables += one + " = (" + one.substr(0, name) + ")emulated_arguments[" + std::to_string(count++) + "];\n";
  }
  return count;
}

// Where a loaded library lies, whose variables are the group memory of its kernel.
Extent extent_of(void* library) {
  struct Search {
    uintptr_t base;
    Extent found;
  };
  link_map* map = nullptr;
  dlinfo(library, RTLD_DI_LINKMAP, &map);
  Search search{map ? map->l_addr : 0, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto& mine = *static_cast<Search*>(data);
        if (info->dlpi_addr != mine.base) return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& part = info->dlpi_phdr[i];
          if (part.p_type != PT_LOAD) continue;
          const uintptr_t begin = mine.base + part.p_vaddr;
          if (mine.found.begin == 0) mine.found.begin = begin;
          mine.found.end = begin + part.p_memsz;
        }
        return 1;
      },
      &search);
  return search.found;
}

template <typename Value>
Extent extent_of(const Value* values, size_t count) {
  const auto begin = reinterpret_cast<uintptr_t>(values);
  return {begin, begin + count * sizeof(Value)};
}

}  // namespace

Kernel::Kernel(const std::string& text) {
  // "KERNEL(256) name(parameters) {", or __kernel with its attributes written out: no parameter has parentheses.
  size_t mark = text.rfind("\nKERNEL(");
  mark = mark == std::string::npos ? text.rfind("__kernel") : mark;
  const size_t body = mark == std::string::npos ? mark : text.find('{', mark);
  const size_t end = body == std::string::npos ? body : text.rfind(')', body);
  const size_t open = end == std::string::npos ? end : text.rfind('(', end);
  if (open == std::string::npos || open < mark) throw std::runtime_error("expected a kernel, found none");
  const size_t begin = open + 1;
  name_ = text.substr(text.find_last_of(" )", open) + 1, open - text.find_last_of(" )", open) - 1);
  std::string parameters;
  argument_count_ = as_variables(text.substr(begin, end - begin), parameters);
  // Its uses; the macro itself is before the kernel.
  has_barriers_ = text.find("BARRIER;", end) != std::string::npos || text.find("barrier(", end) != std::string::npos;
  whole_ = (checks_accesses() ? kCheckedPrelude : "") + std::string(kPrelude) + functions() + text.substr(0, begin) +
           "const ulong* emulated_arguments) {\n" + parameters + text.substr(body + 1) +
           "\nvoid emulated_entry(const ulong* a) { " + name_ + "(a); }\n";

  if (checks_accesses()) {
    optimised_ = true;
    take(compiled(whole_, kChecking));
  } else if (void* kept = opened_from(kept_at(whole_, kOptimising), whole_)) {
    optimised_ = true;
    take(kept);
  } else {
    take(compiled(whole_, kQuick));
  }
}

Kernel::~Kernel() {
  if (library_) dlclose(library_);
}

void Kernel::take(void* library) const {
  const auto entry = reinterpret_cast<Entry>(dlsym(library, "emulated_entry"));
  auto* const known = static_cast<Place**>(dlsym(library, "emulated_place"));
  if (!entry || !known) {
    dlclose(library);
    throw std::runtime_error("the compiled kernel lacks its symbols");
  }
  place.barrier = wait_at_barrier;
  place.vector = vector_at;
  *known = &place;
  if (auto* const checked = static_cast<decltype(&on_access)*>(dlsym(library, "emulated_access"))) {
    *checked = on_access;
    memory_ = extent_of(library);
  }
  if (library_) dlclose(library_);
  library_ = library;
  entry_ = entry;
}

// Without cc, or where cc refuses the text, what tcc made runs on.
void Kernel::optimise() const {
  optimised_ = true;
  try {
    take(compiled(whole_, kOptimising));
  } catch (const std::runtime_error&) {
  }
}

void Kernel::run(size_t groups, size_t items, const std::vector<uint64_t>& arguments) const {
  const std::lock_guard lock(processor);
  place.groups = static_cast<long>(groups);
  fiber_arguments = arguments.data();
  misaligned = false;
  const bool checked = memory_.end != 0;
  launch_begins(memory_, {extent_of(&place, 1), extent_of(arguments.data(), arguments.size())}, give_up);
  using Clock = std::chrono::steady_clock;
  auto before = Clock::now();
  for (size_t group = 0; group < groups; ++group) {
    place.group = static_cast<long>(group);
    fiber_entry = entry_;
    group_begins(group);
    if (has_barriers_ || checked) run_together(items);
    else
      for (size_t item = 0; item < items; ++item) {
        place.item = static_cast<long>(item);
        entry_(arguments.data());
      }
    if (!found_by_checks().empty()) throw std::runtime_error(found_by_checks());
    if (optimised_) continue;
    const auto now = Clock::now();
    seconds_ += std::chrono::duration<double>(now - before).count();
    before = now;
    if (seconds_ > kPatience) optimise();  // groups have nothing in common
  }
  if (misaligned) throw std::runtime_error("a vector was read or written at a place that is no multiple of its size");
}

}  // namespace emulator
