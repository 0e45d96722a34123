# The core, in layers. One file a line, sorted; core/cli/main.c is not here but in moefw_SOURCES.
CORE =
CORE += core/base/error.h
CORE += core/base/ini.h
CORE += core/base/io.h
CORE += core/base/json.h
CORE += core/base/log.h
CORE += core/base/mem.h
CORE += core/base/parallel.h
CORE += core/base/place.c
CORE += core/base/place.h
CORE += core/base/rng.h
CORE += core/graph/graph.h
CORE += core/graph/param.h
CORE += core/ops/ops.def
CORE += core/ops/ops.h
