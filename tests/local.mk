# Tests, one a line, run by `make check` over automake's parallel harness; all speak TAP.
#   UNIT  C programs written with Check; tests/unit/check_x comes from tests/unit/check_x.c
#   CLI   bats files that run the program as a user does
#   LINT  shell scripts that look at the sources and products
#   FUZZ_TARGETS  tests/fuzz/fuzz_x from tests/fuzz/fuzz_x.c, seeds in tests/fuzz/corpus/x
UNIT =
UNIT += tests/unit/check_option
UNIT += tests/unit/check_error
UNIT += tests/unit/check_ini
UNIT += tests/unit/check_io
UNIT += tests/unit/check_json
UNIT += tests/unit/check_log
UNIT += tests/unit/check_mem
UNIT += tests/unit/check_number
UNIT += tests/unit/check_parallel
UNIT += tests/unit/check_graph
UNIT += tests/unit/check_param
UNIT += tests/unit/check_config
UNIT += tests/unit/check_metrics
UNIT += tests/unit/check_kernels
UNIT += tests/unit/check_place
UNIT += tests/unit/check_rng

CLI =
CLI += tests/cli/config.bats
CLI += tests/cli/install.bats
CLI += tests/cli/quickstart.bats
CLI += tests/cli/usage.bats

LINT =
LINT += tests/lint/headers.sh
LINT += tests/lint/includes.sh
LINT += tests/lint/man.sh
LINT += tests/lint/names.sh
LINT += tests/lint/packages.sh
LINT += tests/lint/shellcheck.sh
LINT += tests/lint/size.sh
LINT += tests/lint/sources.sh
LINT += tests/lint/symbols.sh
LINT += tests/lint/words.sh

# Further sources of unit tests that are more than one file.
tests_unit_check_kernels_SOURCES = tests/unit/check_kernels.c
tests_unit_check_kernels_SOURCES += tests/unit/kernel_case.h
tests_unit_check_kernels_SOURCES += tests/unit/kernel_rows_layers.c
tests_unit_check_kernels_SOURCES += tests/unit/kernel_rows_products.c

FUZZ_TARGETS =
FUZZ_TARGETS += tests/fuzz/fuzz_ini
FUZZ_TARGETS += tests/fuzz/fuzz_json

# What tests share: failing tables, a folder to write in.
TESTLIB =
TESTLIB += tests/lib/fault.c
TESTLIB += tests/lib/fault.h
TESTLIB += tests/lib/scratch.c
TESTLIB += tests/lib/scratch.h

check_LIBRARIES = tests/lib/libtest.a tests/fuzz/libdriver.a
tests_lib_libtest_a_SOURCES = $(TESTLIB)

# A fuzz target replays its seeds and changes them some 20,000 times in `make check`. Configured
# with --enable-fuzz it gets libFuzzer's main function instead of the driver's, for long runs by
# hand (`make fuzzers`). Either main is in an archive, so that programs with their own ignore it.
tests_fuzz_libdriver_a_SOURCES = tests/fuzz/driver.c tests/fuzz/fuzz.h
if FUZZ
FUZZ_MAIN = $(FUZZ_LIBS)
fuzzers: $(FUZZ_TARGETS)
else
FUZZ_MAIN = tests/fuzz/libdriver.a
TESTS += $(FUZZ_TARGETS)
endif
check_PROGRAMS += $(FUZZ_TARGETS)

# Files that tests read.
FIXTURES =

AM_TESTS_ENVIRONMENT = \
	unset MAKEFLAGS MFLAGS; MOEFW='$(abs_top_builddir)/moefw'; export MOEFW; \
	HARNESS_ACTIVE=1; export HARNESS_ACTIVE; \
	srcdir='$(source_folder)'; export srcdir; \
	builddir='$(abs_top_builddir)'; export builddir; \
	CC='$(CC)'; export CC; BATS='$(BATS)'; export BATS; \
	if test -z "$$MOEFW_SHARED" && test -d '$(source_folder)/../shared'; then \
	  MOEFW_SHARED=`cd '$(source_folder)/../shared' && pwd`; export MOEFW_SHARED; fi;

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
endif
TESTS += $(CLI) $(LINT)

LDADD = $(FUZZ_MAIN) tests/lib/libtest.a $(MOEFW_LIBS) $(CHECK_LIBS)
AM_CPPFLAGS += $(CHECK_CFLAGS) -I$(top_srcdir)/tests/unit
check_DATA = $(PLUGINS)

EXTRA_DIST += $(CLI) $(LINT) $(FIXTURES)
EXTRA_DIST += tests/format.sh
EXTRA_DIST += tests/fuzz/corpus
EXTRA_DIST += tests/lint/lib.sh
EXTRA_DIST += tests/run-bats.sh
EXTRA_DIST += tests/unit/check_main.h
EXTRA_DIST += tests/unit/graph_ops.h
