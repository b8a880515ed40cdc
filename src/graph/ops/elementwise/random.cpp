// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
#include <algorithm>
#include <array>
#include <numbers>

#include "base/threads/threads.h"
#include "graph/ops/records.h"
#include "graph/ops/rules.h"

namespace transom {
namespace {

using Words = std::array<uint32_t, 4>;

Words philox(Words counter, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0], product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key0, static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return counter;
}

const Operation kRandomBits = {
    .name = "random_bits",
    .documentation =
        "u32 of `shape` from key = (seed, offset): word i % 4 of Philox4x32-10 at counter (i / 4, offset).",
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 1);
      check(in, in.inputs[0] == Type{DType::kInt64, {2}}, "expected a key of type i64[2], found {}", in.inputs[0]);
      return {{DType::kUInt32, in.attributes.get_ints("shape")}};
    },
    .evaluate =
        [](std::span<const Array> in, const Attributes&, std::span<Array> out) {
          const auto seed = static_cast<uint64_t>(in[0].integer[0]), offset = static_cast<uint64_t>(in[0].integer[1]);
          constexpr uint64_t kBlocks = 4096;  // of four words, a task
          const uint64_t count = out[0].integer.size();
          parallel_for((count + 4 * kBlocks - 1) / (4 * kBlocks), [&](size_t task) {
            for (uint64_t block = task * kBlocks; block < (task + 1) * kBlocks && 4 * block < count; ++block) {
              const Words words = philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                                          static_cast<uint32_t>(offset), static_cast<uint32_t>(offset >> 32)},
                                         static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
              for (uint64_t i = 4 * block; i < std::min(count, 4 * block + 4); ++i) out[0].integer[i] = words[i % 4];
            }
          });
        },
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> samples;
      for (const Shape& shape : {Shape{}, Shape{5}, Shape{3, 41}, Shape{1030}})
        samples.push_back({{{DType::kInt64, {2}}}, {{"shape", shape}}, 0, 0, 1'000'000});
      return samples;
    }};

Tensor keep_scaled(const Tensor& x, const Tensor& key, double probability) {
  // A word below this bound is dropped: probability in units of 2^-32.
  const double bound = std::min(std::floor(probability * 4294967296.0), 4294967295.0);
  const Tensor kept = greater_equal(random_bits(key, x.shape()), constant(bound, DType::kUInt32));
  return select(kept, x * (1.0 / (1.0 - probability)), zeros(x.shape(), x.dtype()));
}

const Operation kDropout = {
    .name = "dropout",
    .kind = OperationKind::kComposite,
    .documentation =
        "x with elements set to 0 with `probability`, the others divided by 1 - probability. Its own gradient: "
        "the same key draws the same elements again, so no mask is kept.",
    .elementwise = false,
    .category = Category::kElements,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 2);
      expect_floating(in, 0);
      const double probability = in.attributes.get_float("probability");
      check(in, probability >= 0 && probability < 1, "probability {} is outside [0, 1)", probability);
      return {in.inputs[0]};
    },
    .decompose = [](std::span<const Tensor> in, const Attributes& attributes) -> std::vector<Tensor> {
      return {keep_scaled(in[0], in[1], attributes.get_float("probability"))};
    },
    .gradient = [](const GradientRequest& request) -> std::vector<Tensor> {
      return {dropout(request.cotangents[0], request.inputs[1], request.attributes.get_float("probability")), Tensor()};
    },
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> samples;
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16})
        samples.push_back({{{dtype, {9, 31}}, {DType::kInt64, {2}}}, {{"probability", 0.25}}, -2, 2, 1'000'000});
      return samples;
    }};

}  // namespace

const RegisterOperations kRegisteredRandom{&kRandomBits, &kDropout};

namespace op {
const Operation& random_bits = kRandomBits;
}  // namespace op

Tensor random_bits(const Tensor& key, const Shape& shape) {
  return make_tensor(kRandomBits, {key}, {{"shape", shape}});
}

Tensor random_uniform(const Tensor& key, const Shape& shape, DType dtype) {
  // As many bits as fill the significand of the type, and of f32 at most: every value is exact and below 1.
  const double levels = dtype == DType::kBFloat16 ? 0x1p8 : dtype == DType::kFloat16 ? 0x1p11 : 0x1p24;
  const Tensor bits = cast(random_bits(key, shape), DType::kInt64);
  return cast(cast(bits / (0x1p32 / levels), DType::kFloat32) * (1 / levels), dtype);
}

// Box and Muller (1958): two uniform draws make two normal ones. 1 - u is in (0, 1], where the logarithm is finite.
Tensor random_normal(const Tensor& key, const Shape& shape, DType dtype) {
  const int64_t count = elements(shape), half = (count + 1) / 2;
  const Tensor u = random_uniform(key, {2, half}, DType::kFloat32);
  const Tensor radius = sqrt(log(1.0 - u[0]) * -2.0), angle = u[1] * (2 * std::numbers::pi);
  const Tensor normal = concatenate({radius * cos(angle), radius * sin(angle)}, 0);
  return cast(reshape(slice(normal, 0, 0, count), shape), dtype);
}

Tensor dropout(const Tensor& x, const Tensor& key, double probability) {
  if (probability == 0) return x;
  return make_tensor(kDropout, {x, key}, {{"probability", probability}});
}

}  // namespace transom
