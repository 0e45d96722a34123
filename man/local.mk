# Manual pages, one a line.
dist_man_MANS =
dist_man_MANS += man/moefw-plugin.7
dist_man_MANS += man/moefw-run.5
dist_man_MANS += man/moefw-trace.5
dist_man_MANS += man/moefw.1
dist_man_MANS += man/moefw.ini.5
