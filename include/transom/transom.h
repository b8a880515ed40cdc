// SPDX-License-Identifier: Apache-2.0
// All of Transom.
#pragma once

#include "transom/caches.h"
#include "transom/compile.h"
#include "transom/dataset.h"
#include "transom/device.h"
#include "transom/error.h"
#include "transom/fine_tuning.h"
#include "transom/gradients.h"
#include "transom/hub.h"
#include "transom/model.h"
#include "transom/ops.h"
#include "transom/pipeline.h"
#include "transom/tensor.h"
#include "transom/tokenizer.h"
#include "transom/trainer.h"
#include "transom/training_arguments.h"
