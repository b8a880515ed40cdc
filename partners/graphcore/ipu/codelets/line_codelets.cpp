// SPDX-License-Identifier: Apache-2.0
// Codelets that walk lines. `in` holds whole lines of `length` elements, one after the other.
#include <poplar/Vertex.hpp>

using namespace poplar;

// The place of the first largest (or smallest) element of each line; of the first NaN, if there is one.
template <typename T>
class FirstLargest : public Vertex {
 public:
  Input<Vector<T>> in;
  Output<Vector<long long>> out;
  unsigned length;
  bool smallest;

  bool compute() {
    for (unsigned line = 0; line < out.size(); ++line) {
      const T* x = &in[line * length];
      unsigned best = 0;
      for (unsigned i = 1; i < length; ++i) {
        if (x[best] != x[best]) break;
        if (x[i] != x[i] || (smallest ? x[i] < x[best] : x[i] > x[best])) best = i;
      }
      out[line] = best;
    }
    return true;
  }
};

template <typename T>
class RunningSum : public Vertex {
 public:
  Input<Vector<T>> in;
  Output<Vector<T>> out;
  unsigned length;

  bool compute() {
    T sum = 0;
    for (unsigned i = 0; i < in.size(); ++i) {
      if (i % length == 0) sum = 0;
      sum += in[i];
      out[i] = sum;
    }
    return true;
  }
};

// The `kept` first elements of each line in order, and their places. Equal ones stay in order. A merge sort would need
// memory of its own: elements are put in one by one, and only those that are kept.
template <typename T>
class SortLines : public Vertex {
 public:
  Input<Vector<T>> in;
  Output<Vector<T>> values;
  Output<Vector<long long>> places;
  unsigned length, kept;
  bool descending, nanLast;

  bool before(T x, T y) const {
    const bool x_nan = x != x, y_nan = y != y;
    if (x_nan || y_nan) return nanLast ? !x_nan && y_nan : x_nan && !y_nan;
    return descending ? x > y : x < y;
  }

  bool compute() {
    for (unsigned begin = 0, line = 0; begin < in.size(); begin += length, ++line) {
      T* v = &values[line * kept];
      long long* p = &places[line * kept];
      unsigned count = 0;
      for (unsigned i = 0; i < length; ++i) {
        const T x = in[begin + i];
        if (count == kept && (kept == 0 || !before(x, v[count - 1]))) continue;
        unsigned at = count < kept ? count++ : count - 1;
        for (; at > 0 && before(x, v[at - 1]); --at) v[at] = v[at - 1], p[at] = p[at - 1];
        v[at] = x;
        p[at] = i;
      }
    }
    return true;
  }
};

// Operation 0: sum, 1: largest, 2: smallest.
template <typename T>
class ReduceLines : public Vertex {
 public:
  Input<Vector<T>> in;
  Output<Vector<T>> out;
  unsigned length, operation;

  bool compute() {
    for (unsigned line = 0; line < out.size(); ++line) {
      const T* x = &in[line * length];
      unsigned long long sum = 0;
      T best = x[0];
      for (unsigned i = 0; i < length; ++i) {
        sum += static_cast<unsigned long long>(x[i]);
        if (operation == 1 ? x[i] > best : x[i] < best) best = x[i];
      }
      out[line] = operation == 0 ? static_cast<T>(sum) : best;
    }
    return true;
  }
};

// sums[offsets[i]] += added[i], for each line of `length` sums.
template <typename T>
class AddAt : public Vertex {
 public:
  InOut<Vector<T>> sums;
  Input<Vector<T>> added;
  Input<Vector<unsigned>> offsets;
  unsigned length;

  bool compute() {
    const unsigned count = offsets.size(), lines = count ? added.size() / count : 0;
    for (unsigned line = 0; line < lines; ++line)
      for (unsigned i = 0; i < count; ++i) {
        T& sum = sums[line * length + offsets[i]];
        sum = static_cast<T>(static_cast<unsigned long long>(sum) +
                             static_cast<unsigned long long>(added[line * count + i]));
      }
    return true;
  }
};

// Rows of a product of [groups, rows, inner] and [groups, columns, inner], from row `first` of all groups on.
template <typename T>
class IntegerProduct : public Vertex {
 public:
  Input<Vector<T>> left, right;
  Output<Vector<T>> out;
  unsigned first, rows, inner, columns;

  bool compute() {
    for (unsigned i = 0; i < out.size() / columns; ++i) {
      const unsigned group = (first + i) / rows;
      for (unsigned j = 0; j < columns; ++j) {
        unsigned long long sum = 0;
        for (unsigned k = 0; k < inner; ++k)
          sum += static_cast<unsigned long long>(left[i * inner + k]) *
                 static_cast<unsigned long long>(right[(group * columns + j) * inner + k]);
        out[i * columns + j] = static_cast<T>(sum);
      }
    }
    return true;
  }
};

// Element by element, by squares; wraps around. Powers below 0 are those of 1 and -1, else 0.
template <typename T>
class IntegerPower : public Vertex {
 public:
  Input<Vector<T>> base, exponent;
  Output<Vector<T>> out;

  bool compute() {
    for (unsigned i = 0; i < out.size(); ++i) {
      T power = exponent[i];
      unsigned long long factor = static_cast<unsigned long long>(base[i]), result = 1;
      if (power < 0) {
        out[i] = base[i] == 1 ? T(1) : base[i] == T(-1) ? (power % 2 ? T(-1) : T(1)) : T(0);
        continue;
      }
      for (; power > 0; power >>= 1, factor *= factor)
        if (power & 1) result *= factor;
      out[i] = static_cast<T>(result);
    }
    return true;
  }
};

template class FirstLargest<float>;
template class FirstLargest<int>;
template class FirstLargest<unsigned>;
template class FirstLargest<long long>;
template class RunningSum<float>;
template class RunningSum<int>;
template class RunningSum<unsigned>;
template class RunningSum<long long>;
template class SortLines<float>;
template class SortLines<int>;
template class SortLines<unsigned>;
template class SortLines<long long>;
template class ReduceLines<long long>;
template class AddAt<int>;
template class AddAt<unsigned>;
template class AddAt<long long>;
template class IntegerProduct<int>;
template class IntegerProduct<long long>;
template class IntegerPower<int>;
template class IntegerPower<long long>;

#ifdef EMULATED_CODELET
EMULATED_CODELET(FirstLargest<float>, "FirstLargest<float>", in, out, length, smallest)
EMULATED_CODELET(FirstLargest<int>, "FirstLargest<int>", in, out, length, smallest)
EMULATED_CODELET(FirstLargest<unsigned>, "FirstLargest<unsigned int>", in, out, length, smallest)
EMULATED_CODELET(FirstLargest<long long>, "FirstLargest<long long>", in, out, length, smallest)
EMULATED_CODELET(RunningSum<float>, "RunningSum<float>", in, out, length)
EMULATED_CODELET(RunningSum<int>, "RunningSum<int>", in, out, length)
EMULATED_CODELET(RunningSum<unsigned>, "RunningSum<unsigned int>", in, out, length)
EMULATED_CODELET(RunningSum<long long>, "RunningSum<long long>", in, out, length)
EMULATED_CODELET(SortLines<float>, "SortLines<float>", in, values, places, length, kept, descending, nanLast)
EMULATED_CODELET(SortLines<int>, "SortLines<int>", in, values, places, length, kept, descending, nanLast)
EMULATED_CODELET(SortLines<unsigned>, "SortLines<unsigned int>", in, values, places, length, kept, descending, nanLast)
EMULATED_CODELET(SortLines<long long>, "SortLines<long long>", in, values, places, length, kept, descending, nanLast)
EMULATED_CODELET(ReduceLines<long long>, "ReduceLines<long long>", in, out, length, operation)
EMULATED_CODELET(AddAt<int>, "AddAt<int>", sums, added, offsets, length)
EMULATED_CODELET(AddAt<unsigned>, "AddAt<unsigned int>", sums, added, offsets, length)
EMULATED_CODELET(AddAt<long long>, "AddAt<long long>", sums, added, offsets, length)
EMULATED_CODELET(IntegerProduct<int>, "IntegerProduct<int>", left, right, out, first, rows, inner, columns)
EMULATED_CODELET(IntegerProduct<long long>, "IntegerProduct<long long>", left, right, out, first, rows, inner, columns)
EMULATED_CODELET(IntegerPower<int>, "IntegerPower<int>", base, exponent, out)
EMULATED_CODELET(IntegerPower<long long>, "IntegerPower<long long>", base, exponent, out)
#endif
