// SPDX-License-Identifier: Apache-2.0
// Object detection by an ONNX graph of the YOLO kind, which gives many boxes over each object.
#pragma once

#include <memory>

#include "work/pipelines/onnx/graph_model.h"
#include "work/pipelines/pipeline.h"

namespace transom {

// Whether what lies beside or in the file says that it is such a graph: model_type of config.json (yolov5, yolov8,
// yolox), or the task in the metadata of the file.
bool is_graph_detector(const GraphModel& model);
std::unique_ptr<Pipeline> make_graph_detection(GraphModel model);

// {0: 'cat', 1: 'dog'}: names by number as exporters write them into a file. Refuses what is none, or leaves a number
// out.
std::vector<std::string> labels_of_literal(std::string_view text, const std::string& where);

}  // namespace transom
