// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "inputs/audio/whisper_languages.h"
