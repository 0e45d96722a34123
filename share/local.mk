# Presets and templates, one per line: installed in $(datadir)/moefw.
presets_DATA =
presets_DATA += share/presets/default.ini
presets_DATA += share/presets/lamoe-as-run.ini
presets_DATA += share/presets/lamoe-small.ini
presets_DATA += share/presets/lamoe.ini
presets_DATA += share/presets/sentinel-as-run.ini
presets_DATA += share/presets/sentinel.ini
presets_DATA += share/presets/shakespeare.ini
presets_DATA += share/presets/sick.ini
presets_DATA += share/presets/switch-as-run.ini
presets_DATA += share/presets/switch-plus-as-run.ini
presets_DATA += share/presets/switch-plus.ini
presets_DATA += share/presets/switch.ini
presets_DATA += share/presets/tagat-balanced.ini
presets_DATA += share/presets/tagat-balanced-as-run.ini
presets_DATA += share/presets/tagat-specialised.ini
presets_DATA += share/presets/tagat-specialised-as-run.ini
presets_DATA += share/presets/vanilla.ini
presets_DATA += share/presets/vanilla-as-run.ini

quickpresets_DATA =
quickpresets_DATA += share/presets/quick/lamoe-as-run-quick.ini
quickpresets_DATA += share/presets/quick/lamoe-quick.ini
quickpresets_DATA += share/presets/quick/sentinel-quick.ini
quickpresets_DATA += share/presets/quick/switch-as-run-quick.ini
quickpresets_DATA += share/presets/quick/switch-plus-as-run-quick.ini
quickpresets_DATA += share/presets/quick/switch-plus-quick.ini
quickpresets_DATA += share/presets/quick/switch-quick.ini
quickpresets_DATA += share/presets/quick/tagat-balanced-quick.ini
quickpresets_DATA += share/presets/quick/tagat-balanced-as-run-quick.ini
quickpresets_DATA += share/presets/quick/tagat-specialised-quick.ini
quickpresets_DATA += share/presets/quick/tagat-specialised-as-run-quick.ini
quickpresets_DATA += share/presets/quick/vanilla-quick.ini
quickpresets_DATA += share/presets/quick/vanilla-as-run-quick.ini

# Groups of plugins, for the list and for comparisons.
plugingroups_DATA =
plugingroups_DATA += share/plugin_groups.ini

# Code of exported models (moefw export hf --with-code).
modelcode_DATA =
modelcode_DATA += share/code/configuration_moefw.py
modelcode_DATA += share/code/modeling_moefw.py
modelcode_DATA += share/code/ops_moefw.py

# Results of our own routers, for moefw board and moefw verify.
board_DATA =
board_DATA += share/board/README.md
board_DATA += share/board/characters-verified.json
board_DATA += share/board/characters.json
board_DATA += share/board/topics-verified.json
board_DATA += share/board/topics.json
board_DATA += share/board/wikitext-verified.json
board_DATA += share/board/wikitext.json

# Scripts that repeat published results, one command each.
repeat_DATA =
repeat_DATA += share/repeat/NOTES.md
repeat_DATA += share/repeat/RESULTS.md
repeat_DATA += share/repeat/ROUTERS.md
repeat_DATA += share/repeat/all_routers.ini
repeat_DATA += share/repeat/lib.sh
repeat_DATA += share/repeat/load_cv.svg
repeat_DATA += share/repeat/pruning.svg
repeat_DATA += share/repeat/qwen_small.ini
repeat_SCRIPTS =
repeat_SCRIPTS += share/repeat/all_routers.sh
repeat_SCRIPTS += share/repeat/baselines.sh
repeat_SCRIPTS += share/repeat/lamoe.sh
repeat_SCRIPTS += share/repeat/qwen.sh
repeat_SCRIPTS += share/repeat/routers.sh
repeat_SCRIPTS += share/repeat/sentinel.sh
repeat_SCRIPTS += share/repeat/swap.sh
repeat_SCRIPTS += share/repeat/switch.sh
repeat_SCRIPTS += share/repeat/switch_readings.sh
repeat_SCRIPTS += share/repeat/tagat.sh

template_DATA =
template_DATA += share/template/Makefile.in
template_DATA += share/template/Makefile_cuda.in
template_DATA += share/template/README.in
template_DATA += share/template/adapter.c.in
template_DATA += share/template/controller.c.in
template_DATA += share/template/expert.c.in
template_DATA += share/template/op.c.in
template_DATA += share/template/op_cuda.c.in
template_DATA += share/template/op_cuda.cu.in
template_DATA += share/template/plugin.ini.in
template_DATA += share/template/regularizer.c.in
template_DATA += share/template/router.c.in

# Programs that use libmoefw, and plugins.
examples_DATA =
examples_DATA += share/examples/by_loss.c
examples_DATA += share/examples/own_router.cc
examples_DATA += share/examples/router.py
examples_DATA += share/examples/router.rs
examples_DATA += share/examples/silent.c
examples_DATA += share/examples/tally.c
examples_DATA += share/examples/text_server.c
examples_DATA += share/examples/train_own_batches.c
examples_DATA += share/examples/two_models.c

# What runs the checks of a plugin elsewhere.
examplesci_DATA =
examplesci_DATA += share/examples/ci/Dockerfile
examplesci_DATA += share/examples/ci/plugin.yml

# Runs of several processes: job files, and clusters for moefw plan.
clusterfiles_DATA =
clusterfiles_DATA += share/cluster/h100.ini
clusterfiles_DATA += share/cluster/measured.ini
clusterfiles_DATA += share/cluster/mpijob.yaml
clusterfiles_SCRIPTS =
clusterfiles_SCRIPTS += share/cluster/mpirun.sh
clusterfiles_SCRIPTS += share/cluster/pbs.sh
clusterfiles_SCRIPTS += share/cluster/slurm.sh
EXTRA_DIST += share/pictures/routing.svg
