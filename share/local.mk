# Presets and templates: installed in $(datadir)/moefw.
presetsdir = $(pkgdatadir)/presets
presets_DATA =
presets_DATA += share/presets/default.ini
presets_DATA += share/presets/shakespeare.ini

templatedir = $(pkgdatadir)/template
template_DATA =

EXTRA_DIST += $(presets_DATA) $(template_DATA)
