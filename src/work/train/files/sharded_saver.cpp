// SPDX-License-Identifier: Apache-2.0
#include "work/train/files/sharded_saver.h"

#include <utility>

#include "base/error.h"

namespace transom {
namespace {

// A report is joined texts: "" or why it failed, then name, bytes and check sum of each file.
std::string report_of(const fs::path& directory, const std::vector<std::string>& names) {
  std::vector<std::string> fields{""};
  for (const std::string& name : names) {
    const Manifest::File file = describe_file(directory / name);
    fields.insert(fields.end(), {name, std::to_string(file.bytes), std::to_string(file.crc32)});
  }
  return joined_texts(fields);
}

// Adds the files of a report to the manifest.
void take_report(const std::string& report, size_t rank, Manifest& manifest) {
  const auto fields = split_texts(report);
  if (!fields || fields->size() % 3 != 1) fail(ErrorKind::kDevice, "rank {}: reported no files", rank);
  if (!fields->front().empty()) fail("{}", fields->front());
  for (size_t i = 1; i < fields->size(); i += 3)
    manifest.files[(*fields)[i]] = {std::stoll((*fields)[i + 1]), static_cast<uint32_t>(std::stoul((*fields)[i + 2]))};
}

}  // namespace

ShardedSaver::~ShardedSaver() { join(); }

void ShardedSaver::join() {
  if (thread_.joinable()) thread_.join();
}

void ShardedSaver::start(Save save) {
  finish();
  ++saves_;
  thread_ = std::thread([this, save = std::move(save)] {
    try {
      run(save);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
    }
  });
}

void ShardedSaver::finish() {
  join();
  check();
}

void ShardedSaver::check() {
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ShardedSaver::run(const Save& save) {
  std::string report;
  try {
    std::vector<std::string> names = write_shards(save.temporary, kModelShards, group_.rank(), save.parts.weights);
    for (std::string& name : write_shards(save.temporary, kOptimizerShards, group_.rank(), save.parts.states))
      names.push_back(std::move(name));
    report = report_of(save.temporary, names);
  } catch (const std::exception& error) {
    report = joined_texts({error.what()});
  }
  // The names of the exchanges are those of no other: saves are counted on all processes alike.
  const std::string name = fmt::format("checkpoint {} of step {}", saves_, save.step);
  const std::vector<std::string> reports = group_.gather_on_main(name + ": written", report);
  std::string failure;
  if (group_.is_main()) {
    try {
      Manifest manifest{.step = save.step, .ranks = group_.size(), .mesh = save.mesh, .files = {}};
      for (size_t rank = 0; rank < reports.size(); ++rank) take_report(reports[rank], rank, manifest);
      write_file(save.temporary / kManifest, manifest.to_json());
      replace_directory(save.temporary, save.destination);
      if (save.then) save.then();
    } catch (const std::exception& error) {
      failure = error.what();
      std::error_code none;
      fs::remove_all(save.temporary, none);
    }
  }
  failure = group_.from_main_by_name(name + ": there", failure);
  if (!failure.empty()) fail("{}", failure);
}

}  // namespace transom
