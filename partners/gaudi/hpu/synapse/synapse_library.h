// SPDX-License-Identifier: Apache-2.0
// libSynapse.so, opened at run time: a machine without a Gaudi has none, and builds all the same.
#pragma once

#include <memory>
#include <string>

#include "hpu/device/error.h"
#include "hpu/synapse/synapse_interface.h"

namespace transom::hpu {

// clang-format off
// Functions that any library since 1.16 has.
#define TRANSOM_SYNAPSE_REQUIRED(X) \
  X(synInitialize) X(synDestroy) X(synDeviceGetCount) X(synDeviceGetModuleIDs) X(synDeviceAcquireByModuleId) \
  X(synDeviceRelease) X(synDriverGetVersion) X(synDeviceGetInfo) X(synDeviceGetMemoryInfo) X(synDeviceGetAttribute) \
  X(synDeviceGetAttributeByModuleId) X(synStatusGetBriefDescription) X(synDeviceMalloc) X(synDeviceFree) \
  X(synHostMalloc) X(synHostFree) X(synMemCopyAsync) X(synStreamCreateGeneric) X(synStreamDestroy) \
  X(synStreamSynchronize) X(synStreamWaitEvent) X(synDeviceGetNextStreamAffinity) X(synStreamSetAffinity) \
  X(synEventCreate) X(synEventDestroy) X(synEventRecord) X(synEventQuery) X(synEventSynchronize) \
  X(synEventElapsedTime) X(synGraphCreate) X(synGraphCreateEager) X(synGraphDestroy) X(synTensorHandleCreate) \
  X(synTensorSetGeometry) X(synTensorSetDeviceDataType) X(synTensorSetHostPtr) X(synTensorAssignToSection) \
  X(synSectionCreate) X(synSectionDestroy) X(synSectionSetPersistent) X(synNodeCreateWithId) X(synNodeDependencySet) \
  X(synGraphCompile) X(synWorkspaceGetSize) X(synRecipeDestroy) X(synRecipeSerialize) X(synRecipeDeSerialize) \
  X(synTensorRetrieveIds) X(synLaunch)

// Functions of later ones; null where they are missing.
#define TRANSOM_SYNAPSE_OPTIONAL(X) \
  X(synGetLastErrorMessage) X(synGraphCompileV2) X(synErrorGetMessageLength) X(synErrorGetMessage) \
  X(synErrorDestroy) X(hcclAlltoAll) X(hcclSend) X(hcclRecv) X(hcclGroupStart) X(hcclGroupEnd)

// Collectives: a library without them serves one card.
#define TRANSOM_SYNAPSE_COLLECTIVES(X) \
  X(hcclGetUniqueId) X(hcclGetErrorString) X(hcclCommInitRank) X(hcclCommDestroy) X(hcclBroadcast) X(hcclAllReduce) \
  X(hcclReduceScatter) X(hcclAllGather)
// clang-format on

class SynapseLibrary {
 public:
  // Opens and initialises the library, once a process and as long as somebody holds it. Throws Failure with one clear
  // reason: not found, of an interface before 1.16, no device.
  static std::shared_ptr<const SynapseLibrary> open();
  ~SynapseLibrary();
  SynapseLibrary(const SynapseLibrary&) = delete;
  SynapseLibrary& operator=(const SynapseLibrary&) = delete;

  const std::string& version() const { return version_; }  // of the driver and the library

  // Throws Failure unless the status is a success: "what: the library's text (status 26)".
  void expect(synStatus status, const char* what) const;
  void require_collectives() const;  // Failure(TRANSOM_UNSUPPORTED) where the library has none
  void expect_collective(hcclResult_t result, const char* what) const;
  std::string describe(synStatus status) const;

#define X(name) decltype(&::name) name = nullptr;
  TRANSOM_SYNAPSE_REQUIRED(X)
  TRANSOM_SYNAPSE_OPTIONAL(X)
  TRANSOM_SYNAPSE_COLLECTIVES(X)
#undef X

 private:
  SynapseLibrary() = default;
  void load();
  void find_functions();
  void* handle_ = nullptr;
  bool initialised_ = false;
  std::string path_, version_;
};

// The plugin interface's word for a status of the library.
transom_status status_of(synStatus status);

}  // namespace transom::hpu
