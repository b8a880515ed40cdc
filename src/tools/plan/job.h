// SPDX-License-Identifier: Apache-2.0
// A job to plan: what is to be run on which machine, before anything is known of how.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace transom {

enum class JobTask { kPretrain, kFinetune, kInfer, kGenerate };
std::string_view name_of(JobTask task);  // "pretrain"
inline bool is_training(JobTask task) { return task == JobTask::kPretrain || task == JobTask::kFinetune; }

// How far the software that runs the job is tuned for the hardware. Host costs and passes over memory depend on it.
enum class Maturity {
  kEager,     // one kernel at a time
  kLazy,      // graphs that a framework gathers or compiles: lazy mode, torch.compile
  kRecorded,  // graphs that are recorded and replayed, or an engine of its own
  kTuned,     // tuned for this model on this hardware: MLPerf, a vendor's trainer
};

// The fields of case.json by their names there. Zero or empty: not stated.
struct Job {
  std::string id, date, software;
  JobTask task = JobTask::kInfer;
  std::string model;
  double parameters = 0;
  std::string config;  // JSON text of the shape, in the field names of config.json
  double batch_per_device = 0, global_batch = 0;
  double sequence_length = 0, output_length = 0;  // tokens
  std::string phase, dtype = "bf16", hardware, instance, optimisations;
  double devices = 1, hosts = 0;
  double usd_per_hour = 0;  // of one host; 0: from the price file of the device

  Maturity maturity() const;
  bool says(std::string_view word) const;  // in software, phase or optimisations, in any case of letters
  double samples_a_slot() const;           // original samples that one packed slot of a batch counts as
};

// Reads a case. `where` names the document in errors; a wrong field is an Error of kind kUsage that names it.
Job parse_job(std::string_view text, std::string_view where);
JobTask parse_task(std::string_view text, std::string_view where);

// How the numbers of a job are stored and multiplied.
struct JobPrecision {
  double weight_bytes = 2, activation_bytes = 2, cache_bytes = 2;
  std::string engine = "bf16";  // the entry of the device's table of peaks
  bool compressed = false;      // weights are unpacked before products
};
// Refuses unknown names by `dtype`.
JobPrecision precision_of(const Job& job);

}  // namespace transom
