// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/job.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "base/text/numbers.h"

namespace transom {
namespace {

constexpr double kLargest = 1e15;  // of any count: beyond it sums lose whole numbers

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), [](unsigned char c) { return std::tolower(c); });
  return result;
}

bool is_missing(const Json& json, const char* field) {
  const auto found = json.find(field);
  return found == json.end() || found->is_null() ||
         (found->is_string() && found->get_ref<const std::string&>().empty());
}

std::string text_field(const Json& json, const char* field, std::string_view where, std::string fallback = "") {
  if (is_missing(json, field)) return fallback;
  const Json& value = json.at(field);
  if (!value.is_string())
    fail(ErrorKind::kUsage, "{}: {}: expected a string, found {}", where, field, value.type_name());
  return value.get<std::string>();
}

double count_field(const Json& json, const char* field, std::string_view where, double fallback = 0,
                   bool whole = true) {
  if (is_missing(json, field)) return fallback;
  const Json& value = json.at(field);
  if (!value.is_number())
    fail(ErrorKind::kUsage, "{}: {}: expected a number, found {}", where, field, value.type_name());
  const double number = value.get<double>();
  if (!(number > 0) || number > kLargest || (whole && number != std::floor(number)))
    fail(ErrorKind::kUsage, "{}: {}: expected a {}number above 0, found {}", where, field, whole ? "whole " : "",
         value.dump());
  return number;
}

struct Format {
  const char* name;
  double weights, activations, cache;
  const char* engine;
  bool compressed;
};
// Bytes of GGUF's formats: blocks with their scales (ggml's block sizes), embeddings and head in six bits for K_M.
constexpr Format kFormats[] = {
    {"bf16", 2, 2, 2, "bf16", false},           {"fp16", 2, 2, 2, "fp16", false},
    {"bfloat16", 2, 2, 2, "bf16", false},       {"float16", 2, 2, 2, "fp16", false},
    {"fp32", 4, 4, 4, "fp32", false},           {"float32", 4, 4, 4, "fp32", false},
    {"tf32", 4, 4, 4, "tf32", false},           {"fp8", 1, 2, 1, "fp8", false},
    {"int8", 1, 1, 1, "int8", false},           {"w8a8", 1, 2, 2, "int8", false},
    {"int8 weights", 1.03, 2, 2, "fp16", true}, {"int4 weights", 0.56, 2, 2, "fp16", true},
    {"int4", 0.56, 2, 2, "fp16", true},         {"nf4", 0.56, 2, 2, "fp16", true},
    {"gptq", 0.56, 2, 2, "fp16", true},         {"awq", 0.56, 2, 2, "fp16", true},
    {"fp4", 0.53, 2, 2, "fp4", false},          {"mxfp4", 0.53, 2, 2, "fp16", true},
    {"q4", 0.5625, 2, 2, "int8", true},         {"q4_0", 0.5625, 2, 2, "int8", true},
    {"q4_1", 0.625, 2, 2, "int8", true},        {"q4_k_m", 0.61, 2, 2, "int8", true},
    {"q4_k_s", 0.58, 2, 2, "int8", true},       {"q4_k", 0.58, 2, 2, "int8", true},
    {"q5_0", 0.6875, 2, 2, "int8", true},       {"q5_1", 0.75, 2, 2, "int8", true},
    {"q5_k_m", 0.71, 2, 2, "int8", true},       {"q5_k_s", 0.69, 2, 2, "int8", true},
    {"q6_k", 0.82, 2, 2, "int8", true},         {"q8_0", 1.0625, 2, 2, "int8", true},
    {"q8", 1.0625, 2, 2, "int8", true},         {"q2_k", 0.33, 2, 2, "int8", true},
    {"q3_k_m", 0.49, 2, 2, "int8", true},       {"q3_k_s", 0.44, 2, 2, "int8", true},
    {"iq4_nl", 0.5625, 2, 2, "int8", true},     {"iq4_xs", 0.53, 2, 2, "int8", true},
    {"iq3_s", 0.43, 2, 2, "int8", true},        {"iq2_xs", 0.29, 2, 2, "int8", true},
    {"fp16.16", 2, 2, 2, "fp16", false},        {"fp16.32", 2, 2, 2, "fp16.32", false},
    {"fp32.32", 4, 4, 4, "fp32", false},        {"fp64", 8, 8, 8, "fp64", false},
    {"mixed", 2, 2, 2, "fp16", false},          {"amp", 2, 2, 2, "fp16", false},
};

}  // namespace

std::string_view name_of(JobTask task) {
  constexpr std::string_view kNames[] = {"pretrain", "finetune", "infer", "generate"};
  return kNames[static_cast<size_t>(task)];
}

JobTask parse_task(std::string_view text, std::string_view where) {
  if (text == "train") return JobTask::kFinetune;
  for (const JobTask task : {JobTask::kPretrain, JobTask::kFinetune, JobTask::kInfer, JobTask::kGenerate})
    if (text == name_of(task)) return task;
  fail(ErrorKind::kUsage, "{}: task: expected pretrain, finetune, infer or generate, found {}", where, quoted(text));
}

bool Job::says(std::string_view word) const {
  const std::string sought = lower(word);
  for (const std::string* text : {&software, &phase, &optimisations})
    if (lower(*text).find(sought) != std::string::npos) return true;
  return false;
}

Maturity Job::maturity() const {
  for (const char* word : {"MLPerf", "Megatron", "TransformerEngine", "LLM Foundry", "TorchTitan"})
    if (says(word)) return Maturity::kTuned;
  for (const char* word : {"graphs", "autotune", "vLLM", "TGI", "llama.cpp", "TensorRT", "Vitis", "Pop", "DPU"})
    if (says(word)) return Maturity::kRecorded;
  if (says("eager")) return Maturity::kEager;
  return Maturity::kLazy;
}

double Job::samples_a_slot() const {
  const size_t at = phase.find(" a slot");
  if (at == std::string::npos) return 1;
  size_t begin = at;
  while (begin > 0 && (std::isdigit(static_cast<unsigned char>(phase[begin - 1])) || phase[begin - 1] == '.')) --begin;
  const auto number = parse_double(std::string_view(phase).substr(begin, at - begin));
  return number && *number > 0 && *number < 1000 ? *number : 1;
}

Job parse_job(std::string_view text, std::string_view where) {
  Json json;
  try {
    json = parse_json(text, where);
  } catch (const Error& error) {
    throw Error(ErrorKind::kUsage, error.what());
  }
  if (!json.is_object()) fail(ErrorKind::kUsage, "{}: expected an object, found {}", where, json.type_name());
  Job job;
  job.id = text_field(json, "id", where);
  job.date = text_field(json, "date", where);
  job.software = text_field(json, "software", where);
  if (is_missing(json, "task")) fail(ErrorKind::kUsage, "{}: task is missing", where);
  job.task = parse_task(text_field(json, "task", where), where);
  job.model = text_field(json, "model", where);
  job.parameters = count_field(json, "parameters", where, 0, false);
  if (!is_missing(json, "config")) {
    if (!json["config"].is_object())
      fail(ErrorKind::kUsage, "{}: config: expected an object, found {}", where, json["config"].type_name());
    job.config = json["config"].dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  job.batch_per_device = count_field(json, "batch_per_device", where, 0, false);
  job.global_batch = count_field(json, "global_batch", where, 0, false);
  job.sequence_length = count_field(json, "sequence_length", where);
  job.output_length = count_field(json, "output_length", where);
  job.phase = text_field(json, "phase", where);
  job.dtype = text_field(json, "dtype", where, "bf16");
  job.hardware = text_field(json, "hardware", where);
  if (job.hardware.empty()) fail(ErrorKind::kUsage, "{}: hardware is missing", where);
  job.devices = count_field(json, "devices", where, 1);
  job.hosts = count_field(json, "hosts", where);
  job.instance = text_field(json, "instance", where);
  job.optimisations = text_field(json, "optimisations", where);
  job.usd_per_hour = count_field(json, "usd_per_hour", where, 0, false);
  if (job.devices > 1 << 20)
    fail(ErrorKind::kUsage, "{}: devices: expected at most {}, found {}", where, 1 << 20, job.devices);
  if (job.hosts > job.devices)
    fail(ErrorKind::kUsage, "{}: hosts: expected at most one a device ({}), found {}", where, job.devices, job.hosts);
  precision_of(job);
  return job;
}

JobPrecision precision_of(const Job& job) {
  const std::string name = lower(job.dtype);
  for (const Format& format : kFormats)
    if (name == format.name)
      return {format.weights, format.activations, format.cache, format.engine, format.compressed};
  std::vector<std::string> names;
  for (const Format& format : kFormats) names.emplace_back(format.name);
  fail(ErrorKind::kUsage, "dtype: {} is not known{}", quoted(job.dtype), did_you_mean(name, names));
}

}  // namespace transom
