# Targets for those who change the code; none of them is part of `all`.

# The commands that compile C, as editors and clang-tidy read them: a dry run in which each source counts as new. (With -B
# make would empty the files of dependencies, which it includes.)
compile_commands.json: Makefile
	$(AM_V_GEN)$(MAKE) -n V=1 `find $(srcdir)/core $(srcdir)/lib $(srcdir)/tools $(srcdir)/kernels $(srcdir)/plugins \
	    $(srcdir)/tests -name '*.c' | sed 's/^/-W /'` moefw $(LIBRARY) $(check_PROGRAMS) 2>/dev/null | \
	  $(AWK) -v folder="`pwd`" -f $(top_srcdir)/build-aux/compile_commands.awk >$@-t && mv -f $@-t $@
tidy: compile_commands.json
	$(SHELL) $(top_srcdir)/tests/tidy.sh .
CLEANFILES += compile_commands.json compile_commands.json-t
EXTRA_DIST += build-aux/compile_commands.awk build-aux/site.sh build-aux/site.css build-aux/markdown.awk tests/tidy.sh .clang-tidy

# What a contributor runs before each commit: under two minutes on two cores.
check-quick:
	$(MAKE) check TESTS="$(QUICK)"
QUICK = $(LINT) tests/unit/base/check_parallel tests/unit/base/check_rng tests/unit/base/check_json tests/unit/base/check_ini \
	tests/unit/graph/check_backward tests/unit/graph/check_plan tests/unit/graph/check_run tests/unit/graph/check_bf16 \
	tests/unit/ops/check_edges tests/unit/ops/check_dispatch tests/unit/model/check_formulas \
	tests/unit/model/check_router_formulas tests/unit/model/check_gates tests/unit/plugin/check_plugin \
	tests/unit/plugin/check_option tests/unit/train/check_trainer tests/unit/train/check_shares \
	tests/unit/run/check_checkpoint tests/unit/run/check_metrics tests/unit/data/check_batch tests/unit/data/check_tokenizer \
	tests/unit/pretrained/check_families tests/cli/train/bits.bats tests/cli/train/learning.bats
.PHONY: check-quick tidy

# The manual and the texts as a small site.
html-local:
	$(SHELL) $(top_srcdir)/build-aux/site.sh $(top_srcdir) html
clean-local:
	rm -rf html
