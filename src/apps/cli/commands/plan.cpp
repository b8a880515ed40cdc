// SPDX-License-Identifier: Apache-2.0
// transom plan: what a job will deliver on hardware that is not here.
#include <cstdio>
#include <iostream>

#include "apps/cli/command.h"
#include "apps/cli/output/profile_table.h"
#include "base/error.h"
#include "base/files/container_files.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "tools/explain/measured_memory.h"
#include "tools/plan/machines/machines.h"
#include "tools/plan/machines/this_machine.h"
#include "tools/plan/plan.h"
#include "tools/plan/shape/model_shape.h"

namespace transom {
namespace {

struct PlanArguments {
  std::string case_file, model, task = "generate", hardware, devices, layout = "auto", compare, dtype = "bf16", html,
                                calibrate, optimisations;
  std::string software, date;
  int64_t batch = 0, batch_per_device = 0, sequence_length = 0, output_length = 0, max_predictions_per_seq = 0;
  double price = 0;
  DeviceOptions device;
  bool json = false, list = false, list_models = false, measure = false;
};

constexpr uint64_t kCaseBytes = 16 << 20;

std::string read_case(const std::string& file) {
  if (file != "-") return read_file(file, kCaseBytes);
  std::string text;
  for (char c; text.size() <= kCaseBytes && std::cin.get(c);) text += c;
  if (text.size() > kCaseBytes) fail(ErrorKind::kUsage, "--case: standard input holds more than {} bytes", kCaseBytes);
  return text;
}

int list_devices() {
  for (const DeviceModel& device : all_device_models())
    std::printf("%-26s %-28s %8.0f GB %8.0f GB/s  %s\n", device.name.c_str(), device.title.c_str(),
                device.memory_bytes / 1e9, device.bandwidth / 1e9, device.family.c_str());
  return 0;
}

// The configuration of a checkpoint, where MODEL is one; else MODEL is a name of the table.
std::string config_text_of(const std::string& model) {
  fs::path file = model;
  if (directory_exists(file) || is_container(file)) file /= "config.json";
  else if (!path_exists(file)) return "";
  return read_file(file, kCaseBytes);
}

Job job_of(const PlanArguments& options) {
  if (options.model.empty())
    fail(ErrorKind::kUsage, "model: expected a checkpoint, a .gguf file, a config.json or a name (or --case FILE)");
  if (options.hardware.empty())
    fail(ErrorKind::kUsage, "--hardware: expected NAME[:devices[xhosts]], as gaudi2:8x16; --list shows the names");
  Job job;
  job.task = parse_task(options.task, "--task");
  job.model = options.model;
  job.config = config_text_of(options.model);
  if (!job.config.empty()) {
    fs::path path = fs::path(options.model);
    if (path.filename() == "config.json") path = path.parent_path();
    job.model = path.filename().empty() ? path.parent_path().filename().string() : path.filename().string();
  }
  for (const auto& [flag, value] : {std::pair{"--batch", options.batch},
                                    {"--batch_per_device", options.batch_per_device},
                                    {"--sequence_length", options.sequence_length},
                                    {"--output_length", options.output_length},
                                    {"--max_predictions_per_seq", options.max_predictions_per_seq}})
    if (value < 0 || value > int64_t{1} << 40)
      fail(ErrorKind::kUsage, "{}: expected a number above 0, found {}", flag, value);
  if (options.price < 0) fail(ErrorKind::kUsage, "--price: expected USD an hour of a host, found {}", options.price);
  job.global_batch = static_cast<double>(options.batch),
  job.batch_per_device = static_cast<double>(options.batch_per_device);
  job.sequence_length = static_cast<double>(options.sequence_length),
  job.output_length = static_cast<double>(options.output_length);
  job.dtype = options.dtype, job.usd_per_hour = options.price;
  job.software = options.software, job.date = options.date;
  job.optimisations = options.layout == "auto" ? "layout not stated" : options.layout;
  if (!options.optimisations.empty()) job.optimisations += "; " + options.optimisations;
  if (options.max_predictions_per_seq > 0) {
    if (!is_training(job.task))
      fail(ErrorKind::kUsage, "--max_predictions_per_seq: is for training, found --task {}", options.task);
    job.optimisations += fmt::format("; max_predictions_per_seq={}", options.max_predictions_per_seq);
  }
  precision_of(job);
  return job;
}

// The job on the device that is here: what its graph needs, and what it takes.
int measure_job(PlanArguments& options) {
  if (options.model.empty()) fail(ErrorKind::kUsage, "model: expected a directory with config.json for --measure");
  for (const auto& [flag, given] : {std::pair{"--hardware", !options.hardware.empty()},
                                    {"--case", !options.case_file.empty()},
                                    {"--html", !options.html.empty()},
                                    {"--devices", !options.devices.empty()},
                                    {"--compare", !options.compare.empty()}})
    if (given) fail(ErrorKind::kUsage, "{}: --measure is of the device that is here; choose it by --device", flag);
  BenchOptions job;
  job.model = options.model;
  if (options.task == "train" || options.task == "pretrain" || options.task == "finetune") job.task = "train";
  else if (options.task == "infer") job.task = "forward";
  else fail(ErrorKind::kUsage, "--task: --measure takes train or infer, found {}", quoted(options.task));
  job.dtype = options.dtype == "fp16" ? "float16" : options.dtype == "bf16" ? "bfloat16" : "float32";
  if (options.dtype != "fp32" && job.dtype == "float32")
    fail(ErrorKind::kUsage, "--dtype: --measure takes fp32, bf16 or fp16, found {}", quoted(options.dtype));
  job.batch_size = std::max({options.batch, options.batch_per_device, int64_t{1}});
  if (options.sequence_length) job.sequence_length = options.sequence_length;
  job.gradient_checkpointing = options.optimisations.find("recompute") != std::string::npos;
  job.max_predictions_per_seq = options.max_predictions_per_seq;
  job.no_weights = true;
  job.check();
  options.device.apply();
  const MeasuredMemory memory = measure_memory(job);
  if (options.json) std::puts(dump_json(measured_memory_json(memory)).c_str());
  else std::fputs(measured_memory_table(memory).c_str(), stdout);
  return 0;
}

int run_plan(PlanArguments& options) {
  if (options.list) return list_devices();
  if (options.list_models) {
    for (const std::string& name : known_model_names()) std::puts(name.c_str());
    return 0;
  }
  if (options.measure) return measure_job(options);
  expect_writable(options.html);
  if (!options.calibrate.empty()) {
    expect_writable(options.calibrate);
    write_file(options.calibrate, measured_device_file(fs::path(options.calibrate).stem().string()));
    if (options.model.empty() && options.case_file.empty()) return 0;
  }
  std::vector<Plan> plans;
  if (!options.case_file.empty()) {
    const std::string where = options.case_file == "-" ? "standard input" : options.case_file;
    plans.push_back(plan(parse_job(read_case(options.case_file), where)));
  } else {
    const Job job = job_of(options);
    std::vector<Machine> machines = parse_machines(options.hardware, "--hardware");
    if (!options.compare.empty())
      for (const Machine& machine : parse_machines(options.compare, "--compare")) machines.push_back(machine);
    for (const Machine& machine : machines) {
      std::vector<double> counts = {machine.devices};
      if (!options.devices.empty()) counts = parse_device_counts(options.devices, "--devices");
      for (const double count : counts) {
        Job one = job;
        one.hardware = machine.hardware, one.devices = count, one.hosts = options.devices.empty() ? machine.hosts : 0;
        plans.push_back(plan(one));
      }
    }
  }
  if (!options.html.empty()) write_file(options.html, plan_page(plans));
  if (!options.json) std::fputs(plan_table(plans).c_str(), stdout);
  else if (plans.size() == 1) std::puts(plan_json(plans[0]).c_str());
  else {
    std::string text;
    for (const Plan& plan : plans) text += (text.empty() ? "[\n" : ",\n") + plan_json(plan);
    std::puts((text + "\n]").c_str());
  }
  return 0;
}

}  // namespace

Command plan_command() {
  static PlanArguments options;
  Command command{
      .name = "plan",
      .help = "Predict speed, memory, cost and energy of a job on hardware that is not here",
      .examples =
          "  transom plan bert-large-uncased --task train --hardware gaudi2:8 --batch 256 --sequence_length 128\n"
          "  transom plan Llama-3.1-70B --hardware h100:8 --compare mi300x:8,gaudi3:8 --batch 64 --html plan.html\n"
          "  transom plan Llama-2-7b --task train --hardware gaudi2 --devices 1..4096 --sequence_length 4096\n"
          "  transom plan --case case.json --json\n"
          "  transom plan DIR --measure --task train --batch 8 --sequence_length 128 --dtype fp32 --device cpu\n"
          "  transom plan --calibrate this.json && transom plan gpt2 --hardware this.json --dtype fp32"};
  command.options = {
      {kModelPlace, &options.model, "a checkpoint, a .gguf file, a config.json, or a name of the table of models"},
      {"--case", &options.case_file, "a job (case.json); - reads standard input"},
      {"--task", &options.task, "pretrain, finetune (train), infer or generate"},
      {"--hardware", &options.hardware, "NAME or FILE.json[:devices[xhosts]], several with commas"},
      {"--compare", &options.compare, "the same, to be set beside"},
      {"--devices", &options.devices, "a number, or a range: 1..4096"},
      {"--batch", &options.batch, "samples a step, or sequences in flight, over all devices"},
      {"--batch_per_device", &options.batch_per_device, "the same for one device"},
      {"--sequence_length,--sequence", &options.sequence_length, "tokens of a sample or a prompt"},
      {"--output_length", &options.output_length, "new tokens of a request"},
      {"--max_predictions_per_seq", &options.max_predictions_per_seq,
       "masked positions of a sequence that the head sees in training (0: all positions)"},
      {"--layout", &options.layout, "auto, or dp=8,tp=8,pp=2"},
      {"--optimisations", &options.optimisations, "zero=2; recompute; lora=r8; continuous batching ..."},
      {"--dtype", &options.dtype, "bf16, fp16, fp8, fp32, int8, Q4_K_M, fp16.16 ..."},
      {"--software", &options.software, "as vLLM, PyTorch eager: how far the software is tuned"},
      {"--date", &options.date, "chooses among prices: 2021-10"},
      {"--price", &options.price, "USD an hour of one host"},
      {"--calibrate", &options.calibrate, "measure this machine and write a device file"},
      {"--measure", &options.measure,
       "plan the memory of the job from its graph on the device that is here, run it, and compare"},
      {"--list", &options.list, "list the known devices"},
      {"--list_models", &options.list_models, "list the names of the table of models"},
      {"--html", &options.html, "write a page with pictures here"},
      {"--json", &options.json, "print one JSON object; a list of several plans"}};
  options.device.add_to(command);
  command.run = [] { return run_plan(options); };
  return command;
}

}  // namespace transom
