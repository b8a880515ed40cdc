// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "poplar/Type.hpp"

namespace poplin {

// A convolution of any number of field dimensions. Input and kernel are truncated, dilated, padded and flipped, in this
// order; the output is truncated, then strided, then padded.
struct ConvParams {
  struct InputTransform {
    std::vector<unsigned> truncationLower, truncationUpper, dilation, paddingLower, paddingUpper;
    std::vector<bool> flip;
    InputTransform() = default;
    explicit InputTransform(std::size_t size)
        : truncationLower(size, 0),
          truncationUpper(size, 0),
          dilation(size, 1),
          paddingLower(size, 0),
          paddingUpper(size, 0),
          flip(size, false) {}
  };
  struct OutputTransform {
    std::vector<unsigned> truncationLower, truncationUpper, stride, paddingLower, paddingUpper;
    OutputTransform() = default;
    explicit OutputTransform(std::size_t size)
        : truncationLower(size, 0),
          truncationUpper(size, 0),
          stride(size, 1),
          paddingLower(size, 0),
          paddingUpper(size, 0) {}
  };

  ConvParams() = default;
  // Channels are those of one group.
  ConvParams(poplar::Type inputType, poplar::Type outputType, std::size_t batchSize,
             std::vector<std::size_t> inputFieldShape, std::vector<std::size_t> kernelShape, std::size_t inputChannels,
             std::size_t outputChannels, std::size_t numConvGroups)
      : inputType(inputType),
        outputType(outputType),
        batchSize(batchSize),
        inputFieldShape(std::move(inputFieldShape)),
        kernelShape(std::move(kernelShape)),
        inputChannelsPerConvGroup(inputChannels),
        outputChannelsPerConvGroup(outputChannels),
        numConvGroups(numConvGroups),
        inputTransform(this->inputFieldShape.size()),
        kernelTransform(this->inputFieldShape.size()),
        outputTransform(this->inputFieldShape.size()) {}

  std::size_t getOutputSize(unsigned dim) const;

  poplar::Type inputType, outputType;
  std::size_t batchSize = 0;
  std::vector<std::size_t> inputFieldShape, kernelShape;
  std::size_t inputChannelsPerConvGroup = 0, outputChannelsPerConvGroup = 0, numConvGroups = 0;
  InputTransform inputTransform, kernelTransform;
  OutputTransform outputTransform;
};

}  // namespace poplin
