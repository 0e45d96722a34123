# Settings, one a line: installed in $(sysconfdir)/moefw, where edited ones are kept (share/rules.mk).
SETTINGS =
SETTINGS += etc/moefw.ini

pluginsd_DATA =
