# Manual pages, one per line.
dist_man_MANS =
dist_man_MANS += man/moefw-adapters.7
dist_man_MANS += man/moefw-controllers.7
dist_man_MANS += man/moefw-experts.7
dist_man_MANS += man/moefw-library.3
dist_man_MANS += man/moefw-parallel.7
dist_man_MANS += man/moefw-plugin.7
dist_man_MANS += man/moefw-pretrained.7
dist_man_MANS += man/moefw-regularizers.7
dist_man_MANS += man/moefw-routers.7
dist_man_MANS += man/moefw-run.5
dist_man_MANS += man/moefw-trace.5
dist_man_MANS += man/moefw.1
dist_man_MANS += man/moefw.ini.5
