// SPDX-License-Identifier: Apache-2.0
// The C interface of the collectives, which libSynapse exports too. Buffers are device addresses cast to pointers,
// streams are synStreamHandle.
#pragma once

#include "synapse_interface.h"

extern "C" {

typedef struct {
  uint8_t internal[1024];
  size_t length;
} hcclUniqueId;
typedef void* hcclComm_t;
typedef int hcclResult_t, hcclDataType_t, hcclRedOp_t;
SYNAPSE_API hcclResult_t hcclGetVersion(int*);
SYNAPSE_API hcclResult_t hcclGetUniqueId(hcclUniqueId*);
SYNAPSE_API const char* hcclGetErrorString(hcclResult_t);
SYNAPSE_API hcclResult_t hcclCommInitRank(hcclComm_t*, int nranks, hcclUniqueId, int rank);
SYNAPSE_API hcclResult_t hcclCommFinalize(hcclComm_t);
SYNAPSE_API hcclResult_t hcclCommDestroy(hcclComm_t);
SYNAPSE_API hcclResult_t hcclCommAbort(hcclComm_t);
SYNAPSE_API hcclResult_t hcclCommGetAsyncError(hcclComm_t, hcclResult_t*);
SYNAPSE_API hcclResult_t hcclCommCount(hcclComm_t, int*);
SYNAPSE_API hcclResult_t hcclCommSynDevice(hcclComm_t, int*);
SYNAPSE_API hcclResult_t hcclCommUserRank(hcclComm_t, int*);
SYNAPSE_API hcclResult_t hcclReduce(const void* send, void* recv, size_t count, hcclDataType_t, hcclRedOp_t, int root,
                                    hcclComm_t, void* stream);
SYNAPSE_API hcclResult_t hcclBroadcast(const void* send, void* recv, size_t count, hcclDataType_t, int root, hcclComm_t,
                                       void* stream);
SYNAPSE_API hcclResult_t hcclAllReduce(const void* send, void* recv, size_t count, hcclDataType_t, hcclRedOp_t,
                                       hcclComm_t, void* stream);
SYNAPSE_API hcclResult_t hcclReduceScatter(const void* send, void* recv, size_t recvcount, hcclDataType_t, hcclRedOp_t,
                                           hcclComm_t, void* stream);
SYNAPSE_API hcclResult_t hcclAllGather(const void* send, void* recv, size_t sendcount, hcclDataType_t, hcclComm_t,
                                       void* stream);
SYNAPSE_API hcclResult_t hcclAlltoAll(const void* send, void* recv, size_t count, hcclDataType_t, hcclComm_t,
                                      void* stream);
SYNAPSE_API hcclResult_t hcclBarrier(hcclComm_t, void* stream);
SYNAPSE_API hcclResult_t hcclSend(const void*, size_t count, hcclDataType_t, int peer, hcclComm_t, void* stream);
SYNAPSE_API hcclResult_t hcclRecv(void*, size_t count, hcclDataType_t, int peer, hcclComm_t, void* stream);
SYNAPSE_API hcclResult_t hcclGroupStart(void);
SYNAPSE_API hcclResult_t hcclGroupEnd(void);
SYNAPSE_API const char* hcclGetLastErrorMessage(void);
SYNAPSE_API const char* hcclCommGetAsyncErrorMessage(hcclComm_t);

enum : hcclResult_t {
  hcclUninitialized = -1,
  hcclSuccess = 0,
  hcclNoDeviceFound = 1,
  hcclUnsupported = 2,
  hcclOutOfMemory = 3,
  hcclSynapseError = 4,
  hcclSystemError = 5,
  hcclInternalError = 6,
  hcclInvalidArgument = 7,
  hcclInvalidUsage = 8,
  hcclSocketError = 9,
  hcclTryAgainError = 11,
  hcclBusy = 12,
  hcclStreamError = 14,
  hcclSynapseTerminated = 15,
  hcclPortDown = 16
};
enum : hcclDataType_t {
  hcclInt8 = 0,
  hcclUint8 = 1,
  hcclInt32 = 2,
  hcclUint32 = 3,
  hcclInt64 = 4,
  hcclUint64 = 5,
  hcclFloat16 = 6,
  hcclFloat32 = 7,
  hcclFloat64 = 8,
  hcclBfloat16 = 9
};
enum : hcclRedOp_t { hcclSum = 0, hcclProd = 1, hcclMin = 2, hcclMax = 3, hcclAvg = 4, hcclOpNone = 5 };
}  // extern "C"

static_assert(sizeof(hcclUniqueId) == 1032 && offsetof(hcclUniqueId, length) == 1024);
