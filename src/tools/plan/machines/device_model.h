// SPDX-License-Identifier: Apache-2.0
// What a planner knows of a device: data sheet, links, power, prices, and what was fitted on published figures. One
// file a device in share/transom/devices; docs/plan.md describes the fields.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tools/plan/shape/network_layers.h"

namespace transom {

// Devices that are joined to each other. Bandwidths are bytes a second out of one device, each way.
struct Interconnect {
  std::string topology = "switch";  // switch: any pair has all; mesh: a pair has its own wires; none
  double bandwidth = 0;             // over all wires of the device
  double pair_bandwidth = 0;        // to one other device; mesh only
  double latency = 5e-6;            // seconds a step of a collective
};

struct DevicePrice {
  std::string instance, date, source;
  double devices = 1, usd_per_hour = 0;  // so many devices cost so much together
};

// Fitted on published figures (bench/plan_accuracy). Seconds are those of the hosts and of launches.
struct FittedRates {
  double matrix = 0.7;            // share of the peak of matrix products that large products reach, in training
  double matrix_inference = 0.7;  // the same at prefill and large decoding batches
  double matrix_narrow = 1;       // factor of `matrix` in 8 bits
  double half_width = 200;        // columns at which a product reaches half of that
  double memory = 0.8;            // share of the memory's bandwidth
  double passes = 1;              // passes over memory of what stands between products; 1: every value once
  double layer_training = 1e-3;   // seconds a layer and micro-batch, forward and backward, with lazy software
  double layer_inference = 1e-4;  // seconds a layer of a forward pass, with recorded graphs
  double step = 5e-3;             // seconds a training step
  double sample = 0;              // seconds a picture on the host that do not overlap
  double overlap = 1.5;      // norm by which times of engines add up: 1 one after the other, infinite beside each other
  double link = 0.7;         // share of the links' bandwidth
  double collective = 2e-5;  // seconds that a collective takes at least
  double tuned = 0.3;        // factor of layer_training and passes in tuned software
  double convolution = 1;    // factor of `matrix` for convolutions
  double separable = 0.15;   // the same for depth-wise, grouped and windowed ones
  double image = 0;          // seconds a picture at inference: calls, copies, what follows the network
  double sharding = 1e12;    // bytes a second at which ZeRO 2 and 3 move shards in software that is not tuned
  double crowding = 1.2;     // factor of layer_training where several devices of a host are used
  double cache = 1;          // times that a decoding step reads the cache of keys and values
  double overlap_decoding = 1;  // `overlap` of products and memory in a decoding step
  double engine_products = 0;   // share of their cycles that product steps of a LayerEngine use
  double engine_lanes = 0;      // the same of its lanes
};
// The fields of FittedRates by name, for files and for fitting.
double& fitted_rate(FittedRates& rates, const std::string& name);  // an Error if there is none of that name
const std::vector<std::string>& fitted_rate_names();

struct DeviceModel {
  std::string name, title, family, file;
  std::vector<std::string> aliases;
  std::map<std::string, double> peaks;  // operations a second by engine: bf16, fp16, fp8, int8, fp32
  double memory_bytes = 0, bandwidth = 0, on_chip_bytes = 0;
  double memory_reserve = 2e9;  // bytes that framework and driver keep
  bool memory_on_chip = false;  // weights and activations live in SRAM (IPU)
  LayerEngine engine;           // of accelerators that run convolutional networks layer by layer
  double streaming_bandwidth = 0, streaming_bytes = 0;  // a device's share of the memory behind it (IPU)
  Interconnect inside, outside;
  double devices_per_host = 1;
  double watts = 0, idle_watts = 0, host_watts = 0;
  bool measured = false;  // by --calibrate
  std::vector<DevicePrice> prices;
  FittedRates fitted;
  FittedRates prior;  // where the fit of these began: data sheets and what is usual for the kind

  // Operations a second in this engine, or in the nearest wider one where the device has none (compressed formats are
  // unpacked). Errors: fp8 or fp4 on a device without, where the job stores activations in it.
  double peak(const std::string& engine) const;
};

DeviceModel read_device_model(const std::filesystem::path& file);
// All files of device_model_directories(), by name; of two with one name the first.
std::vector<DeviceModel> all_device_models();
// By name or alias, without regard to case, spaces and dashes; what ends with .json is a file. Error of kind kUsage
// that names `hardware`.
DeviceModel find_device_model(const std::string& hardware);

}  // namespace transom
