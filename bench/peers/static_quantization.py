#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rounds an ONNX file to 8 bits, weights and inputs, as a peer's own tool does it: QDQ nodes of ONNX Runtime, or NNCF for
OpenVINO (`pip install nncf`). Scales of inputs are those of the calibration's rows, one row of the file's size at a time.

  static_quantization.py onnxruntime|openvino MODEL.onnx CALIBRATION.safetensors RESULT
"""
import os
import sys

from safetensors.numpy import load_file

peer, model, calibration, target = sys.argv[1:]


def batches(wanted):
    """The rows of the calibration in batches of the model's own size; `wanted`: its inputs and their first extents."""
    tensors = {name: array for name, array in load_file(calibration).items() if name in wanted}
    rows = min(array.shape[0] for array in tensors.values())
    size = max(wanted[name] for name in tensors)
    return [{name: array[i:i + size] for name, array in tensors.items()} for i in range(0, rows - size + 1, size)]


def by_onnxruntime():
    import onnx
    from onnxruntime import quantization
    from onnxruntime.quantization import shape_inference

    prepared = target + ".f32"
    loaded = onnx.load(model)
    del loaded.graph.value_info[:]  # the exporter's shapes of weights that it transposes contradict those inferred
    onnx.save(loaded, prepared)
    shape_inference.quant_pre_process(prepared, prepared, skip_symbolic_shape=True)
    wanted = {value.name: value.type.tensor_type.shape.dim[0].dim_value for value in loaded.graph.input}

    class Reader(quantization.CalibrationDataReader):
        def __init__(self):
            self.batches = iter(batches(wanted))

        def get_next(self):
            return next(self.batches, None)

    quantization.quantize_static(prepared, target + ".part", Reader(), quant_format=quantization.QuantFormat.QDQ,
                                 per_channel=True, activation_type=quantization.QuantType.QUInt8,
                                 weight_type=quantization.QuantType.QInt8)
    os.remove(prepared)
    os.rename(target + ".part", target)


def by_nncf():
    import nncf
    import openvino

    loaded = openvino.Core().read_model(model)
    wanted = {name: port.get_partial_shape()[0].get_length() for port in loaded.inputs for name in port.names}
    transformer = not any(node.get_type_name() == "BatchNormInference" for node in loaded.get_ops()) and any(
        node.get_type_name() in ("Softmax", "ScaledDotProductAttention") for node in loaded.get_ops())
    options = {"model_type": nncf.ModelType.TRANSFORMER} if transformer else {}
    openvino.save_model(nncf.quantize(loaded, nncf.Dataset(batches(wanted)), **options), target, compress_to_fp16=False)


(by_nncf if peer == "openvino" else by_onnxruntime)()
