// SPDX-License-Identifier: Apache-2.0
// Ctrl-C and SIGTERM during training: the run ends after its step, with a checkpoint. Handlers belong to the program
// and stand only while it trains; the library has none.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transom/trainer.h"

namespace transom {

// Takes the two signals from the beginning of the training to its end; the second one ends the process at once.
std::shared_ptr<TrainerCallback> interrupt_on_signals();
// The signal that came; 0: none.
int interrupting_signal();

// The words of a call as a shell takes them.
std::string shell_words(const std::vector<std::string>& words);

}  // namespace transom
