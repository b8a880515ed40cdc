/* SPDX-License-Identifier: Apache-2.0
 *
 * The device plugin interface of Transom: what a hardware maker implements so that every model runs on a device.
 *
 * A plugin is one shared library, named libtransom_<name>.so, that exports one symbol, `transom_plugin_open`. The host
 * looks for it in its library directory and in the directories of TRANSOM_PLUGIN_PATH.
 *
 * Rules that hold everywhere in this header:
 *   - Every struct that may grow begins with `struct_size`, the sizeof as its writer compiled it. A reader uses only
 * the fields that lie inside it. New fields are added at the end only; that raises the minor version. Structs without
 * `struct_size` never change.
 *   - Where the caller passes a struct to be filled in, it sets `struct_size` to what it can read; the callee writes no
 * further, and sets it to what it has written. A table whose host is older is cut off, one whose host is newer lacks
 * the newest functions; both work.
 *   - In an array of such structs (transom_graph.nodes) struct_size is the step from one element to the next: never
 * index it with the size that your header knows.
 *   - transom_value, transom_attribute, transom_binding, transom_bytes and transom_error have no struct_size. What a
 * later version says about values (a layout) stands in an array beside transom_graph.values, in the same order, at the
 * end of transom_graph.
 *   - Functions return a transom_status. On failure they write one line of text into `error` (never null), say what was
 *     expected and what was found, and leave their outputs untouched. No C++ exception may cross this interface.
 *   - Memory that a caller passes is the caller's, and may be freed when the call returns, unless a comment says else.
 *   - Tensors are dense and row-major; there are no strides. Extents may be 0. int64 is the type of every extent.
 *   - Functions marked (optional) may be null; the host then does without, as the comment says.
 *   - A function may be called from any thread, but never for one stream from two threads at once.
 *   - Handles are freed by the host, every handle of a device before the device. Work that is still queued when one of
 * its handles is freed is carried out all the same: the device keeps what it needs until then.
 *   - After TRANSOM_OUT_OF_MEMORY everything works on. After TRANSOM_DEVICE_LOST every call but those that free handles
 * returns TRANSOM_DEVICE_LOST, at once.
 *
 * Versions: 1.0 the first. 1.1 adds handles to transom_memory_statistics, and to the table: host_allocate, host_free,
 * event_query, event_synchronize, communicator_abort, memory_reset_peak, device_report. 1.2: the id of a communicator
 * may say over which transport. 1.3 adds release to transom_host. 1.4 adds to the table: all_to_all, send, receive,
 * message_group_begin, message_group_end; a process may be in several communicators. 1.5 adds exchange to transom_host,
 * and supports to the table. 1.6 adds evaluates and evaluate to transom_host, 1.7 executable_memory to the table,
 * 1.8 settings.
 * docs/device-plugins.md leads through this header.
 */
#ifndef TRANSOM_DEVICE_PLUGIN_H
#define TRANSOM_DEVICE_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TRANSOM_PLUGIN_MAJOR 1 /* changes break plugins; the host refuses another major version */
#define TRANSOM_PLUGIN_MINOR 8 /* additions only */

#if defined(__GNUC__)
#define TRANSOM_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define TRANSOM_PLUGIN_EXPORT
#endif

/* ---- status ---------------------------------------------------------------------------------------------------- */

typedef enum transom_status {
  TRANSOM_OK = 0,
  TRANSOM_INVALID_ARGUMENT = 1, /* the host asked for something that the interface does not allow */
  TRANSOM_OUT_OF_MEMORY = 2,    /* device memory; the host may free buffers and try again */
  TRANSOM_UNSUPPORTED = 3,      /* a valid request that this device cannot carry out */
  TRANSOM_UNAVAILABLE = 4,      /* no such device here: a missing driver, library or card; shown by `transom devices` */
  TRANSOM_DEVICE_LOST = 5,      /* the device does not answer any more; every handle of it is dead */
  TRANSOM_INTERNAL = 6          /* a defect of the plugin */
} transom_status;

typedef struct transom_error {
  char text[1024]; /* zero-terminated UTF-8, one line, no final full stop needed */
} transom_error;

/* ---- graphs ---------------------------------------------------------------------------------------------------- */

typedef enum transom_dtype {
  TRANSOM_BOOL = 0, /* one byte, 0 or 1 */
  TRANSOM_UINT8 = 1,
  TRANSOM_INT8 = 2,
  TRANSOM_INT32 = 3,
  TRANSOM_INT64 = 4,
  TRANSOM_UINT32 = 5,
  TRANSOM_FLOAT16 = 6,
  TRANSOM_BFLOAT16 = 7,
  TRANSOM_FLOAT32 = 8,
  TRANSOM_FLOAT64 = 9
} transom_dtype;

typedef enum transom_attribute_kind {
  TRANSOM_ATTRIBUTE_INT = 0, /* also booleans (0, 1) and dtypes */
  TRANSOM_ATTRIBUTE_FLOAT = 1,
  TRANSOM_ATTRIBUTE_STRING = 2,
  TRANSOM_ATTRIBUTE_INTS = 3
} transom_attribute_kind;

typedef struct transom_attribute {
  const char* name;
  int32_t kind; /* transom_attribute_kind */
  int64_t int_value;
  double float_value;
  const char* string_value;
  const int64_t* ints;
  size_t ints_count;
} transom_attribute;

typedef enum transom_value_flag {
  TRANSOM_VALUE_FROZEN = 1 << 0 /* an input whose buffer keeps its contents as long as the buffer lives: a weight at
                                   inference. A device may keep a packed copy with the buffer. */
} transom_value_flag;

/* One tensor of a graph. Its index in transom_graph.values is its name. */
typedef struct transom_value {
  int32_t dtype; /* transom_dtype */
  int32_t rank;
  const int64_t* shape;
  int64_t arena_offset; /* where the host's memory plan puts it, in bytes, a multiple of 64; -1: it is an input or an
                           output of the graph (bound at each run), or the device plans its own memory */
  uint64_t flags;       /* transom_value_flag, or-ed */
} transom_value;

struct transom_graph;

/* One operation. Nodes stand in an order in which every input is made before it is used; a device that runs them in
 * that order may rely on the memory plan. docs/ops says what each operation computes. */
typedef struct transom_node {
  size_t struct_size;
  const char* op;    /* "add", "dot_general", ... or a composite that the device claimed */
  const char* scope; /* path of the module that made it, "encoder.layer.3.attention"; for errors and profiles */
  const int32_t* inputs;
  size_t inputs_count;
  const int32_t* outputs;
  size_t outputs_count;
  const transom_attribute* attributes; /* sorted by name */
  size_t attributes_count;
  const struct transom_graph* region; /* of "fusion" and "row_fusion": what it computes, see docs/ops; else null */
} transom_node;

/* A graph to compile. Two values may share arena bytes if their lifetimes, in node order, do not overlap; the output of
 * an element-wise node or fusion may lie on an input of the same byte size that dies there (of "row_fusion": docs/ops),
 * that of "dynamic_update_slice" on the first, that of a reshape on its input. An output of the graph may be bound to
 * the buffer of an input that was given away ("donated"). */
typedef struct transom_graph {
  size_t struct_size;
  const transom_value* values;
  size_t values_count;
  const transom_node* nodes;
  size_t nodes_count;
  const int32_t* inputs;
  size_t inputs_count;
  const int32_t* outputs; /* distinct values, none of them an input */
  size_t outputs_count;
  size_t arena_size; /* bytes that the host passes as the arena of each run */
} transom_graph;

/* ---- devices --------------------------------------------------------------------------------------------------- */

typedef struct transom_device transom_device;             /* an opened device */
typedef struct transom_buffer transom_buffer;             /* memory on a device, or imported host memory */
typedef struct transom_stream transom_stream;             /* work in order */
typedef struct transom_event transom_event;               /* a point in a stream */
typedef struct transom_executable transom_executable;     /* a compiled graph; immutable, may run on several streams */
typedef struct transom_capture transom_capture;           /* recorded launches with fixed addresses */
typedef struct transom_communicator transom_communicator; /* a group of devices, one of them ours */

typedef enum transom_device_flag {
  TRANSOM_DEVICE_HOST_MEMORY = 1 << 0,      /* buffers are host memory: host_pointer works, copies can be left out */
  TRANSOM_DEVICE_PLANS_MEMORY = 1 << 1,     /* the device plans temporaries itself: arena_offset is always -1 */
  TRANSOM_DEVICE_COMPUTES_NOTHING = 1 << 2, /* results are undefined (the null device); never chosen by itself */
  TRANSOM_DEVICE_EMULATED = 1 << 3,         /* an emulator stands in for the hardware; every report says so */
  TRANSOM_DEVICE_STATIC_SHAPES = 1 << 4     /* a graph of new shapes takes long to compile: the host pads texts to few
                                               lengths, and batches to one size */
} transom_device_flag;

typedef struct transom_device_properties {
  size_t struct_size;
  char name[128];         /* "AMD EPYC 9354", "Radeon RX 7900 XTX" */
  char architecture[128]; /* instruction set or generation: "avx512_bf16, vnni", "gfx1100" */
  char driver[128];       /* version of the driver and of the libraries that compute */
  uint64_t flags;         /* transom_device_flag, or-ed */
  uint64_t memory_bytes;  /* 0: not known */
  uint32_t compute_units; /* cores, multiprocessors, TPCs */
  uint32_t fast_dtypes;   /* 1 << transom_dtype, or-ed: types in which matrix products are faster than in float32 */
} transom_device_properties;

typedef struct transom_memory_statistics {
  size_t struct_size;
  uint64_t bytes_in_use;
  uint64_t peak_bytes_in_use;
  uint64_t bytes_limit; /* 0: not known */
  uint64_t allocations; /* made so far, those that were freed again counted too */
  /* since 1.1 */
  uint64_t handles; /* buffers, streams, events, executables, captures and communicators that live now */
} transom_memory_statistics;

typedef struct transom_binding {
  transom_buffer* buffer;
  size_t offset; /* bytes, a multiple of the element size; of 64 for what the host allocates */
} transom_binding;

/* One run of an executable. */
typedef struct transom_launch {
  size_t struct_size;
  transom_stream* stream;
  const transom_binding* inputs; /* as transom_graph.inputs */
  size_t inputs_count;
  const transom_binding* outputs; /* as transom_graph.outputs */
  size_t outputs_count;
  transom_binding arena; /* arena_size bytes; buffer null if arena_size is 0 */
} transom_launch;

/* Called after each node when profiling is on. Times in nanoseconds of one monotonic clock of the device. `node` is the
 * index in the compiled graph; `kernel` says what ran, such as "onednn brgemm avx512". */
typedef void (*transom_profile_callback)(void* user, size_t node, const char* kernel, uint64_t begin, uint64_t end);

typedef enum transom_reduction { TRANSOM_SUM = 0, TRANSOM_MAX = 1, TRANSOM_MIN = 2 } transom_reduction;

/* ---- what the host offers to a plugin --------------------------------------------------------------------------- */

/* Does body(context, i) for every i in [0, count), in any order and on several threads; returns when all are done. */
typedef void (*transom_parallel_body)(void* context, size_t i);

typedef enum transom_log_level {
  TRANSOM_LOG_DEBUG = 0,
  TRANSOM_LOG_INFO = 1,
  TRANSOM_LOG_WARNING = 2
} transom_log_level;

typedef struct transom_bytes {
  const void* data;
  size_t bytes;
} transom_bytes;

typedef struct transom_host {
  size_t struct_size;
  uint32_t major, minor; /* of the interface that the host speaks */
  void (*log)(int32_t level, const char* text);
  /* The process has one pool of threads; a plugin that computes on the CPU uses it and starts none of its own. */
  uint32_t threads;
  void (*parallel)(size_t count, void* context, transom_parallel_body body);
  /* (since 1.3, may be null) Imported memory that the plugin has a copy of in a form of its own. It stays readable, yet
   * what comes from a file leaves memory until it is read again. */
  void (*release)(const void* data, size_t bytes);
  /* (since 1.5, may be null) What the ranks of a communicator tell each other while they make it, over the connections
   * that the host has: addresses, ids. To be called within communicator_create, with its id, rank and ranks, and as
   * often by each of the ranks. mine[r] is for rank r, of any length and possibly empty; `take` is called for each rank
   * with what it had for this one, before exchange returns. Where the host has not joined other processes, the ranks
   * are threads of this one. Fails with TRANSOM_DEVICE_LOST where a rank is lost or does not come. */
  transom_status (*exchange)(const unsigned char id[256], uint32_t rank, uint32_t ranks, const transom_bytes* mine,
                             void (*take)(void* context, uint32_t rank, const void* data, size_t bytes), void* context,
                             transom_error* error);
  /* (since 1.6, may be null) Whether `evaluate` knows the operation: every primitive of docs/ops, no composite. */
  int (*evaluates)(const char* op);
  /* (since 1.6, null where evaluates is) Computes one node in host memory, for what no kernel of the device does: by
   * the definition of its operation in float64, each output rounded to its element type. It is right rather than fast.
   * The node's indices are those of `values`; inputs[i] and outputs[i] are dense, at any address, and do not overlap.
   * May be called from all threads at once. */
  transom_status (*evaluate)(const transom_node* node, const transom_value* values, size_t values_count,
                             const void* const* inputs, void* const* outputs, transom_error* error);
} transom_host;

/* ---- the table of a plugin -------------------------------------------------------------------------------------- */

typedef struct transom_plugin {
  size_t struct_size;    /* the host sets it to what it can read; the plugin sets it to what it has filled in */
  uint32_t major, minor; /* the version that the plugin was built with */
  const char* name;      /* "cpu", "cuda": the word after --device; lives as long as the library */
  const char* version;   /* of the plugin, for reports */
  uint32_t
      priority; /* the host prefers the higher one when the user names no device: 100 accelerators, 10 cpu, 0 never */

  /* Devices. */
  transom_status (*device_count)(uint32_t* count, transom_error* error); /* 0 with TRANSOM_UNAVAILABLE says why none */
  transom_status (*device_describe)(uint32_t index, transom_device_properties* properties, transom_error* error);
  transom_status (*device_open)(uint32_t index, transom_device** device, transom_error* error);
  void (*device_close)(transom_device* device); /* every other handle of the device is gone by then */

  /* Memory. Sizes may be 0. Buffers start at multiples of 64 bytes. Contents are undefined at first. */
  transom_status (*buffer_allocate)(transom_device*, size_t bytes, transom_buffer**, transom_error* error);
  /* (optional) Uses host memory in place, read-only, without a copy; the memory outlives the buffer. Its start need not
   * be aligned to more than the element size. Without it the host copies. */
  transom_status (*buffer_import)(transom_device*, const void* data, size_t bytes, transom_buffer**,
                                  transom_error* error);
  void (*buffer_free)(transom_buffer*);
  /* (optional) The address of a buffer, where the device has TRANSOM_DEVICE_HOST_MEMORY. */
  void* (*buffer_host_pointer)(transom_buffer*);
  /* Copies are ordered in the stream; the host memory stays untouched and alive until the stream has passed them. */
  transom_status (*copy_to_device)(transom_stream*, const void* from, transom_binding to, size_t bytes,
                                   transom_error* error);
  transom_status (*copy_to_host)(transom_stream*, transom_binding from, void* to, size_t bytes, transom_error* error);
  transom_status (*copy_on_device)(transom_stream*, transom_binding from, transom_binding to, size_t bytes,
                                   transom_error* error);
  transom_status (*memory_statistics)(transom_device*, transom_memory_statistics*,
                                      transom_error* error); /* (optional) */

  /* Streams and events. A device that works at once (a CPU) may do all work inside the calls. */
  transom_status (*stream_create)(transom_device*, transom_stream**, transom_error* error);
  void (*stream_destroy)(transom_stream*);
  transom_status (*stream_synchronize)(transom_stream*,
                                       transom_error* error); /* errors of earlier work come out here */
  transom_status (*event_create)(transom_device*, transom_event**,
                                 transom_error* error); /* (optional), as the next 4 */
  void (*event_destroy)(transom_event*);
  transom_status (*event_record)(transom_event*, transom_stream*, transom_error* error);
  transom_status (*event_wait)(transom_event*, transom_stream*, transom_error* error); /* the stream waits */
  transom_status (*event_elapsed)(transom_event* from, transom_event* to, double* seconds, transom_error* error);

  /* Programs. */
  /* 1: the device runs the composite `op` itself; 0: the host gives the device its decomposition instead. Asked once
   * for each node, with the dtypes of its inputs and its attributes, so that a claim may depend on them. "fusion" is
   * asked for like any other. */
  int32_t (*claims)(transom_device*, const char* op, const transom_value* inputs, size_t inputs_count,
                    const transom_attribute* attributes, size_t attributes_count);
  transom_status (*compile)(transom_device*, const transom_graph*, transom_executable**, transom_error* error);
  void (*executable_destroy)(transom_executable*);
  transom_status (*run)(transom_executable*, const transom_launch*, transom_error* error);
  /* (optional) Text that says how each node is carried out, for `transom explain`; owned by the executable. */
  const char* (*executable_describe)(transom_executable*);

  /* (optional) Capture: work issued to a stream between begin and end is recorded, not run; replay runs it again with
   * the same addresses and no planning. Without it the host keeps a list of launches. */
  transom_status (*capture_begin)(transom_stream*, transom_error* error);
  transom_status (*capture_end)(transom_stream*, transom_capture**, transom_error* error);
  transom_status (*capture_replay)(transom_capture*, transom_stream*, transom_error* error);
  void (*capture_destroy)(transom_capture*);

  /* (optional; all or none) Collectives. `id` is made by one rank and carried to the others by the host.
   * Since 1.2 it holds, zero-terminated, the name of the transport that the user asks for (--ddp_backend) when
   * communicator_id is called, or zeros; a plugin refuses names that are not its own (TRANSOM_INVALID_ARGUMENT). Behind
   * it, zero-terminated too and each possibly empty: the address of this rank's server as the others know it, and in
   * decimal digits the seconds for which ranks wait for each other; a plugin may look at them.
   * communicator_create returns when all ranks have called it. Each collective is work of the stream, like a launch;
   * all ranks call the same ones in the same order, with the same counts. Counts are elements. `to` may be `from` (and
   * in all_gather and reduce_scatter, `from` or `to` may be our part of the other side). all_gather: rank r's
   * count_per_rank elements come to r * count_per_rank of `to`; reduce_scatter: rank r gets the elements from there. A
   * rank that is lost ends the others' waiting with TRANSOM_DEVICE_LOST. Since 1.4 a process may be in several
   * communicators (groups: those of a row of a mesh, of a pipeline's stage), each of some of the processes, with an id
   * that one of them made, and ranks that count within it; all processes create those that they share in one order.
   * Sums of one set of inputs have the same bits on every rank and at every repeat. */
  transom_status (*communicator_id)(unsigned char id[256], transom_error* error);
  transom_status (*communicator_create)(transom_device*, const unsigned char id[256], uint32_t rank, uint32_t ranks,
                                        transom_communicator**, transom_error* error);
  void (*communicator_destroy)(transom_communicator*);
  transom_status (*all_reduce)(transom_communicator*, transom_stream*, transom_binding from, transom_binding to,
                               size_t count, int32_t dtype, int32_t reduction, transom_error* error);
  transom_status (*all_gather)(transom_communicator*, transom_stream*, transom_binding from, transom_binding to,
                               size_t count_per_rank, int32_t dtype, transom_error* error);
  transom_status (*reduce_scatter)(transom_communicator*, transom_stream*, transom_binding from, transom_binding to,
                                   size_t count_per_rank, int32_t dtype, int32_t reduction, transom_error* error);
  transom_status (*broadcast)(transom_communicator*, transom_stream*, transom_binding buffer, size_t count,
                              int32_t dtype, uint32_t root, transom_error* error);

  /* (optional) From now on each run calls `callback` for each node; null ends it. */
  transom_status (*profile)(transom_device*, transom_profile_callback callback, void* user, transom_error* error);

  /* ---- since 1.1 */

  /* (optional, both or none) Host memory from which the device copies without a detour ("pinned"). */
  transom_status (*host_allocate)(transom_device*, size_t bytes, void** memory, transom_error* error);
  void (*host_free)(transom_device*, void* memory);

  /* (optional) Whether the recorded work is complete (*done = 1), and waiting for it on the host. An event that
   * was never recorded is complete. Errors of the work before it come out here. */
  transom_status (*event_query)(transom_event*, int32_t* done, transom_error* error);
  transom_status (*event_synchronize)(transom_event*, transom_error* error);

  /* (optional) Ends the waiting of this communicator's work, which then fails with TRANSOM_DEVICE_LOST; called from any
   * thread when another rank is known to be gone. */
  void (*communicator_abort)(transom_communicator*);

  /* (optional) From now on peak_bytes_in_use counts from bytes_in_use. */
  transom_status (*memory_reset_peak)(transom_device*, transom_error* error);

  /* (optional) What the device counted since it was opened, as one JSON object ("recompilations", "simulated_seconds",
   * "utilisation" ...), for reports. Owned by the device, valid until the next call of it from the same thread. */
  const char* (*device_report)(transom_device*);

  /* ---- since 1.4: more collectives, under the rules of those above */

  /* (optional) The count_per_rank elements at q * count_per_rank of rank r's `from` come to r * count_per_rank of rank
   * q's `to`. `to` and `from` do not overlap. */
  transom_status (*all_to_all)(transom_communicator*, transom_stream*, transom_binding from, transom_binding to,
                               size_t count_per_rank, int32_t dtype, transom_error* error);

  /* (optional; these four together) Messages between two ranks. The n-th message from one rank to another is what that
   * one's n-th receive from it takes; both give the same count and type. A message waits for the other side: those
   * that must move at the same time, such as around a ring, stand between message_group_begin and message_group_end,
   * of which the latter issues them all to the stream of its messages, one stream for a group. */
  transom_status (*send)(transom_communicator*, transom_stream*, transom_binding from, size_t count, int32_t dtype,
                         uint32_t to_rank, transom_error* error);
  transom_status (*receive)(transom_communicator*, transom_stream*, transom_binding to, size_t count, int32_t dtype,
                            uint32_t from_rank, transom_error* error);
  transom_status (*message_group_begin)(transom_communicator*, transom_error* error);
  transom_status (*message_group_end)(transom_communicator*, transom_error* error);

  /* ---- since 1.5 */

  /* (optional) 1: the device runs the one node of this graph, a primitive or a composite that it claims; 0: the host
   * runs it on the reference device, between programs, and copies. No arena offsets are given, and no regions. Without
   * this function a device is thought to run all nodes, until it refuses to compile a graph with TRANSOM_UNSUPPORTED:
   * then the host compiles its nodes one by one, and those that are refused so are the host's from then on. */
  int32_t (*supports)(transom_device*, const transom_graph* node);

  /* ---- since 1.7 */

  /* (optional) The most device memory that a launch of the executable takes beside its inputs and outputs (and beside
   * the host's arena, where the device does not plan its memory), in the sizes that it gives out: workspace, what lies
   * between its parts, copies. May compile what is left to compile; allocates and runs nothing. */
  transom_status (*executable_memory)(transom_executable*, uint64_t* bytes, transom_error* error);

  /* ---- since 1.8 */

  /* (optional) What the arguments that the plugin contributes, and the variables of the environment that its users
   * know, ask of a command. `request` is a JSON object with a "question", and so is what `answer` is called with, once,
   * before this returns: docs/device-plugins.md, section 8. Needs no device and looks for no driver. What it refuses
   * with TRANSOM_INVALID_ARGUMENT is shown to the user as it stands. */
  transom_status (*settings)(const char* request, void (*answer)(void* context, const char* text), void* context,
                             transom_error* error);
} transom_plugin;

/* The one exported symbol. Fills in `plugin`; returns TRANSOM_UNSUPPORTED if it cannot speak the host's major version.
 * Loading must be cheap: drivers are looked for in device_count. The host calls it once for each file. */
typedef transom_status (*transom_plugin_open_function)(const transom_host* host, transom_plugin* plugin,
                                                       transom_error* error);
TRANSOM_PLUGIN_EXPORT transom_status transom_plugin_open(const transom_host* host, transom_plugin* plugin,
                                                         transom_error* error);

#ifdef __cplusplus
}
#endif
#endif
