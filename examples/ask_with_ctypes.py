# SPDX-License-Identifier: Apache-2.0
"""A pipeline by the C interface, from Python without the package: ask_with_ctypes.py LIBRARY TASK MODEL TEXT...

LIBRARY is the path of libtransom.so."""
import ctypes
import json
import sys


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char * 1020)]


def main(library, task, model, *texts):
    transom = ctypes.CDLL(library)
    error, pipeline = Error(), ctypes.c_void_p()

    def check(status):
        if status != 0:
            sys.exit(error.message.decode())

    check(transom.transom_pipeline_load(task.encode(), model.encode(), None, ctypes.byref(pipeline), ctypes.byref(error)))
    for text in texts:
        result = ctypes.c_void_p()
        check(transom.transom_pipeline_run(pipeline, text.encode(), None, ctypes.byref(result), ctypes.byref(error)))
        for each in json.loads(ctypes.string_at(result)):
            print(f"{each['label']}  {each['score']:.4f}")
        transom.transom_free(result)
    transom.transom_pipeline_free(pipeline)


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit("usage: ask_with_ctypes.py LIBRARY TASK MODEL TEXT...")
    main(*sys.argv[1:])
