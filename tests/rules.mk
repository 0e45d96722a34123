# How tests are built and run by `make check`, with automake's parallel harness.
check_LIBRARIES = tests/lib/libtest.a tests/fuzz/libdriver.a tests/unit/kernels/libtiles.a
tests_lib_libtest_a_SOURCES = $(TESTLIB)

# Compiled like the kernels whose instructions it emulates.
tests_unit_kernels_libtiles_a_SOURCES = $(EMULATED)
tests_unit_kernels_libtiles_a_CPPFLAGS = $(KERNEL_CPPFLAGS) -I$(top_srcdir)/tests/unit/kernels
tests_unit_kernels_libtiles_a_CFLAGS = $(SIMD_CFLAGS)
if ISA_AVX512BF16
tests_unit_kernels_libtiles_a_CPPFLAGS += -DMF_EMULATE=1
tests_unit_kernels_libtiles_a_CFLAGS += $(MF_ISA_AVX512BF16_CFLAGS)
endif

# In `make check`, a fuzz target replays its seeds and some 20,000 mutations of them. Configured
# with --enable-fuzz it has libFuzzer's main function instead of the driver's, for long runs by
# hand (`make fuzzers`). Both main functions are in archives, so programs with their own main
# ignore them.
tests_fuzz_libdriver_a_SOURCES = tests/fuzz/driver/driver.c tests/fuzz/driver/change.c tests/fuzz/driver/change.h \
	tests/fuzz/driver/mutator.c tests/fuzz/fuzz.h tests/fuzz/memory_file.h
if FUZZ
FUZZ_MAIN = $(FUZZ_LIBS) tests/fuzz/libdriver.a
fuzzers: $(FUZZ_TARGETS)
else
FUZZ_MAIN = tests/fuzz/libdriver.a
TESTS += $(FUZZ_TARGETS)
endif
check_PROGRAMS += $(FUZZ_TARGETS)

# OpenBLAS is not built with the thread sanitizer, so the sanitizer must ignore it.
AM_TESTS_ENVIRONMENT = \
	TSAN_OPTIONS="ignore_noninstrumented_modules=1:$$TSAN_OPTIONS"; export TSAN_OPTIONS; \
	unset MAKEFLAGS MFLAGS; MOEFW='$(abs_top_builddir)/moefw'; export MOEFW; \
	HARNESS_ACTIVE=1; export HARNESS_ACTIVE; \
	XDG_STATE_HOME=/dev/null; export XDG_STATE_HOME; \
	srcdir='$(source_folder)'; export srcdir; \
	builddir='$(abs_top_builddir)'; export builddir; \
	CC='$(CC)'; export CC; BATS='$(BATS)'; export BATS; \
	if test -z "$$MOEFW_SHARED" && test -d '$(source_folder)/../shared'; then \
	  MOEFW_SHARED=`cd '$(source_folder)/../shared' && pwd`; export MOEFW_SHARED; fi; \
	if test -z "$$MOEFW_DATA" && test -d "$$MOEFW_SHARED/data"; then \
	  MOEFW_DATA=$$MOEFW_SHARED/data; export MOEFW_DATA; fi; \
	if test -z "$$MOEFW_PRETRAINED" && test -d "$$MOEFW_SHARED/pretrained"; then \
	  MOEFW_PRETRAINED=$$MOEFW_SHARED/pretrained; export MOEFW_PRETRAINED; fi;

TEST_EXTENSIONS = .bats .sh
TAP_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
LOG_DRIVER = $(TAP_DRIVER)
BATS_LOG_DRIVER = $(TAP_DRIVER)
BATS_LOG_COMPILER = $(SHELL) $(top_srcdir)/tests/run-bats.sh
SH_LOG_DRIVER = $(TAP_DRIVER)
SH_LOG_COMPILER = $(SHELL)

if HAVE_CHECK
check_PROGRAMS += $(UNIT)
TESTS += $(UNIT)
else
TESTS += tests/without_check.sh
endif
EXTRA_DIST += tests/without_check.sh
TESTS += $(CLI) $(LINT)

tests_unit_kernels_check_kernels_LDADD = tests/unit/kernels/libtiles.a $(LDADD)
tests_unit_kernels_check_amx_LDADD = tests/unit/kernels/libtiles.a $(LDADD)
LDADD = $(FUZZ_MAIN) tests/lib/libtest.a $(MOEFW_LIBS) $(CHECK_LIBS)
AM_CPPFLAGS += $(CHECK_CFLAGS) -I$(top_srcdir)/tests/unit -I$(top_srcdir)/tests/device -Itests/device
check_DATA = $(PLUGINS)

# The object that makes calls of the program fail, and the loop around whole commands. The object
# is no part of the build that it tests, so no flag of that build, as of a sanitizer, is for it.
FAULTS_SO = tests/faults/faults.so
$(FAULTS_SO): tests/faults/preload.c tests/faults/preload.h
	$(AM_V_SO)$(MKDIR_P) $(@D) && $(CC) -std=gnu17 -D_GNU_SOURCE= -I$(top_srcdir) -O1 -g -Wall -Wextra -fPIC -shared \
	  -fvisibility=hidden -o $@-t $(top_srcdir)/tests/faults/preload.c && mv -f $@-t $@
check_DATA += $(FAULTS_SO)
CLEANFILES += $(FAULTS_SO)

check_PROGRAMS += tests/faults/loop
tests_faults_loop_SOURCES = tests/faults/loop.c tests/faults/judge.c tests/faults/judge.h tests/faults/command.c \
  tests/faults/command.h tests/faults/tree.c tests/faults/tree.h tests/faults/preload.h
tests_faults_loop_LDADD =
check_PROGRAMS += tests/faults/replay
tests_faults_replay_SOURCES = tests/faults/replay.c tests/faults/preload.h
tests_faults_replay_LDADD = $(MOEFW_LIBS)
EXTRA_DIST += $(FAULTS)

# Communicators in one process: one whose other rank is a mirror, and one whose functions a test sets.
COMM_MODULES = tests/lib/comm/loop.so tests/lib/comm/mirror.so
tests/lib/comm/loop.so: tests/lib/comm/loop.c
tests/lib/comm/mirror.so: tests/lib/comm/mirror.c
$(COMM_MODULES):
	$(AM_V_SO)$(MKDIR_P) $(@D) && $(CC) -D_GNU_SOURCE= -I$(top_builddir)/include -I$(top_srcdir)/include \
	  -I$(top_srcdir)/core $(CPPFLAGS) $(PLUGIN_CFLAGS) $(CFLAGS) -MMD -MP -MT $@ -MF $@.d $(PLUGIN_LINK) \
	  $(LDFLAGS) -o $@-t $(top_srcdir)/$(@:.so=.c) && mv -f $@-t $@
-include $(COMM_MODULES:=.d)
check_DATA += $(COMM_MODULES)
CLEANFILES += $(COMM_MODULES) $(COMM_MODULES:=.d)

# What stands for an MLflow server (log.mlflow).
check_PROGRAMS += tests/mlflow/server
tests_mlflow_server_LDADD = $(MOEFW_LIBS)

EXTRA_DIST += $(CLI) $(LINT)
