# Where settings, presets, templates and completions are installed; etc/local.mk and share/local.mk
# list them.
pluginsddir = $(pkgsysconfdir)/plugins.d
presetsdir = $(pkgdatadir)/presets
plugingroupsdir = $(pkgdatadir)
modelcodedir = $(pkgdatadir)/code
quickpresetsdir = $(presetsdir)/quick
templatedir = $(pkgdatadir)/template
repeatdir = $(pkgdatadir)/repeat
boarddir = $(pkgdatadir)/board
clusterfilesdir = $(pkgdatadir)/cluster
examplesdir = $(pkgdatadir)/examples
examplescidir = $(examplesdir)/ci
# For kernels of plugins: the headers that they include, and the emulator, on which authors test them.
cudafilesdir = $(pkgdatadir)/cuda
cudafiles_DATA = kernels/cuda/device.cuh $(EMULATOR) $(EMULATOR_INC)
EXTRA_DIST += $(SETTINGS) $(plugingroups_DATA) $(pluginsd_DATA) $(presets_DATA) $(quickpresets_DATA)
EXTRA_DIST += $(modelcode_DATA) $(template_DATA) $(board_DATA) $(repeat_DATA) $(repeat_SCRIPTS) $(examples_DATA) $(examplesci_DATA)
EXTRA_DIST += $(clusterfiles_DATA) $(clusterfiles_SCRIPTS)

# Settings belong to the administrator. $(pkgdatadir) has this version's file. The one in
# $(pkgsysconfdir) is a copy of it, as long as it is missing or equals the file of the version before.
install-data-local:
	@$(MKDIR_P) "$(DESTDIR)$(pkgsysconfdir)" "$(DESTDIR)$(pkgdatadir)" && for f in $(SETTINGS); do \
	  to="$(DESTDIR)$(pkgsysconfdir)/$${f##*/}" ours="$(DESTDIR)$(pkgdatadir)/$${f##*/}"; \
	  if test ! -e "$$to" || cmp -s "$$to" "$$ours"; then \
	    $(INSTALL_DATA) "$(srcdir)/$$f" "$$to" || exit 1; \
	  elif ! cmp -s "$$to" "$(srcdir)/$$f"; then \
	    echo "kept: $$to, which was edited; this version's is $$ours"; \
	  fi; \
	  $(INSTALL_DATA) "$(srcdir)/$$f" "$$ours" || exit 1; \
	done

uninstall-settings:
	@for f in $(SETTINGS); do \
	  to="$(DESTDIR)$(pkgsysconfdir)/$${f##*/}" ours="$(DESTDIR)$(pkgdatadir)/$${f##*/}"; \
	  if test -e "$$to" && ! cmp -s "$$to" "$$ours"; then \
	    echo "kept: $$to, which was edited"; else rm -f "$$to"; fi; \
	  rm -f "$$ours"; \
	done
.PHONY: uninstall-settings

# The program prints its own completions.
bashcompletiondir = $(datadir)/bash-completion/completions
zshcompletiondir = $(datadir)/zsh/site-functions
fishcompletiondir = $(datadir)/fish/vendor_completions.d
if NATIVE
nodist_bashcompletion_DATA = share/completions/bash/moefw
nodist_zshcompletion_DATA = share/completions/zsh/_moefw
nodist_fishcompletion_DATA = share/completions/fish/moefw.fish
endif
COMPLETIONS = $(nodist_bashcompletion_DATA) $(nodist_zshcompletion_DATA) $(nodist_fishcompletion_DATA)

$(COMPLETIONS): moefw
	$(AM_V_GEN)$(MKDIR_P) $(@D) && shell=$(@D) && \
	  ./moefw completion "$${shell##*/}" >$@-t && mv -f $@-t $@
CLEANFILES += $(COMPLETIONS)
