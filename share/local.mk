# Presets and templates: installed in $(datadir)/moefw.
presetsdir = $(pkgdatadir)/presets
presets_DATA =

templatedir = $(pkgdatadir)/template
template_DATA =

EXTRA_DIST += $(presets_DATA) $(template_DATA)
