// SPDX-License-Identifier: Apache-2.0
// A token's bits depend on its inputs and on the state before it alone.
#include "cpu/vector/scan.h"

#include "cpu/vector/lanes.h"
#include "cpu/vector/level.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

// Some of a row's numbers, a register of them or, at its end, fewer; what is behind counts as 0.
struct Part {
  size_t at, n;
};
template <typename Body>
inline void for_parts(size_t count, const Body& body) {
  size_t i = 0;
  for (; i + kWidth <= count; i += kWidth) body(Part{i, kWidth});
  if (i < count) body(Part{i, count - i});
}
inline Lanes load(const float* from, Part part) {
  return part.n == kWidth ? load_lanes(from + part.at) : load_lanes(from + part.at, part.n, 0.0f);
}
inline void store(float* to, Lanes x, Part part) {
  if (part.n == kWidth) store_lanes(to + part.at, x);
  else store_lanes(to + part.at, x, part.n);
}

// exp(dt a) of each number of a row of the state.
inline void find_decays(float* decays, const ScanHead& h, float dt) {
  if (h.rates == 1) {
    const float one = exp_value(dt * h.a[0]);
    for (size_t s = 0; s < h.S; ++s) decays[s] = one;
  } else {
    TRANSOM_SIMD for (size_t s = 0; s < h.S; ++s) decays[s] = exp_value(dt * h.a[s]);
  }
}

void scan_token(const ScanHead& h, float* decays, float* state, const float* x, float dt, const float* b,
                const float* c, float* y) {
  find_decays(decays, h, dt);
  for (size_t p = 0; p < h.P; ++p) {
    float* row = state + p * h.S;
    const Lanes given(dt * x[p]);
    Lanes sum(0.0f);
    for_parts(h.S, [&](Part part) {
      const Lanes next = load(row, part) * load(decays, part) + given * load(b, part);
      store(row, next, part);
      sum = sum + next * load(c, part);
    });
    if (y) y[p] = sum_of(sum);
  }
}

void scan_token_gradient(const ScanHead& h, float* decays, float* cotangent, const float* before, const float* after,
                         const float* x, float dt, const float* b, const float* c, const float* dy, float* dx,
                         float* ddt, float* da, float* db, float* dc) {
  find_decays(decays, h, dt);
  float of_dt = 0;
  for (size_t p = 0; p < h.P; ++p) {
    float* row = cotangent + p * h.S;
    const float* old = before + p * h.S;
    const float* now = after + p * h.S;
    const Lanes read(dy[p]), given(dt * x[p]), times(dt);
    Lanes of_given(0.0f), of_rate(0.0f);
    for_parts(h.S, [&](Part part) {
      const Lanes g = load(row, part) + read * load(c, part);
      of_given = of_given + g * load(b, part);
      store(db, load(db, part) + g * given, part);
      store(dc, load(dc, part) + read * load(now, part), part);
      const Lanes passed = g * load(decays, part);
      store(row, passed, part);
      const Lanes of_decay = passed * load(old, part);
      if (h.rates == 1) {
        of_rate = of_rate + of_decay;
      } else {
        of_rate = of_rate + of_decay * load(h.a, part);
        store(da, load(da, part) + of_decay * times, part);
      }
    });
    const float du = sum_of(of_given);
    float rate = sum_of(of_rate);
    dx[p] = du * dt;
    if (h.rates == 1) {
      da[0] += rate * dt;
      rate *= h.a[0];
    }
    of_dt += du * x[p] + rate;
  }
  *ddt = of_dt;
}

void delta_token(size_t P, size_t S, float* state, const float* v, float decay, float beta, const float* k,
                 const float* q, float* y) {
  const Lanes left(decay);
  for (size_t p = 0; p < P; ++p) {
    float* row = state + p * S;
    Lanes known(0.0f), sum(0.0f);
    for_parts(S, [&](Part part) {
      const Lanes h = left * load(row, part);
      store(row, h, part);
      known = known + h * load(k, part);
    });
    const Lanes written(beta * (v[p] - sum_of(known)));
    for_parts(S, [&](Part part) {
      const Lanes next = load(row, part) + written * load(k, part);
      store(row, next, part);
      sum = sum + next * load(q, part);
    });
    y[p] = sum_of(sum);
  }
}

}  // namespace

void fill_scan(ScanKernels& table) {
  table.token = scan_token;
  table.gradient = scan_token_gradient;
  table.delta = delta_token;
}

}  // namespace transom::cpu::TRANSOM_LEVEL
