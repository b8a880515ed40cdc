// SPDX-License-Identifier: Apache-2.0
// What became of a model: its graph after each pass, the kernels with their cost and time, and where memory goes.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/json/json_fwd.h"
#include "tools/bench/workload.h"
#include "tools/explain/roofline.h"

namespace transom {

struct Explanation {
  std::string model, model_type, task, dtype, device, mode;
  std::string device_notes;  // instruction set, libraries, and whether kernels are generated or interpreted
  int64_t batch_size = 0, sequence_length = 0;
  int threads = 0;
  double samples = 0;
  Limits limits;

  struct Pass {
    std::string name;  // "trace": before the first one
    double seconds = 0;
    size_t nodes = 0;
    std::map<std::string, size_t> operations;  // how many of each
    std::string graph;                         // as print_graph writes it
  };
  std::vector<Pass> passes;

  struct Kernel {
    size_t node;            // its place in the compiled graph
    std::string values;     // the names of its outputs in the graph's text, "%12"
    std::string operation;  // "fusion(mul add tanh)"
    std::string kind;       // one of kKernelKinds
    std::string kernel;     // what the device says ran
    std::string scope;      // the module's path
    std::string types;
    std::string region;      // of a fusion: what it computes, as text
    std::string source;      // of generated code, where the device shows it
    double operations = 0;   // floating-point ones
    double bytes = 0;        // to be read and written at least
    double seconds = 0;      // of one run; the mean
    double least = 0;        // seconds that the machine's limits allow
    bool by_memory = false;  // the limit is that of memory
    bool on_host = false;    // the device does not run it
  };
  std::vector<Kernel> kernels;  // in the graph's order

  struct Value {
    std::string name;  // "%12"
    size_t node;       // that makes it
    int64_t offset, bytes;
    int first, last;  // nodes between which it must exist
  };
  std::vector<Value> values;  // in the arena
  std::vector<int64_t> live;  // bytes that exist in the arena at each node
  int64_t arena_bytes = 0, live_maximum = 0, input_bytes = 0, output_bytes = 0;
  size_t donated_inputs = 0;

  struct Moment {
    size_t node;
    double begin, end;  // seconds
  };
  std::vector<Moment> timeline;  // of one run

  double run_seconds = 0;      // of one run of the workload, the mean of those that were profiled
  double kernel_seconds = 0;   // of one run of the program
  double least_seconds = 0;    // that the machine's limits allow for its kernels
  double compile_seconds = 0;  // of the program: passes, plan, and the device's part
  size_t programs = 0;         // that were compiled; this one takes the most time
  size_t pieces = 1;           // into which it is cut, at collectives and where the host takes over
  size_t host_nodes = 0;       // of it that the device does not run
  std::string machine;         // JSON: clocks and the memory of tiles, of a device that tells them; else empty
};

// Loads the model, runs it, and looks at the program that takes the most time. `runs`: how many are profiled.
Explanation explain(const BenchOptions& options, int64_t runs = 3);

// A line on what the device does not run; empty where it runs all.
std::string host_text(const Explanation& explanation);
// What the machine's own clocks say, as lines; empty where the device tells nothing of them. See explain/tiles.cpp.
std::string machine_text(const Explanation& explanation);
std::string machine_pictures(const Explanation& explanation);
std::string explanation_table(const Explanation& explanation, size_t rows = 25);
Json explanation_json(const Explanation& explanation);
std::string explanation_page(const Explanation& explanation);  // one HTML file that needs no other

// The kinds of kernels, and in what color they are drawn.
struct KernelKind {
  const char *name, *color;
};
inline constexpr KernelKind kKernelKinds[] = {{"products", "#3b6ea5"}, {"attention", "#7a4fa3"}, {"rows", "#c9782c"},
                                              {"elements", "#4f9a5b"}, {"movement", "#b5484f"},  {"other", "#8a8a8a"}};

}  // namespace transom
