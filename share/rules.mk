# Where settings, presets, templates and completions go; etc/local.mk and share/local.mk list them.
pluginsddir = $(pkgsysconfdir)/plugins.d
presetsdir = $(pkgdatadir)/presets
templatedir = $(pkgdatadir)/template
repeatdir = $(pkgdatadir)/repeat
EXTRA_DIST += $(pkgsysconf_DATA) $(pluginsd_DATA) $(presets_DATA) $(template_DATA)
EXTRA_DIST += $(repeat_DATA) $(repeat_SCRIPTS)

# Completions come out of the program itself.
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
