#!/usr/bin/env python3
"""router.py: a router in Python, through cffi: logits = x W^T / temperature.

    python3 router.py                  # writes linear_python.so, a plugin with Python inside
    moefw plugin check ./linear_python.so && moefw --plugin ./linear_python.so --steps 50

Needs cffi, a C compiler, and a Python that is built as a shared library. Python runs only while
graphs are built; the steps of training run as fast as with a router in C.
"""
import os
import subprocess
import sysconfig

import cffi

# The part of moefw's headers that the Python below uses. A C compiler fills in each "...", so
# nothing here depends on the layout of the structs.
DECLARATIONS = """
typedef struct mf_ctx mf_ctx;
typedef struct mf_graph mf_graph;
typedef struct mf_tensor mf_tensor;
typedef struct { int32_t dim, experts; ...; } mf_dims;
typedef struct { mf_tensor *x; ...; } mf_router_in;
typedef struct { mf_tensor *logits; ...; } mf_routing;

int declare_weight(mf_ctx *ctx, int64_t experts, int64_t dim, double std);
mf_tensor *use(mf_ctx *ctx, mf_graph *g, const char *name);
mf_tensor *live(mf_ctx *ctx, mf_graph *g, const char *option);
mf_tensor *linear(mf_graph *g, mf_tensor *x, mf_tensor *w);
mf_tensor *divide(mf_graph *g, mf_tensor *a, mf_tensor *b);
int status(const mf_graph *g);
"""

CALLED_BY_MOEFW = """
extern "Python" int python_init(void *self, mf_ctx *ctx, const void *conf, const mf_dims *dims);
extern "Python" int route(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out);
"""

# The plugin's tables, and C names for the inline functions and macros of <moefw/moefw.h>. Before
# Python starts, its library is opened so that Python's own modules find it, and Python is told to
# leave the locale alone, which belongs to the program.
C = """
#include <dlfcn.h>
#include <moefw/moefw.h>

static int declare_weight(mf_ctx *ctx, int64_t experts, int64_t dim, double std)
{
    return mf->param(ctx, "weight", mf_shape2(experts, dim), MF_NORMAL(std));
}
static mf_tensor *use(mf_ctx *ctx, mf_graph *g, const char *name) { return mf->use(ctx, g, name); }
static mf_tensor *live(mf_ctx *ctx, mf_graph *g, const char *option) { return mf->live(ctx, g, option); }
static mf_tensor *linear(mf_graph *g, mf_tensor *x, mf_tensor *w) { return mf_linear(g, x, w, NULL); }
static mf_tensor *divide(mf_graph *g, mf_tensor *a, mf_tensor *b) { return mf_div(g, a, b); }
static int status(const mf_graph *g) { return mf->status(g); }

typedef struct { double temperature; } conf;
static int python_init(void *, mf_ctx *, const void *, const mf_dims *);
static int init(void *self, mf_ctx *ctx, const void *c, const mf_dims *dims)
{
    if (!Py_IsInitialized()) {
        PyPreConfig start;
        PyPreConfig_InitPythonConfig(&start);
        start.configure_locale = 0;
        if (!dlopen(LIBPYTHON, RTLD_NOW | RTLD_GLOBAL) || PyStatus_Exception(Py_PreInitialize(&start)))
            return mf->fail(ctx, MF_EDEP, "cannot start Python (%s)", LIBPYTHON);
    }
    return python_init(self, ctx, c, dims);
}
static int route(void *, mf_ctx *, mf_graph *, const mf_router_in *, mf_routing *);
static const mf_option options[] = {
    MF_OPTION_REAL(conf, temperature, "1", 0.01, 100, MF_OPT_LIVE, "divides the logits"), MF_END_OPTIONS};
static const mf_router vtable = {.size = sizeof(mf_router), .init = init, .route = route};
MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "linear_python", "1.0", "MIT",
                                  "linear with a temperature, in Python", options, conf, char, &vtable);
"""

# The router itself. It runs inside moefw; an exception is printed, and the call then fails.
ROUTER = """
from linear_python import ffi, lib

FAILED = -8  # MF_EPLUGIN

@ffi.def_extern(error=FAILED)
def python_init(self, ctx, conf, dims):
    return lib.declare_weight(ctx, dims.experts, dims.dim, 0.02)

@ffi.def_extern(error=FAILED)
def route(self, ctx, g, given, out):
    logits = lib.linear(g, given.x, lib.use(ctx, g, b"weight"))
    out.logits = lib.divide(g, logits, lib.live(ctx, g, b"temperature"))
    return lib.status(g)
"""

builder = cffi.FFI()
builder.cdef(DECLARATIONS + CALLED_BY_MOEFW)
builder.embedding_api("")
builder.embedding_init_code(ROUTER)
builder.set_source("linear_python", C)
builder.emit_c_code("linear_python.c")
cflags = subprocess.run(["pkg-config", "--cflags", "moefw"], capture_output=True, text=True, check=True).stdout.split()
python = sysconfig.get_config_vars()
subprocess.run(
    [*os.environ.get("CC", "cc").split(), "-O2", *cflags, "-I" + python["INCLUDEPY"], "-fPIC", "-shared"]
    + ["-fvisibility=hidden", "-o", "linear_python.so", "linear_python.c"]
    + ['-DLIBPYTHON="%s/%s"' % (python["LIBDIR"], python["LDLIBRARY"])]
    + ["-L" + python["LIBDIR"], "-Wl,-rpath," + python["LIBDIR"], "-lpython" + python["LDVERSION"]],
    check=True,
)
print("linear_python.so")
