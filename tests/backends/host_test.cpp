// SPDX-License-Identifier: Apache-2.0
// What the plugin must leave as it found it in the process that it is loaded into.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <thread>

#include "backends/harness.h"

namespace transom::backend_test {
namespace {

// The OpenMP that the matrix library brings into the process; the host may use it too.
struct OpenMP {
  OpenMP() {
    Plugin::cpu();
    for (const char* name : {"libgomp.so.1", "libomp.so.5", "libomp.so"}) {
      void* library = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
      if (!library) continue;
      get = reinterpret_cast<int (*)()>(dlsym(library, "omp_get_max_threads"));
      set = reinterpret_cast<void (*)(int)>(dlsym(library, "omp_set_num_threads"));
      return;
    }
  }
  int (*get)() = nullptr;
  void (*set)(int) = nullptr;
};

// Makes primitives and runs them on the calling thread, which takes a part of the pool's work.
void use_the_library() {
  const Tensor x = numbers(TRANSOM_FLOAT32, {40, 33}), w = numbers(TRANSOM_FLOAT32, {130, 33});
  evaluate("linear", {x, w}, TRANSOM_FLOAT32, {40, 130});
  evaluate("quantized_linear", {x, w}, TRANSOM_FLOAT32, {40, 130}, {{"transposed", 0}});
}

TEST(Host, KeepsItsNumberOfOpenMPThreads) {
  const OpenMP omp;
  if (!omp.get || !omp.set) GTEST_SKIP() << "no OpenMP in this process";
  const auto check = [&] {
    for (const int number : {3, 1, 7}) {
      omp.set(number);
      use_the_library();
      EXPECT_EQ(omp.get(), number);
    }
  };
  const int before = omp.get();
  check();
  omp.set(before);
  std::thread(check).join();
}

TEST(Host, KeepsItsNumberOfOpenMPThreadsWhereTheLibraryRefuses) {
  const OpenMP omp;
  if (!omp.get || !omp.set) GTEST_SKIP() << "no OpenMP in this process";
  const int before = omp.get();
  omp.set(5);
  const Tensor x = numbers(TRANSOM_FLOAT32, {2, 3}), w = numbers(TRANSOM_FLOAT32, {4, 5});
  EXPECT_NE(failure_of("linear", {x, w}, TRANSOM_FLOAT32, {2, 4}), "");
  EXPECT_EQ(omp.get(), 5);
  omp.set(before);
}

}  // namespace
}  // namespace transom::backend_test
