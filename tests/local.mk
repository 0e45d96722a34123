# Tests, one a line; rules.mk says how they are built and run. All speak TAP.
#   UNIT  C programs written with Check; tests/unit/check_x comes from tests/unit/check_x.c
#   CLI   bats files that run the program as a user does
#   LINT  shell scripts that look at the sources and products
#   FUZZ_TARGETS  tests/fuzz/fuzz_x from tests/fuzz/fuzz_x.c, seeds in tests/fuzz/corpus/x
UNIT =
UNIT += tests/unit/check_backend
UNIT += tests/unit/check_backward
UNIT += tests/unit/check_checkpoint
UNIT += tests/unit/check_config
UNIT += tests/unit/check_error
UNIT += tests/unit/check_functions
UNIT += tests/unit/check_gradcheck
UNIT += tests/unit/check_graph
UNIT += tests/unit/check_ini
UNIT += tests/unit/check_io
UNIT += tests/unit/check_json
UNIT += tests/unit/check_kernels
UNIT += tests/unit/check_log
UNIT += tests/unit/check_mem
UNIT += tests/unit/check_metrics
UNIT += tests/unit/check_number
UNIT += tests/unit/check_ops
UNIT += tests/unit/check_option
UNIT += tests/unit/check_parallel
UNIT += tests/unit/check_param
UNIT += tests/unit/check_place
UNIT += tests/unit/check_plan
UNIT += tests/unit/check_plugin
UNIT += tests/unit/check_progress
UNIT += tests/unit/check_report
UNIT += tests/unit/check_rng
UNIT += tests/unit/check_run
UNIT += tests/unit/check_rundir
UNIT += tests/unit/check_safetensors
UNIT += tests/unit/check_stats
UNIT += tests/unit/check_svg

CLI =
CLI += tests/cli/config.bats
CLI += tests/cli/doctor.bats
CLI += tests/cli/generate.bats
CLI += tests/cli/install.bats
CLI += tests/cli/plugin_check.bats
CLI += tests/cli/plugin_outoftree.bats
CLI += tests/cli/plugin_refuse.bats
CLI += tests/cli/lints.bats
CLI += tests/cli/manual.bats
CLI += tests/cli/plugin_refuse.bats
CLI += tests/cli/quickstart.bats
CLI += tests/cli/report.bats
CLI += tests/cli/train.bats
CLI += tests/cli/usage.bats

LINT =
LINT += tests/lint/dist.sh
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
tests_unit_check_kernels_SOURCES += tests/unit/kernel_rows_maps.c
tests_unit_check_kernels_SOURCES += tests/unit/kernel_rows_products.c
tests_unit_check_kernels_SOURCES += tests/unit/kernel_rows_routing.c
tests_unit_check_ops_SOURCES = tests/unit/check_ops.c
tests_unit_check_ops_SOURCES += tests/unit/op_case.h
tests_unit_check_ops_SOURCES += tests/unit/op_harness.c
tests_unit_check_ops_SOURCES += tests/unit/op_harness.h
tests_unit_check_ops_SOURCES += tests/unit/op_rows_elementwise.c
tests_unit_check_ops_SOURCES += tests/unit/op_rows_index.c
tests_unit_check_ops_SOURCES += tests/unit/op_rows_layers.c
tests_unit_check_ops_SOURCES += tests/unit/op_rows_products.c
tests_unit_check_ops_SOURCES += tests/unit/op_rows_routing.c
tests_unit_check_ops_SOURCES += tests/unit/op_rows_shape.c
tests_unit_check_ops_SOURCES += tests/unit/op_rows_store.c

FUZZ_TARGETS =
FUZZ_TARGETS += tests/fuzz/fuzz_ini
FUZZ_TARGETS += tests/fuzz/fuzz_json
FUZZ_TARGETS += tests/fuzz/fuzz_safetensors

# What tests share: failing tables, a folder to write in.
TESTLIB =
TESTLIB += tests/lib/fault.c
TESTLIB += tests/lib/fault.h
TESTLIB += tests/lib/scratch.c
TESTLIB += tests/lib/scratch.h

# Files that tests read.
FIXTURES =
FIXTURES += tests/golden/safetensors/dtypes.safetensors
FIXTURES += tests/golden/safetensors/empty.safetensors
FIXTURES += tests/golden/safetensors/make.py
FIXTURES += tests/golden/safetensors/names.safetensors
FIXTURES += tests/golden/safetensors/ranks.safetensors
FIXTURES += tests/golden/safetensors/zero.safetensors
FIXTURES += tests/badplugins/abort_init.c
FIXTURES += tests/badplugins/bad.h
FIXTURES += tests/badplugins/bad_default.c
FIXTURES += tests/badplugins/bad_name.c
FIXTURES += tests/badplugins/bad_offset.c
FIXTURES += tests/badplugins/crash_constructor.c
FIXTURES += tests/badplugins/crash_init.c
FIXTURES += tests/badplugins/duplicate_option.c
FIXTURES += tests/badplugins/exit_constructor.c
FIXTURES += tests/badplugins/exit_init.c
FIXTURES += tests/badplugins/fast_math.c
FIXTURES += tests/badplugins/folder_init.c
FIXTURES += tests/badplugins/good.c
FIXTURES += tests/badplugins/huge_struct.c
FIXTURES += tests/badplugins/late_param.c
FIXTURES += tests/badplugins/locale_init.c
FIXTURES += tests/badplugins/loop_init.c
FIXTURES += tests/badplugins/newer_abi.c
FIXTURES += tests/badplugins/newer_field.c
FIXTURES += tests/badplugins/newer_struct.c
FIXTURES += tests/badplugins/no_symbol.c
FIXTURES += tests/badplugins/null_brief.c
FIXTURES += tests/badplugins/null_function.c
FIXTURES += tests/badplugins/null_init.c
FIXTURES += tests/badplugins/null_name.c
FIXTURES += tests/badplugins/null_slot.c
FIXTURES += tests/badplugins/null_table.c
FIXTURES += tests/badplugins/older_abi.c
FIXTURES += tests/badplugins/rounding_init.c
FIXTURES += tests/badplugins/rule_batch.c
FIXTURES += tests/badplugins/rule_gradient.c
FIXTURES += tests/badplugins/rule_index.c
FIXTURES += tests/badplugins/rule_leak.c
FIXTURES += tests/badplugins/rule_mask.c
FIXTURES += tests/badplugins/rule_op.c
FIXTURES += tests/badplugins/rule_option.c
FIXTURES += tests/badplugins/rule_restore.c
FIXTURES += tests/badplugins/rule_route.c
FIXTURES += tests/badplugins/rule_same.c
FIXTURES += tests/badplugins/rule_zeros.c
FIXTURES += tests/badplugins/short_option.c
FIXTURES += tests/badplugins/short_struct.c
FIXTURES += tests/badplugins/short_table.c
FIXTURES += tests/badplugins/silent_init.c
FIXTURES += tests/badplugins/strange_init.c
FIXTURES += tests/badplugins/symbol_function.c
FIXTURES += tests/badplugins/symbol_short.c
FIXTURES += tests/badplugins/undefined_symbol.c
FIXTURES += tests/badplugins/unknown_kind.c
FIXTURES += tests/badplugins/wrong_kind.c
FIXTURES += tests/badplugins/wrong_magic.c

# What else goes into the tarball.
EXTRA_DIST += tests/format.sh
EXTRA_DIST += tests/regenerate.sh
EXTRA_DIST += tests/fuzz/corpus
EXTRA_DIST += tests/lint/lib.sh
EXTRA_DIST += tests/run-bats.sh
EXTRA_DIST += tests/unit/check_main.h
EXTRA_DIST += tests/unit/graph_ops.h
