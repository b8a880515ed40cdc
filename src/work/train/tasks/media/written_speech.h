// SPDX-License-Identifier: Apache-2.0
// run_speech_recognition_seq2seq: sounds and what is said in them, for models that write it token by token (Whisper).
#pragma once

#include "work/train/tasks/task_data.h"

namespace transom {

void prepare_written_speech(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup);

}  // namespace transom
