# Tests, one a line, run by `make check` over automake's parallel harness; all speak TAP.
#   UNIT  C programs written with Check; tests/unit/check_x comes from tests/unit/check_x.c
#   CLI   bats files that run the program as a user does
#   LINT  shell scripts that look at the sources and products
UNIT =
UNIT += tests/unit/check_kernels
UNIT += tests/unit/check_place

CLI =
CLI += tests/cli/install.bats
CLI += tests/cli/quickstart.bats

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

LDADD = $(MOEFW_LIBS) $(CHECK_LIBS)
AM_CPPFLAGS += $(CHECK_CFLAGS) -I$(top_srcdir)/tests/unit
check_DATA = $(PLUGINS)

EXTRA_DIST += $(CLI) $(LINT) $(FIXTURES) tests/format.sh tests/lint/lib.sh tests/run-bats.sh tests/unit/check_main.h
