// SPDX-License-Identifier: Apache-2.0
// The params structs of nodes. A kernel knows from its size which version of a struct it was given.
#pragma once

#include <cstdint>

namespace synapse_emulator {

// A bool of the caller's: any byte but 0 is true, and a C++ bool of such a byte would be undefined.
struct Flag {
  uint8_t byte = 0;
  Flag() = default;
  Flag(bool value) : byte(value) {}
  operator bool() const { return byte != 0; }
};

struct GemmParams {
  Flag transpose_a, transpose_b;
};
struct ActivationParams {
  Flag reluEnable, resAfterPWL;
  uint16_t pad;
  uint32_t numChannels;
  uint64_t pwl[2];
};
struct ConvolutionParams {
  uint32_t kW, kH, dW, dH;
  int32_t padL, padR, padT, padB;
  uint32_t dilW, dilH;
  ActivationParams activation;
  uint32_t nGroups, pad;
};
struct TransposeParams {
  int32_t permutation[5];
  uint32_t tensorDim;
};
struct TransposeNDimsParams {
  uint32_t tensorDim;
  uint32_t permutation[25];
};
struct AxisParams {
  uint32_t axis;
};
struct SliceParams {
  uint32_t axes[25], pad;
  uint64_t starts[25], ends[25], steps[25];
};
struct StridedParams {
  uint64_t baseOffset, strides[25];
};
struct LayerNormParams {
  Flag epsValid;
  float eps;
};
struct LayerNormAxesParams {
  Flag epsValid;
  float eps;
  uint32_t NormAxisBmp, ParamAxisBmp;
};
struct LayerNormPtParams {
  Flag epsValid;
  float eps;
  uint32_t NormAxisBmp, ParamAxisBmp, normalizedShapeDims;
};
struct RmsNormParams {
  Flag epsValid;
  float eps;
  uint32_t NormAxisBmp, ParamAxisBmp, normalizedShapeDims;
  Flag fastMath;
};
struct RmsNormBackwardParams {
  uint32_t bwdStage;
  int32_t numTpc, bwdMode;
  Flag useStages;
};
struct SoftmaxParams {
  int32_t dim;
};
struct GeluParams {
  Flag approximation;
};
struct DropoutParams {
  float ratio;
  uint32_t seed;
  Flag disableMaskOut;
};
struct AttentionParams {
  float scale;
  Flag is_causal;
  DropoutParams dropout;
  Flag is_inference;
  int32_t softmax_mode;
  uint32_t flags;
};
struct RotaryParams {
  uint32_t offset;
  int32_t mode;
};
struct ReductionParams {
  int32_t dim;
};
struct ReductionMaskParams {
  uint32_t dimMask;
  Flag keepDim;
};
struct CastParams {
  int32_t round_mode;
};
union Number {
  float f;
  int32_t i;
};
struct ConstantParams {
  Number value;
};
struct RangeParams {
  Number start, limit, delta;
};
struct GatherParams {
  int32_t axis;
};
struct EmbeddingBackwardParams {
  int32_t num_weights, padding_idx;
  Flag scaleGradByFreq;
};
struct NegativeLogLikelihoodParams {
  int32_t mode, ignoreIndexValue;
};
struct CrossEntropyParams {
  int32_t mode, batchSize;
};
struct BatchNormParams {
  Number threshold;
  float momentum, epsilon;
  Flag isTraining;
};
struct AlphaParams {
  Number alpha;
  int32_t mode;
};
struct ClampParams {
  Number upperBound, lowerBound;
};
struct LinearBackwardParams {
  Flag gradBias;
};
struct SgdParams {
  float wd, mom, damp;
  Flag nesterov;
};
struct TriangleParams {
  int32_t numLower, numUpper, excludeDiag;
};
struct CumulativeParams {
  int32_t axis, exclusive, reverse;
};

struct TopkParams {
  uint32_t k, axis;
  Flag bottom, stable, has_valid_count;
  int32_t k_kind;
};  // perf library, V4
struct BeamParams {
  uint32_t k, axis;
  Flag bottom;
};  // the compiler's own
struct OneHotParams {
  int32_t axis, depth;
  float on_value, off_value;
};
struct PadParams {
  Number value;
  uint32_t pads[10];
  int32_t mode;
};  // pads: as many before as the rank, then after, fastest first
struct PoolingParams {
  int32_t pad_w_begin, pad_w_end, pad_h_begin, pad_h_end, kernel_w, kernel_h, stride_w, stride_h, dilation_w,
      dilation_h, convention;
};
struct AveragePoolingParams {
  PoolingParams window;
  int32_t include_padding;
};
struct ScatterReduceParams {
  int32_t axis;
  Flag include_self;
  int32_t mode;
};
struct RoundParams {
  int32_t mode;
};  // 0 half away from zero, 1 half to even
struct RandomUniformParams {
  float low, high;
  uint32_t seed;
};
struct RandomNormalParams {
  float mean, deviation;
  uint32_t seed;
};
struct ModuloParams {
  Flag as_python;
};
struct SoftplusParams {
  float beta, threshold;
};
struct AddcmulParams {
  float value;
};
struct FillAxisParams {
  int32_t axis;
};

static_assert(sizeof(GemmParams) == 2);
static_assert(sizeof(ConvolutionParams) == 72);
static_assert(sizeof(TransposeParams) == 24);
static_assert(sizeof(TransposeNDimsParams) == 104);
static_assert(sizeof(AxisParams) == 4);
static_assert(sizeof(SliceParams) == 704);
static_assert(sizeof(StridedParams) == 208);
static_assert(sizeof(LayerNormParams) == 8);
static_assert(sizeof(LayerNormAxesParams) == 16);
static_assert(sizeof(LayerNormPtParams) == 20);
static_assert(sizeof(RmsNormParams) == 24);
static_assert(sizeof(RmsNormBackwardParams) == 16);
static_assert(sizeof(SoftmaxParams) == 4);
static_assert(sizeof(GeluParams) == 1);
static_assert(sizeof(DropoutParams) == 12);
static_assert(sizeof(AttentionParams) == 32);
static_assert(sizeof(RotaryParams) == 8);
static_assert(sizeof(ReductionParams) == 4);
static_assert(sizeof(ReductionMaskParams) == 8);
static_assert(sizeof(CastParams) == 4);
static_assert(sizeof(ConstantParams) == 4);
static_assert(sizeof(RangeParams) == 12);
static_assert(sizeof(GatherParams) == 4);
static_assert(sizeof(EmbeddingBackwardParams) == 12);
static_assert(sizeof(NegativeLogLikelihoodParams) == 8);
static_assert(sizeof(CrossEntropyParams) == 8);
static_assert(sizeof(BatchNormParams) == 16);
static_assert(sizeof(AlphaParams) == 8);
static_assert(sizeof(ClampParams) == 8);
static_assert(sizeof(LinearBackwardParams) == 1);
static_assert(sizeof(SgdParams) == 16);
static_assert(sizeof(TriangleParams) == 12);
static_assert(sizeof(CumulativeParams) == 12);
static_assert(sizeof(TopkParams) == 16);
static_assert(sizeof(BeamParams) == 12);
static_assert(sizeof(OneHotParams) == 16);
static_assert(sizeof(PadParams) == 48);
static_assert(sizeof(PoolingParams) == 44);
static_assert(sizeof(AveragePoolingParams) == 48);

}  // namespace synapse_emulator
