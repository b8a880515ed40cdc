// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/sentences/losses/sentence_loss.h"

#include <algorithm>

#include "base/error.h"

namespace transom {
namespace {

std::vector<const SentenceLossRecord*>& known_sentence_losses() {
  static std::vector<const SentenceLossRecord*> all;
  return all;
}

}  // namespace

RegisterSentenceLosses::RegisterSentenceLosses(std::span<const SentenceLossRecord> records) {
  for (const SentenceLossRecord& record : records) known_sentence_losses().push_back(&record);
}

std::vector<const SentenceLossRecord*> sentence_losses() {
  std::vector<const SentenceLossRecord*> all = known_sentence_losses();
  std::sort(all.begin(), all.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  return all;
}

const SentenceLossRecord& sentence_loss_named(const std::string& name) {
  std::vector<std::string> names;
  for (const SentenceLossRecord* each : sentence_losses()) {
    if (each->name == name) return *each;
    names.emplace_back(each->name);
  }
  fail(ErrorKind::kUsage, "--loss: {} is no loss of sentence-embedding{}; known are: {}", quoted(name),
       did_you_mean(name, names), fmt::join(names, ", "));
}

}  // namespace transom
