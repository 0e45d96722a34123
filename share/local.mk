# Presets and templates, one a line: installed in $(datadir)/moefw.
presetsdir = $(pkgdatadir)/presets
presets_DATA =
presets_DATA += share/presets/default.ini
presets_DATA += share/presets/shakespeare.ini

templatedir = $(pkgdatadir)/template
template_DATA =
template_DATA += share/template/Makefile.in
template_DATA += share/template/README.in
template_DATA += share/template/controller.c.in
template_DATA += share/template/expert.c.in
template_DATA += share/template/plugin.ini.in
template_DATA += share/template/regularizer.c.in
template_DATA += share/template/router.c.in

EXTRA_DIST += $(presets_DATA) $(template_DATA)

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
