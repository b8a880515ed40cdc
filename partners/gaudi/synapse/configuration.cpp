// SPDX-License-Identifier: Apache-2.0
#include "configuration.h"

#include <algorithm>
#include <cstdlib>
#include <thread>

namespace synapse_emulator {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr double kTera = 1e12, kGiga = 1e9;

const Generation kGenerations[] = {
    {"gaudi",        "GAUDI", synDeviceGaudi, 32 * kGiB,  128,          20u << 20,    8, 1.8e9, 0.9 * kTera, 59 * kTera,
     59 * kTera / 4, 0,       4 * kTera,      16 * kGiga, 87.5 * kGiga, 37.5 * kGiga, 0, false, false,       false,
     false},
    {"gaudi2",
     "GAUDI2",
     synDeviceGaudi2,
     96 * kGiB,
     128,
     48u << 20,
     24,
     1.65e9,
     2.46 * kTera,
     432 * kTera,
     432 * kTera / 4,
     865 * kTera,
     11 * kTera,
     32 * kGiga,
     262.5 * kGiga,
     37.5 * kGiga,
     240,
     true,
     true,
     true,
     true},
    {"gaudi3",
     "GAUDI3",
     synDeviceGaudi3,
     128 * kGiB,
     256,
     96u << 20,
     64,
     1.75e9,
     3.68 * kTera,
     1835 * kTera,
     1835 * kTera / 4,
     1835 * kTera,
     28.7 * kTera,
     64 * kGiga,
     525 * kGiga,
     75 * kGiga,
     448,
     true,
     true,
     true,
     true},
};

struct Reader {
  Configuration result;
  std::string error;

  static std::string text(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
  }
  void refuse(const char* name, const std::string& value, const char* expected) {
    if (error.empty()) error = std::string(name) + "=" + value + ": expected " + expected;
  }
  double number(const char* name, double preset, double least) {
    const std::string value = text(name);
    if (value.empty()) return preset;
    char* end = nullptr;
    const double found = std::strtod(value.c_str(), &end);
    if (*end != 0 || !(found >= least)) refuse(name, value, "a number");
    return found;
  }
  bool flag(const char* name, bool preset) {
    const std::string value = text(name);
    if (value.empty()) return preset;
    if (value != "0" && value != "1") refuse(name, value, "0 or 1");
    return value == "1";
  }
};

Reader read() {
  Reader reader;
  Configuration& result = reader.result;
  std::string generation = Reader::text("TRANSOM_SYNAPSE_GENERATION");
  if (generation.empty()) generation = "gaudi2";
  const auto found = std::find_if(std::begin(kGenerations), std::end(kGenerations),
                                  [&](const Generation& known) { return generation == known.name; });
  if (found == std::end(kGenerations)) {
    reader.refuse("TRANSOM_SYNAPSE_GENERATION", generation, "gaudi, gaudi2 or gaudi3");
    result.generation = kGenerations[1];
  } else {
    result.generation = *found;
  }
  result.devices = static_cast<uint32_t>(reader.number("TRANSOM_SYNAPSE_DEVICES", 1, 0));
  result.memory_bytes = static_cast<uint64_t>(
      reader.number("TRANSOM_SYNAPSE_MEMORY", static_cast<double>(result.generation.memory_bytes), 0));
  result.server = Reader::text("TRANSOM_SYNAPSE_SERVER");
  result.log = Reader::text("TRANSOM_SYNAPSE_LOG");
  result.report = Reader::text("TRANSOM_SYNAPSE_REPORT");
  result.faults = Reader::text("TRANSOM_SYNAPSE_FAULT");
  result.poison = reader.flag("TRANSOM_SYNAPSE_POISON", true);
  result.permute = reader.flag("TRANSOM_SYNAPSE_PERMUTE", false);
  result.values = reader.flag("TRANSOM_SYNAPSE_VALUES", true);
  result.timeline = reader.flag("TRANSOM_SYNAPSE_TIMELINE", false);
  result.check_races = reader.flag("TRANSOM_SYNAPSE_RACES", true);
  result.deferred = reader.flag("TRANSOM_SYNAPSE_DEFER", false);
  result.timeout_seconds = reader.number("TRANSOM_SYNAPSE_TIMEOUT", 60, 0.001);
  const double threads = reader.number("TRANSOM_SYNAPSE_THREADS", std::thread::hardware_concurrency(), 1);
  result.threads = static_cast<int>(std::clamp(threads, 1.0, 64.0));
  const std::string single = Reader::text("TRANSOM_SYNAPSE_MME_F32");
  if (single == "tf32") result.mme_single = MmeSingle::kTf32;
  else if (single == "bf16") result.mme_single = MmeSingle::kBf16;
  else if (!single.empty() && single != "f32") reader.refuse("TRANSOM_SYNAPSE_MME_F32", single, "f32, tf32 or bf16");
  if (result.mme_single == MmeSingle::kTf32 && !result.generation.has_tf32)
    reader.refuse("TRANSOM_SYNAPSE_MME_F32", single, "f32 or bf16: the first generation has no tf32");
  return reader;
}

const Reader& reader() {
  static const Reader& result = *new Reader(read());  // lives as long as the process
  return result;
}

}  // namespace

const Configuration& configuration() { return reader().result; }
const std::string& configuration_error() { return reader().error; }

}  // namespace synapse_emulator
