// SPDX-License-Identifier: Apache-2.0
#include "nn/linear_observer.h"

namespace transom {
namespace {

thread_local LinearObserver* innermost = nullptr;

}  // namespace

LinearObserver::LinearObserver() : outer_(innermost) { innermost = this; }
LinearObserver::~LinearObserver() { innermost = outer_; }
void LinearObserver::before_convolution(const Tensor&, const Parameter&, const ConvolutionOptions&) {}
LinearObserver* LinearObserver::active() { return innermost; }

}  // namespace transom
