// SPDX-License-Identifier: Apache-2.0
#include "runtime/programs/compilation.h"

#include <mutex>

#include "base/error.h"

namespace transom {
namespace {

struct Record {
  std::mutex mutex;
  bool active = false;
  std::vector<std::shared_ptr<const Compilation>> compilations;
};

Record& record() {
  static Record instance;
  return instance;
}

}  // namespace

RecordCompilations::RecordCompilations() {
  const std::lock_guard lock(record().mutex);
  if (std::exchange(record().active, true)) fail("compilations are recorded already");
}

RecordCompilations::~RecordCompilations() {
  const std::lock_guard lock(record().mutex);
  record().active = false;
  record().compilations.clear();
}

std::vector<std::shared_ptr<const Compilation>> RecordCompilations::compilations() const {
  const std::lock_guard lock(record().mutex);
  return record().compilations;
}

bool RecordCompilations::active() {
  const std::lock_guard lock(record().mutex);
  return record().active;
}

void RecordCompilations::add(std::shared_ptr<const Compilation> compilation) {
  const std::lock_guard lock(record().mutex);
  if (record().active) record().compilations.push_back(std::move(compilation));
}

}  // namespace transom
