// SPDX-License-Identifier: Apache-2.0
// The C interface of libSynapse as this emulator offers it: types, values and functions of driver 1.21, written from
// the facts of its public headers. Opaque handles are pointers; sizes are fastest-changing first.
#pragma once

#include <cstddef>
#include <cstdint>

#define SYNAPSE_API __attribute__((visibility("default")))

extern "C" {

typedef struct internalTensor* synTensor;
typedef struct InternalGraphHandle* synGraphHandle;
typedef struct InternalRecipeHandle* synRecipeHandle;
typedef struct SectionHandleExternal* synSectionHandle;
typedef struct InternalStreamHandle* synStreamHandle;
typedef struct EventInterfaceExternal* synEventHandle;
typedef struct ErrorInterfaceExternal* synErrorHandle;
typedef uint64_t synNodeId, TSize;
typedef uint32_t synDeviceId, synModuleId, synSectionId; /* invalid = 0xFFFFFFFF */
typedef int synStatus, synDeviceType, synDataType, synTensorType, synGeometryType, synDmaDir, synDeviceAttribute,
    synRecipeAttribute, synGraphAttribute, synSectionProp, synRoundingMode, synTraceType, synTraceFormat,
    synQuantizationProperty; /* C enums: 4 bytes */
typedef struct {
  TSize sizes[25];
  uint32_t dims;
} synTensorGeometry; /* 208; dims @200 */
typedef struct {
  uint8_t permutation[25];
  uint8_t dims;
} synTensorPermutation; /* 26 */
typedef struct {
  uint32_t strides[25];
  synDataType deviceDataType;
} synTensorDeviceFullLayout; /* 104; strides must be 0 */
typedef struct {
  const char* tensorName;
  uint64_t pTensorAddress;
  synTensorType tensorType;
  TSize tensorSize[25];
  uint64_t tensorId;
} synLaunchTensorInfo; /* 232; type @16, size @24, id @224 */
typedef struct {
  char tensorName[1024];
  uint64_t tensorId;
  synTensorType tensorType;
  synDataType tensorDataType;
  uint32_t tensorDims;
  TSize tensorMaxSize[25];
  TSize tensorMinSize[25];
  uint8_t tensorPermutation[25];
  synSectionId tensorSectionId;
  uint64_t tensorOffsetInSection;
  uint8_t isInput;
  uint32_t reserved[10];
} synRetrievedLaunchTensorInfo; /* 1536 */
typedef struct {
  uint64_t sramBaseAddress, dramBaseAddress;
  uint32_t sramSize;
  uint64_t dramSize, tpcEnabledMask;
  uint8_t dramEnabled;
  uint32_t deviceId, fd;
  synDeviceType deviceType;
} synDeviceInfo; /* 56 */
typedef struct {
  uint64_t sramBaseAddress, dramBaseAddress;
  uint32_t sramSize;
  uint64_t dramSize, tpcEnabledMask;
  uint8_t dramEnabled;
  uint32_t deviceId, fd;
  synDeviceType deviceType;
  uint8_t deviceIndex;
  uint64_t globalHbmBaseAddress;
} synDeviceInfoV2; /* 72 */
typedef struct {
  synTensor originalHandle, newHandle;
} synTensorHandleMap; /* 16 */
typedef struct {
  synNodeId originalHandle, newHandle;
} synNodeHandleMap; /* 16 */
typedef struct {
  double min, max;
} synQuantDynamicRange; /* 16 */

// The values of synStatus that are used.
enum : synStatus {
  synSuccess = 0,
  synInvalidArgument = 1,
  synOutOfHostMemory = 3,
  synOutOfDeviceMemory = 4,
  synObjectAlreadyInitialized = 5,
  synObjectNotInitialized = 6,
  synNoDeviceFound = 8,
  synDeviceTypeMismatch = 9,
  synDeviceFreeFailed = 15,
  synDeviceReset = 17,
  synUnsupported = 18,
  synDeviceAlreadyAcquired = 20,
  synNameIsAlreadyUsed = 21,
  synBusy = 22,
  synAllResourcesTaken = 23,
  synInvalidTensorDimensions = 25,
  synFail = 26,
  synUninitialized = 28,
  synAlreadyInitialized = 29,
  synFailedSectionValidation = 30,
  synInvalidEventHandle = 33,
  synMappingNotFound = 34,
  synFailedToSubmitWorkload = 37,
  synFailedHccl = 40,
  synFailedToCollectTime = 41,
  synTimeout = 42,
  synResourceBadUsage = 43,
  synNullPointer = 44
};
enum : synDeviceType { synDeviceGaudi = 2, synDeviceGaudi2 = 4, synDeviceGaudi3 = 5, synDeviceTypeInvalid = 7 };
enum : synDataType {
  syn_type_na = 0,
  syn_type_int8 = 1,
  syn_type_bf16 = 2,
  syn_type_single = 4,
  syn_type_int16 = 8,
  syn_type_int32 = 16,
  syn_type_uint8 = 32,
  syn_type_fp16 = 256,
  syn_type_uint16 = 512,
  syn_type_uint32 = 1024,
  syn_type_fp8_143 = 8192,
  syn_type_fp8_152 = 16384,
  syn_type_int64 = 32768,
  syn_type_uint64 = 65536
};
enum : synTensorType {
  DATA_TENSOR = 0,
  SHAPE_TENSOR = 1,
  DATA_TENSOR_DYNAMIC = 3,
  DEVICE_SHAPE_TENSOR = 4,
  HOST_TO_DEVICE_TENSOR = 6
};
enum : synGeometryType { synGeometryMinSizes = 0, synGeometryMaxSizes = 1, synGeometryDims = 2 };
enum : synDmaDir { HOST_TO_DRAM = 0, DRAM_TO_HOST = 1, DRAM_TO_DRAM = 2 };
// process, device
SYNAPSE_API synStatus synInitialize(void);
SYNAPSE_API synStatus synDestroy(void);
SYNAPSE_API synStatus synDeviceGetCount(uint32_t*);
SYNAPSE_API synStatus synDeviceGetCountByDeviceType(uint32_t*, const synDeviceType);
SYNAPSE_API synStatus synDeviceGetModuleIDs(uint32_t* ids, uint32_t* inOutCount);
SYNAPSE_API synStatus synDeviceAcquire(synDeviceId*, const char* pciBusOrNull);
SYNAPSE_API synStatus synDeviceAcquireByModuleId(synDeviceId*, const synModuleId);
SYNAPSE_API synStatus synDeviceAcquireByDeviceType(synDeviceId*, const synDeviceType);
SYNAPSE_API synStatus synDeviceRelease(const synDeviceId);
SYNAPSE_API synStatus synDeviceSynchronize(const synDeviceId);
SYNAPSE_API synStatus synDriverGetVersion(char*, const int len);
SYNAPSE_API synStatus synDeviceGetName(char*, const int len, const synDeviceId);
SYNAPSE_API synStatus synDeviceGetPCIBusId(char*, const int len, const synDeviceId);
SYNAPSE_API synStatus synDeviceGetInfo(const synDeviceId, synDeviceInfo*);
SYNAPSE_API synStatus synDeviceGetInfoV2(const synDeviceId, synDeviceInfoV2*);
SYNAPSE_API synStatus synDeviceGetMemoryInfo(const synDeviceId, uint64_t* free, uint64_t* total);
SYNAPSE_API synStatus synDeviceGetAttribute(uint64_t* out, const synDeviceAttribute* which, const unsigned n,
                                            const synDeviceId);
SYNAPSE_API synStatus synDeviceGetAttributeByModuleId(uint64_t* out, const synDeviceAttribute*, const unsigned n,
                                                      const synModuleId);
SYNAPSE_API synStatus synDeviceTypeGetAttribute(uint64_t* out, const synDeviceAttribute*, const unsigned n,
                                                const synDeviceType);
SYNAPSE_API synStatus synConfigurationSet(const char* name, const char* value);
SYNAPSE_API synStatus synConfigurationGet(const char* name, char* out, uint64_t len);
SYNAPSE_API synStatus synStatusGetBriefDescription(synStatus, char* out, size_t len);
SYNAPSE_API synStatus synGetLastError(void);
SYNAPSE_API const char* synGetErrorString(synStatus);
SYNAPSE_API const char* synGetLastErrorMessage(void);
// memory
SYNAPSE_API synStatus synDeviceMalloc(const synDeviceId, const uint64_t size, uint64_t addrHint, const uint32_t flags,
                                      uint64_t* addr);
SYNAPSE_API synStatus synDeviceFree(const synDeviceId, const uint64_t addr, const uint32_t flags);
SYNAPSE_API synStatus synHostMalloc(const synDeviceId, const uint64_t size, const uint32_t flags, void** buf);
SYNAPSE_API synStatus synHostFree(const synDeviceId, const void* buf, const uint32_t flags);
SYNAPSE_API synStatus synHostMap(const synDeviceId, const uint64_t size, const void* buf);
SYNAPSE_API synStatus synHostUnmap(const synDeviceId, const void* buf);
SYNAPSE_API synStatus synMemCopyAsync(const synStreamHandle, const uint64_t src, const uint64_t size,
                                      const uint64_t dst, const synDmaDir);
SYNAPSE_API synStatus synMemCopyAsyncMultiple(const synStreamHandle, const uint64_t* src, const uint64_t* size,
                                              const uint64_t* dst, const synDmaDir, const uint64_t n);
SYNAPSE_API synStatus synMemsetD8Async(uint64_t addr, const unsigned char, const size_t elements,
                                       const synStreamHandle);
SYNAPSE_API synStatus synMemsetD16Async(uint64_t addr, const uint16_t, const size_t elements, const synStreamHandle);
SYNAPSE_API synStatus synMemsetD32Async(uint64_t addr, const uint32_t, const size_t elements, const synStreamHandle);
// streams, events
SYNAPSE_API synStatus synStreamCreateGeneric(synStreamHandle*, const synDeviceId, const uint32_t flags);
SYNAPSE_API synStatus synStreamDestroy(const synStreamHandle);
SYNAPSE_API synStatus synStreamSynchronize(const synStreamHandle);
SYNAPSE_API synStatus synStreamQuery(const synStreamHandle);
SYNAPSE_API synStatus synStreamWaitEvent(const synStreamHandle, synEventHandle, const uint32_t flags);
SYNAPSE_API synStatus synDeviceGetNextStreamAffinity(const synDeviceId, uint64_t* mask);
SYNAPSE_API synStatus synStreamSetAffinity(const synDeviceId, const synStreamHandle, uint64_t mask);
SYNAPSE_API synStatus synEventCreate(synEventHandle*, const synDeviceId, const uint32_t flags);
SYNAPSE_API synStatus synEventDestroy(synEventHandle);
SYNAPSE_API synStatus synEventRecord(synEventHandle, const synStreamHandle);
SYNAPSE_API synStatus synEventQuery(const synEventHandle);
SYNAPSE_API synStatus synEventSynchronize(const synEventHandle);
SYNAPSE_API synStatus synEventElapsedTime(uint64_t* ns, const synEventHandle start, const synEventHandle end);
// graph, tensors, sections, nodes
SYNAPSE_API synStatus synGraphCreate(synGraphHandle*, const synDeviceType);
SYNAPSE_API synStatus synGraphCreateEager(synGraphHandle*, const synDeviceType);
SYNAPSE_API synStatus synGraphDestroy(const synGraphHandle);
SYNAPSE_API synStatus synGraphGetDeviceType(const synGraphHandle, synDeviceType*);
SYNAPSE_API synStatus synGraphSetAttribute(synGraphHandle, const synGraphAttribute*, const uint64_t* values,
                                           const uint32_t n);
SYNAPSE_API synStatus synGraphDuplicate(synGraphHandle, synGraphHandle* out, synTensorHandleMap*, uint32_t* nTensors,
                                        synNodeHandleMap*, uint32_t* nNodes);
SYNAPSE_API synStatus synGraphInferShapes(synGraphHandle);
SYNAPSE_API synStatus synTensorHandleCreate(synTensor*, synGraphHandle, synTensorType, const char* name);
SYNAPSE_API synStatus synTensorDestroy(const synTensor);
SYNAPSE_API synStatus synTensorSetGeometry(synTensor, const synTensorGeometry*, synGeometryType);
SYNAPSE_API synStatus synTensorGetGeometry(const synTensor, synTensorGeometry*, synGeometryType);
SYNAPSE_API synStatus synTensorSetDeviceDataType(synTensor, synDataType);
SYNAPSE_API synStatus synTensorSetDeviceFullLayout(synTensor, const synTensorDeviceFullLayout*);
SYNAPSE_API synStatus synTensorSetPermutation(synTensor, const synTensorPermutation*);
SYNAPSE_API synStatus synTensorSetAllowPermutation(synTensor, int8_t);
SYNAPSE_API synStatus synTensorSetHostPtr(synTensor, void*, uint64_t bytes, synDataType, bool copy);
SYNAPSE_API synStatus synTensorSetExternal(synTensor, bool);
SYNAPSE_API synStatus synTensorAssignToSection(synTensor, synSectionHandle, uint64_t byteOffset);
SYNAPSE_API synStatus synTensorSetSectionOffset(synTensor, uint64_t);
SYNAPSE_API synStatus synTensorSetQuantizationData(synTensor, synQuantizationProperty, void*, uint64_t bytes);
SYNAPSE_API synStatus synSectionCreate(synSectionHandle*, uint64_t zero, const synGraphHandle);
SYNAPSE_API synStatus synSectionDestroy(synSectionHandle);
SYNAPSE_API synStatus synSectionSetPersistent(synSectionHandle, bool);
SYNAPSE_API synStatus synSectionSetConst(synSectionHandle, bool);
SYNAPSE_API synStatus synSectionSetGroup(synSectionHandle, uint64_t);
SYNAPSE_API synStatus synSectionSetRMW(synSectionHandle, bool);
SYNAPSE_API synStatus synNodeCreateWithId(const synGraphHandle, const synTensor* in, const synTensor* out,
                                          const uint32_t nIn, const uint32_t nOut, const void* params,
                                          const unsigned paramBytes, const char* guid, const char* name, synNodeId* id,
                                          const char** inLayouts, const char** outLayouts);
SYNAPSE_API synStatus synNodeCreate(const synGraphHandle, const synTensor* in, const synTensor* out, const uint32_t nIn,
                                    const uint32_t nOut, const void* params, const unsigned paramBytes,
                                    const char* guid, const char* name, const char** inLayouts,
                                    const char** outLayouts);
SYNAPSE_API synStatus synNodeSetUserParams(const synGraphHandle, const synNodeId, const void*, const unsigned bytes);
SYNAPSE_API synStatus synNodeDependencySet(const synGraphHandle, const synNodeId* before, const synNodeId* after,
                                           const uint32_t nBefore, const uint32_t nAfter);
SYNAPSE_API synStatus synNodeSetDeterministic(const synGraphHandle, const synNodeId, const bool);
SYNAPSE_API synStatus synNodeSetRoundingMode(const synGraphHandle, const synNodeId, const synRoundingMode);
// compile, recipe, launch
SYNAPSE_API synStatus synGraphCompile(synRecipeHandle*, const synGraphHandle, const char* recipeName,
                                      const char* logOrNull);
SYNAPSE_API synStatus synGraphCompileV2(synRecipeHandle*, const synGraphHandle, const char* recipeName,
                                        synErrorHandle*);
SYNAPSE_API synStatus synErrorGetStatus(synErrorHandle, synStatus*);
SYNAPSE_API synStatus synErrorGetMessageLength(synErrorHandle, size_t*);
SYNAPSE_API synStatus synErrorGetMessage(synErrorHandle, char*, size_t);
SYNAPSE_API synStatus synErrorDestroy(synErrorHandle);
SYNAPSE_API synStatus synWorkspaceGetSize(uint64_t*, const synRecipeHandle);
SYNAPSE_API synStatus synRecipeDestroy(synRecipeHandle);
SYNAPSE_API synStatus synRecipeSerialize(const synRecipeHandle, const char* file);
SYNAPSE_API synStatus synRecipeDeSerialize(synRecipeHandle*, const char* file);
SYNAPSE_API synStatus synRecipeGetAttribute(uint64_t* out, const synRecipeAttribute*, const unsigned n,
                                            const synRecipeHandle);
SYNAPSE_API synStatus synRecipeSectionGetProp(const synRecipeHandle, const synSectionId, const synSectionProp,
                                              uint64_t* out);
SYNAPSE_API synStatus synRecipeSectionHostBuffersClear(synRecipeHandle, const synSectionId*, size_t n);
SYNAPSE_API synStatus synTensorRetrieveIds(const synRecipeHandle, const char** names, uint64_t* ids, const uint32_t n);
SYNAPSE_API synStatus synTensorRetrieveLaunchAmount(const synRecipeHandle, uint32_t* n);
SYNAPSE_API synStatus synTensorRetrieveLaunchIds(const synRecipeHandle, uint64_t* ids, const uint32_t n);
SYNAPSE_API synStatus synTensorRetrieveLaunchInfoById(const synRecipeHandle, const uint32_t n,
                                                      synRetrievedLaunchTensorInfo* inOut);
SYNAPSE_API synStatus synLaunch(const synStreamHandle, const synLaunchTensorInfo*, const uint32_t n, uint64_t workspace,
                                const synRecipeHandle, uint32_t flags);
SYNAPSE_API synStatus synLaunchWithExternalEvents(const synStreamHandle, const synLaunchTensorInfo*, const uint32_t n,
                                                  uint64_t workspace, const synRecipeHandle, synEventHandle*,
                                                  const uint32_t nEvents, uint32_t flags);
SYNAPSE_API synStatus synEventMapTensor(synEventHandle*, size_t n, const synLaunchTensorInfo*, const synRecipeHandle);
SYNAPSE_API synStatus synTensorExtExtractExecutionOrder(const synRecipeHandle, uint32_t n, uint64_t* tensorIds);
// profiler
SYNAPSE_API synStatus synProfilerQueryRequiredMemory(const synDeviceId, uint32_t* bytes);
SYNAPSE_API synStatus synProfilerSetUserBuffer(const synDeviceId, void*);
SYNAPSE_API synStatus synProfilerStart(const synTraceType, const synDeviceId);
SYNAPSE_API synStatus synProfilerStop(const synTraceType, const synDeviceId);
SYNAPSE_API synStatus synProfilerGetTrace(const synTraceType, const synDeviceId, const synTraceFormat, void*,
                                          size_t* bytes, size_t* entries);
}  // extern "C"

static_assert(sizeof(synTensorGeometry) == 208 && offsetof(synTensorGeometry, dims) == 200);
static_assert(sizeof(synTensorPermutation) == 26);
static_assert(sizeof(synTensorDeviceFullLayout) == 104);
static_assert(sizeof(synLaunchTensorInfo) == 232 && offsetof(synLaunchTensorInfo, tensorType) == 16 &&
              offsetof(synLaunchTensorInfo, tensorSize) == 24 && offsetof(synLaunchTensorInfo, tensorId) == 224);
static_assert(sizeof(synRetrievedLaunchTensorInfo) == 1536 &&
              offsetof(synRetrievedLaunchTensorInfo, tensorId) == 1024 &&
              offsetof(synRetrievedLaunchTensorInfo, tensorType) == 1032 &&
              offsetof(synRetrievedLaunchTensorInfo, tensorDataType) == 1036 &&
              offsetof(synRetrievedLaunchTensorInfo, tensorDims) == 1040 &&
              offsetof(synRetrievedLaunchTensorInfo, tensorMaxSize) == 1048 &&
              offsetof(synRetrievedLaunchTensorInfo, tensorMinSize) == 1248 &&
              offsetof(synRetrievedLaunchTensorInfo, tensorPermutation) == 1448 &&
              offsetof(synRetrievedLaunchTensorInfo, tensorSectionId) == 1476 &&
              offsetof(synRetrievedLaunchTensorInfo, tensorOffsetInSection) == 1480 &&
              offsetof(synRetrievedLaunchTensorInfo, isInput) == 1488 &&
              offsetof(synRetrievedLaunchTensorInfo, reserved) == 1492);
static_assert(sizeof(synDeviceInfo) == 56 && offsetof(synDeviceInfo, sramSize) == 16 &&
              offsetof(synDeviceInfo, dramSize) == 24 && offsetof(synDeviceInfo, tpcEnabledMask) == 32 &&
              offsetof(synDeviceInfo, dramEnabled) == 40 && offsetof(synDeviceInfo, deviceId) == 44 &&
              offsetof(synDeviceInfo, fd) == 48 && offsetof(synDeviceInfo, deviceType) == 52);
static_assert(sizeof(synDeviceInfoV2) == 72 && offsetof(synDeviceInfoV2, deviceIndex) == 56 &&
              offsetof(synDeviceInfoV2, globalHbmBaseAddress) == 64);
static_assert(sizeof(synTensorHandleMap) == 16 && sizeof(synNodeHandleMap) == 16 && sizeof(synQuantDynamicRange) == 16);
