// SPDX-License-Identifier: Apache-2.0
// transom bench: how fast a model is here, in optimum-benchmark's terms, and what became slower since an older report.
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "apps/cli/command.h"
#include "apps/cli/output/profile_table.h"
#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "base/terminal/progress.h"
#include "base/threads/threads.h"
#include "runtime/device/device.h"
#include "tools/bench/benchmark.h"
#include "tools/bench/report.h"
#include "transom/tensor.h"

namespace transom {
namespace {

struct BenchArguments {
  BenchOptions bench;
  ModelOptions source;
  DeviceOptions device;
  std::string json, profile, compare;
  int64_t threads = 0, profile_runs = 3;
  double threshold = 0.05;
  bool interactive = false;
};

std::string field_of(const char* path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name) && line.find(':') != line.npos) {
      const size_t begin = line.find_first_not_of(" \t", line.find(':') + 1);
      return begin == line.npos ? "" : line.substr(begin);
    }
  return "";
}

Json environment() {
  utsname system{};
  uname(&system);
  const double memory = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  return {{"cpu", field_of("/proc/cpuinfo", "model name")},
          {"cpu_count", sysconf(_SC_NPROCESSORS_ONLN)},
          {"cpu_ram_mb", memory / 1e6},
          {"system", system.sysname},
          {"machine", system.machine},
          {"platform", fmt::format("{}-{}-{}", system.sysname, system.release, system.machine)}};
}

// What the device counted of itself; null where it counts nothing.
Json device_report() {
  const std::shared_ptr<Device>& device = default_device();
  if (!device->table().device_report) return nullptr;
  const char* text = device->table().device_report(device->handle());
  return text ? parse_json(text, device->name() + ": its report") : Json();
}

// Of a device that has more to say than how long the host waited.
void print_device() {
  const std::shared_ptr<Device>& device = default_device();
  const bool emulated = device->has(TRANSOM_DEVICE_EMULATED);
  if (emulated)
    std::puts(fmt::format("{} is emulated: the times above are those of this machine, device_seconds are simulated",
                          device->name())
                  .c_str());
  const Json report = device_report();
  for (const auto& [name, value] : report.items())
    std::puts(fmt::format("  {:<24} {}", name, dump_json(value)).c_str());
}

Json config_of(const BenchArguments& options, Workload& workload) {
  const BenchOptions& o = options.bench;
  return {{"name", ""},
          {"backend",
           {{"name", "transom"},
            {"task", o.task},
            {"library", "transformers"},
            {"model_type", workload.model_type()},
            {"model", o.model},
            {"device", device_name()},
            {"emulated", default_device()->has(TRANSOM_DEVICE_EMULATED)},
            {"device_report", device_report()},
            {"mode", mode_name()},
            {"torch_dtype", o.dtype},
            {"quantization_scheme", o.quantization == "none" ? Json() : Json(o.quantization)},
            {"no_weights", o.no_weights},
            {"seed", o.seed},
            {"intra_op_num_threads", thread_count()}}},
          {"scenario",
           {{"name", o.training() ? "training" : "inference"},
            {"iterations", o.iterations},
            {"duration", o.duration},
            {"warmup_runs", o.warmup_runs},
            {"input_shapes", {{"batch_size", o.batch_size}, {"sequence_length", o.sequence_length}}},
            {"generate_kwargs",
             {{"max_new_tokens", o.max_new_tokens}, {"min_new_tokens", o.max_new_tokens}, {"num_beams", o.num_beams}}},
            {"inputs", o.inputs.empty() ? Json() : Json(o.inputs)},
            {"latency", true},
            {"memory", true},
            {"energy", false}}},
          {"launcher", {{"name", "inline"}}},
          {"environment", environment()}};
}

std::string time_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.2f} ms", seconds * 1e3) : fmt::format("{:.3f} s", seconds);
}

void print_phases(const BenchReport& report) {
  std::puts(fmt::format("{:<14} {:>6} {:>12} {:>12} {:>12} {:>12} {:>8} {:>12} {:>10}", "PHASE", "RUNS", "MEAN", "P50",
                        "P90", "P99", "STDEV", "SAMPLES/S", "RAM MB")
                .c_str());
  for (const Phase& phase : report.phases) {
    const Latency l = latency_of(phase.seconds);
    const bool many = phase.seconds.size() > 1;
    const auto only_many = [&](double seconds) { return many ? time_text(seconds) : std::string("-"); };
    std::puts(fmt::format("{:<14} {:>6} {:>12} {:>12} {:>12} {:>12} {:>8} {:>12} {:>10.1f}", phase.name,
                          phase.seconds.size(), time_text(l.mean), only_many(l.p50), only_many(l.p90), only_many(l.p99),
                          many ? fmt::format("{:.1f} %", l.stdev_percent) : "-",
                          phase.samples > 0 ? fmt::format("{:.2f}", phase.throughput()) : "-", phase.max_ram)
                  .c_str());
  }
}

void write_line(std::FILE* out, const std::string& line) { std::fputs((line + "\n").c_str(), out); }

// Prints old, new and their ratio; whether a phase is worse than the threshold allows.
bool print_comparison(const BenchReport& before, const BenchReport& after, const BenchArguments& options,
                      std::FILE* out) {
  const std::vector<Comparison> phases = compare_phases(before, after, options.threshold);
  if (phases.empty()) fail("{}: no phase is in both reports", options.compare);
  write_line(out, fmt::format("{:<14} {:<8} {:>14} {:>14} {:>8}", "PHASE", "WHAT", "OLD", "NEW", "RATIO"));
  bool worse = false;
  for (const Comparison& c : phases) {
    const bool time = c.quantity == "latency";
    const auto text = [&](double value) { return time ? time_text(value) : fmt::format("{:.1f} MB", value); };
    write_line(out, fmt::format("{:<14} {:<8} {:>14} {:>14} {:>8.3f}{}", c.name, time ? "p50" : c.quantity,
                                text(c.before), text(c.after), c.ratio(), c.regression ? "  regression" : ""));
    worse |= c.regression;
  }
  for (const Comparison& c : compare_kernels(before, after, options.threshold))
    if (c.regression)
      write_line(out, fmt::format("kernel {:.3f} x slower: {:.1f} us -> {:.1f} us a call, {:.1f} % of the time: {}",
                                  c.ratio(), c.before * 1e6, c.after * 1e6, c.share * 100, c.name));
  return worse;
}

BenchReport read_report(const std::string& path) { return parse_report(read_file(path, uint64_t{1} << 30), path); }

// Answers commands on standard input, one JSON line each, so that another program can alternate with this one.
int interact(Benchmark& benchmark) {
  const auto answer = [](const Json& json) {
    std::puts(dump_json(json).c_str());
    std::fflush(stdout);
  };
  Json ready = {{"ready", true}, {"samples", benchmark.workload().samples()}};
  for (const Phase& phase : benchmark.phases()) ready[phase.name] = phase.seconds[0];
  answer(ready);
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "quit") break;
    if (line.starts_with("inputs ")) {
      benchmark.workload().take_inputs(line.substr(7));
      answer({{"samples", benchmark.workload().samples()}});
      continue;
    }
    const long runs = line.starts_with("run ") ? std::strtol(line.c_str() + 4, nullptr, 10) : 0;
    if (runs < 1) fail("--interactive: expected 'run N', 'inputs FILE' or 'quit', found {}", quoted(line));
    const PeakMemory memory;
    const std::vector<double> seconds = benchmark.repeat(runs);
    answer({{"seconds", seconds}, {"max_ram", memory.megabytes()}});
  }
  return 0;
}

std::vector<KernelTime> profiled(Benchmark& benchmark, const BenchArguments& options) {
  Profile profile;
  benchmark.repeat(options.profile_runs);
  profile.write_trace(options.profile);
  std::vector<KernelTime> kernels;
  for (const Profile::Kernel& k : profile.kernels())
    kernels.push_back({k.operation, k.kernel, k.types, k.calls, k.seconds});
  std::fputs(("\n" + profile_table(profile)).c_str(), options.json == "-" ? stderr : stdout);
  return kernels;
}

BenchReport measure(const BenchArguments& options) {
  std::optional<Progress> bar;
  std::string shown;
  Benchmark benchmark(options.bench, [&](const std::string& phase, double share) {
    if (phase != shown) bar.emplace(stderr, phase, 1000, "");
    shown = phase;
    bar->update(static_cast<int64_t>(share * 1000));
  });
  benchmark.begin();
  benchmark.measure();
  bar.reset();
  BenchReport report{.name = fmt::format("transom_{}_{}", options.bench.training() ? "training" : "inference",
                                         fs::path(options.bench.model).filename().string()),
                     .phases = benchmark.phases(),
                     .kernels = {}};
  if (options.json != "-") {
    print_phases(report);
    print_device();
  }
  if (!options.profile.empty()) report.kernels = profiled(benchmark, options);
  if (!options.json.empty()) {
    const std::string text = dump_json(to_json(report, config_of(options, benchmark.workload())), 4) + "\n";
    if (options.json == "-") std::fputs(text.c_str(), stdout);
    else write_file(options.json, text);
  }
  return report;
}

int bench(BenchArguments& options) {
  // `--json MODEL` with nothing behind it: the report goes to standard output.
  if (options.bench.model.empty() && directory_exists(options.json)) {
    options.bench.model = options.json;
    options.json = "-";
  }
  if (options.bench.model.empty()) fail(ErrorKind::kUsage, "MODEL is missing: a directory with config.json");
  if (options.threads < 0 || options.threads > 1024)
    fail(ErrorKind::kUsage, "--threads: expected 1 to 1024, found {}", options.threads);
  if (!(options.threshold >= 0))
    fail(ErrorKind::kUsage, "--threshold: expected at least 0, found {}", options.threshold);
  if (options.profile_runs < 1)
    fail(ErrorKind::kUsage, "--profile_runs: expected at least 1, found {}", options.profile_runs);
  for (const std::string* file : {&options.json, &options.profile}) expect_writable(*file);
  if (!options.json.empty() && options.json == options.profile)
    fail(ErrorKind::kUsage, "--json, --profile: expected two files, found {} twice", options.json);
  if (options.threads) setenv("TRANSOM_NUM_THREADS", std::to_string(options.threads).c_str(), 1);

  BenchReport before;  // read first, so that a wrong name costs no measurement
  if (!options.compare.empty()) before = read_report(options.compare);
  BenchReport after;
  if (options.bench.model.ends_with(".json") && !directory_exists(options.bench.model)) {
    if (options.compare.empty())
      fail(ErrorKind::kUsage, "{} is a report: give another with --compare", options.bench.model);
    after = read_report(options.bench.model);
  } else {
    options.device.apply();
    options.bench.check();
    options.bench.model = resolve_model(options.bench.model, options.source.hub());
    if (options.interactive) {
      Benchmark benchmark(options.bench);
      benchmark.begin();
      return interact(benchmark);
    }
    after = measure(options);
  }
  if (options.compare.empty()) return 0;
  return print_comparison(before, after, options, options.json == "-" ? stderr : stdout) ? 1 : 0;
}

}  // namespace

Command bench_command() {
  static BenchArguments options;
  BenchOptions& o = options.bench;
  Command command{
      .name = "bench",
      .help = "Measure a model: time and memory of loading, of the first run, and of the steady state",
      .examples =
          "  transom bench DIR --batch_size 8 --sequence_length 128\n"
          "  transom bench DIR --task train --dtype bfloat16 --json report.json --profile trace.json\n"
          "  transom bench DIR --task feature-extraction --inputs sentences.txt\n"
          "  transom bench model.gguf --task text-generation --dtype auto --max_new_tokens 64     (prefill, decode)\n"
          "  transom bench DIR --task translation --num_beams 4 --quantization int8\n"
          "  transom bench DIR --json new.json --compare old.json     (exit status 1 if something became slower)\n"
          "  transom bench new.json --compare old.json"};
  command.options = {
      {kModelPlace, &o.model,
       "directory with config.json (without weights there they are random), or an id on the Hugging Face Hub"},
      {"--task", &o.task, "forward, gradients, train, or the name of a pipeline, whose head the model gets"},
      {"--scenario", &o.scenario, "inference or training (default: inference, training for the task train)"},
      {"--inputs", &o.inputs, "tensors (.safetensors), or lines of text for the task's pipeline; else random tokens"},
      {"--batch_size", &o.batch_size, "rows of random inputs"},
      {"--sequence_length", &o.sequence_length, "tokens of each row"},
      {"--max_new_tokens", &o.max_new_tokens,
       "tokens that text-generation, translation, Whisper ... write for each row"},
      {"--num_beams", &o.num_beams, "beams of each row; 1: greedy"},
      {"--dtype", &o.dtype, kDtypeHelp},
      {"--quantization", &o.quantization, kQuantizationHelp},
      {"--no_weights", &o.no_weights, "random weights, whatever the directory holds"},
      {"--seed", &o.seed, "of random weights and of dropout"},
      {"--warmup_runs", &o.warmup_runs, "runs that are not part of the steady state, besides the first"},
      {"--iterations", &o.iterations, "at least so many runs"},
      {"--duration", &o.duration, "for at least so many seconds"},
      {"--threads", &options.threads, "threads that compute; 0: all cores"},
      {"--json", &options.json,
       "write the report here, as optimum-benchmark's benchmark.json; without a name, print it", false, true},
      {"--profile", &options.profile,
       "write a trace of all kernels here (Perfetto opens it), and print what took longest"},
      {"--profile_runs", &options.profile_runs, "runs to profile, after those that are measured"},
      {"--compare", &options.compare, "an older report; exit status 1 if a phase became slower or larger"},
      {"--threshold", &options.threshold, "how much worse is a regression; 0.05: 5 %"},
      {"--interactive", &options.interactive,
       "after the first run, read 'run N', 'inputs FILE' and 'quit' from standard input; answer in lines of JSON"}};
  options.source.add_to(command);
  options.device.add_to(command);
  command.run = [] { return bench(options); };
  return command;
}

}  // namespace transom
