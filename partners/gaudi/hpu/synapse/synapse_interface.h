/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of the Synapse and HCCL C interfaces (1.16 and later) that this backend calls, written down from their
 * published descriptions so that no header of the vendor is needed to build. Names, order of arguments, values and
 * layouts are the library's; names that begin with `syn...Params` without such a name there are ours for its layouts.
 */
#ifndef TRANSOM_HPU_SYNAPSE_INTERFACE_H
#define TRANSOM_HPU_SYNAPSE_INTERFACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct internalTensor* synTensor;
typedef struct InternalGraphHandle* synGraphHandle;
typedef struct InternalRecipeHandle* synRecipeHandle;
typedef struct SectionHandleExternal* synSectionHandle;
typedef struct InternalStreamHandle* synStreamHandle;
typedef struct EventInterfaceExternal* synEventHandle;
typedef struct ErrorInterfaceExternal* synErrorHandle;
typedef uint64_t synNodeId, TSize;
typedef uint32_t synDeviceId, synModuleId;
typedef int synStatus, synDeviceType, synDataType, synTensorType, synGeometryType, synDmaDir, synDeviceAttribute;

enum {
  synSuccess = 0,
  synOutOfHostMemory = 3,
  synOutOfDeviceMemory = 4,
  synAlreadyInitialized = 5,
  synNoDeviceFound = 8,
  synFailedToAllocate = 14,
  synNotEnoughDevices = 16,
  synDeviceReset = 17,
  synUnsupported = 18,
  synDeviceAlreadyAcquired = 20,
  synBusy = 22,
  synAllResourcesTaken = 23,
  synUnavailable = 24,
  synFail = 26,
  synSynapseTerminated = 31,
  synTimeout = 42
};

enum { synDeviceGaudi = 2, synDeviceGaudi2 = 4, synDeviceGaudi3 = 5 };

enum {
  syn_type_int8 = 1,
  syn_type_bf16 = 2,
  syn_type_single = 4,
  syn_type_int32 = 16,
  syn_type_uint8 = 32,
  syn_type_fp16 = 256,
  syn_type_int64 = 32768
};

enum { HOST_TO_DRAM = 0, DRAM_TO_HOST = 1, DRAM_TO_DRAM = 2 }; /* synDmaDir */
enum { DATA_TENSOR = 0 };                                      /* synTensorType */
enum { synGeometryMaxSizes = 1 };                              /* synGeometryType: for static tensors, the sizes */
enum { EVENT_COLLECT_TIME = 1 };
enum {
  DEVICE_ATTRIBUTE_DRAM_SIZE = 3,
  DEVICE_ATTRIBUTE_TPC_ENABLED_MASK = 5,
  DEVICE_ATTRIBUTE_DEVICE_TYPE = 7,
  DEVICE_ATTRIBUTE_ADDRESS_ALIGNMENT = 11
};

typedef struct {
  TSize sizes[25];
  uint32_t dims;
} synTensorGeometry;
typedef struct {
  const char* tensorName;
  uint64_t pTensorAddress;
  synTensorType tensorType;
  TSize tensorSize[25];
  uint64_t tensorId;
} synLaunchTensorInfo;
typedef struct {
  uint64_t sramBaseAddress, dramBaseAddress;
  uint32_t sramSize;
  uint64_t dramSize, tpcEnabledMask;
  uint8_t dramEnabled;
  uint32_t deviceId, fd;
  synDeviceType deviceType;
} synDeviceInfo;

/* ---- parameters of nodes; the library knows the version by the size */
typedef struct {
  bool transpose_a, transpose_b;
} synGEMMParams;
typedef struct {
  bool reluEnable, resAfterPWL;
  uint16_t pad;
  uint32_t numChannels;
  uint64_t pwl[2];
} synActivationParams;
typedef struct {
  uint32_t kW, kH, dW, dH; /* the window; the strides */
  int32_t padL, padR, padT, padB;
  uint32_t dilW, dilH;
  synActivationParams activation;
  uint32_t nGroups, pad;
} synConvolutionParams;
typedef struct {
  int32_t permutation[5]; /* output dimension i takes input dimension permutation[i] */
  uint32_t tensorDim;
} synTransposeParams;
typedef struct {
  uint32_t axis;
} synAxisParams;
typedef struct {
  uint32_t axes[25], pad;
  TSize starts[25], ends[25], steps[25];
} synSliceParamsV2;
typedef struct {
  bool epsValid;
  float eps;
} synLayerNormParams;
typedef struct {
  int32_t dim;
} synSoftmaxParams;
typedef struct {
  bool approximation; /* by tanh */
} synGeluParams;
typedef struct {
  bool epsValid;
  float eps;
  uint32_t NormAxisBmp, ParamAxisBmp, normalizedShapeDims;
  bool fastMath;
} synRmsNormParams;
typedef struct {
  uint32_t bwdStage;
  int32_t numTpc, bwdMode;
  bool useStages;
} synRmsNormGradientParams;
typedef struct {
  float scale;
  bool is_causal;
  struct {
    float ratio;
    uint32_t seed;
    bool disableMaskOut;
  } dropout;
  bool is_inference;
  int32_t softmax_mode;
  uint32_t flags;
} synSdpaParams;
typedef struct {
  uint32_t offset;
  int32_t mode; /* 0: the halves of a head are its pairs */
} synRotaryParams;
typedef struct {
  uint32_t dimMask;
  bool keepDim;
} synReductionParamsV2;
typedef struct {
  int32_t round_mode; /* 0 to nearest even, 4 towards zero */
} synCastParams;
typedef union {
  float f;
  int32_t i;
} synNumber;
typedef struct {
  synNumber value;
} synConstantParams;
typedef struct {
  synNumber start, limit, delta;
} synRangeParams;
typedef struct {
  int32_t axis;
} synGatherParams;
typedef struct {
  int32_t axis, exclusive, reverse;
} synCumSumParams;
typedef struct {
  int32_t roundMode;
} synRoundParams;

#ifdef __cplusplus
static_assert(sizeof(synTensorGeometry) == 208 && offsetof(synTensorGeometry, dims) == 200);
static_assert(sizeof(synLaunchTensorInfo) == 232 && offsetof(synLaunchTensorInfo, tensorType) == 16 &&
              offsetof(synLaunchTensorInfo, tensorSize) == 24 && offsetof(synLaunchTensorInfo, tensorId) == 224);
static_assert(sizeof(synDeviceInfo) == 56 && offsetof(synDeviceInfo, dramSize) == 24 &&
              offsetof(synDeviceInfo, deviceType) == 52);
static_assert(sizeof(synGEMMParams) == 2 && sizeof(synActivationParams) == 24 && sizeof(synConvolutionParams) == 72);
static_assert(offsetof(synConvolutionParams, padL) == 16 && offsetof(synConvolutionParams, dilW) == 32 &&
              offsetof(synConvolutionParams, activation) == 40 && offsetof(synConvolutionParams, nGroups) == 64);
static_assert(sizeof(synTransposeParams) == 24 && sizeof(synAxisParams) == 4 && sizeof(synSliceParamsV2) == 704);
static_assert(sizeof(synLayerNormParams) == 8 && sizeof(synSoftmaxParams) == 4 && sizeof(synGeluParams) == 1);
static_assert(sizeof(synRmsNormParams) == 24 && sizeof(synRmsNormGradientParams) == 16);
static_assert(sizeof(synSdpaParams) == 32 && offsetof(synSdpaParams, dropout) == 8 &&
              offsetof(synSdpaParams, is_inference) == 20 && sizeof(synRotaryParams) == 8);
static_assert(sizeof(synReductionParamsV2) == 8 && sizeof(synCastParams) == 4 && sizeof(synConstantParams) == 4);
static_assert(sizeof(synRangeParams) == 12 && sizeof(synGatherParams) == 4 && sizeof(synCumSumParams) == 12);
#endif

/* ---- process and devices */
synStatus synInitialize(void);
synStatus synDestroy(void);
synStatus synDeviceGetCount(uint32_t*);
synStatus synDeviceGetModuleIDs(uint32_t* ids, uint32_t* count);
synStatus synDeviceAcquireByModuleId(synDeviceId*, const synModuleId);
synStatus synDeviceRelease(const synDeviceId);
synStatus synDriverGetVersion(char*, const int length);
synStatus synDeviceGetInfo(const synDeviceId, synDeviceInfo*);
synStatus synDeviceGetMemoryInfo(const synDeviceId, uint64_t* free, uint64_t* total);
synStatus synDeviceGetAttribute(uint64_t* out, const synDeviceAttribute*, const unsigned count, const synDeviceId);
synStatus synDeviceGetAttributeByModuleId(uint64_t* out, const synDeviceAttribute*, const unsigned count,
                                          const synModuleId);
synStatus synStatusGetBriefDescription(synStatus, char* out, size_t length);
const char* synGetLastErrorMessage(void); /* since 1.21 */

/* ---- memory */
synStatus synDeviceMalloc(const synDeviceId, const uint64_t size, uint64_t hint, const uint32_t flags,
                          uint64_t* address);
synStatus synDeviceFree(const synDeviceId, const uint64_t address, const uint32_t flags);
synStatus synHostMalloc(const synDeviceId, const uint64_t size, const uint32_t flags, void** buffer);
synStatus synHostFree(const synDeviceId, const void* buffer, const uint32_t flags);
synStatus synMemCopyAsync(const synStreamHandle, const uint64_t source, const uint64_t size, const uint64_t target,
                          const synDmaDir);

/* ---- streams and events */
synStatus synStreamCreateGeneric(synStreamHandle*, const synDeviceId, const uint32_t flags);
synStatus synStreamDestroy(const synStreamHandle);
synStatus synStreamSynchronize(const synStreamHandle);
synStatus synStreamWaitEvent(const synStreamHandle, synEventHandle, const uint32_t flags);
synStatus synDeviceGetNextStreamAffinity(const synDeviceId, uint64_t* mask);
synStatus synStreamSetAffinity(const synDeviceId, const synStreamHandle, uint64_t mask);
synStatus synEventCreate(synEventHandle*, const synDeviceId, const uint32_t flags);
synStatus synEventDestroy(synEventHandle);
synStatus synEventRecord(synEventHandle, const synStreamHandle);
synStatus synEventQuery(const synEventHandle);
synStatus synEventSynchronize(const synEventHandle);
synStatus synEventElapsedTime(uint64_t* nanoseconds, const synEventHandle start, const synEventHandle end);

/* ---- graphs */
synStatus synGraphCreate(synGraphHandle*, const synDeviceType);
synStatus synGraphCreateEager(synGraphHandle*, const synDeviceType);
synStatus synGraphDestroy(const synGraphHandle);
synStatus synTensorHandleCreate(synTensor*, synGraphHandle, synTensorType, const char* name);
synStatus synTensorSetGeometry(synTensor, const synTensorGeometry*, synGeometryType);
synStatus synTensorSetDeviceDataType(synTensor, synDataType);
synStatus synTensorSetHostPtr(synTensor, void*, uint64_t bytes, synDataType, bool copy);
synStatus synTensorAssignToSection(synTensor, synSectionHandle, uint64_t offset);
synStatus synSectionCreate(synSectionHandle*, uint64_t zero, const synGraphHandle);
synStatus synSectionDestroy(synSectionHandle);
synStatus synSectionSetPersistent(synSectionHandle, bool);
synStatus synNodeCreateWithId(const synGraphHandle, const synTensor* inputs, const synTensor* outputs,
                              const uint32_t inputsCount, const uint32_t outputsCount, const void* params,
                              const unsigned paramsBytes, const char* guid, const char* name, synNodeId* id,
                              const char** inputLayouts, const char** outputLayouts);
synStatus synNodeDependencySet(const synGraphHandle, const synNodeId* before, const synNodeId* after,
                               const uint32_t beforeCount, const uint32_t afterCount);

/* ---- recipes */
synStatus synGraphCompile(synRecipeHandle*, const synGraphHandle, const char* name, const char* log);
synStatus synGraphCompileV2(synRecipeHandle*, const synGraphHandle, const char* name, synErrorHandle*); /* 1.21 */
synStatus synErrorGetMessageLength(synErrorHandle, size_t*);                                            /* 1.21 */
synStatus synErrorGetMessage(synErrorHandle, char*, size_t);                                            /* 1.21 */
synStatus synErrorDestroy(synErrorHandle);                                                              /* 1.21 */
synStatus synWorkspaceGetSize(uint64_t*, const synRecipeHandle);
synStatus synRecipeDestroy(synRecipeHandle);
synStatus synRecipeSerialize(const synRecipeHandle, const char* file);
synStatus synRecipeDeSerialize(synRecipeHandle*, const char* file);
synStatus synTensorRetrieveIds(const synRecipeHandle, const char** names, uint64_t* ids, const uint32_t count);
synStatus synLaunch(const synStreamHandle, const synLaunchTensorInfo*, const uint32_t count, uint64_t workspace,
                    const synRecipeHandle, uint32_t flags);

/* ---- collectives */
typedef struct {
  uint8_t internal[1024];
  size_t length;
} hcclUniqueId;
typedef void* hcclComm_t;
typedef int hcclResult_t, hcclDataType_t, hcclRedOp_t;
enum { hcclSuccess = 0, hcclOutOfMemory = 3, hcclPortDown = 16 };
enum { hcclFloat32 = 7, hcclBfloat16 = 9 };
enum { hcclSum = 0, hcclMin = 2, hcclMax = 3 };
hcclResult_t hcclGetUniqueId(hcclUniqueId*);
const char* hcclGetErrorString(hcclResult_t);
hcclResult_t hcclCommInitRank(hcclComm_t*, int ranks, hcclUniqueId, int rank);
hcclResult_t hcclCommDestroy(hcclComm_t);
hcclResult_t hcclBroadcast(const void* from, void* to, size_t count, hcclDataType_t, int root, hcclComm_t,
                           void* stream);
hcclResult_t hcclAllReduce(const void* from, void* to, size_t count, hcclDataType_t, hcclRedOp_t, hcclComm_t,
                           void* stream);
hcclResult_t hcclReduceScatter(const void* from, void* to, size_t countPerRank, hcclDataType_t, hcclRedOp_t, hcclComm_t,
                               void* stream);
hcclResult_t hcclAllGather(const void* from, void* to, size_t countPerRank, hcclDataType_t, hcclComm_t, void* stream);
hcclResult_t hcclAlltoAll(const void* from, void* to, size_t count, hcclDataType_t, hcclComm_t, void* stream);
hcclResult_t hcclSend(const void* from, size_t count, hcclDataType_t, int peer, hcclComm_t, void* stream);
hcclResult_t hcclRecv(void* to, size_t count, hcclDataType_t, int peer, hcclComm_t, void* stream);
hcclResult_t hcclGroupStart(void);
hcclResult_t hcclGroupEnd(void);

#ifdef __cplusplus
static_assert(sizeof(hcclUniqueId) == 1032);
}
#endif
#endif
