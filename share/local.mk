# Presets and templates, one a line: installed in $(datadir)/moefw.
presets_DATA =
presets_DATA += share/presets/default.ini
presets_DATA += share/presets/lamoe-as-run-quick.ini
presets_DATA += share/presets/lamoe-as-run.ini
presets_DATA += share/presets/lamoe-small.ini
presets_DATA += share/presets/lamoe-quick.ini
presets_DATA += share/presets/lamoe.ini
presets_DATA += share/presets/sentinel.ini
presets_DATA += share/presets/shakespeare.ini
presets_DATA += share/presets/switch-as-run-quick.ini
presets_DATA += share/presets/switch-as-run.ini
presets_DATA += share/presets/switch-plus-as-run-quick.ini
presets_DATA += share/presets/switch-plus-as-run.ini
presets_DATA += share/presets/switch-plus-quick.ini
presets_DATA += share/presets/switch-plus.ini
presets_DATA += share/presets/switch-quick.ini
presets_DATA += share/presets/switch.ini
presets_DATA += share/presets/tagat-balanced.ini
presets_DATA += share/presets/tagat-balanced-quick.ini
presets_DATA += share/presets/tagat-balanced-as-run.ini
presets_DATA += share/presets/tagat-balanced-as-run-quick.ini
presets_DATA += share/presets/tagat-specialised.ini
presets_DATA += share/presets/tagat-specialised-quick.ini
presets_DATA += share/presets/tagat-specialised-as-run.ini
presets_DATA += share/presets/tagat-specialised-as-run-quick.ini
presets_DATA += share/presets/vanilla.ini
presets_DATA += share/presets/vanilla-quick.ini
presets_DATA += share/presets/vanilla-as-run.ini
presets_DATA += share/presets/vanilla-as-run-quick.ini

# Repeating published results, one command each.
repeat_DATA =
repeat_DATA += share/repeat/lib.sh
repeat_SCRIPTS =
repeat_SCRIPTS += share/repeat/lamoe.sh
repeat_SCRIPTS += share/repeat/switch.sh
repeat_SCRIPTS += share/repeat/tagat.sh

template_DATA =
template_DATA += share/template/Makefile.in
template_DATA += share/template/README.in
template_DATA += share/template/controller.c.in
template_DATA += share/template/expert.c.in
template_DATA += share/template/plugin.ini.in
template_DATA += share/template/regularizer.c.in
template_DATA += share/template/router.c.in
