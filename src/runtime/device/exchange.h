// SPDX-License-Identifier: Apache-2.0
// How the ranks of a communicator reach each other while it is made (exchange in device_plugin.h): over what the
// processes are connected by, or, where nothing is said of an id, as threads of this process.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/device/communicator.h"

namespace transom {

// Gives each of the ranks what the others brought for it: `parts` and the result are by rank. All ranks call it
// together. Throws an Error of kind kDevice where one is lost or does not come.
using ExchangeParts = std::function<std::vector<std::string>(const std::vector<std::string>& parts)>;

// While one lives, the communicator of this id exchanges so in this process. Any number may live at once, of one id
// one.
class UseExchange {
 public:
  UseExchange(const CommunicatorId& id, ExchangeParts exchange);
  ~UseExchange();
  UseExchange(const UseExchange&) = delete;
  UseExchange& operator=(const UseExchange&) = delete;

 private:
  CommunicatorId id_;
};

// The host's function of that name.
transom_status exchange_of_host(const unsigned char id[256], uint32_t rank, uint32_t ranks, const transom_bytes* mine,
                                void (*take)(void* context, uint32_t rank, const void* data, size_t bytes),
                                void* context, transom_error* error);

}  // namespace transom
