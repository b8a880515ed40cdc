/* SPDX-License-Identifier: Apache-2.0
 *
 * An optional addition to the plugin interface: imported memory whose contents are made later.
 *
 * Codes of a compressed weight that were read from a file are packed for the device's products. To pack all of them
 * before the first token means waiting for as much fresh memory as the weights take. So the host may import memory that
 * is not written yet and say how to get its contents, a part at a time. Only the codes, scales and minima of
 * "quantized_matmul" are deferred: part i is panel i of each, 16 rows of the weight. All other readers of such a buffer
 * get its contents first; a plugin sees to nothing but its kernels of that operation, and of "gather" where it exports
 * the second symbol.
 */
#ifndef TRANSOM_DEFERRED_MEMORY_H
#define TRANSOM_DEFERRED_MEMORY_H

#include "transom/device_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct transom_deferred {
  size_t struct_size;
  void* context;
  /* 0: part `part` of the memory is written and stays so, read it there. 1: it is not, and its contents have been
   * written to `codes`, `scales` and `minima` (null where there are none). Negative: there is no memory for it, which
   * ends the executable's run with TRANSOM_OUT_OF_MEMORY. May be called by several threads at once, for one part too.
   */
  int32_t (*read)(void* context, uint64_t part, void* codes, void* scales, void* minima);
} transom_deferred;

/* A symbol that a plugin may export besides transom_plugin_open. It is called for the codes of a weight, right after
 * buffer_import; `deferred` outlives the buffer. The executables of this plugin then read the codes, the scales and the
 * minima of a quantized_matmul by deferred->read, whenever the buffer is bound as its codes. */
typedef void (*transom_buffer_defer_function)(transom_buffer* imported, const transom_deferred* deferred);
TRANSOM_PLUGIN_EXPORT void transom_buffer_defer(transom_buffer* imported, const transom_deferred* deferred);

/* The parts of one of these buffers alone, for who looks up a few of them: rows of a table of tokens. */
typedef struct transom_deferred_parts {
  size_t struct_size;
  void* context;
  /* Copies part `part` to `to`, and leaves the memory as it is. 0, or negative: there is no memory for it. May be
   * called by several threads at once. */
  int32_t (*copy)(void* context, uint64_t part, void* to);
} transom_deferred_parts;

/* A second symbol, which wants the first. It is called for the codes, the scales and the minima of a weight. The
 * executables of this plugin then take what "gather" reads along axis 0 of such a buffer, whose extent counts the
 * parts, from parts->copy. */
typedef void (*transom_buffer_defer_parts_function)(transom_buffer* imported, const transom_deferred_parts* parts);
TRANSOM_PLUGIN_EXPORT void transom_buffer_defer_parts(transom_buffer* imported, const transom_deferred_parts* parts);

#ifdef __cplusplus
}
#endif
#endif
