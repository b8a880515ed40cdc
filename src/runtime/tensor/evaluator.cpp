// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/evaluator.h"

#include <utility>

namespace transom {
namespace {

thread_local Evaluator* innermost = nullptr;

}  // namespace

EvaluatorScope::EvaluatorScope(Evaluator* evaluator) : before_(std::exchange(innermost, evaluator)) {}

EvaluatorScope::~EvaluatorScope() { innermost = before_; }

Evaluator* EvaluatorScope::current() { return innermost; }

}  // namespace transom
