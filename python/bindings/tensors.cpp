// SPDX-License-Identifier: Apache-2.0
// Tensors from and for numpy, torch and whatever knows DLPack, without a copy where the memory allows it. The
// arithmetic is the little that scripts do with outputs: a softmax, an argmax, a comparison.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "bindings.h"
#include "graph/ir/node.h"
#include "interrupts.h"
#include "runtime/device/device.h"
#include "runtime/tensor/dlpack_structs.h"
#include "transom/device.h"
#include "transom/dlpack.h"
#include "transom/error.h"
#include "transom/ops.h"

namespace transom::python {
namespace {

using HostArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

DType own_type(const nb::dlpack::dtype& type) {
  using Code = nb::dlpack::dtype_code;
  const auto code = static_cast<Code>(type.code);
  if (type.lanes == 1) {
    if (code == Code::Bool && type.bits == 8) return DType::kBool;
    if (code == Code::UInt && type.bits == 8) return DType::kUInt8;
    if (code == Code::UInt && type.bits == 32) return DType::kUInt32;
    if (code == Code::Int && type.bits == 8) return DType::kInt8;
    if (code == Code::Int && type.bits == 32) return DType::kInt32;
    if (code == Code::Int && type.bits == 64) return DType::kInt64;
    if (code == Code::Float && type.bits == 16) return DType::kFloat16;
    if (code == Code::Float && type.bits == 32) return DType::kFloat32;
    if (code == Code::Float && type.bits == 64) return DType::kFloat64;
    if (code == Code::Bfloat && type.bits == 16) return DType::kBFloat16;
  }
  throw nb::type_error("tensors have elements of bool, uint8, int8, int32, int64, uint32 or a floating type");
}

nb::dlpack::dtype array_type(DType dtype) {
  const auto of = [&](nb::dlpack::dtype_code code) {
    return nb::dlpack::dtype{static_cast<uint8_t>(code), static_cast<uint8_t>(8 * size_of(dtype)), 1};
  };
  using Code = nb::dlpack::dtype_code;
  if (dtype == DType::kBool) return of(Code::Bool);
  if (dtype == DType::kBFloat16) return of(Code::Bfloat);
  if (is_floating(dtype)) return of(Code::Float);
  return of(dtype == DType::kUInt8 || dtype == DType::kUInt32 ? Code::UInt : Code::Int);
}

// In place where the device computes in host memory. The array's memory is only read.
Tensor from_array(const HostArray& array) {
  Type type{own_type(array.dtype()), {}};
  for (size_t axis = 0; axis < array.ndim(); ++axis) type.shape.push_back(static_cast<int64_t>(array.shape(axis)));
  const std::span<const std::byte> bytes(static_cast<const std::byte*>(array.data()), array.nbytes());
  const bool aligned = reinterpret_cast<uintptr_t>(array.data()) % size_of(type.dtype) == 0;
  if (bytes.empty() || !aligned) return Tensor::from_bytes(bytes, std::move(type));
  return make_input(std::move(type), default_device()->borrow(bytes, std::make_shared<const HostArray>(array)));
}

// Memory of the tensor as an array of numpy, which may be read only.
nb::object numpy_of(const Tensor& given) {
  const Tensor tensor = given.dtype() == DType::kBFloat16 ? cast(given, DType::kFloat32) : given;
  DLManagedTensorVersioned* managed = compute([&] { return to_dlpack(tensor); });
  const nb::capsule owner(managed, [](void* held) noexcept {
    auto* each = static_cast<DLManagedTensorVersioned*>(held);
    each->deleter(each);
  });
  std::vector<size_t> shape;
  for (const int64_t extent : tensor.shape()) shape.push_back(static_cast<size_t>(extent));
  const auto* first = static_cast<const std::byte*>(managed->dl_tensor.data) + managed->dl_tensor.byte_offset;
  return nb::cast(
      nb::ndarray<nb::numpy, nb::ro>(first, shape.size(), shape.data(), owner, nullptr, array_type(tensor.dtype())));
}

// The capsule that __dlpack__ returns: of DLPack 1 where the asker knows it.
nb::object dlpack_capsule(const Tensor& tensor, const nb::object& max_version, const nb::object& copy) {
  const bool versioned = !max_version.is_none() && nb::cast<int>(max_version[0]) >= 1;
  const bool wants_copy = !copy.is_none() && nb::cast<bool>(copy);
  if (versioned) {
    auto* managed = compute([&] { return to_dlpack(tensor, wants_copy); });
    return nb::steal(PyCapsule_New(managed, "dltensor_versioned", [](PyObject* capsule) {
      if (!PyCapsule_IsValid(capsule, "dltensor_versioned")) return;  // taken
      auto* held = static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
      held->deleter(held);
    }));
  }
  auto* managed = compute([&] { return to_dlpack_unversioned(tensor); });
  return nb::steal(PyCapsule_New(managed, "dltensor", [](PyObject* capsule) {
    if (!PyCapsule_IsValid(capsule, "dltensor")) return;
    auto* held = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
    held->deleter(held);
  }));
}

template <typename T>
nb::object nested(const std::vector<T>& values, const Shape& shape, size_t axis, size_t& at) {
  if (axis == shape.size()) return nb::cast(values[at++]);
  nb::list list;
  for (int64_t i = 0; i < shape[axis]; ++i) list.append(nested(values, shape, axis + 1, at));
  return list;
}

nb::object to_list(const Tensor& tensor) {
  size_t at = 0;
  if (tensor.dtype() == DType::kBool) {
    const auto bytes = compute([&] { return tensor.to_vector<uint8_t>(); });
    return nested(std::vector<bool>(bytes.begin(), bytes.end()), tensor.shape(), 0, at);
  }
  if (is_floating(tensor.dtype())) {
    const auto values = compute([&] { return tensor.to_vector<double>(); });
    return nested(values, tensor.shape(), 0, at);
  }
  const auto values = compute([&] { return tensor.to_vector<int64_t>(); });
  return nested(values, tensor.shape(), 0, at);
}

// A flat list of numbers with a shape, for callers without numpy.
Tensor from_numbers(const nb::list& values, Shape shape, const std::string& dtype) {
  const DType wanted = parse_dtype(dtype);
  Tensor tensor;
  if (is_floating(wanted)) tensor = Tensor::from(nb::cast<std::vector<double>>(values), std::move(shape));
  else tensor = Tensor::from(nb::cast<std::vector<int64_t>>(values), std::move(shape));
  return tensor.dtype() == wanted ? tensor : cast(tensor, wanted);
}

int64_t axis_of(const Tensor& tensor, int64_t axis) {
  const int64_t rank = tensor.rank();
  if (axis < -rank || axis >= rank) throw nb::index_error("the tensor has no such axis");
  return axis < 0 ? axis + rank : axis;
}

// tensor[i], tensor[begin:end], tensor[:, i] ...: whole numbers and slices with the step 1.
Tensor indexed(const Tensor& tensor, const nb::object& key) {
  const nb::tuple keys = nb::isinstance<nb::tuple>(key) ? nb::cast<nb::tuple>(key) : nb::make_tuple(key);
  const size_t given = nb::len(keys);
  size_t ellipses = 0;
  for (const nb::handle& each : keys) ellipses += each.is(Py_Ellipsis) ? 1 : 0;
  if (ellipses > 1 || given - ellipses > static_cast<size_t>(tensor.rank()))
    throw nb::index_error("the tensor has fewer axes than that");
  Tensor result = tensor;
  int64_t axis = 0;
  Shape kept;
  for (const nb::handle& each : keys) {
    if (each.is(Py_Ellipsis)) {
      for (size_t skipped = given - 1; skipped < static_cast<size_t>(tensor.rank()); ++skipped)
        kept.push_back(tensor.dim(axis++));
      continue;
    }
    const int64_t extent = tensor.dim(axis);
    int64_t begin = 0, end = 0;
    if (PySlice_Check(each.ptr())) {
      Py_ssize_t from = 0, to = 0, step = 0;
      if (PySlice_Unpack(each.ptr(), &from, &to, &step) != 0) throw nb::python_error();
      if (step != 1)
        throw nb::index_error("slices of tensors have the step 1; numpy() gives an array that takes others");
      PySlice_AdjustIndices(static_cast<Py_ssize_t>(extent), &from, &to, step);
      begin = from, end = std::max(from, to);
      kept.push_back(end - begin);
    } else {
      if (!PyIndex_Check(each.ptr()))
        throw nb::index_error("tensors take whole numbers and slices; numpy() gives an array that takes others");
      const Py_ssize_t number = PyNumber_AsSsize_t(each.ptr(), PyExc_IndexError);
      if (number == -1 && PyErr_Occurred()) throw nb::python_error();
      begin = number < 0 ? number + extent : number;
      if (begin < 0 || begin >= extent) throw nb::index_error("the index is out of range");
      end = begin + 1;
    }
    if (begin != 0 || end != extent) result = slice(result, axis, begin, end);
    ++axis;
  }
  for (; axis < tensor.rank(); ++axis) kept.push_back(tensor.dim(axis));
  return result.shape() == kept ? result : reshape(result, kept);
}

// Over any axis: ops.h has the last one.
template <Tensor (*function)(const Tensor&, const Computing&)>
Tensor along(const Tensor& tensor, int64_t dim) {
  const int64_t axis = axis_of(tensor, dim), last = tensor.rank() - 1;
  if (axis == last) return function(tensor, {});
  std::vector<int64_t> swapped(static_cast<size_t>(tensor.rank()));
  for (size_t i = 0; i < swapped.size(); ++i) swapped[i] = static_cast<int64_t>(i);
  std::swap(swapped[static_cast<size_t>(axis)], swapped[static_cast<size_t>(last)]);
  return permute(function(permute(tensor, swapped), {}), swapped);
}

Tensor operand(const Tensor& beside, const nb::object& value) {
  if (nb::isinstance<Tensor>(value)) return nb::cast<Tensor>(value);
  return Tensor::scalar(nb::cast<double>(value), beside.dtype());
}

using Binary = Tensor (*)(const Tensor&, const Tensor&);
template <Binary function>
nb::object forward_of(const Tensor& a, const nb::object& b) {
  return nb::cast(function(a, operand(a, b)));
}
template <Binary function>
nb::object reflected(const Tensor& a, const nb::object& b) {
  return nb::cast(function(operand(a, b), a));
}
Tensor plus(const Tensor& a, const Tensor& b) { return a + b; }
Tensor minus(const Tensor& a, const Tensor& b) { return a - b; }
Tensor times(const Tensor& a, const Tensor& b) { return a * b; }
Tensor over(const Tensor& a, const Tensor& b) { return a / b; }

}  // namespace

NamedTensors named_tensors(const nb::dict& tensors) {
  NamedTensors result;
  for (const auto& [name, value] : tensors) {
    const Tensor tensor = nb::cast<Tensor>(value);
    const bool narrow = is_integer(tensor.dtype()) || tensor.dtype() == DType::kBool;
    result.set(nb::cast<std::string>(name),
               narrow && tensor.dtype() != DType::kInt64 ? cast(tensor, DType::kInt64) : tensor);
  }
  return result;
}

nb::dict dict_of(const NamedTensors& tensors) {
  nb::dict result;
  for (const auto& [name, tensor] : tensors.items()) result[name.c_str()] = nb::cast(tensor);
  return result;
}

void bind_tensors(nb::module_& module) {
  nb::class_<Tensor>(module, "Tensor", "A dense array whose values never change.")
      .def_prop_ro("shape", [](const Tensor& t) { return nb::tuple(nb::cast(t.shape())); })
      .def_prop_ro("dtype", [](const Tensor& t) { return std::string(name_of(t.dtype())); })
      .def_prop_ro("ndim", &Tensor::rank)
      .def_prop_ro("device", [](const Tensor&) { return device_name(); })
      .def(
          "size",
          [](const Tensor& t, const std::optional<int64_t>& dim) -> nb::object {
            if (dim) return nb::cast(t.dim(axis_of(t, *dim)));
            return nb::tuple(nb::cast(t.shape()));
          },
          nb::arg("dim") = nb::none())
      .def("numel", &Tensor::size)
      .def("__len__",
           [](const Tensor& t) {
             if (t.rank() == 0) throw nb::type_error("a tensor without axes has no length");
             return t.dim(0);
           })
      .def("numpy", numpy_of, "The values as an array of numpy that may be read, without a copy where that can be.")
      .def("tolist", to_list)
      .def("item",
           [](const Tensor& t) -> nb::object {
             if (t.size() != 1) throw nb::value_error("item() is for tensors with one element");
             if (is_floating(t.dtype())) return nb::cast(compute([&] { return t.item<double>(); }));
             return nb::cast(compute([&] { return t.item<int64_t>(); }));
           })
      .def(
          "__dlpack__",
          [](const Tensor& t, const nb::object&, const nb::object& max_version, const nb::object&,
             const nb::object& copy) { return dlpack_capsule(t, max_version, copy); },
          nb::kw_only(), nb::arg("stream") = nb::none(), nb::arg("max_version") = nb::none(),
          nb::arg("dl_device") = nb::none(), nb::arg("copy") = nb::none())
      .def("__dlpack_device__", [](const Tensor&) { return nb::make_tuple(1, 0); })
      .def("__getitem__", indexed)
      .def("__add__", forward_of<plus>)
      .def("__radd__", reflected<plus>)
      .def("__sub__", forward_of<minus>)
      .def("__rsub__", reflected<minus>)
      .def("__mul__", forward_of<times>)
      .def("__rmul__", reflected<times>)
      .def("__truediv__", forward_of<over>)
      .def("__rtruediv__", reflected<over>)
      .def("__neg__", [](const Tensor& t) { return -t; })
      .def("exp", [](const Tensor& t) { return exp(t); })
      .def("log", [](const Tensor& t) { return log(t); })
      .def("sigmoid", [](const Tensor& t) { return sigmoid(t); })
      .def("softmax", along<softmax>, nb::arg("dim") = -1)
      .def("log_softmax", along<log_softmax>, nb::arg("dim") = -1)
      .def(
          "argmax",
          [](const Tensor& t, const std::optional<int64_t>& dim) {
            if (!dim) return arg_max(reshape(t, {t.size()}), 0);
            return arg_max(t, axis_of(t, *dim));
          },
          nb::arg("dim") = nb::none())
      .def(
          "sum",
          [](const Tensor& t, const std::optional<int64_t>& dim) {
            if (!dim) return reduce_sum(reshape(t, {t.size()}), {0});
            return reduce_sum(t, {axis_of(t, *dim)});
          },
          nb::arg("dim") = nb::none())
      .def("reshape", [](const Tensor& t, const Shape& shape) { return reshape(t, shape); })
      .def("cast", [](const Tensor& t, const std::string& dtype) { return cast(t, parse_dtype(dtype)); });
  module.def("from_array", from_array, nb::arg("array"));
  module.def("from_numbers", from_numbers, nb::arg("values"), nb::arg("shape"), nb::arg("dtype"));
  module.def("evaluate", [](const std::vector<Tensor>& tensors) { compute([&] { eval(tensors); }); });
  module.def("set_device", [](const std::string& name) { compute([&] { set_device(name); }); });
  module.def("device_name", [] { return compute([] { return device_name(); }); });
  module.def("device_names", [] {
    std::vector<std::string> names;
    for (const DeviceInfo& device : compute([] { return list_devices(); }))
      if (device.reason.empty()) names.push_back(device.name);
    return names;
  });
  module.def("memory_use", [] {
    const MemoryUse use = memory_use();
    return nb::make_tuple(use.in_use, use.peak, use.limit);
  });
}

}  // namespace transom::python
