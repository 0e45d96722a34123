# The public headers: all that a plugin sees.
pkginclude_HEADERS =
pkginclude_HEADERS += include/moefw/adapter.h
pkginclude_HEADERS += include/moefw/host.h
pkginclude_HEADERS += include/moefw/kernel.cuh
pkginclude_HEADERS += include/moefw/moefw.h
pkginclude_HEADERS += include/moefw/op.h
pkginclude_HEADERS += include/moefw/ops.h
pkginclude_HEADERS += include/moefw/plugin.h
pkginclude_HEADERS += include/moefw/routing.h
pkginclude_HEADERS += include/moefw/run.h
pkginclude_HEADERS += include/moefw/status.h
pkginclude_HEADERS += include/moefw/types.h
nodist_pkginclude_HEADERS = include/moefw/version.h
